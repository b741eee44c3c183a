//! Building an engine: the builder refuses settings that contradict each other, and opens and checks both lanes.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Level;

use super::{alive::Handle, engine::Engine};
use crate::{
    clock::{self, Clock, Instant},
    config::EngineConfig,
    core::Core,
    error::{AcquireError, BuildError, Invalid},
    fencing::FencingMode,
    inner::Inner,
    log,
    metrics::{Classes, Events, Numbers, Recorder},
    threads::Threads,
    transport::{LanePurpose, OpenLane, Transport, TransportError},
};

/// The settings of an engine that is to be built. The defaults suit most services. [`Engine::builder`] makes it.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::Engine;
/// use leasehold_memory::MemoryTransport;
///
/// let engine = Engine::builder(MemoryTransport::new())
///     .ttl(Duration::from_secs(20))
///     .name_prefix("shop:")
///     .metrics()
///     .build()
///     .await?;
/// # drop(engine);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct EngineBuilder {
    transport: Arc<dyn Transport>,
    config: EngineConfig,
    recorder: Option<Arc<dyn Recorder>>,
    metrics: bool,
    runs_on: RunsOn,
}

/// Where an engine runs. The last setting counts.
enum RunsOn {
    OwnThreads,
    /// The calls only.
    CurrentRuntimeAndOwnThread,
    CurrentRuntime,
    ThreadsOf(Engine),
}

impl Engine {
    /// Starts to build an engine over a transport. See [`EngineBuilder`] for the settings.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::Engine;
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// assert!(engine.snapshot().connected);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(transport: impl Transport) -> EngineBuilder {
        EngineBuilder::new(Arc::new(transport))
    }
}

