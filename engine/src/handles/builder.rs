//! Building an engine: contradictory settings are refused, then both lanes are opened and checked.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{alive::Handle, engine::Engine};
use crate::{
    clock::{self, Instant},
    config::EngineConfig,
    core::Core,
    error::{BuildError, Invalid},
    inner::Inner,
    metrics::{Classes, Events, Numbers, Recorder},
    threads::Threads,
    transport::{LanePurpose, OpenLane, Transport, TransportError},
};

/// Settings of an engine that is to be built. The defaults suit most services.
#[must_use]
pub struct EngineBuilder {
    transport: Arc<dyn Transport>,
    config: EngineConfig,
    recorder: Option<Arc<dyn Recorder>>,
    metrics: bool,
    on_current_runtime: bool,
}

impl Engine {
    /// Begins to build an engine over a transport.
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
            on_current_runtime: false,
        }
    }

    /// Sets all settings at once, as read from a file.
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// The ttl of a lock that sets none itself. Default 30 s, at least 1 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.config.ttl_ms = millis(ttl);
        self
    }

    /// How long a caller may be without a definite answer before it fails with `Unavailable`. Default 10 s.
    pub fn unavailable_after(mut self, time: Duration) -> Self {
        self.config.unavailable_after_ms = millis(time);
        self
    }

    /// The longest time that one command may stay unanswered. A sixth of the ttl if that is shorter. Default 1 s.
    pub fn command_timeout(mut self, time: Duration) -> Self {
        self.config.command_timeout_ms = millis(time);
        self
    }

    /// The prefix of every lock name. Default: empty.
    pub fn name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.config.name_prefix = prefix.into();
        self
    }

    /// A server grants nothing until it has been up for this long. Default 0: off.
    pub fn restart_grace(mut self, time: Duration) -> Self {
        self.config.restart_grace_ms = millis(time);
        self
    }

    /// Sets a recorder, which gets every event. [`Recorder`] says on which thread it is called, and which events a slow
    /// or panicking recorder misses. Default: none.
    pub fn recorder(mut self, recorder: impl Recorder) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Counts everything that [`metrics`](crate::metrics) describes, for [`Engine::metrics`] and the exporters.
    /// Default: off, at no cost.
    pub fn metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// Runs the engine on the runtime that polls `build`, with tokio's clock, for tests with paused time. A blocked
    /// runtime then loses leases. Without this call the engine has two threads of its own and counts time from boot.
    pub fn on_current_runtime(mut self) -> Self {
        self.on_current_runtime = true;
        self
    }

    /// Builds the engine: opens both lanes, and returns when both are connected and checked. May be polled inside or
    /// outside of a tokio runtime; with [`on_current_runtime`](Self::on_current_runtime) only inside.
    ///
    /// # Errors
    /// - [`BuildError::Invalid`]: a setting cannot be used.
    /// - [`BuildError::Refused`], at once: a server refuses this client.
    /// - [`BuildError::Unavailable`], with the last error: no server was ready within `unavailable_after`.
    /// - [`BuildError::Threads`]: the operating system could not create a thread or a runtime.
    ///
    /// # Cancel safety
    /// Dropping the future ends the engine that was being built.
    pub async fn build(self) -> Result<Engine, BuildError> {
        let transport = self.transport.clone();
        let (engine, renewal) = self.prepare()?;
        let inner = engine.inner().clone();
        let until = inner.clock.now() + inner.config.unavailable_after();
        let calls = open(&inner, &transport, LanePurpose::Calls, Some(until), &inner.calls_handle());
        let renewals = open(&inner, &transport, LanePurpose::Renewals, Some(until), &renewal);
        for opened in [calls.await, renewals.await] {
            opened.map_err(|last_error| refusal(last_error, &inner))?;
        }
        Ok(engine)
    }

    /// Builds the engine without waiting for any server. The lanes are opened in the background, with retries. Until
    /// they are open, acquires wait and fail as they do when the servers are down.
    ///
    /// # Errors
    /// - [`BuildError::Invalid`]: a setting cannot be used.
    /// - [`BuildError::Threads`]: the operating system could not create a thread or a runtime.
    pub fn connect_later(self) -> Result<Engine, BuildError> {
        let transport = self.transport.clone();
        let (engine, renewal) = self.prepare()?;
        let inner = engine.inner();
        drop(open(inner, &transport, LanePurpose::Calls, None, &inner.calls_handle()));
        drop(open(inner, &transport, LanePurpose::Renewals, None, &renewal));
        Ok(engine)
    }

    fn prepare(self) -> Result<(Engine, tokio::runtime::Handle), BuildError> {
        let capabilities = self.transport.capabilities();
        self.config.check(capabilities).map_err(BuildError::Invalid)?;
        let threads = if self.on_current_runtime { Threads::callers()? } else { own_threads()? };
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
        Ok((engine, renewal))
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineBuilder({}, {:?})", self.transport.capabilities().name, self.config)
    }
}

// The engine's own threads wait in real time, for events that a test with paused time never causes.
fn own_threads() -> Result<Threads, BuildError> {
    let on_runtime = tokio::runtime::Handle::try_current().is_ok();
    if on_runtime && clock::tokio_clock_is_paused() {
        let remedy = "tokio's time is paused here; call EngineBuilder::on_current_runtime() so that the engine follows it";
        return Err(BuildError::Invalid(Invalid::new("on_current_runtime", false, remedy)));
    }
    Threads::own()
}

/// Opens a lane on its runtime; stops when the engine ends.
fn open(
    inner: &Arc<Inner>,
    transport: &Arc<dyn Transport>,
    purpose: LanePurpose,
    until: Option<Instant>,
    runtime: &tokio::runtime::Handle,
) -> impl Future<Output = Result<(), TransportError>> + use<> {
    let how = OpenLane { purpose, clock: inner.clock, command_timeout: inner.config.command_timeout() };
    let (sender, opened) = oneshot::channel();
    let (opening, transport, ended) = (inner.clone(), transport.clone(), inner.ended());
    drop(runtime.spawn(async move {
        let seat = match purpose {
            LanePurpose::Calls => &opening.calls,
            LanePurpose::Renewals => &opening.renewals,
        };
        tokio::select! {
            result = seat.open(&*transport, how, until) => drop(sender.send(result)),
            () = ended => {}
        }
    }));
    let inner = inner.clone();
    async move { opened.await.unwrap_or_else(|_| Err(inner.calls.last_error())) }
}

fn refusal(last_error: TransportError, inner: &Inner) -> BuildError {
    if last_error.kind.is_final() {
        return BuildError::Refused(last_error);
    }
    BuildError::Unavailable { after: inner.config.unavailable_after(), last_error }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
