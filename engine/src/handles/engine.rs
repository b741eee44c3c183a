//! The engine: a cheap handle from which every call begins.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    alive::Handle,
    audit::{self, AuditReport},
    bulk::AcquireAll,
    latch::Latch,
    lease::Lease,
    lock::{Lock, ReentryScope},
    permits::Permits,
    rw_lock::RwLock,
    semaphore::Semaphore,
    shutdown::{self, ShutdownReport},
};
use crate::{
    acquire::caller::ScopeId,
    clock::Instant,
    error::ReleaseError,
    inner::Inner,
    label::EngineLabel,
    log,
    losses::Losses,
    metrics::{ContendedLock, Metrics},
    release::in_progress::ReleasedBy,
    serialized::millis_if_known,
    transport::HoldKind,
};

/// A distributed lock engine. The engine acquires locks, renews the leases that it holds, and reports every lease that
/// it loses.
/// A clone is a cheap handle of the same engine. The engine has two threads of its own (with a
/// [`Recorder`](crate::Recorder) a third, and the log lines of all engines of a process have one more), or
/// [shares](crate::EngineBuilder::threads_of) those of another engine, or has its calls
/// [on your runtime](crate::EngineBuilder::calls_on_current_runtime). The threads live while a handle
/// of the engine lives: an `Engine`, a [`Lock`], a [`Lease`](crate::Lease) or a [`ReentryScope`]. After the last handle
/// is dropped, the threads send what is queued, for at most one `command_timeout` (default 1 s), and end. No caller
/// waits for them. So a program that ends right after a drop leaves the key on the server until its ttl is over. Call
/// `release().await` or [`shutdown`](Self::shutdown) first.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::Engine;
/// use leasehold_memory::MemoryTransport;
///
/// let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let lease = engine.lock("orders:42").acquire().await?;
/// lease.release().await?;
/// engine.shutdown(Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    handle: Handle,
}

/// The state of an engine at one moment, and its counters since it was built. [`Engine::snapshot`] reads it. With serde the
/// key of a time ends in `_ms`: whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The label of the engine, as [`Engine::label`].
    pub label: EngineLabel,
    /// Leases that are held now.
    pub held: u64,
    /// Leases among `held` that are in jeopardy: a renewal was not confirmed.
    pub jeopardy: u64,
    /// Callers that are queued now, those of semaphores, latches and permits included.
    pub waiting: u64,
    /// Keys that a caller of this engine holds, waits for or releases now, semaphores, latches and permits
    /// included.
    pub entries: u64,
    /// Owners that the engine closes in the background: it repeats a release until the server has confirmed it.
    pub closing: u64,
    /// Acquires and releases that wait for their node before they are sent: it has calls to answer, or is silent.
    pub unsent: u64,
    /// Nodes that have answered nothing since a call was sent that had no answer in time. Each gets one call at a time.
    pub silent_nodes: u64,
    /// How long the longest waiting caller has waited. `None`: no caller waits.
    #[serde(rename = "oldest_waiting_ms", serialize_with = "millis_if_known")]
    pub oldest_waiting: Option<Duration>,
    /// Leases returned to callers. A further lease on a hold of a re-entry scope is not counted.
    pub granted: u64,
    /// Leases among `granted` that were released or dropped, whatever the server answered.
    pub released: u64,
    /// Leases among `granted` that were lost.
    pub lost: u64,
    /// How often a lease went from held to in jeopardy.
    pub jeopardies: u64,
    /// Renewals that the server confirmed.
    pub renewals: u64,
    /// Renewals that were not confirmed: no answer, a refusal, or an answer after the latest execution time.
    pub renewals_failed: u64,
    /// Acquire commands sent to a server.
    pub asks: u64,
    /// Events that the [`Recorder`](crate::Recorder) was not told, because it was too slow or has panicked.
    pub events_dropped: u64,
    /// Whether the recorder panicked. The engine does not call it any more.
    pub recorder_panicked: bool,
    /// Log lines of all engines of this process that were not written, because the `tracing` subscriber panicked or was
    /// too slow.
    pub log_lines_dropped: u64,
    /// Whether both lanes are open and every slot is served by a connected node. A node without slots does not count:
    /// an empty master that waits for a migration, or that cannot be reached, stops no lock from working. A slot that
    /// no node serves does count: its locks cannot be acquired. `false` after [`shutdown`](Engine::shutdown) has ended.
    pub connected: bool,
}

impl Engine {
    pub(crate) fn of(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns a handle of the lock with this name. The handle is the builder of a call. Making it costs one allocation
    /// and sends nothing. An invalid name is an error of the call that uses the handle: a name has 1 byte to 8 KiB, the
    /// engine's `name_prefix` included.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lock = engine.lock("orders:42");
    /// let first = lock.acquire().await?;
    /// first.release().await?;
    /// let second = lock.acquire().await?; // a handle can be used again
    /// # drop(second);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref(), HoldKind::Exclusive)
    }

