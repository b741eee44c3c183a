use std::{
    error::Error,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::sync::oneshot;
use tracing::field::Empty;

use super::alive::Handle;
use crate::{
    error::{Invalid, NotHeld, ReleaseError, RenewError},
    fencing::FencingToken,
    inner::Inner,
    lease::{
        shared::LeaseCore,
        state::{LeaseState, LossReason},
    },
    log::Span,
    process::Process,
    release::{
        downgrade::{self, Downgrade},
        end::{self, Receipt},
        in_progress::ReleasedBy,
        send,
    },
    renewal::{
        inbox::Order,
        manual::{AnswerTo, ManualOutcome},
    },
    transport::{ErrorKind, HoldKind, TransportError},
};

/// A lock that is held, until it is released, dropped or lost. [`Lock::acquire`](crate::Lock::acquire) returns it.
///
/// Dropping the lease releases the lock in the background. The drop never blocks and needs no runtime. Prefer
/// [`release`](Self::release): only its answer says that the lock was held to the end. Mind that `let _ =
/// lock.acquire().await?` drops the lease, and so releases the lock, at once.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let lease = engine.lock("orders:42").acquire().await?;
/// println!("{} with token {}", lease.name(), lease.fencing_token());
/// lease.ensure_held()?; // before each guarded step
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    core: Arc<LeaseCore>,
    /// The kind that the holder asked for.
    side: HoldKind,
    handle: Option<Handle>,
}

impl Lease {
    pub(crate) fn new((core, side): (Arc<LeaseCore>, HoldKind), handle: Handle) -> Self {
        Self { core, side, handle: Some(handle) }
    }

    /// The lock's name, without the engine's `name_prefix`.
    pub fn name(&self) -> &str {
        self.core.key.name()
    }

