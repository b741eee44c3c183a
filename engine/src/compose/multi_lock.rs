//! The multi lock: all of several locks, or none.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use super::{
    holding::{Holding, engines_of},
    multi_error::MultiError,
    multi_lease::MultiLease,
    order::{SortKey, order},
    outcome::{self, Outcome},
    race::first_of,
    tend::{self, Member},
};
use crate::{
    AcquireError, Lease, Lock, LossReason, RunError,
    clock::Instant,
    error::Invalid,
    inner::Inner,
    metrics::{Composition, CompositionOutcome},
    transport::BoxFuture,
};

/// All of several locks, or none. The members may be locks of any kind and of any engines, each with its own ttl, class
/// and other settings. [`MultiLock::of`] makes it.
///
/// The members are acquired one after the other, in the same order in every process: by the bytes of their names, then
/// by the [`id`](crate::EngineConfig::id) of their engine. So two multi locks with common members cannot wait for each
/// other in a circle. A caller that holds one of the locks already, or acquires them one by one in another order, still
/// can: set a [`wait`](Self::wait).
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::MultiLock;
///
/// // A transfer needs both accounts.
/// let both = MultiLock::of([engine.lock("acct:9"), engine.lock("acct:7")]).wait(Duration::from_secs(5));
/// let lease = both.acquire().await?;
/// lease.ensure_held()?; // before each guarded step
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a multi lock does nothing until it is acquired"]
pub struct MultiLock {
    members: Arc<[Lock]>,
    wait: Option<Duration>,
}