    /// Returns a handle of the lock with this name, with fencing tokens from a counter that the server keeps beside the
    /// lock. The tokens of a name rise with each grant, also if the server's clock steps back, and also across Java
    /// clients that take the lock with Redisson's `getFencedLock`. [`EngineConfig::fencing`](crate::EngineConfig::fencing)
    /// says how the counter moves. All else is as with [`lock`](Self::lock), and the two exclude each other.
    ///
    /// Compare a token only with tokens of the same name from `fenced_lock`. A token of [`lock`](Self::lock) is a much
    /// larger number. A lease that another lease of its scope shares has the token of the first one.
    ///
    /// On a cluster no fenced lock that is free is granted while its slot is moved: its two keys are at different nodes
    /// for a moment. The call waits until the move is over.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lock = engine.fenced_lock("orders:42");
    /// let first = lock.acquire().await?;
    /// let token = first.fencing_token(); // store it beside the data
    /// first.release().await?;
    /// assert!(lock.acquire().await?.fencing_token() > token);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref(), HoldKind::Fenced(self.inner().config.fencing))
    }

    /// Returns a handle of the lock with this name whose callers poll: nothing is subscribed and nothing is published,
    /// as with Redisson's `getSpinLock`. The pause between two polls is 1 ms at first, and doubles up to 128 ms. One
    /// engine sends the polls of one caller for each name, and at most 5,000 polls and other retries a second to a
    /// node. All else is as with [`lock`](Self::lock), and the two exclude each other.
    ///
    /// Use it for locks that are rarely contended and held for milliseconds, where messages to all subscribers cost more
    /// than polls. A caller of [`lock`](Self::lock) in another process that waits for the same name gets no notice of the
    /// release and finds it by its next regular check, after about 1 s; a Java `RLock` sleeps until the ttl is over. So use one
    /// kind for one name.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let lease = engine.spin_lock("counter:7").wait(Duration::from_millis(500)).acquire().await?;
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref(), HoldKind::Spin)
    }

    /// Returns a handle of the lock with this name whose callers are granted the lock in the order in which they came,
    /// across all processes: first come, first served, as with Redisson's `getFairLock`. Each waiting caller has a place
    /// in a line on the server. Give a fair lock a name of its own: it and a lock of the same name
    /// made by [`lock`](Self::lock) exclude each other, but the release of one gives no notice to the callers of the other.
    ///
    /// A caller keeps its place while its engine runs: the engine confirms the places of its callers every second. If a
    /// process dies, its places stay in the line. A place that its engine has not confirmed for 1.5 s is silent. A silent
    /// place at the head of a free lock is removed after at most 4.9 s, together with the silent places behind it. So a
    /// process that died delays the other engines by 4.9 s at most. Clients of Redisson that wait alone do not remove it
    /// so early: they wait up to [`EngineConfig::fair_wait_ms`](crate::EngineConfig). A caller whose place was removed although it still waits
    /// goes to the end of the line, which the metric `leasehold_places_lost_total` counts. `try_acquire`, and a wait of
    /// zero, never enter the line: they get the lock only if it is free and no caller waits.
    /// [`EngineConfig::fair_places_max`](crate::EngineConfig) limits the places of one engine for each name.
    ///
    /// Use it where no caller may be passed by. The order costs speed: a grant that had to wait costs up to four
    /// commands, and the lock passes to another process after nearly each release.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let printer = engine.fair_lock("printer");
    /// let lease = printer.wait(Duration::from_secs(30)).acquire().await?;
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref(), HoldKind::Fair)
    }

    /// Returns the read/write lock with this name: many callers read, or one writes. A read/write lock and a lock made by
    /// [`lock`](Self::lock) need different names.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let catalogue = engine.rw_lock("catalogue");
    /// let (one, other) = (catalogue.read().acquire().await?, catalogue.read().acquire().await?);
    /// assert!(catalogue.write().try_acquire().await?.is_none());
    /// (one.release().await?, other.release().await?);
    /// let writer = catalogue.write().acquire().await?;
    /// assert!(catalogue.read().try_acquire().await?.is_none());
    /// # drop(writer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.handle.clone(), name.as_ref())
    }

    /// Returns a handle of the semaphore with this name whose permits are leases: they have owners, expire and are renewed.
    /// Making it sends nothing. An invalid name is an error of the call that uses the handle. The name must not be that of
    /// a [`semaphore`](Self::semaphore), which keeps its number in the same place.
    ///
    /// On a cluster no permit is granted or given back while the slot of the name is moved: two keys are at different
    /// nodes for a moment. The calls wait until the move is over. Permits that are held are renewed.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(2).await?;
    /// let permit = downloads.acquire(1).await?;
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(&self, name: impl AsRef<str>) -> Permits {
        Permits::new(self.handle.clone(), name.as_ref())
    }

    /// Returns a handle of the semaphore with this name: a number of permits that all processes share. Making it sends
    /// nothing. An invalid name is an error of the call that uses the handle.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.semaphore("downloads");
    /// downloads.try_set(2).await?;
    /// downloads.acquire(1).await?;
    /// downloads.release(1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.handle.clone(), name.as_ref())
    }

    /// Returns a handle of the latch with this name: it opens once it is counted down to zero. Making it sends nothing. An
    /// invalid name is an error of the call that uses the handle.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(1).await?;
    /// ready.count_down().await?;
    /// ready.opened().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self.handle.clone(), name.as_ref())
    }

    /// Acquires many independent locks in one call. Each lock has its own outcome; see [`AcquireAll`] for the order,
    /// the limits and how to read the outcomes as they come.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let names = ["shard:1", "shard:2", "shard:3"];
    /// let outcomes = engine.acquire_all(names).wait(Duration::from_secs(1)).await;
    /// for (name, outcome) in names.iter().zip(&outcomes) {
    ///     match outcome {
    ///         Ok(lease) => println!("{name}: token {}", lease.fencing_token()),
    ///         Err(error) => println!("{name}: {error}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> AcquireAll {
        AcquireAll::new(self.handle.clone(), names)
    }

    /// Releases many leases in one call. From this call on, no lease of the list is held, whatever the servers answer.
    /// The answers come in the order of the leases. The releases go to all nodes side by side, the earliest deadline
    /// first. At most `bulk_in_flight_max` releases (default 256) are unanswered on one node.
    ///
    /// # Errors
    /// Each lease has its own result, as [`Lease::release`]. If a node has answered none of its releases for
    /// `unavailable_after` (default 10 s), the remaining releases of that node are [`Unknown`](ReleaseError::Unknown),
    /// and the engine repeats them in the background.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answers. The releases go on.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let outcomes = engine.acquire_all(["a", "b", "c"]).await;
    /// let leases: Vec<_> = outcomes.into_iter().flatten().collect();
    /// for result in engine.release_all(leases).await {
    ///     result?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_all(
        &self,
        leases: Vec<Lease>,
    ) -> impl Future<Output = Vec<Result<(), ReleaseError>>> + Send + use<> {
        Lease::release_all(&self.handle, leases, ReleasedBy::ByCall)
    }

    /// Makes a new re-entry scope. Calls with the same scope share one hold of a lock instead of excluding each other.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let scope = engine.reentry();
    /// let outer = engine.lock("acct:7").reentry(&scope).acquire().await?;
    /// let inner = engine.lock("acct:7").reentry(&scope).acquire().await?; // does not wait
    /// assert_eq!(inner.hold_count(), 2);
    /// # drop(outer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentry(&self) -> ReentryScope {
        ReentryScope::new(self.handle.clone(), ScopeId::new(self.inner().next_id()))
    }

    /// Returns a stream of the losses of this engine from now on. A reader that falls behind by more than 131,072 losses, or
    /// by 64 MiB of names, gets [`LossEvent::Missed`](crate::LossEvent::Missed) with the number that it missed. The stream
    /// keeps no engine alive.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LossEvent;
    ///
    /// let mut losses = engine.losses();
    /// tokio::spawn(async move {
    ///     while let Some(event) = losses.next().await {
    ///         match event {
    ///             LossEvent::Lost(loss) => eprintln!("lost {} after {:?}: {}", loss.name, loss.held, loss.reason),
    ///             other => eprintln!("{other:?}"),
    ///         }
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn losses(&self) -> Losses {
        Losses::new(self.inner().losses.clone(), self.inner().process.clone())
    }

    /// Reads the engine's state and counters. The call visits all keys of the engine, so it is meant for a status page,
    /// not for every request.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// let snapshot = engine.snapshot();
    /// assert_eq!((snapshot.held, snapshot.lost), (1, 0));
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.inner();
        if inner.process.is_forked() {
            return Snapshot { label: inner.label, ..Snapshot::default() };
        }
        let (totals, now) = (&inner.events.totals, inner.clock.now());
        let seen = Seen::of(inner, now);
        Snapshot {
            label: inner.label,
            held: totals.held.value(),
            jeopardy: seen.jeopardy,
            waiting: totals.callers.value(),
            entries: (inner.table.len() + inner.counters.len()) as u64,
            closing: totals.closing.value(),
            unsent: inner.dispatcher.unsent_calls() as u64,
            silent_nodes: inner.dispatcher.silent_nodes() as u64,
            oldest_waiting: seen.oldest.map(|oldest| now - oldest),
            granted: totals.granted.value(),
            released: totals.released.value(),
            lost: totals.lost.value(),
            jeopardies: totals.jeopardies.value(),
            renewals: totals.renewals.value(),
            renewals_failed: totals.renewals_failed.value(),
            asks: totals.asks.value(),
            events_dropped: inner.events.dropped(),
            recorder_panicked: inner.events.recorder_panicked(),
            log_lines_dropped: log::dropped(),
            connected: inner.is_connected(),
        }
    }

    /// Returns a reader of all metrics of this engine. `None`: the engine was built without
    /// [`EngineBuilder::metrics`](crate::EngineBuilder::metrics).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
    /// if let Some(metrics) = engine.metrics() {
    ///     println!("{} metrics", metrics.read().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> Option<Metrics> {
        let inner = self.inner();
        inner.events.numbers.clone().map(|numbers| Metrics::new(numbers, inner))
    }

    /// Returns the locks that callers of this engine waited for longest in the last one to two minutes, the most
    /// contended first. At most 128 locks. The engine logs the first five once a minute (target
    /// `leasehold::contention`, level INFO). A metric names the first ten if
    /// [`EngineConfig::hot_lock_names`](crate::EngineConfig) is set.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// for lock in engine.most_contended().iter().take(5) {
    ///     println!("{}: {} waits, {:?} together", lock.name, lock.waits, lock.waited);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn most_contended(&self) -> Vec<ContendedLock> {
        let inner = self.inner();
        if inner.process.is_forked() { Vec::new() } else { inner.hot.top() }
    }

    /// Checks the servers and the settings for what may cost a lock one day; see [`AuditReport`]. The audit sends about
    /// twenty commands to each server, so run it at start and by hand.
    ///
    /// # Cancel safety
    /// Dropping the future stops the audit. The audit changes nothing in any case.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::AuditLevel;
    ///
    /// let report = engine.audit().await;
    /// print!("{report}");
    /// if report.worst() == Some(AuditLevel::Error) {
    ///     return Err("the servers are not fit for locks".into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn audit(&self) -> impl Future<Output = AuditReport> + Send + use<> {
        let (inner, handle) = (self.inner().clone(), self.handle.clone());
        async move {
            let report = audit::run(inner).await;
            drop(handle); // the engine lives until then
            report
        }
    }

    /// Ends the engine in order. New and queued acquires get [`ShuttingDown`](crate::AcquireError::ShuttingDown). Every
    /// lease becomes lost ([`LossReason::Shutdown`](crate::LossReason::Shutdown)) before its release is sent. The
    /// report names every lock whose release was not confirmed within `timeout`.
    ///
    /// The releases are sent as those of [`release_all`](Self::release_all): 100,000 releases take seconds. Within
    /// `timeout` the call also waits, for at most 1 s, until the [`Recorder`](crate::Recorder) has been told every
    /// event. A second call returns an empty report at once.
    ///
    /// # Cancel safety
    /// Dropping the future stops the waiting. What was begun goes on until the last handle of the engine is gone.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// let report = engine.shutdown(Duration::from_secs(5)).await;
    /// assert_eq!(report.released, 1);
    /// for name in &report.unconfirmed {
    ///     eprintln!("{name} is free once its ttl is over");
    /// }
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        let inner = self.inner().clone();
        if inner.process.is_forked() || !inner.begin_shutdown() {
            return ShutdownReport::default();
        }
        let (sender, report) = tokio::sync::oneshot::channel();
        let until = inner.clock.now() + timeout;
        let if_cut_off = inner.calls_on_users_runtime().then(|| ShutdownReport::unconfirmed_all(&inner));
        inner.spawn({
            let inner = inner.clone();
            async move { drop(sender.send(shutdown::run(&inner, until).await)) }
        });
        let Ok(report) = inner.process.here(report).await else { return ShutdownReport::default() };
        let report = report.unwrap_or_else(|_| if_cut_off.unwrap_or_default());
        inner.end();
        report
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.handle.inner()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({}, {:?})", self.inner().capabilities.name, self.inner().events)
    }
}

#[derive(Default)]
struct Seen {
    jeopardy: u64,
    oldest: Option<Instant>,
}

impl Seen {
    fn of(inner: &Inner, now: Instant) -> Self {
        let mut seen = Self::default();
        inner.table.for_each_busy(|_, slot| {
            seen.oldest = [seen.oldest, slot.entry.oldest()].into_iter().flatten().min();
        });
        seen.oldest = [seen.oldest, inner.counters.oldest()].into_iter().flatten().min();
        inner.table.for_each_lease(|lease| {
            seen.jeopardy += u64::from(lease.is_in_jeopardy() && lease.is_held(now));
        });
        seen
    }
}
