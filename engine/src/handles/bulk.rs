//! Many independent locks in one call, each with its own outcome.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    fmt,
    future::{Future, IntoFuture},
    hash::BuildHasherDefault,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::{alive::Handle, lease::Lease, lock};
use crate::{
    acquire::{
        bulk::{BulkAcquireCall, List},
        caller::CallerId,
        caller::Returned,
        enqueue::{self, ExplicitTerms},
        reply_to::{Answer, Told},
        wait,
    },
    dispatch::work::Work,
    error::{AcquireError, Invalid},
    key::{LockKey, NameFault, PrehashedHasher},
    lease::shared::Terms,
    metrics::{ClassId, LockEvent},
    release::{end, in_progress::ReleasedBy},
};

/// Many locks that are to be acquired in one call, each by itself: a lock that cannot be acquired stops no other. Its
/// methods are those of [`Lock`](crate::Lock) and hold for each name.
/// [`Engine::acquire_all`](crate::Engine::acquire_all) makes it.
///
/// Awaited, the call returns one outcome for each name, in the order of the names. [`start`](Self::start) returns each
/// outcome as soon as it is known instead.
///
/// The names go to all nodes side by side. At most `bulk_in_flight_max` names (default 256) of all such calls together
/// are unanswered on one node, so that callers of single locks do not wait behind a whole list. A name whose lock is
/// held waits in the queue of that lock, as any caller does, and does not count against this limit.
///
/// **The call is not all or nothing, and has no order.** Two callers with overlapping names and without a
/// [`wait`](Self::wait) can each hold what the other waits for, for ever. Set a `wait`, or release what was acquired.
///
/// # Errors
/// Each name has its own error, as [`Lock::acquire`](crate::Lock::acquire). A name that is in the list twice is
/// [`Invalid`](AcquireError::Invalid) at its second place. If a node has answered none of its names for
/// `unavailable_after` (default 10 s), the remaining names of that node are [`Unavailable`](AcquireError::Unavailable)
/// without being asked for.
///
/// # Cancel safety
/// Dropping the call, or its future, removes it from all queues, and releases every lock that was granted and not
/// handed out.
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
/// let outcomes = engine.acquire_all(["a", "b"]).wait(Duration::from_secs(1)).await;
/// let leases = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?; // all, or the first error and none
/// assert_eq!(leases.len(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is acquired until it is awaited or started"]
pub struct AcquireAll {
    handle: Handle,
    names: Vec<Name>,
    class: Option<ClassId>,
    wait: Option<Duration>,
    asked: ExplicitTerms,
}

/// The outcomes of an [`AcquireAll`] as they arrive. Dropping it removes the call from all queues, and releases every
/// lock that was granted and not handed out yet.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let mut acquiring = engine.acquire_all(["a", "b", "c"]).start();
/// while let Some((place, outcome)) = acquiring.next().await {
///     println!("name number {place}: {outcome:?}, {} to come", acquiring.left());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it stops the acquiring"]
pub struct BulkAcquire {
    handle: Handle,
    /// `None` once the outcome was handed out.
    keys: Vec<Option<Arc<LockKey>>>,
    /// Refused before anything was sent.
    refused: VecDeque<(usize, AcquireError)>,
    /// What is asked for; `None` if nothing is.
    list: Option<Arc<List>>,
    told: mpsc::UnboundedReceiver<Told>,
    left: usize,
}

type Name = Result<Arc<LockKey>, (String, NameFault)>;
type Outcome = Result<Lease, AcquireError>;

impl AcquireAll {
    pub(crate) fn new<N: AsRef<str>>(handle: Handle, names: impl IntoIterator<Item = N>) -> Self {
        let prefix = &handle.inner().config.name_prefix;
        let key =
            |name: N| LockKey::new(prefix, name.as_ref()).map_err(|fault| (name.as_ref().to_owned(), fault));
        let names = names.into_iter().map(key).collect();
        Self { handle, names, class: None, wait: None, asked: ExplicitTerms::default() }
    }

    /// Sets the class of all names in metrics, as [`Lock::class`](crate::Lock::class). Default: each name has the class
    /// that [`EngineConfig::classes`](crate::EngineConfig::classes) gives to it, else `default`.
    pub fn class(mut self, name: &str) -> Self {
        self.class = Some(self.handle.inner().events.classes.get(name));
        self
    }

