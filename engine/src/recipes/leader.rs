//! The candidate: wins a term, leads, and campaigns again after a loss.

use std::{fmt, future::Future};

use super::{
    campaign::Campaign,
    leader_watch::{LeaderWatch, Standing, Status},
    lease_view::LeaseView,
};
use crate::{Lease, Lock, LossReason, RunError, metrics::TermEnd};

/// A candidate for leadership: of all candidates with the same lock name, at most one leads. [`Leader::of`] makes it,
/// [`run`](Self::run) campaigns and leads.
///
/// Each term is one lease, of which the work gets a [view](LeaseView): its [fencing token](LeaseView::fencing_token) is
/// the number of the term, higher than that of every earlier term, and [`remaining`](LeaseView::remaining) says how
/// much time is certain. When the lease is lost, the work is dropped and the candidate campaigns again. A leader that
/// cannot reach the server drops its work before another candidate can lead. The [guide](crate::guide::leader) says
/// what other losses mean.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::{Leader, NotHeld};
///
/// let leader = Leader::of(engine.lock("leader of reports").ttl(Duration::from_secs(5)));
/// let reports = leader.run(|term| async move {
///     for report in 0..3 {
///         term.ensure_held()?;
///         println!("report {report} of term {}", term.fencing_token());
///     }
///     Ok::<_, NotHeld>(3) // the work is done: the candidate resigns, and `run` returns
/// });
/// assert_eq!(reports.await?, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "a candidate does nothing until it runs"]
pub struct Leader {
    lock: Lock,
    status: Status,
}

/// How a term ended.
enum End<T> {
    Done(T),
    Resigned,
    Lost(LossReason),
}

impl<T> End<T> {
    /// How the term counts in metrics.
    fn of_term(&self) -> TermEnd {
        match self {
            Self::Done(_) => TermEnd::Finished,
            Self::Resigned => TermEnd::Resigned,
            Self::Lost(LossReason::Shutdown) => TermEnd::Shutdown,
            Self::Lost(_) => TermEnd::Lost,
        }
    }
}

impl Leader {
    /// A candidate for the leadership that this lock stands for. The ttl, the class, `max_hold` and the kind are those
    /// of the handle. The ttl decides how soon a leader that has died is followed: within the ttl. 5 s to 10 s are
    /// usual.
    ///
    /// The handle must exclude all other callers: the read side of a read/write lock and a handle with a re-entry scope
    /// are refused when the candidate runs. A [`wait`](Lock::wait) of the handle has no effect: the candidate waits
    /// until it leads.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Leader};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// // Terms are numbered 1, 2, 3 and so on by a counter beside the lock; see `fenced_lock`.
    /// let lock = engine.fenced_lock("leader of reports").ttl(Duration::from_secs(5));
    /// let leader = Leader::of(lock.clone());
    /// assert!(lock.holder().await?.is_none()); // which process leads: any process may ask
    /// # drop(leader);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(lock: Lock) -> Self {
        let status = Status::new(lock.engine().process.clone());
        Self { lock, status }
    }

    /// Returns a view of this candidate for other tasks: whether it leads, its changes, and resignation.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Leader};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let leader = Leader::of(engine.lock("leader of reports"));
    /// let watch = leader.watch();
    /// assert!(!watch.is_leading());
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> LeaderWatch {
        self.status.watch()
    }

    /// Campaigns, and runs `work` in each term that this candidate wins. Returns when the work returns, or when the
    /// candidate cannot go on.
    ///
    /// - The lease is lost, or another task [resigns](LeaderWatch::resign): the future of the work is dropped, *then*
    ///   the lock is released. The candidate campaigns again after a pause: up to 1 s, doubled with each further term
    ///   of less than 60 s, up to 30 s. So a process that fails again and again leaves the leadership to the others.
    /// - The work returns: the lock is released, and `run` returns the result. To lead again after an error of the
    ///   work, make a new candidate.
    /// - The servers give no answer: the candidate tries again until they do.
    ///
    /// `work` is called once for each term. It returns a future that owns what it needs, so that the future of `run`
    /// can be spawned.
    ///
    /// Tasks that the work has spawned, and code that blocks, are not stopped by a loss. Such code has to check
    /// [`LeaseView::ensure_held`], or the resource has to check the [fencing token](crate::guide::fencing).
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the candidate cannot lead: the lock cannot be used
    /// ([`AcquireError::Invalid`](crate::AcquireError::Invalid)), the server refuses the request
    /// ([`AcquireError::Refused`](crate::AcquireError::Refused)), or the engine is shutting down.
    /// [`RunError::Work`]: the work failed. [`RunError::Lost`]: the engine was shut down during a term; other losses
    /// are no error. [`RunError::Release`]: the work is done, and it is not certain that this candidate led until the
    /// end.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then releases the lock. This is how a candidacy ends.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::{AcquireError, Leader, LossReason, RunError};
    ///
    /// let leader = Leader::of(engine.lock("leader of reports"));
    /// let candidate = tokio::spawn(leader.run(|term| async move {
    ///     println!("term {} begins", term.fencing_token());
    ///     std::future::pending::<Result<(), std::io::Error>>().await // leads until it is dropped
    /// }));
    /// // At the end of the process:
    /// # tokio::task::yield_now().await;
    /// engine.shutdown(std::time::Duration::from_secs(5)).await;
    /// match candidate.await? {
    ///     Err(RunError::Lost(LossReason::Shutdown)) => println!("led until the end"),
    ///     Err(RunError::Acquire(AcquireError::ShuttingDown)) => println!("followed until the end"),
    ///     other => return other.map_err(Into::into),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E, F>(
        self,
        mut work: impl FnMut(LeaseView) -> F,
    ) -> impl Future<Output = Result<T, RunError<E>>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut campaign = Campaign::new(self.lock, self.status);
        async move {
            let candidacy = campaign.stand().map_err(RunError::Acquire)?;
            loop {
                let lease = campaign.win().await.map_err(RunError::Acquire)?;
                let mut leading;
                let end = {
                    // Before the state is told: a task that sees "leading" can resign.
                    let resigned = campaign.status().resigned();
                    leading = campaign.begin_term(&lease, &candidacy);
                    let (work, lost) = (work(LeaseView::of(&lease)), lease.lost());
                    tokio::select! {
                        biased;
                        reason = lost => End::Lost(reason),
                        done = work => End::Done(done),
                        () = resigned => End::Resigned,
                    }
                };
                leading.end(end.of_term());
                match end {
                    End::Done(result) => {
                        campaign.status().set(Standing::Idle);
                        return finish(lease, result).await;
                    }
                    End::Lost(LossReason::Shutdown) => return Err(RunError::Lost(LossReason::Shutdown)),
                    End::Lost(_) | End::Resigned => campaign.status().set(Standing::Following),
                }
                drop(lease); // released in the background
                campaign.pause_after(leading.began()).await;
            }
        }
    }
}

// The error of the work is told before that of the release.
async fn finish<T, E>(lease: Lease, result: Result<T, E>) -> Result<T, RunError<E>> {
    let released = lease.release().await;
    let done = result.map_err(RunError::Work)?;
    released.map(|()| done).map_err(RunError::Release)
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leader({:?})", self.lock)
    }
}