    /// Whether the lease is held now. The engine reads this process's clock at the call and compares it with the
    /// lease's deadline. The answer is `true` only before the deadline, and never again after it was `false`. It says
    /// nothing about the moment after the call: see [`fencing_token`](Self::fencing_token).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// while lease.is_held() {
    ///     // one step of the work
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.core.is_held(self.handle().inner().clock.now())
    }

    /// `Ok` while the lease is held. For use with `?` before each guarded step.
    ///
    /// # Errors
    /// [`NotHeld`]: the lease is lost, with the reason.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// for step in 0..3 {
    ///     lease.ensure_held()?;
    ///     println!("step {step}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        match self.state() {
            LeaseState::Held | LeaseState::Jeopardy => Ok(()),
            LeaseState::Lost(reason) => Err(NotHeld { reason }),
        }
    }

    /// The lease's state: held, in jeopardy (a renewal was not confirmed), or lost with the reason.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LeaseState;
    ///
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// match lease.state() {
    ///     LeaseState::Held => println!("held"),
    ///     LeaseState::Jeopardy => println!("held for {:?} unless a renewal is confirmed", lease.remaining()),
    ///     LeaseState::Lost(reason) => println!("lost: {reason}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.core.state(self.handle().inner().clock.now())
    }

    /// How long the lease is held from now on if no renewal is confirmed. Zero if the lease is lost. The engine renews
    /// every third of the ttl, so the value rises again with each confirmed renewal.
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
    /// if lease.remaining() < Duration::from_secs(2) {
    ///     println!("too little time for the next step");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        let now = self.handle().inner().clock.now();
        if self.core.is_live() { self.core.deadline() - now } else { Duration::ZERO }
    }

    /// Waits until the lease is lost, and returns the reason. If no renewal is confirmed, the future completes at most
    /// 100 ms after the deadline. It completes earlier if the server says that the lock is not held, or at a shutdown. It
    /// never completes if the lease is released before. The future owns what it needs.
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
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// tokio::select! {
    ///     reason = lease.lost() => return Err(reason.into()),
    ///     () = async { /* the work */ } => {}
    /// }
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        lost(self.core.clone(), self.handle().inner().process.clone())
    }

    /// A number that is higher than that of every earlier holder of this lock, as long as the server's clock does not step
    /// back, and no failover moves the lock to a server whose clock is behind. The tokens of a
    /// [`fenced_lock`](crate::Engine::fenced_lock) rise even then. Readers that share a lock may share a number. Store the
    /// number beside the data, and refuse a write with a smaller number: the lock avoids work that is done twice, the token
    /// protects the data. The [guide](crate::guide::fencing) shows how.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// let token: i64 = lease.fencing_token().as_i64();
    /// println!("UPDATE orders SET state = 'paid', token = {token} WHERE id = 42 AND token <= {token}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.core.token
    }

    /// How many leases share this hold: those of one re-entry scope, or of the readers of a read/write lock in this
    /// engine. 1 if the lease shares it with no other.
    pub fn hold_count(&self) -> u32 {
        self.core.holds()
    }

    /// Asks the server to keep the lock for at least `ttl` from now on. The call never shortens the lease. The regular
    /// renewals go on.
    ///
    /// # Errors
    /// [`RenewError::Lost`]: the lease is lost. [`RenewError::Released`]: the lease was released before the renewal was
    /// confirmed. [`RenewError::Unknown`]: no definite answer; the deadline has not moved. [`RenewError::Invalid`]: the
    /// ttl cannot be used. [`RenewError::LimitReached`]: `inbox_max` is reached. [`RenewError::ShuttingDown`]: the
    /// engine has ended.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the request.
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
    /// lease.renew(Duration::from_secs(120)).await?; // a step follows that must not be interrupted
    /// assert!(lease.remaining() > Duration::from_secs(100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self, ttl: Duration) -> impl Future<Output = Result<(), RenewError>> + Send + use<> {
        let (inner, core) = (self.handle().inner().clone(), self.core.clone());
        async move {
            inner.config.check_ttl("ttl", ttl, inner.capabilities.ttl_max).map_err(RenewError::Invalid)?;
            let (sender, answer) = oneshot::channel();
            let answer_to = AnswerTo::new(|answer| drop(sender.send(answer)));
            if inner.process.is_forked() {
                return Err(RenewError::Lost(LossReason::Forked));
            }
            if let Some(reason) = core.loss() {
                return Err(RenewError::Lost(reason));
            }
            if inner.inboxes.is_full(core.key.slot()) {
                return Err(RenewError::LimitReached { limit: "inbox_max", value: inner.config.inbox_max });
            }
            inner.inboxes.push(core.key.slot(), Order::Renew(core.clone(), ttl, answer_to));
            let answer = tokio::select! {
                biased;
                answer = answer => answer,
                reason = lost(core.clone(), inner.process.clone()) => return Err(RenewError::Lost(reason)),
                () = inner.ended_for_users() => return Err(RenewError::ShuttingDown), // no task empties the inbox any more
            };
            match answer {
                Ok(ManualOutcome::Renewed) => Ok(()),
                Ok(ManualOutcome::Lost(reason)) => Err(RenewError::Lost(reason)),
                Ok(ManualOutcome::Released) => Err(RenewError::Released),
                Ok(ManualOutcome::Failed(last_error)) => Err(RenewError::Unknown(last_error)),
                Err(_) if inner.check_open().is_err() => Err(RenewError::ShuttingDown),
                Err(_) => Err(RenewError::Unknown(renewal_restarted())),
            }
        }
    }

    /// Turns a write lease of a read/write lock into a read lease, without letting another writer in between. From this
    /// call on the lease reads. If other leases of its scope write, they keep the lock to themselves, and the call
    /// returns at once. Otherwise the call returns when the server lets other readers in. The engine repeats the request
    /// until a server has answered or the lease is lost; meanwhile the lease is held as before.
    ///
    /// # Errors
    /// [`DowngradeError::NotAWriteLock`] with the unchanged lease: the lease is not a write lease.
    /// [`DowngradeError::Lost`]: the lease is lost.
    ///
    /// # Cancel safety
    /// Dropping the future drops the lease, which releases it.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let prices = engine.rw_lock("prices");
    /// let writer = prices.write().acquire().await?;
    /// // write, then read what was written while other readers read it too
    /// let reader = writer.downgrade().await?;
    /// let other = prices.read().acquire().await?;
    /// assert!(reader.is_held() && other.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(mut self) -> Result<Lease, DowngradeError> {
        let process = self.handle().inner().process.clone();
        if process.is_forked() {
            return Err(DowngradeError::Lost(LossReason::Forked));
        }
        match downgrade::begin(self.handle().inner(), &self.core, self.side) {
            Downgrade::Lost(reason) => return Err(DowngradeError::Lost(reason)),
            Downgrade::NotWriting => return Err(DowngradeError::NotAWriteLock(self)),
            Downgrade::Reads => self.side = HoldKind::Read,
        }
        let downgraded = process.here(pin!(self.core.downgraded())).await;
        downgraded.unwrap_or(Err(LossReason::Forked)).map_err(DowngradeError::Lost)?;
        Ok(self)
    }

    /// Releases the lock. From this call on the lease is not held, whatever the server answers. `Ok`: the lock was held
    /// to the end.
    /// If a caller of this engine waits for the same [exclusive lock](crate::Engine::lock), or for the same
    /// [fenced lock](crate::Engine::fenced_lock) in the mode `hybrid` (the default), it may get the lock without a command
    /// ([`hand_offs_max`](crate::EngineConfig::hand_offs_max)). Then `Ok` says that the deadline had not passed; the server
    /// was not asked.
    ///
    /// # Errors
    /// [`ReleaseError::AlreadyLost`]: the lease was lost before, so another owner may have held the lock meanwhile.
    /// [`ReleaseError::ReleasedOrLost`]: an earlier send of this release was not answered, and a repeat found the lock
    /// not held by this lease. Either the earlier send released it, or the lease was lost before.
    /// [`ReleaseError::Unknown`]: no answer within the command timeout (default 1 s), in which the engine repeated the
    /// release. The engine goes on repeating it in the background.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer. The release goes on.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::ReleaseError;
    ///
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// match lease.release().await {
    ///     Ok(()) => {}
    ///     Err(ReleaseError::AlreadyLost(reason)) => eprintln!("another owner may have worked too: {reason}"),
    ///     Err(ReleaseError::Unknown { within, .. }) => eprintln!("the lock is free within {within:?}"),
    ///     Err(error) => eprintln!("{error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(mut self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let handle = self.handle.take();
        let mut receipt = handle
            .as_ref()
            .map(|handle| begin_release(handle.inner(), &self.core, self.side, ReleasedBy::ByCall));
        let core = self.core.clone();
        let span = Span::debug(|| {
            tracing::debug_span!(
                "lock.release",
                otel.kind = "client",
                otel.status_code = Empty,
                lock.class = handle.as_ref().map(|handle| handle.inner().events.labels(core.labels()).class.name()),
                lock.name = core.key.name(),
                lock.outcome = Empty,
                lock.fencing_token = %core.token,
            )
        });
        async move {
            let answered = pin!(async {
                match (&mut receipt, &handle) {
                    (Some(receipt), Some(handle)) => answer(receipt, &core, handle).await,
                    _given_back_before => Ok(()),
                }
            });
            let result = span.around(answered).await;
            tell_span(&span, &result);
            result
        }
    }

    /// Ends the lease and sends no release: the server keeps the lock until its ttl is over.
    pub(crate) fn leave_to_expire(mut self) {
        if let Some(handle) = self.handle.take().filter(|handle| !handle.inner().process.is_forked()) {
            end::leave_to_expire(handle.inner(), &self.core, self.side);
        }
    }

    /// Ends all leases at once. The future returns the results of their releases, in the order of the leases. The
    /// releases of the engine that `handle` belongs to are sent in turn.
    pub(crate) fn release_all(
        handle: &Handle,
        leases: Vec<Lease>,
        how: ReleasedBy,
    ) -> impl Future<Output = Vec<Result<(), ReleaseError>>> + Send + use<> {
        let handle = handle.clone();
        let (cores, strange) = Self::take_cores(&handle, leases);
        let receipts = match handle.inner().process.is_forked() {
            true => cores.iter().map(|_| forked()).collect(),
            false => end::release_in_turn(handle.inner(), cores.iter().cloned(), how),
        };
        async move {
            let mut results = Vec::with_capacity(cores.len() + strange.len());
            let (mut ours, mut strange) = (receipts.into_iter().zip(&cores), strange.into_iter().peekable());
            loop {
                // A lease of another engine comes before the lease that follows it in the list.
                if let Some((_, released)) = strange.next_if(|(place, _)| *place == results.len()) {
                    results.push(released.await);
                } else if let Some((mut receipt, (core, _))) = ours.next() {
                    results.push(answer(&mut receipt, core, &handle).await);
                } else {
                    break;
                }
            }
            results
        }
    }

    // A lease of another engine is released by that engine, and keeps its place in the list.
    fn take_cores(handle: &Handle, leases: Vec<Lease>) -> (Vec<(Arc<LeaseCore>, HoldKind)>, Vec<Strange>) {
        let (mut cores, mut strange): (Vec<_>, Vec<Strange>) = (Vec::new(), Vec::new());
        for (place, mut lease) in leases.into_iter().enumerate() {
            if Arc::ptr_eq(lease.handle().inner(), handle.inner()) {
                cores.push((lease.core.clone(), lease.side));
                lease.handle = None; // the list releases the lease now, so its drop does nothing
            } else {
                strange.push((place, Box::pin(lease.release())));
            }
        }
        (cores, strange)
    }

    /// The engine of the lease.
    pub(crate) fn engine(&self) -> &Arc<Inner> {
        self.handle().inner()
    }

    /// The state that the lease shares with the engine.
    pub(crate) fn core(&self) -> &Arc<LeaseCore> {
        &self.core
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("only `release` and `drop` take the handle, and both consume the lease")
    }
}