    /// Sets how long the call waits for each lock that is held, as [`Lock::wait`](crate::Lock::wait). The wait of a
    /// name begins when its lock is first asked for. Default: no limit.
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
    /// let outcomes = engine.acquire_all(["a", "b"]).wait(Duration::from_secs(1)).await;
    /// # drop(outcomes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// Sets the ttl of all leases, as [`Lock::ttl`](crate::Lock::ttl). Default: the engine's ttl, 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// Switches renewal off for all leases, as [`Lock::no_renewal`](crate::Lock::no_renewal).
    pub fn no_renewal(mut self) -> Self {
        self.asked.no_renewal = true;
        self
    }

    /// Limits how long the leases are renewed, as [`Lock::max_hold`](crate::Lock::max_hold). The time of a lease begins
    /// when the lease is handed out.
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.asked.max_hold = Some(time);
        self
    }

    /// Begins to acquire. The acquiring goes on by itself, also while no outcome is read.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let mut acquiring = engine.acquire_all(["a", "b", "c"]).start();
    /// if let Some((place, outcome)) = acquiring.next().await {
    ///     let lease = outcome?; // the first lock that was free
    ///     println!("name number {place} is held: {}", lease.is_held());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(self) -> BulkAcquire {
        let (answers_to, told) = mpsc::unbounded_channel();
        let mut acquiring = BulkAcquire {
            left: self.names.len(),
            handle: self.handle,
            keys: Vec::new(),
            refused: VecDeque::new(),
            list: None,
            told,
        };
        acquiring.take_in(self.names);
        match acquiring.checked(self.wait, self.asked) {
            Ok((wait, terms)) => {
                let first = CallerId(acquiring.handle.inner().next_ids(acquiring.left as u64));
                let (class, asked) = (self.class, self.asked);
                let inner = acquiring.handle.inner().clone();
                acquiring.ask(Arc::new(List { inner, terms, class, asked, wait, first, answers_to }));
            }
            Err(error) => acquiring.refuse_all(&error),
        }
        acquiring
    }
}

impl BulkAcquire {
    /// The next outcome, with the place of its name in the list. `None`: every outcome was returned. A lease counts as
    /// granted from this call on.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let mut acquiring = engine.acquire_all(["a", "b"]).start();
    /// let mut leases = Vec::new();
    /// while let Some((_place, outcome)) = acquiring.next().await {
    ///     leases.push(outcome?);
    /// }
    /// assert_eq!(leases.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<(usize, Result<Lease, AcquireError>)> {
        while self.left > 0 {
            if let Some((place, error)) = self.refused.pop_front() {
                self.left -= 1;
                return Some((place, Err(error)));
            }
            let told = self.handle.inner().process.here(pin!(self.told.recv())).await;
            let told = match told {
                Ok(told) => told?,
                Err(forked) => {
                    self.refuse_all(&forked.into());
                    continue;
                }
            };
            if let Some(outcome) = self.outcome(told) {
                self.left -= 1;
                return Some(outcome);
            }
        }
        None
    }

    /// How many outcomes have not been returned yet.
    pub fn left(&self) -> usize {
        self.left
    }

    // A grant that arrives after its deadline is released, and its caller is queued again at the head.
    fn outcome(&mut self, told: Told) -> Option<(usize, Outcome)> {
        let Told { place, queued: Returned { joined, late }, answer } = told;
        let inner = self.handle.inner();
        let outcome = match answer {
            Ok(Answer::PendingGrant(pending_grant)) => lock::take(inner, pending_grant),
            Ok(Answer::Refused(refusal)) => lock::refused(inner, refusal, joined).map_or(Ok(None), Err),
            Err(error) => Err(error),
        };
        let (key, list) = self.keys[place].take().zip(self.list.as_ref()).expect("told once, when asked for");
        if let Ok(None) = outcome {
            self.keys[place] = Some(key.clone());
            let returned = Some(Returned { joined, late: late.saturating_add(1) });
            BulkAcquireCall { key, place, list: list.clone(), returned }.queue_up(None);
            return None;
        }
        wait::tell_end(inner, &key, list.labels_of(&key), joined, &outcome);
        let taken = outcome.transpose()?;
        Some((place, taken.map(|taken| Lease::new(taken.into_lease(), self.handle.clone()))))
    }

    fn take_in(&mut self, names: Vec<Name>) {
        let mut places: Places =
            HashMap::with_capacity_and_hasher(names.len(), BuildHasherDefault::default());
        for (place, name) in names.into_iter().enumerate() {
            let key = name.map_err(|(name, fault)| lock::bad_name(&name, &fault.to_string()));
            match key.and_then(|key| only_once(&mut places, key, place)) {
                Ok(key) => self.keys.push(Some(key)),
                Err(invalid) => {
                    self.keys.push(None);
                    self.refused.push_back((place, AcquireError::Invalid(invalid)));
                }
            }
        }
    }

    fn checked(
        &self,
        wait: Option<Duration>,
        asked: ExplicitTerms,
    ) -> Result<(Option<Duration>, Terms), AcquireError> {
        let inner = self.handle.inner();
        inner.process.check()?;
        inner.check_open()?;
        Ok((
            lock::checked_wait(inner, wait)?,
            lock::checked_terms(inner, crate::transport::HoldKind::Exclusive, asked, ClassId::DEFAULT)?,
        ))
    }

    fn ask(&mut self, list: Arc<List>) {
        let inner = self.handle.inner();
        for key in self.keys.iter().flatten() {
            inner.events.record_lock(list.labels_of(key), LockEvent::WaitStarted);
        }
        let keys = self.keys.iter().enumerate().filter_map(|(place, key)| Some((place, key.clone()?)));
        let enqueue = |(place, key)| {
            Box::new(BulkAcquireCall { key, place, list: list.clone(), returned: None }) as Box<dyn Work>
        };
        inner.dispatcher.add_bulk(&inner.core, keys.map(enqueue));
        self.list = Some(list);
    }

    fn refuse_all(&mut self, error: &AcquireError) {
        for (place, key) in self.keys.iter_mut().enumerate() {
            if key.take().is_some() {
                self.refused.push_back((place, error.clone()));
            }
        }
    }
}

