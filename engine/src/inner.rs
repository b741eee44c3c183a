//! The shared state of one engine: `Core` and the state of each module.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::{
    acquire::{
        bulk_limiter::BulkLimiter, contended_keys::ContendedKeys, entry::Pace, table::Table,
        warn_once::WarnedNoExpiry,
    },
    core::Core,
    dispatch::retry_rate::RetryRate,
    error::AcquireError,
    metrics::HotLocks,
    release::reconciler::Reconciler,
    renewal::inbox::Inboxes,
    routing::slot::Slot,
};

/// Everything of one engine but its threads. Only drivers and public handles know it: a module's own state is reached
/// from here, and never reaches back.
pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) table: Table,
    pub(crate) inboxes: Inboxes,
    pub(crate) reconciler: Reconciler,
    pub(crate) retry_rate: Arc<RetryRate>,
    pub(crate) bulk_limiter: Arc<BulkLimiter>,
    pub(crate) contended_keys: ContendedKeys,
    pub(crate) warned_no_expiry: WarnedNoExpiry,
    pub(crate) hot: Arc<HotLocks>,
}

impl Deref for Inner {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Inner {
    pub(crate) fn new(core: Core) -> Arc<Self> {
        let (shards, inbox_max, bulk_max) =
            (core.config.shards, core.config.inbox_max, core.config.bulk_in_flight_max);
        Arc::new(Self {
            core: Arc::new(core),
            table: Table::new(),
            inboxes: Inboxes::new(shards, inbox_max),
            reconciler: Reconciler::new(),
            retry_rate: Arc::default(),
            bulk_limiter: Arc::new(BulkLimiter::new(bulk_max)),
            contended_keys: ContendedKeys::new(),
            warned_no_expiry: WarnedNoExpiry::default(),
            hot: Arc::default(),
        })
    }

    /// Resolves when every release that was begun is answered, no entry is being served, and every owner is closed.
    pub(crate) async fn settled(&self) {
        loop {
            self.pending_tasks.done().await;
            let totals = &self.events.totals;
            if totals.closing.value() == 0 && totals.served.value() == 0 {
                return;
            }
            self.clock.sleep_until(self.clock.now() + SETTLED_LOOK).await;
        }
    }

    /// # Errors
    /// Once as many leases, callers, or orders to this slot's shard are there as the settings allow.
    pub(crate) fn check_limits(&self, slot: Slot) -> Result<(), AcquireError> {
        let (totals, config) = (&self.events.totals, &self.config);
        let reached = |limit, value| Err(AcquireError::LimitReached { limit, value });
        if totals.held.value() >= config.leases_max as u64 {
            return reached("leases_max", config.leases_max);
        }
        if totals.callers.value() >= config.waiters_max as u64 {
            return reached("waiters_max", config.waiters_max);
        }
        if self.inboxes.is_full(slot) {
            return reached("inbox_max", config.inbox_max);
        }
        Ok(())
    }

    /// What an entry of this slot must know to decide. The safety poll keeps all names of a node that somebody here waits
    /// for at 500 asks a second, with up to a tenth of jitter.
    pub(crate) fn pace(&self, slot: Slot) -> Pace {
        let contended = self.contended_beside(slot);
        // In nanoseconds: every call comes here several times, and sums of `Duration` cost more than all the rest of it.
        let poll = SAFETY_POLL_MIN_NANOS.max(contended.saturating_mul(SAFETY_POLL_SHARE_NANOS));
        let jitter = poll / 2_560 * self.jitter();
        Pace {
            unavailable_after: self.config.unavailable_after(),
            command_timeout: self.config.command_timeout(),
            safety_poll: Duration::from_nanos(poll.saturating_add(jitter)),
            round_trip: self.round_trip(),
        }
    }

    // So few that the shortest poll suits them in any case are not looked at one by one.
    fn contended_beside(&self, slot: Slot) -> u64 {
        let all = self.events.totals.served.value();
        if all <= SAFETY_POLL_MIN_NAMES {
            return all;
        }
        let topology = self.calls.topology();
        topology.map_or(all, |topology| self.contended_keys.around(slot, &topology, self.clock.now()))
    }
}

const SETTLED_LOOK: Duration = Duration::from_millis(5);
const SAFETY_POLL_MIN_NANOS: u64 = 1_000_000_000;
/// 500 names a second.
const SAFETY_POLL_SHARE_NANOS: u64 = 2_000_000;
const SAFETY_POLL_MIN_NAMES: u64 = 500;