fn renewal_restarted() -> TransportError {
    TransportError::without_effect(
        ErrorKind::TimedOut,
        None,
        "the engine's renewal was begun again meanwhile",
    )
}

/// The release of a lease of another engine, with its place in the list.
/// Resolves once the lease is lost. In a forked child it resolves at once: no thread is there that would tell of a loss.
pub(crate) async fn lost(core: Arc<LeaseCore>, process: Process) -> LossReason {
    process.here(pin!(core.lost())).await.unwrap_or(LossReason::Forked)
}

// A forked child releases nothing: the lease is its parent's.
fn begin_release(inner: &Arc<Inner>, core: &Arc<LeaseCore>, side: HoldKind, how: ReleasedBy) -> Receipt {
    if inner.process.is_forked() { forked() } else { end::release(inner, core, side, how) }
}

fn forked() -> Receipt {
    Receipt::Done(Err(ReleaseError::AlreadyLost(LossReason::Forked)))
}

type Strange = (usize, Pin<Box<dyn Future<Output = Result<(), ReleaseError>> + Send>>);

// Takes the answer out of the receipt. A reference: an argument of an async function takes its memory twice.
async fn answer(receipt: &mut Receipt, core: &LeaseCore, handle: &Handle) -> Result<(), ReleaseError> {
    match receipt {
        Receipt::Done(result) => std::mem::replace(result, Ok(())),
        Receipt::HandedOff => {
            tokio::task::yield_now().await; // the next holder, woken on this thread, goes first
            Ok(())
        }
        Receipt::Pending(answer) => {
            // The engine ended before the answer came, so the result is unknown.
            let unanswered = |_| Err(send::unknown(core.gone_by(), handle.inner().clock.now(), None));
            match handle.inner().process.here(answer).await {
                Ok(answer) => answer.unwrap_or_else(unanswered),
                Err(_) => Err(ReleaseError::AlreadyLost(LossReason::Forked)),
            }
        }
    }
}