impl EngineBuilder {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            config: EngineConfig::default(),
            recorder: None,
            metrics: false,
            runs_on: RunsOn::OwnThreads,
        }
    }

    /// Sets all settings at once, for example as read from a file. Settings made before this call are replaced.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::{Engine, EngineConfig};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let mut config = EngineConfig::default();
    /// config.leases_max = 10_000;
    /// config.classes.insert("orders:".into(), "orders".into());
    /// let engine = Engine::builder(MemoryTransport::new()).config(config).build().await?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the ttl of locks that name none: how long the server keeps a lock that is not renewed. Default 30 s, at
    /// least 1 s. The [guide](crate::guide::ttl) says how to choose it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// use std::time::Duration;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).ttl(Duration::from_secs(10)).build().await?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.config.ttl_ms = millis(ttl);
        self
    }

    /// Sets how long a call waits that names no wait. See [`EngineConfig::wait_ms`]. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{AcquireError, Engine};
    /// # use leasehold_memory::MemoryTransport;
    /// use std::time::Duration;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).wait(Duration::from_millis(50)).build().await?;
    /// let held = engine.lock("report").acquire().await?;
    /// assert!(matches!(engine.lock("report").acquire().await, Err(AcquireError::TimedOut { .. })));
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.config.wait_ms = Some(millis(time));
        self
    }

    /// Sets for how long a lease is renewed whose call names no `max_hold`. See [`EngineConfig::max_hold_ms`]. Default: no
    /// limit.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// use std::time::Duration;
    ///
    /// // No holder of a lock of this engine that hangs holds it for longer than an hour and a ttl.
    /// let engine = Engine::builder(MemoryTransport::new()).max_hold(Duration::from_secs(3_600)).build().await?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.config.max_hold_ms = Some(millis(time));
        self
    }

    /// Sets after which time without a definite answer a caller gets `Unavailable`. Default 10 s.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// use std::time::Duration;
    ///
    /// let builder = Engine::builder(MemoryTransport::new()).unavailable_after(Duration::from_secs(3));
    /// let engine = builder.build().await?; // waits for the servers for at most 3 s
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn unavailable_after(mut self, time: Duration) -> Self {
        self.config.unavailable_after_ms = millis(time);
        self
    }

    /// Sets the longest time that one command may stay unanswered. Default 1 s; a sixth of the ttl where that is less.
    /// It must not be longer than `unavailable_after`.
    pub fn command_timeout(mut self, time: Duration) -> Self {
        self.config.command_timeout_ms = millis(time);
        self
    }

    /// Sets a text that the engine puts before every lock name. Default: empty. A hash tag in the prefix, such as
    /// `{shop}:`, puts all locks of the engine in one slot.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = Engine::builder(MemoryTransport::new()).name_prefix("shop:").build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?; // the key on the server is "shop:orders:42"
    /// assert_eq!(lease.name(), "orders:42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.config.name_prefix = prefix.into();
        self
    }

    /// Sets how long a server must have been up before this engine acquires locks on it, so that leases from before its
    /// restart have expired. Redisson's clients do not follow it. An acquire with a longer ttl is refused.
    /// Default: not set, which is off, as zero. Recommended: the longest ttl of all clients of the server. A
    /// [`Quorum`](crate::Quorum) refuses an engine in which it is not set.
    pub fn restart_grace(mut self, time: Duration) -> Self {
        self.config.restart_grace_ms = Some(millis(time));
        self
    }

    /// Sets a name of the servers of this engine, the same in every process. A [`MultiLock`](crate::MultiLock) over two
    /// engines orders members with equal names by it. Default: none.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let stock = Engine::builder(MemoryTransport::new()).id("stock").build().await?;
    /// # drop(stock);
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.config.id = id.into();
        self
    }

    /// Sets what an operator calls this engine, in log lines, in the names of its connections and in snapshots. At most
    /// [`LABEL_BYTES_MAX`](crate::LABEL_BYTES_MAX) printable ASCII characters without spaces. Default: `service@host`, the
    /// names of program and host.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = Engine::builder(MemoryTransport::new()).label("orders@web-7").build().await?;
    /// assert_eq!(engine.label(), "orders@web-7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.config.label = label.into();
        self
    }

    /// Sets how the token counters of fenced locks move with each grant. Default:
    /// [`FencingMode::Hybrid`](crate::FencingMode::Hybrid).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// use leasehold::FencingMode;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).fencing(FencingMode::Counter).build().await?;
    /// let lease = engine.fenced_lock("orders:42").acquire().await?;
    /// assert_eq!(lease.fencing_token().as_i64(), 1); // the first grant of this name
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing(mut self, mode: FencingMode) -> Self {
        self.config.fencing = mode;
        self
    }

    /// Sets the receiver of every event. [`Recorder`] says on which thread it is called, and what a slow or panicking
    /// recorder misses. Default: none.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use leasehold::{Engine, Event, Recorder, metrics::LockEvent};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// #[derive(Default)]
    /// struct CountLosses(AtomicU64);
    ///
    /// impl Recorder for CountLosses {
    ///     fn record(&self, event: &Event<'_>) {
    ///         if let Event::Lock(_, LockEvent::Lost { .. }) = event {
    ///             self.0.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     }
    /// }
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).recorder(CountLosses::default()).build().await?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recorder(mut self, recorder: impl Recorder) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Counts everything that the module [`metrics`](crate::metrics) lists, for [`Engine::metrics`] and the exporters.
    /// Default: off, without any cost.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
    /// assert!(engine.metrics().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// Runs the engine on the runtime that polls `build`, with tokio's clock. This is for tests with paused time. By
    /// default the engine has two threads of its own and counts time from boot. With this setting a blocked runtime
    /// loses leases.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // In a test with #[tokio::test(start_paused = true)]:
    /// let engine = Engine::builder(MemoryTransport::new()).on_current_runtime().build().await?;
    /// let lease = engine.lock("a").no_renewal().acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(30)).await; // takes no time
    /// assert!(!lease.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_current_runtime(mut self) -> Self {
        self.runs_on = RunsOn::CurrentRuntime;
        self
    }

    /// Runs the calls of the engine (acquires, releases, notices) on the runtime that polls `build`, or in which
    /// `connect_later` is called. Renewal keeps a thread of its own. Default: the engine has a thread of its own for its calls
    /// too.
    ///
    /// A call of a task of that runtime then goes to no thread of the engine and back: more pairs of acquire and release a second,
    /// and less processor time for each (figures in `benches/README.md`). In return the calls depend on your runtime:
    ///
    /// - While its workers are blocked, no call is sent or answered, and no dropped lease is released. That includes all limits
    ///   of time: [`Lock::wait`](crate::Lock::wait), `unavailable_after`, the time of [`Engine::shutdown`]. A caller of a fair lock loses its
    ///   place after 4 s of it. Leases are renewed, and [`Lease::lost`](crate::Lease::lost) and deadlines are in time.
    /// - A task that drops a lease and goes on without an `await` delays the release until its next `await`; with
    ///   `release().await` it does not.
    /// - A current-thread runtime sends calls only while its `block_on` runs.
    /// - If it is shut down before the engine, the engine ends with it, and nothing is released: each lease is lost with
    ///   [`LossReason::Shutdown`](crate::LossReason::Shutdown), each caller gets
    ///   [`AcquireError::ShuttingDown`](crate::AcquireError::ShuttingDown), and each lock is free when its ttl is over. So build
    ///   the engine on the runtime of the process, not on that of a single test or job, and call [`Engine::shutdown`] first.
    ///
    /// The runtime needs its timers and its I/O driver (`enable_all`). The engine keeps its own clock: a test with paused time
    /// needs [`on_current_runtime`](Self::on_current_runtime), and `tokio::time::pause` must not be called later. An engine with
    /// [`threads_of`](Self::threads_of) this one depends on the runtime too. [`blocking::Engine`](crate::blocking::Engine)
    /// refuses both.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use leasehold::Engine;
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).calls_on_current_runtime().build().await?;
    /// engine.lock("orders:42").acquire().await?.release().await?;
    /// engine.shutdown(Duration::from_secs(5)).await; // before the runtime is shut down
    /// # Ok(())
    /// # }
    /// ```
    pub fn calls_on_current_runtime(mut self) -> Self {
        self.runs_on = RunsOn::CurrentRuntimeAndOwnThread;
        self
    }

    /// Whether a runtime of the user is to send the calls.
    pub(crate) fn calls_on_users_runtime(&self) -> bool {
        match &self.runs_on {
            RunsOn::OwnThreads => false,
            RunsOn::CurrentRuntimeAndOwnThread | RunsOn::CurrentRuntime => true,
            RunsOn::ThreadsOf(engine) => engine.inner().calls_on_users_runtime(),
        }
    }

    /// Runs the engine on the two threads of another engine, with its clock. So the engines of a
    /// [`Quorum`](crate::Quorum) need two threads in all. Each engine still has its own connections. The threads end
    /// when all engines on them have ended, in any order. A command that keeps a thread busy delays all its engines.
    /// Default: two threads of its own.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let first = Engine::builder(MemoryTransport::new()).build().await?;
    /// let second = Engine::builder(MemoryTransport::new()).threads_of(&first).build().await?;
    /// # drop((first, second));
    /// # Ok(())
    /// # }
    /// ```
    pub fn threads_of(mut self, engine: &Engine) -> Self {
        self.runs_on = RunsOn::ThreadsOf(engine.clone());
        self
    }

    /// Builds the engine. It opens both lanes, and returns when both are connected and checked. The future can be
    /// polled inside a tokio runtime or outside of any, except after [`on_current_runtime`](Self::on_current_runtime) and
    /// [`calls_on_current_runtime`](Self::calls_on_current_runtime).
    ///
    /// # Errors
    /// [`BuildError::Invalid`]: a setting cannot be used, or tokio's time is paused and `on_current_runtime` was not
    /// called. [`BuildError::Refused`]: a server refuses this client; returned at once. [`BuildError::Unavailable`]: no
    /// server was ready within `unavailable_after`; carries the last error. [`BuildError::Threads`]: the operating
    /// system gave no thread, or there is no runtime to run on.
    ///
    /// # Cancel safety
    /// Dropping the future ends what was begun.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::{BuildError, Engine};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let engine = match Engine::builder(MemoryTransport::new()).build().await {
    ///     Ok(engine) => engine,
    ///     Err(BuildError::Unavailable { after, last_error }) => {
    ///         return Err(format!("no lock server within {after:?}: {last_error}").into());
    ///     }
    ///     Err(error) => return Err(error.into()),
    /// };
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn build(self) -> Result<Engine, BuildError> {
        let transport = self.transport.clone();
        let (engine, renewal) = self.prepare()?;
        let inner = engine.inner().clone();
        let until = inner.clock.now() + inner.config.unavailable_after();
        let calls = open(&inner, &transport, LanePurpose::Calls, Some(until), &renewal);
        let renewals = open(&inner, &transport, LanePurpose::Renewals, Some(until), &renewal);
        for opened in [calls.await, renewals.await] {
            opened.map_err(|last_error| refusal(last_error, &inner))?;
        }
        check_runs(&inner)?;
        Ok(engine)
    }

    /// Builds the engine without waiting for a server. The engine opens its lanes in the background, and tries again
    /// until it succeeds. Until then acquires wait and fail as they do when the servers are down.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] and [`BuildError::Threads`], as [`build`](Self::build).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::Engine;
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).connect_later()?; // returns at once
    /// let lease = engine.lock("a").acquire().await?; // waits for the connection
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_later(self) -> Result<Engine, BuildError> {
        let transport = self.transport.clone();
        let (engine, renewal) = self.prepare()?;
        let inner = engine.inner();
        drop(open(inner, &transport, LanePurpose::Calls, None, &renewal));
        drop(open(inner, &transport, LanePurpose::Renewals, None, &renewal));
        Ok(engine)
    }

    fn prepare(self) -> Result<(Engine, tokio::runtime::Handle), BuildError> {
        let capabilities = self.transport.capabilities();
        self.config.check(capabilities).map_err(BuildError::Invalid)?;
        let threads = match &self.runs_on {
            RunsOn::OwnThreads => running_clock().and_then(|()| Threads::own())?,
            RunsOn::CurrentRuntimeAndOwnThread => running_clock().and_then(|()| Threads::renewal_only())?,
            RunsOn::CurrentRuntime => Threads::callers()?,
            RunsOn::ThreadsOf(engine) => shared_threads(engine)?,
        };
        let renewal = threads.renewal();
        let classes = Arc::new(Classes::new(&self.config.classes));
        let recorder = self.recorder.map(|recorder| threads.listen(recorder, &classes)).transpose()?;
        let numbers = self.metrics.then(|| Arc::new(Numbers::new()));
        let inner = Inner::new(Core::new(
            threads.clock(),
            self.config,
            capabilities,
            Events::new(recorder.map(Arc::new), numbers, classes),
            threads.calls(),
        ));
        let engine = Engine::of(Handle::new(inner.clone()));
        threads.start(&inner)?;
        log_start(&inner);
        Ok((engine, renewal))
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineBuilder({}, {:?})", self.transport.capabilities().name, self.config)
    }
}

