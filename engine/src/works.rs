//! The works: what handles, drivers and leases of one engine share.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{runtime, sync::watch};

use crate::{
    clock::{Clock, Instant},
    config::EngineConfig,
    contention::{
        closer::Closer,
        entry::Pace,
        pacer::Pacer,
        release::{self, LetGo},
        table::Table,
    },
    errands::Errands,
    error::{AcquireError, ReleaseError},
    key::LockKey,
    lanes::LaneSeat,
    lease::{shared::LeaseCore, state::LossReason},
    losses::{Loss, LossRing},
    metrics::Events,
    owner::OwnerMint,
    renewal::inbox::Inboxes,
    transport::{Capabilities, ErrorKind, TransportError},
};

/// Everything of one engine but its threads.
pub(crate) struct Works {
    pub(crate) clock: Clock,
    pub(crate) config: EngineConfig,
    pub(crate) capabilities: Capabilities,
    pub(crate) mint: OwnerMint,
    pub(crate) table: Table,
    pub(crate) inboxes: Inboxes,
    pub(crate) closer: Closer,
    pub(crate) pacer: Pacer,
    pub(crate) losses: Arc<LossRing>,
    pub(crate) events: Events,
    pub(crate) calls: LaneSeat,
    pub(crate) renewals: LaneSeat,
    calls_runtime: runtime::Handle,
    pub(crate) errands: Arc<Errands>,
    life: AtomicU8,
    ended: watch::Sender<bool>,
    ids: AtomicU64,
    ticks: AtomicU64,
    round_trip_nanos: AtomicU64,
}

