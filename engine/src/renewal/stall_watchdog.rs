//! The second belt: if the renewal thread stands still, the calls thread fires the deadlines from the table of leases.
//!
//! A holder reads its deadline itself and needs neither; this is for those who wait on `lost()` or `losses()`.
//!
//! While the thread ticks, every second tick is looked at: an idle engine takes 0.35 % of a core rather than 0.43.

use std::{sync::Arc, time::Duration};

use tracing::Level;

use super::shard::TICK;
use crate::{
    inner::Inner,
    lease::{shared::LeaseCore, state::LossReason},
    log,
    metrics::EngineThread,
    release::loss,
};

/// Watches the renewal thread's tick counter until the engine ends. One task on the calls thread.
pub(crate) async fn run(inner: Arc<Inner>) {
    let (mut seen, mut still) = (inner.ticks(), 0);
    loop {
        let due = inner.clock.now() + if still == 0 { CALM_LOOK } else { TICK };
        inner.clock.sleep_until(due).await;
        inner.events.timer_late(EngineThread::Calls, inner.clock.now() - due);
        let ticks = inner.ticks();
        still = if ticks == seen { still + 1 } else { 0 };
        seen = ticks;
        if still >= STILL_MAX {
            fire_deadlines(&inner);
        }
        if still == STILL_MAX {
            log::line(Level::ERROR, || {
                tracing::error!("the renewal thread stands still; deadlines are fired by the calls thread");
            });
        }
    }
}

fn fire_deadlines(inner: &Arc<Inner>) {
    let now = inner.clock.now();
    let mut over: Vec<Arc<LeaseCore>> = Vec::new();
    inner.table.for_each_lease(|lease| {
        over.extend((!lease.is_live() || now >= lease.deadline()).then(|| lease.clone()));
    });
    for lease in over {
        lease.lose(LossReason::RenewalStopped);
        // Or lost before: the renewal thread stood still before it told that.
        if let Some(reason) = lease.loss() {
            loss::handle_loss(inner, &lease, reason);
        }
    }
}

const CALM_LOOK: Duration = TICK.saturating_mul(2);
/// So many looks, the first of them two ticks of 50 ms behind the last tick that was seen.
const STILL_MAX: u32 = 3;