/// An operator who sees an owner on a server finds its client here, and with it the process.
fn log_start(inner: &Inner) {
    let (label, client, transport) = (inner.label, inner.mint.client(), inner.capabilities.name);
    log::line(Level::INFO, move || tracing::info!(%label, %client, transport, "the engine starts"));
}

fn shared_threads(engine: &Engine) -> Result<Threads, BuildError> {
    let remedy =
        "the engine has ended, and its threads with it; build this one before, or without threads_of";
    let ended = || BuildError::Invalid(Invalid::new("threads_of", "an engine", remedy));
    engine.inner().process.check().map_err(BuildError::Invalid)?;
    engine.inner().threads().map(Threads::Shared).ok_or_else(ended)
}

// An engine with threads of its own waits in real time, while a test with paused time stands still.
fn running_clock() -> Result<(), BuildError> {
    let on_runtime = tokio::runtime::Handle::try_current().is_ok();
    if on_runtime && clock::tokio_clock_is_paused() {
        let remedy = "tokio's time is paused here; call EngineBuilder::on_current_runtime() so that the engine follows it";
        return Err(BuildError::Invalid(Invalid::new("on_current_runtime", false, remedy)));
    }
    Ok(())
}

/// Opens a lane on its runtime; stops when the engine ends.
fn open(
    inner: &Arc<Inner>,
    transport: &Arc<dyn Transport>,
    purpose: LanePurpose,
    until: Option<Instant>,
    renewal: &tokio::runtime::Handle,
) -> impl Future<Output = Result<(), TransportError>> + use<> {
    let how =
        OpenLane::new(purpose, inner.clock, inner.config.command_timeout()).with_client(inner.mint.client());
    // Renewals have no callers. A runtime that the user has chosen for the calls serves the connections itself.
    let follows =
        purpose == LanePurpose::Calls && inner.clock == Clock::Boot && !inner.calls_on_users_runtime();
    let how = how.with_label(inner.label).with_fair_wait(inner.config.fair_wait());
    let how = how.with_follows_callers(follows && inner.config.connections_follow_callers);
    let (sender, opened) = oneshot::channel();
    let (opening, transport, ended) = (inner.clone(), transport.clone(), inner.ended());
    let opening_lane = async move {
        let lane = match purpose {
            LanePurpose::Calls => &opening.calls,
            LanePurpose::Renewals => &opening.renewals,
        };
        tokio::select! {
            result = lane.open(&*transport, how, until) => drop(sender.send(result)),
            () = ended => {}
        }
    };
    match purpose {
        LanePurpose::Calls => drop(inner.spawn(opening_lane)),
        LanePurpose::Renewals => drop(renewal.spawn(opening_lane)),
    }
    let inner = inner.clone();
    async move { opened.await.unwrap_or_else(|_| Err(inner.calls.last_error())) }
}

// The runtime of the calls may be shut down meanwhile, or before.
fn check_runs(inner: &Inner) -> Result<(), BuildError> {
    let ended =
        |_: AcquireError| BuildError::Threads("the runtime of the engine's calls was shut down".into());
    inner.check_open().map_err(ended)
}

fn refusal(last_error: TransportError, inner: &Inner) -> BuildError {
    if let Err(ended) = check_runs(inner) {
        return ended;
    }
    if last_error.kind.is_final() {
        return BuildError::Refused(last_error);
    }
    BuildError::Unavailable { after: inner.config.unavailable_after(), last_error }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
