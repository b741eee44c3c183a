//! What every module of the engine uses: clock, settings, lanes, identifiers, events, and the state of the engine's
//! life. It knows no lease and no caller.

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, task::AbortHandle};

use crate::{
    calls_runtime::CallsRuntime,
    clock::{Clock, Instant},
    config::EngineConfig,
    error::AcquireError,
    guard,
    key::LockKey,
    label::EngineLabel,
    lane_slot::LaneSlot,
    losses::LossRing,
    metrics::Events,
    owner::OwnerMint,
    pending_tasks::PendingTasks,
    process::Process,
    process_name,
    routing::topology::{Node, NodeId, Topology},
    shared_threads::{SharedThreads, ThreadsOfEngine},
    shown_time::ShownTime,
    transport::{Capabilities, ErrorKind, Kinds, ServerTime, TransportError},
};

/// The state of one engine that every module uses.
pub(crate) struct Core {
    /// The process that built the engine. Every public call checks it before it takes a lock of the engine.
    pub(crate) process: Process,
    pub(crate) clock: Clock,
    pub(crate) config: EngineConfig,
    pub(crate) capabilities: Capabilities,
    pub(crate) mint: OwnerMint,
    pub(crate) label: EngineLabel,
    pub(crate) losses: Arc<LossRing>,
    pub(crate) events: Events,
    pub(crate) calls: LaneSlot,
    pub(crate) renewals: LaneSlot,
    calls_runtime: CallsRuntime,
    threads: OnceLock<ThreadsOfEngine>,
    pub(crate) pending_tasks: Arc<PendingTasks>,
    life: AtomicU8,
    ended: watch::Sender<bool>,
    /// The same for tasks of the user. Their wakers may panic, and a panic keeps the wakers behind it from being called.
    ended_for_users: watch::Sender<bool>,
    gone: watch::Sender<bool>,
    ids: AtomicU64,
    ticks: AtomicU64,
    round_trip_nanos: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        clock: Clock,
        config: EngineConfig,
        capabilities: Capabilities,
        events: Events,
        calls_runtime: CallsRuntime,
    ) -> Self {
        let label = config.own_label().ok().flatten().unwrap_or_else(process_name::label); // it has been checked
        Self {
            process: Process::current(),
            clock,
            config,
            capabilities,
            mint: OwnerMint::new(),
            label,
            losses: Arc::default(),
            events,
            calls: LaneSlot::default(),
            renewals: LaneSlot::default(),
            calls_runtime,
            threads: OnceLock::new(),
            pending_tasks: Arc::default(),
            life: AtomicU8::new(OPEN),
            ended: watch::Sender::new(false),
            ended_for_users: watch::Sender::new(false),
            gone: watch::Sender::new(false),
            ids: AtomicU64::new(1),
            ticks: AtomicU64::new(0),
            round_trip_nanos: AtomicU64::new(0),
        }
    }

    /// Runs a task on the calls thread until it is done or the engine has ended. As
    /// [`CallsRuntime::spawn`], hold no lock that the drop of the task takes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.calls_runtime.spawn(task)
    }

    /// Runs a task on a thread of the engine: on the calls thread, or on the renewal thread if the calls run on a runtime of the
    /// user.
    pub(crate) fn spawn_on_own_thread(&self, task: impl Future<Output = ()> + Send + 'static) {
        let threads = self.calls_on_users_runtime().then(|| self.threads()).flatten();
        match threads {
            Some(threads) => drop(threads.renewal().spawn(task)),
            None => drop(self.spawn(task)),
        }
    }

    /// Whether a runtime of the user sends the calls, in place of a thread of the engine.
    pub(crate) fn calls_on_users_runtime(&self) -> bool {
        self.calls_runtime.is_users()
    }

    /// Records the threads on which the engine runs, so that another engine can share them.
    pub(crate) fn note_threads(&self, threads: &SharedThreads) {
        let _ = self.threads.set(threads.downgrade());
    }

    /// The threads of the engine. `None`: they have ended.
    pub(crate) fn threads(&self) -> Option<SharedThreads> {
        self.threads.get()?.upgrade()
    }

    /// Runs a task on the calls thread until it is done or `end` resolves.
    pub(crate) fn spawn_until(
        &self,
        end: impl Future<Output = ()> + Send + 'static,
        service: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn(async move {
            tokio::select! {
                () = service => {}
                () = end => {}
            }
        });
    }

    /// A number that this engine has not given out before.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_ids(1)
    }

    /// Reserves `count` such numbers in a row and returns the first.
    pub(crate) fn next_ids(&self, count: u64) -> u64 {
        self.ids.fetch_add(count, Ordering::Relaxed)
    }

    // --- life ---

    /// Checks that the engine is not shutting down.
    ///
    /// # Errors
    /// `ShuttingDown` once the shutdown has begun.
    pub(crate) fn check_open(&self) -> Result<(), AcquireError> {
        if self.life.load(Ordering::Acquire) == OPEN { Ok(()) } else { Err(AcquireError::ShuttingDown) }
    }

    /// Checks that the transport keeps locks of this kind.
    ///
    /// # Errors
    /// `Unsupported` if not.
    pub(crate) fn check_kind(&self, kind: Kinds) -> Result<(), AcquireError> {
        let transport = self.capabilities.name;
        let is_kept = self.capabilities.kinds.contains(kind);
        if is_kept { Ok(()) } else { Err(AcquireError::Unsupported { kind, transport }) }
    }

    /// Begins the shutdown: from now on no new call is queued. `false`: the shutdown has begun before.
    pub(crate) fn begin_shutdown(&self) -> bool {
        self.life.fetch_max(CLOSING, Ordering::AcqRel) == OPEN
    }

    /// Ends the engine, because the last handle was dropped or the shutdown is over. The threads send what is queued
    /// and then end.
    pub(crate) fn end(&self) {
        self.life.fetch_max(ENDED, Ordering::AcqRel);
        self.ended.send_replace(true);
        let _ = guard::call(|| self.ended_for_users.send_replace(true));
        self.losses.close();
    }

    /// Resolves once the engine ends. For tasks of the engine.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        is_set(&self.ended)
    }

    /// Resolves once the engine ends. For tasks of the user.
    pub(crate) fn ended_for_users(&self) -> impl Future<Output = ()> + Send + use<> {
        is_set(&self.ended_for_users)
    }

    /// The last releases are answered, or their time is over: nothing is sent any more.
    pub(crate) fn leave(&self) {
        self.gone.send_replace(true);
    }

    /// Resolves once nothing is sent any more.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        is_set(&self.gone)
    }

    // --- lanes ---

    /// Whether both lanes are open and every slot is served by a connected node. Never after the end.
    pub(crate) fn is_connected(&self) -> bool {
        let has_ended = self.life.load(Ordering::Acquire) == ENDED;
        !has_ended
            && [self.calls.topology(), self.renewals.topology()]
                .into_iter()
                .all(|topology| topology.is_some_and(|topology| topology.is_connected()))
    }

    /// Checks that the present run of a server has answered. An answer of an earlier run proves nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`], with an unknown effect, if the server was restarted or replaced meanwhile.
    pub(crate) fn check_present(&self, at: ServerTime) -> Result<(), TransportError> {
        if self.calls.is_current(at.clock) {
            return Ok(());
        }
        Err(TransportError::unknown(
            ErrorKind::Unreachable,
            at,
            "answered by a server that is not the present one",
        ))
    }

    /// Checks that the node that serves the key has been up for at least `restart_grace`.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] until then, and if no node serves the key's slot.
    pub(crate) fn check_restart_grace(&self, key: &LockKey, now: Instant) -> Result<(), TransportError> {
        self.check_uptime(now, |topology| topology.serving(key.slot()))
    }

    /// Checks the same for the node that has granted. While a slot is moved, this is another node than the topology
    /// says.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] until then.
    pub(crate) fn check_restart_grace_of(&self, node: NodeId, now: Instant) -> Result<(), TransportError> {
        self.check_uptime(now, |topology| topology.node(node))
    }

    fn check_uptime(
        &self,
        now: Instant,
        which: impl Fn(&Topology) -> Option<&Node>,
    ) -> Result<(), TransportError> {
        let grace = self.config.restart_grace();
        if grace.is_zero() {
            return Ok(());
        }
        let topology = self.calls.topology();
        let node = topology.as_deref().and_then(which);
        match node.map(|node| (node, node.uptime(now))) {
            Some((_, Some(uptime))) if uptime >= grace => Ok(()),
            Some((node, uptime)) => {
                let why = too_young(node, uptime, grace);
                Err(TransportError::without_effect(ErrorKind::NotReady, Some(node.id), why))
            }
            None => {
                Err(TransportError::without_effect(ErrorKind::NotReady, None, "no node serves this slot"))
            }
        }
    }

    // --- time ---

    /// Counts one more tick of the renewal thread.
    pub(crate) fn count_tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Adds the round trip of one ask to the running mean, with a weight of one eighth.
    pub(crate) fn note_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.round_trip_nanos.load(Ordering::Relaxed);
        self.round_trip_nanos.store(before - before / 8 + took / 8, Ordering::Relaxed);
    }

    /// The running mean of the round trips of asks; zero before the first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_nanos.load(Ordering::Relaxed))
    }

    /// A number from 0 to 255 that changes with each identifier given out. This is random enough to spread polls in
    /// time, and it costs no random number generator.
    pub(crate) fn jitter(&self) -> u64 {
        self.ids.load(Ordering::Relaxed).wrapping_mul(0x9E37_79B9) >> 16 & 0xFF
    }
}

fn too_young(node: &Node, uptime: Option<Duration>, grace: Duration) -> String {
    let (address, grace) = (&node.address, ShownTime(grace));
    match uptime.map(ShownTime) {
        Some(uptime) => format!("{address} is up for {uptime}, less than restart_grace = {grace}"),
        None => format!("{address} did not say how long it is up, so not at least restart_grace = {grace}"),
    }
}

fn is_set(flag: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut flag = flag.subscribe();
    async move {
        let _ = flag.wait_for(|is_set| *is_set).await;
    }
}

const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const ENDED: u8 = 2;
