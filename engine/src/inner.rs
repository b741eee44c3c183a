//! The shared state of one engine: [`Core`], and the state of each module.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::{
    acquire::{contended_keys::ContendedKeys, entry::Pace, table::Table, warn_once::WarnedNoExpiry},
    core::Core,
    counters::table::Counters,
    dispatch::dispatcher::Dispatcher,
    error::AcquireError,
    metrics::HotLocks,
    release::reconciler::Reconciler,
    renewal::inbox::Inboxes,
    routing::slot::Slot,
};

/// Everything of one engine but its threads. Only drivers and public handles know it. The state of a module is reached
/// from here, and knows nothing of `Inner`.
pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) table: Table,
    pub(crate) counters: Counters,
    pub(crate) inboxes: Inboxes,
    pub(crate) reconciler: Reconciler,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) contended_keys: ContendedKeys,
    pub(crate) warned_no_expiry: WarnedNoExpiry,
    pub(crate) hot: Arc<HotLocks>,
    /// How often one grant may be handed off; 0 if the transport leaves no tokens for that.
    pub(crate) hand_offs_max: u16,
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
        let (shards, inbox_max) = (core.config.shards, core.config.inbox_max);
        let dispatcher = Arc::new(Dispatcher::new(&core.config, core.capabilities));
        let hand_offs_max = if core.capabilities.hand_offs { core.config.hand_offs_max } else { 0 };
        Arc::new(Self {
            core: Arc::new(core),
            table: Table::new(),
            counters: Counters::default(),
            inboxes: Inboxes::new(shards, inbox_max),
            reconciler: Reconciler::new(),
            dispatcher,
            contended_keys: ContendedKeys::new(),
            warned_no_expiry: WarnedNoExpiry::default(),
            hot: Arc::default(),
            hand_offs_max: u16::try_from(hand_offs_max).expect("checked: at most 1,023"),
        })
    }

    /// Closes both lanes. A call that was not sent has no answer.
    pub(crate) fn close_lanes(&self) {
        self.calls.close();
        self.renewals.close();
        self.dispatcher.close();
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

    /// Checks that the engine is below the limits of its settings.
    ///
    /// # Errors
    /// [`AcquireError::LimitReached`] once there are `leases_max` leases, `waiters_max` callers, or `inbox_max` orders
    /// in the inbox of this slot.
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

    /// The times by which an entry of this slot decides. All keys of a node that callers of this engine wait for share
    /// 500 safety polls a second. Each pause gets up to a tenth of jitter.
    pub(crate) fn pace(&self, slot: Slot) -> Pace {
        let contended = self.contended_beside(slot);
        // In nanoseconds: every call runs this several times, and sums of `Duration` cost more than all the rest of it.
        let poll = SAFETY_POLL_MIN_NANOS.max(contended.saturating_mul(SAFETY_POLL_SHARE_NANOS));
        let jitter = self.jitter();
        Pace {
            unavailable_after: self.config.unavailable_after(),
            command_timeout: self.config.command_timeout(),
            safety_poll: Duration::from_nanos(poll.saturating_add(poll / 2_560 * jitter)),
            jitter,
            round_trip: self.round_trip(),
            hand_offs_max: self.hand_offs_max,
        }
    }

    // Up to `SAFETY_POLL_MIN_NAMES` keys have the shortest pause on any node, so they are not counted by node.
    fn contended_beside(&self, slot: Slot) -> u64 {
        let all = self.events.totals.served.value();
        if all <= SAFETY_POLL_MIN_NAMES {
            return all;
        }
        let topology = self.calls.topology();
        topology.map_or(all, |topology| self.contended_keys.around(slot, &topology, self.clock.now()))
    }
}

/// The pause between two looks at the totals while the engine settles.
const SETTLED_LOOK: Duration = Duration::from_millis(5);
/// The shortest pause between two safety polls of a name.
const SAFETY_POLL_MIN_NANOS: u64 = 1_000_000_000;
/// What each name of a node adds to the pause: 2 ms, so that the node gets at most 500 safety polls per second.
const SAFETY_POLL_SHARE_NANOS: u64 = 2_000_000;
/// Up to this number of names the shortest pause keeps the limit of 500 asks per second.
const SAFETY_POLL_MIN_NAMES: u64 = 500;
