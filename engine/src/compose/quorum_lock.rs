//! A lock of a quorum: attempts, pauses, and the lease of a majority.

use std::{
    fmt,
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use super::{
    arithmetic::majority,
    backoff::Backoff,
    holding::Holding,
    notices::Notices,
    outcome::{self, Outcome},
    patience::Patience,
    quorum_lease::QuorumLease,
    round::{self, Failure, Reached, RoundEnd},
    tend::{self, Again, Member},
    timer,
};
use crate::{
    AcquireError, Engine, EngineConfig, Lock, RunError,
    clock::Instant,
    error::Invalid,
    inner::Inner,
    metrics::{Composition, CompositionOutcome},
    transport::TransportError,
};

/// A handle of a lock of a [`Quorum`](crate::Quorum), and how it is acquired. The handle is the builder, as [`Lock`] is.
///
/// On each server lies the plain lock of this name. A plain [`Lock`], and another client's, excludes a lock of a quorum
/// on that server alone.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use leasehold::{Engine, Quorum};
/// # use leasehold_memory::MemoryTransport;
/// # let mut engines = Vec::new();
/// # for _server in 0..3 {
/// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
/// # }
/// let quorum = Quorum::over(engines)?;
/// let lock = quorum.lock("acct:7").wait(Duration::from_secs(5)).ttl(Duration::from_secs(10));
/// let lease = lock.acquire().await?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock handle does nothing until it is acquired"]
pub struct QuorumLock {
    engines: Arc<[Engine]>,
    name: Arc<str>,
    class: Option<Arc<str>>,
    wait: Option<Duration>,
    ttl: Option<Duration>,
    no_renewal: bool,
    max_hold: Option<Duration>,
}

impl QuorumLock {
    pub(super) fn new(engines: Arc<[Engine]>, name: &str) -> Self {
        let name = name.into();
        let shortest = |of: fn(&EngineConfig) -> Option<Duration>| {
            engines.iter().filter_map(|engine| of(&engine.inner().config)).min()
        };
        let (wait, max_hold) = (shortest(EngineConfig::wait), shortest(EngineConfig::max_hold));
        Self { engines, name, class: None, wait, ttl: None, no_renewal: false, max_hold }
    }

    /// Sets the class that the members count as in metrics. See [`Lock::class`].
    pub fn class(mut self, name: &str) -> Self {
        self.class = Some(name.into());
        self
    }

    /// Sets how long [`acquire`](Self::acquire) waits, counted from the call. Default: the shortest `wait_ms` of its engines,
    /// which is no limit. The call returns
    /// within this time and one command timeout (default 1 s). A wait of zero makes one attempt.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// Sets how long each server keeps the lock unless it is renewed. Default: the shortest ttl of the engines. At
    /// least 1 s, and at most each engine's `restart_grace` unless that is zero.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Switches renewal off: the lease ends after its ttl in any case, and a member that is lost is not tried again.
    pub fn no_renewal(mut self) -> Self {
        self.no_renewal = true;
        self
    }

    /// Sets for how long the lease is renewed, counted from the moment the caller takes it. See [`Lock::max_hold`].
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
        self
    }

    /// Waits for the lock, and returns a lease that is held until it is released, dropped or lost.
    ///
    /// Each attempt tries all servers at once, and returns with the grant that makes a majority. An attempt that cannot
    /// make one any more, or that lasts a command timeout (default 1 s; a sixth of the ttl where that is less),
    /// releases what it has. A pause of 10 to 200 ms follows. A notice that a member was released ends it earlier.
    /// There is no order among callers, also within one process.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`]: the [`wait`](Self::wait) is over, and a majority of the servers answered that the
    /// lock is held, in part at least. [`AcquireError::Unavailable`]: the wait is over, or `unavailable_after` (default
    /// 10 s) has passed, without answers of a majority. [`AcquireError::Invalid`]: a value cannot be used, or two
    /// members have reached the same server. The other errors are those of [`Lock::acquire`], and mean that so many
    /// members have such an error that the others are no majority.
    ///
    /// # Cancel safety
    /// Dropping the future releases every member that was granted, and gives up the others.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// # let quorum = Quorum::over(engines)?;
    /// use leasehold::AcquireError;
    ///
    /// match quorum.lock("orders:42").wait(Duration::from_secs(2)).acquire().await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(AcquireError::TimedOut { .. }) => println!("409: another request works on this order"),
    ///     Err(AcquireError::Unavailable { .. }) => println!("503: no majority of the lock servers answers"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<QuorumLease, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move {
            match lock.ask(false).await? {
                Some(lease) => Ok(lease),
                None => unreachable!("a caller that waits is never told that the lock is held"),
            }
        }
    }

    /// Takes the lock if it is free, in one attempt. `None`: a majority of the servers answered, and the lock is held,
    /// in part at least.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without answers of a majority within one command timeout the error is
    /// [`AcquireError::Unavailable`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// # let quorum = Quorum::over(engines)?;
    /// let held = quorum.lock("nightly").try_acquire().await?;
    /// assert!(held.is_some());
    /// assert!(quorum.lock("nightly").try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<QuorumLease>, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move { lock.ask(true).await }
    }

    /// Acquires the lock, runs `work` with the lease, and releases the lock. When the lease is lost, or when this future
    /// is dropped, the future of the work is dropped *before* any release is sent. See [`Lock::run`].
    ///
    /// # Errors
    /// The first of these that applies: [`RunError::Acquire`], [`RunError::Work`], [`RunError::Lost`],
    /// [`RunError::Release`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then releases the members.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// # let quorum = Quorum::over(engines)?;
    /// let done = quorum.lock("acct:7").run(async |lease| {
    ///     lease.ensure_held()?;
    ///     Ok::<_, leasehold::NotHeld>(42)
    /// });
    /// assert_eq!(done.await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, RunError<E>>> + use<T, E, W>
    where
        W: AsyncFnOnce(&QuorumLease) -> Result<T, E>,
    {
        let acquire = self.acquire();
        async move {
            let lease = acquire.await.map_err(RunError::Acquire)?;
            lease.holding().run(work(&lease)).await
        }
    }

    async fn ask(&self, only_try: bool) -> Result<Option<QuorumLease>, AcquireError> {
        let engines: Vec<_> = self.engines.iter().map(|engine| engine.inner().clone()).collect();
        let Some(first) = engines.first() else { return Err(AcquireError::ShuttingDown) }; // `over` takes 3 at least
        first.process.check()?;
        let outcome = Outcome::begin(first, Composition::Quorum, &self.name);
        let span = outcome.span();
        let call = Call::new(self, &engines, first);
        let result = span.around(pin!(call.run(only_try))).await;
        outcome.end(match &result {
            Ok(Some(_)) => CompositionOutcome::Acquired,
            Ok(None) => CompositionOutcome::Busy,
            Err(error) => outcome::of_error(error),
        });
        result
    }

    fn needed(&self) -> usize {
        #[cfg(leasehold_fault)]
        if crate::faults::Fault::SmallQuorum.is_on() {
            return self.engines.len() / 2;
        }
        majority(self.engines.len())
    }

    fn effective_ttl(&self) -> Duration {
        let shortest = self.engines.iter().map(|engine| engine.inner().config.ttl()).min();
        self.ttl.or(shortest).unwrap_or_default()
    }

    fn members(&self) -> Vec<Lock> {
        let ttl = self.effective_ttl();
        let member = |engine: &Engine| {
            let lock = engine.lock(&*self.name).ttl(ttl);
            let lock = self.class.iter().fold(lock, |lock, class| lock.class(class));
            let lock = self.max_hold.into_iter().fold(lock, Lock::max_hold);
            if self.no_renewal { lock.no_renewal() } else { lock }
        };
        self.engines.iter().map(member).collect()
    }
}