fn tell_span(span: &Span, result: &Result<(), ReleaseError>) {
    let word = match result {
        Ok(()) => "released",
        Err(ReleaseError::AlreadyLost(_)) => "already_lost",
        Err(ReleaseError::ReleasedOrLost) => "released_or_lost",
        Err(ReleaseError::Unknown { .. }) => "unknown",
    };
    span.record("lock.outcome", word);
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            drop(begin_release(handle.inner(), &self.core, self.side, ReleasedBy::ByDrop));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?}, token {})", self.core.key.name(), self.core.token)
    }
}

/// Why [`Lease::downgrade`] did not return a read lease.
#[derive(Debug)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The lease is not a write lease of a read/write lock. It is unchanged.
    NotAWriteLock(Lease),
    /// The lease is lost.
    Lost(LossReason),
}

impl fmt::Display for DowngradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAWriteLock(lease) => write!(
                f,
                "the lease of {:?} is not a write lease; only a lease of rw_lock(name).write() can be downgraded",
                lease.name()
            ),
            Self::Lost(reason) => write!(f, "the lease was lost before it was downgraded: {reason}"),
        }
    }
}

impl Error for DowngradeError {}

impl From<Invalid> for RenewError {
    fn from(invalid: Invalid) -> Self {
        RenewError::Invalid(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F>(_: fn(Lease) -> F) -> usize {
        size_of::<F>()
    }

    // Its future is copied when it is returned and when it is awaited: 1,480 bytes were a tenth of the time of a release.
    #[test]
    fn a_release_is_small() {
        let size = size_of_future(Lease::release);
        assert!(size <= 350, "{size} bytes");
    }
}