impl Works {
    pub(crate) fn new(
        clock: Clock,
        config: EngineConfig,
        capabilities: Capabilities,
        events: Events,
        calls_runtime: runtime::Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            capabilities,
            mint: OwnerMint::new(),
            table: Table::new(),
            inboxes: Inboxes::new(config.shards),
            config,
            closer: Closer::new(),
            pacer: Pacer::default(),
            losses: Arc::default(),
            events,
            calls: LaneSeat::default(),
            renewals: LaneSeat::default(),
            calls_runtime,
            errands: Arc::default(),
            life: AtomicU8::new(OPEN),
            ended: watch::Sender::new(false),
            ids: AtomicU64::new(1),
            ticks: AtomicU64::new(0),
            round_trip_nanos: AtomicU64::new(0),
        })
    }

    /// Runs a task on the calls thread until it is done or the engine has ended.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.calls_runtime.spawn(task));
    }

    /// The runtime of the calls thread.
    pub(crate) fn calls_handle(&self) -> runtime::Handle {
        self.calls_runtime.clone()
    }

    /// The same for a task that lasts as long as the engine.
    pub(crate) fn spawn_service(&self, service: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended();
        self.spawn(async move {
            tokio::select! {
                () = service => {}
                () = ended => {}
            }
        });
    }

    /// A number that this engine has not given out before.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    // --- life ---

    /// # Errors
    /// Once the engine is shutting down.
    pub(crate) fn check_open(&self) -> Result<(), AcquireError> {
        if self.life.load(Ordering::Acquire) == OPEN { Ok(()) } else { Err(AcquireError::ShuttingDown) }
    }

    /// From now on nothing new is queued. `false`: somebody else did it before.
    pub(crate) fn begin_shutdown(&self) -> bool {
        self.life.fetch_max(CLOSING, Ordering::AcqRel) == OPEN
    }

    /// The last handle is gone, or shutdown is over: the threads send what is queued and end.
    pub(crate) fn end(&self) {
        self.life.fetch_max(ENDED, Ordering::AcqRel);
        self.ended.send_replace(true);
    }

    /// Resolves once the engine ends.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.subscribe();
        async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// # Errors
    /// Once as many leases or callers are there as the settings allow.
    pub(crate) fn check_limits(&self) -> Result<(), AcquireError> {
        let totals = &self.events.totals;
        let limits = [
            ("leases_max", self.config.leases_max, totals.held.value()),
            ("callers_max", self.config.callers_max, totals.callers.value()),
        ];
        match limits.into_iter().find(|(_, most, now)| *now >= *most as u64) {
            Some((limit, value, _)) => Err(AcquireError::LimitReached { limit, value }),
            None => Ok(()),
        }
    }

    // --- time ---

    /// One more tick of the renewal thread.
    pub(crate) fn count_tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// An ask took this long: an eighth of it goes into the running mean.
    pub(crate) fn note_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.round_trip_nanos.load(Ordering::Relaxed);
        self.round_trip_nanos.store(before - before / 8 + took / 8, Ordering::Relaxed);
    }

    /// What an entry must know to decide. The safety poll keeps all contended names of the engine at 500 asks a
    /// second, with up to a tenth of jitter.
    pub(crate) fn pace(&self) -> Pace {
        let contended = self.events.totals.callers.value();
        let poll =
            SAFETY_POLL_MIN.max(Duration::from_micros(contended.saturating_mul(SAFETY_POLL_SHARE_MICROS)));
        let jitter = poll / 10
            * (self.ids.load(Ordering::Relaxed).wrapping_mul(0x9E37_79B9) >> 16 & 0xFF) as u32
            / 256;
        Pace {
            unavailable_after: self.config.unavailable_after(),
            safety_poll: poll + jitter,
            round_trip: Duration::from_nanos(self.round_trip_nanos.load(Ordering::Relaxed)),
        }
    }

    /// Whether the node that serves the key is up for long enough to grant anything.
    ///
    /// # Errors
    /// Not for the moment.
    pub(crate) fn check_restart_grace(&self, key: &LockKey, now: Instant) -> Result<(), TransportError> {
        let grace = self.config.restart_grace();
        if grace.is_zero() {
            return Ok(());
        }
        let topology = self.calls.topology();
        let node = topology.as_ref().and_then(|topology| topology.serving(key.slot()));
        match node.map(|node| (node, node.uptime(now))) {
            Some((_, Some(uptime))) if uptime >= grace => Ok(()),
            Some((node, uptime)) => {
                let why =
                    format!("{} is up for {uptime:?}, less than restart_grace = {grace:?}", node.address);
                Err(TransportError::without_effect(ErrorKind::NotReady, Some(node.id), why))
            }
            None => {
                Err(TransportError::without_effect(ErrorKind::NotReady, None, "no node serves this slot"))
            }
        }
    }

    // --- leases ---

    /// Ends a lease as lost, unless it has ended, and tells everybody.
    pub(crate) fn lose(self: &Arc<Self>, lease: &Arc<LeaseCore>, reason: LossReason) {
        if lease.lose(reason) {
            self.handle_loss(lease, reason);
        }
    }

    /// A lease has just been lost: tells the losses, frees its entry, closes its owner.
    pub(crate) fn handle_loss(self: &Arc<Self>, lease: &Arc<LeaseCore>, reason: LossReason) {
        let now = self.clock.now();
        self.tell_loss(lease, reason, now);
        release::cancel_renewal(self, lease);
        let pace = self.pace();
        self.table.with(&lease.key, |slot| {
            slot.entry.handle_local_loss(lease, now, &pace);
            slot.poke();
        });
        self.close_lost(lease, reason);
    }

    // What the server has said is not ours needs no release, unless something of it may yet be executed. At shutdown
    // the release is sent, and reported, by the shutdown.
    fn close_lost(&self, lease: &LeaseCore, reason: LossReason) {
        if reason == LossReason::Shutdown {
            return;
        }
        let mut closing = lease.to_closing();
        closing.may_hold = reason != LossReason::NotOurs;
        if closing.may_hold || !closing.open.is_closed() {
            self.closer.add(self, &lease.key, closing);
        }
    }

    // A lease that nobody has taken yet was never returned: its caller is queued again and has lost nothing.
    fn tell_loss(&self, lease: &LeaseCore, reason: LossReason, now: Instant) {
        if !lease.was_taken() {
            return;
        }
        let held = now - lease.granted_at;
        self.events.totals.held.sub(1);
        self.events.totals.lost.add(1);
        self.events.lost(reason, lease.token, held);
        if reason != LossReason::Shutdown {
            tracing::error!(lock = lease.key.name(), %reason, token = %lease.token, "a lease was lost");
        }
        let (name, fencing_token, deadline) = (lease.key.name().into(), lease.token, lease.deadline());
        self.losses.push(Loss { name, fencing_token, reason, at: now, deadline, held });
    }

    /// An offer found nobody: its hold goes back.
    pub(crate) fn give_back(self: &Arc<Self>, lease: &Arc<LeaseCore>) {
        match release::let_go(self, lease) {
            LetGo::StillHeld | LetGo::WasLost(_) => {}
            LetGo::Ended => {
                self.events.grant_without_caller();
                drop(self.send_release(lease));
            }
        }
    }

    /// Gives back one hold. The answer comes to the receiver; what was begun goes on without it.
    pub(crate) fn release(self: &Arc<Self>, lease: &Arc<LeaseCore>) -> Receipt {
        match release::let_go(self, lease) {
            LetGo::StillHeld => Receipt::Done(Ok(())),
            LetGo::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
            LetGo::Ended => self.send_release(lease),
        }
    }

    fn send_release(self: &Arc<Self>, lease: &Arc<LeaseCore>) -> Receipt {
        if lease.was_taken() {
            self.events.totals.held.sub(1);
        }
        release::cancel_renewal(self, lease);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (errand, works, ended) = (self.errands.begin(), self.clone(), lease.clone());
        self.spawn(async move {
            let _errand = errand;
            let _ = sender.send(release::send(&works, &ended).await);
        });
        // The next caller is asked for behind the release, on the same connection.
        self.table.with(&lease.key, |slot| slot.poke());
        Receipt::Pending(receiver)
    }
}

/// What came, or will come, of a release.
pub(crate) enum Receipt {
    Done(Result<(), ReleaseError>),
    Pending(tokio::sync::oneshot::Receiver<Result<(), ReleaseError>>),
}

const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const ENDED: u8 = 2;
const SAFETY_POLL_MIN: Duration = Duration::from_secs(1);
/// 500 names a second.
const SAFETY_POLL_SHARE_MICROS: u64 = 2_000;