/// One acquire.
struct Call<'a> {
    lock: &'a QuorumLock,
    engines: &'a [Arc<Inner>],
    first: &'a Inner,
    members: Vec<Lock>,
    /// How long one attempt may last.
    limit: Duration,
}

impl<'a> Call<'a> {
    fn new(lock: &'a QuorumLock, engines: &'a [Arc<Inner>], first: &'a Inner) -> Self {
        let ttl = lock.effective_ttl();
        let limit = engines.iter().map(|engine| engine.config.request_timeout(ttl)).max().unwrap_or_default();
        Self { lock, engines, first, members: lock.members(), limit }
    }

    async fn run(&self, only_try: bool) -> Result<Option<QuorumLease>, AcquireError> {
        let joined = self.now();
        let until = self.lock.wait.map(|wait| joined + wait);
        let mut patience = Patience::new(joined, until, self.first.config.unavailable_after());
        let (mut backoff, mut notices) = (Backoff::new(RandomState::new().hash_one(())), Notices::default());
        loop {
            self.check_servers()?;
            notices.observe();
            let failure = match round::run(self.engines, &self.members, self.lock.needed(), self.limit).await
            {
                RoundEnd::Reached(reached) => match self.hold(reached) {
                    Some(lease) => return Ok(Some(lease)),
                    None => Failure { refused: vec![], was_answered: false, lasting: None, last_error: None },
                },
                RoundEnd::Failed(failure) => failure,
            };
            if let Some(lasting) = failure.lasting {
                return Err(lasting);
            }
            match failure.was_answered {
                true => patience.note_held(self.now()),
                false => patience.note_silent(failure.last_error.or_else(|| self.member_error())),
            }
            match only_try {
                true if failure.was_answered => return Ok(None),
                true => return Err(patience.unavailable(self.now() - joined)),
                false => {}
            }
            if let Some(error) = patience.give_up(self.now()) {
                return Err(error);
            }
            notices.watch(&self.members, &failure.refused);
            self.pause(&mut backoff, &patience, &mut notices, &failure.refused).await;
        }
    }