type Places = HashMap<Arc<LockKey>, usize, BuildHasherDefault<PrehashedHasher>>;

// The second caller would wait for the first, and the user cannot release the first before the call has returned.
fn only_once(places: &mut Places, key: Arc<LockKey>, place: usize) -> Result<Arc<LockKey>, Invalid> {
    match places.entry(key.clone()) {
        hash_map::Entry::Vacant(vacant) => {
            vacant.insert(place);
            Ok(key)
        }
        hash_map::Entry::Occupied(first) => {
            let remedy = format!("is in the list before, at place {}; name each lock once", first.get());
            Err(lock::bad_name(key.name(), &remedy))
        }
    }
}

// First the channel is closed, so that nothing new is queued. Then every caller leaves its queue, and the granted locks
// are released in turn: thousands of releases at once would delay other calls.
impl Drop for BulkAcquire {
    fn drop(&mut self) {
        let inner = self.handle.inner();
        if inner.process.is_forked() {
            return;
        }
        self.told.close();
        let told = std::iter::from_fn(|| self.told.try_recv().ok());
        let untaken = told.filter_map(|told| match told.answer {
            Ok(Answer::PendingGrant(pending_grant)) => pending_grant.decline(),
            Ok(Answer::Refused(_)) | Err(_) => None,
        });
        drop(end::release_in_turn(inner, untaken, ReleasedBy::ByDrop));
        let Some(list) = &self.list else { return };
        for (place, key) in self.keys.iter().enumerate() {
            if let Some(key) = key {
                enqueue::leave(inner, key, list.caller(place));
                inner.events.record_lock(list.labels_of(key), LockEvent::Cancelled);
            }
        }
    }
}

/// What has come so far. Dropped in the middle, its leases go back in turn too.
struct Outcomes {
    handle: Handle,
    of: Vec<Option<Outcome>>,
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        let leases = self.of.drain(..).flatten().flatten().collect();
        drop(Lease::release_all(&self.handle, leases, ReleasedBy::ByDrop));
    }
}

impl IntoFuture for AcquireAll {
    type Output = Vec<Result<Lease, AcquireError>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut acquiring = self.start();
            let outcomes = acquiring.keys.iter().map(|_| None).collect();
            let mut outcomes = Outcomes { handle: acquiring.handle.clone(), of: outcomes };
            while let Some((place, outcome)) = acquiring.next().await {
                outcomes.of[place] = Some(outcome);
            }
            let of = std::mem::take(&mut outcomes.of);
            of.into_iter().map(|outcome| outcome.unwrap_or(Err(AcquireError::ShuttingDown))).collect()
        })
    }
}

impl fmt::Debug for AcquireAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AcquireAll({} names, {:?})", self.names.len(), self.asked)
    }
}

impl fmt::Debug for BulkAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkAcquire({} of {} left)", self.left, self.keys.len())
    }
}