impl MultiLock {
    /// The multi lock of these members. What cannot be used is an error of the call that acquires it.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::MultiLock;
    ///
    /// let shelves = MultiLock::of((1..=3).map(|shelf| engine.lock(format!("shelf:{shelf}"))));
    /// assert!(shelves.try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(members: impl IntoIterator<Item = Lock>) -> Self {
        Self { members: members.into_iter().collect(), wait: None }
    }

    /// Sets how long [`acquire`](Self::acquire) waits for all members together, counted from the call. A member that
    /// has a [`wait`](Lock::wait) of its own waits no longer than that either. Default: no limit.
    ///
    /// The call returns within this time and one command timeout (default 1 s) for each member that is left.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::MultiLock;
    ///
    /// let held = engine.lock("b").acquire().await?;
    /// let both = MultiLock::of([engine.lock("a"), engine.lock("b")]).wait(Duration::from_millis(50));
    /// assert!(both.acquire().await.is_err());
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// Waits for all members, and returns a lease that is held until it is released, dropped, or one of its members is
    /// lost. While later members are waited for, the earlier ones are held and renewed.
    ///
    /// # Errors
    /// [`MultiError::Invalid`]: the list is empty, names a lock twice, or its engines have no `id`.
    /// [`MultiError::Member`]: a member was not acquired; the error says which and why. [`MultiError::Lost`]: a member
    /// was lost before the last one was acquired. After each error no member is held.
    ///
    /// # Cancel safety
    /// Dropping the future releases every member that was acquired, and takes the caller from the queue of the member
    /// that it waits for.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::{MultiError, MultiLock};
    ///
    /// let both = MultiLock::of([engine.lock("acct:7"), engine.lock("acct:9")]);
    /// match both.acquire().await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(MultiError::Member { name, error, .. }) => println!("{name}: {error}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<MultiLease, MultiError>> + Send + use<> {
        let lock = self.clone();
        async move {
            match lock.take(false).await? {
                Some(lease) => Ok(lease),
                None => unreachable!("a caller that waits is never told that a member is held"),
            }
        }
    }

    /// Acquires all members if they are free. `None`: a member is held, and no member is held by this call.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::MultiLock;
    ///
    /// let both = MultiLock::of([engine.lock("acct:7"), engine.lock("acct:9")]);
    /// if let Some(lease) = both.try_acquire().await? {
    ///     lease.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<MultiLease>, MultiError>> + Send + use<> {
        let lock = self.clone();
        async move { lock.take(true).await }
    }

    /// Acquires all members, runs `work` with the lease, and releases them. When a member is lost, or when this future
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
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::MultiLock;
    ///
    /// let both = MultiLock::of([engine.lock("acct:7"), engine.lock("acct:9")]);
    /// let moved = both.run(async |lease| {
    ///     lease.ensure_held()?;
    ///     Ok::<_, leasehold::NotHeld>(42)
    /// });
    /// assert_eq!(moved.await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T, RunError<E, MultiError>>> + use<T, E, W>
    where
        W: AsyncFnOnce(&MultiLease) -> Result<T, E>,
    {
        let acquire = self.acquire();
        async move {
            let lease = acquire.await.map_err(RunError::Acquire)?;
            lease.holding().run(work(&lease)).await
        }
    }

    async fn take(&self, only_try: bool) -> Result<Option<MultiLease>, MultiError> {
        let Some(first) = self.members.first() else {
            return order(&[]).map(|_| None).map_err(MultiError::Invalid);
        };
        let outcome = Outcome::begin(first.engine(), Composition::Multi, self.names());
        let span = outcome.span();
        let result = span.around(pin!(self.take_all(first.engine(), only_try))).await;
        outcome.end(match &result {
            Ok(Some(_)) => CompositionOutcome::Acquired,
            Ok(None) => CompositionOutcome::Busy,
            Err(MultiError::Member { error, .. }) => outcome::of_error(error),
            Err(MultiError::Invalid(_) | MultiError::Lost { .. }) => CompositionOutcome::Failed,
        });
        result
    }

    async fn take_all(&self, first: &Inner, only_try: bool) -> Result<Option<MultiLease>, MultiError> {
        let order = order(&self.sort_keys()?)?;
        let until = self.wait.filter(|_| !only_try).map(|wait| (first.clock.now() + wait, first));
        let mut taken = Taken::new(self.members.len());
        for place in order {
            let Some(member) = self.members.get(place) else { continue };
            let asked = tokio::select! {
                biased;
                (lost, reason) = first_of(&mut taken.losses) => return Err(self.lost(lost, reason)),
                asked = ask(member, only_try, until) => asked,
            };
            match asked.map_err(|error| self.failed(place, error))? {
                Some(lease) => taken.add(place, lease),
                None => return Ok(None),
            }
        }
        self.hold(taken).map(Some)
    }

    // All members must be held now. A member that was lost with the last grant is found here.
    fn hold(&self, taken: Taken) -> Result<MultiLease, MultiError> {
        let losses = taken.leases.iter().enumerate().filter_map(|(place, lease)| {
            let not_held = lease.as_ref()?.ensure_held().err()?;
            Some((place, not_held.reason))
        });
        if let Some((place, reason)) = losses.min_by_key(|(place, _)| *place) {
            return Err(self.lost(place, reason));
        }
        let holding = Holding::new(taken.leases, self.members.len());
        for (place, lock) in self.members.iter().enumerate() {
            tend::start(&holding, Member { place, lock: lock.clone(), pending: None, again: None });
        }
        Ok(MultiLease::new(holding))
    }

    fn sort_keys(&self) -> Result<Vec<SortKey>, Invalid> {
        let engines = engines_of(&self.members);
        let key = |lock: &Lock| {
            let engine = engines.iter().position(|engine| Arc::ptr_eq(engine, lock.engine()));
            Ok(SortKey {
                name: lock.lock_key()?.on_server().to_owned(),
                id: lock.engine().config.id.clone(),
                engine: engine.unwrap_or_default(),
            })
        };
        self.members.iter().map(key).collect()
    }

    fn lost(&self, place: usize, reason: LossReason) -> MultiError {
        MultiError::Lost { name: self.name(place), place, reason }
    }

    fn failed(&self, place: usize, error: AcquireError) -> MultiError {
        MultiError::Member { name: self.name(place), place, error }
    }

    fn name(&self, place: usize) -> String {
        let key = self.members.get(place).and_then(|lock| lock.lock_key().ok());
        key.map(|key| key.name().to_owned()).unwrap_or_default()
    }

    fn names(&self) -> String {
        let shown: Vec<_> =
            (0..self.members.len().min(NAMES_SHOWN_MAX)).map(|place| self.name(place)).collect();
        shown.join(", ")
    }
}

/// The members that are acquired so far. Dropping it releases them.
struct Taken {
    leases: Vec<Option<Lease>>,
    losses: Vec<BoxFuture<'static, (usize, LossReason)>>,
}

impl Taken {
    fn new(members: usize) -> Self {
        Self { leases: (0..members).map(|_| None).collect(), losses: Vec::new() }
    }

    fn add(&mut self, place: usize, lease: Lease) {
        let lost = lease.lost();
        self.losses.push(Box::pin(async move { (place, lost.await) }));
        if let Some(member) = self.leases.get_mut(place) {
            *member = Some(lease);
        }
    }
}

async fn ask(
    member: &Lock,
    only_try: bool,
    until: Option<(Instant, &Inner)>,
) -> Result<Option<Lease>, AcquireError> {
    if only_try {
        return member.try_acquire().await;
    }
    let left = until.map(|(until, engine)| until - engine.clock.now());
    let wait = [left, member.wait_limit()].into_iter().flatten().min();
    let member = wait.map_or_else(|| member.clone(), |wait| member.clone().wait(wait));
    member.acquire().await.map(Some)
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiLock({:?}, wait {:?})", self.members, self.wait)
    }
}

/// How many names a span shows.
const NAMES_SHOWN_MAX: usize = 8;