    async fn pause(
        &self,
        backoff: &mut Backoff,
        patience: &Patience,
        notices: &mut Notices,
        refused: &[usize],
    ) {
        let (pause, begun) = (backoff.next(), self.now());
        let [quiet, end] = [pause.quiet, pause.longest].map(|time| patience.cap(begun + time));
        timer::sleep(self.engines, quiet - begun).await;
        tokio::select! {
            () = notices.any_of(refused) => {}
            () = timer::sleep(self.engines, end - self.now()) => {}
        }
    }

    /// The lease of a majority. `None`: a grant came so late that the others are over.
    fn hold(&self, reached: Reached) -> Option<QuorumLease> {
        let holding = Holding::new(reached.leases, self.lock.needed());
        let lease = QuorumLease::new(self.lock.name.clone(), holding.clone());
        if !holding.is_held() {
            return None; // the lease is dropped here, and so released
        }
        for ((place, pending), lock) in reached.open.into_iter().enumerate().zip(&self.members) {
            let again = (!self.lock.no_renewal).then(|| self.again(lock.engine()));
            tend::start(&holding, Member { place, lock: lock.clone(), pending, again });
        }
        Some(lease)
    }

    // `engine`: that of the member. The clocks of two engines may show different moments.
    fn again(&self, engine: &Inner) -> Again {
        let until = self.lock.max_hold.map(|time| engine.clock.now() + time);
        let ttl = self.lock.effective_ttl();
        let first = (ttl / 30).clamp(FIRST_AGAIN_MIN, FIRST_AGAIN_MAX);
        Again { first, pause: ttl / 3, until }
    }

    /// Why a member gave no answer, as far as its engine knows: the server is up for too short a time, or was never
    /// reached.
    fn member_error(&self) -> Option<TransportError> {
        self.members.iter().find_map(|lock| {
            let (engine, key) = (lock.engine(), lock.lock_key().ok()?);
            if !engine.calls.is_open() {
                return Some(engine.calls.last_error());
            }
            engine.check_restart_grace(&key, engine.clock.now()).err()
        })
    }

    /// Refuses two members whose connections have reached one server.
    fn check_servers(&self) -> Result<(), Invalid> {
        let mut seen: Vec<Option<Arc<str>>> = Vec::new();
        for (place, lock) in self.members.iter().enumerate() {
            let (topology, key) = (lock.engine().calls.topology(), lock.lock_key()?);
            let run = topology.as_deref().and_then(|topology| topology.serving(key.slot())?.run_id.clone());
            if let Some(first) = seen.iter().position(|other| run.is_some() && *other == run) {
                return Err(same("engines", first, place, "have reached one server"));
            }
            seen.push(run);
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.first.clock.now()
    }
}

/// Two members with one server.
pub(super) fn same(field: &'static str, first: usize, second: usize, why: &str) -> Invalid {
    let remedy =
        "give each member a server of its own; members on one server exclude each other and fail together";
    Invalid::new(field, format_args!("members {first} and {second} {why}"), remedy)
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuorumLock({:?}, {:?})", self.name, self.engines)
    }
}

/// The pause before a member that was not granted at first is tried again. A majority without reserve is lost with one
/// server.
const FIRST_AGAIN_MIN: Duration = Duration::from_millis(50);
const FIRST_AGAIN_MAX: Duration = Duration::from_secs(1);
