//! The job: at most one run at a time, and at most one begin in each period, across a fleet.
//!
//! Two locks stand for a job. The lock with the job's name is held while the work runs, and renewed. The lock
//! `<name>:ran` marks the begin: it is acquired with a ttl of `at_least_for`, and never renewed or released. So the
//! server alone says when the job is due again, also after a crash or a shutdown of the process that ran it.

use std::{
    fmt,
    future::{Future, pending},
    time::Duration,
};

use super::{job_outcome::JobOutcome, job_run::JobRun, lease_view::LeaseView, sleep::sleep};
use crate::{AcquireError, Engine, InspectError, Invalid, Lease, Lock, LossReason, RunError};

/// Work that a fleet does once per period: each process tries, and at most one of them runs it. [`Job::new`] makes it.
///
/// - Two runs never overlap: the work runs under a lease, and is dropped when the lease is lost.
/// - Two runs never begin within `at_least_for` of each other. The time runs on the server, from a moment shortly
///   before the first run began. No clocks of processes are compared. A run that failed, was stopped or died with its
///   process counts too.
///
/// The [guide](crate::guide::job) compares this with ShedLock, and says when the server can forget that a job was run.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::{Job, JobOutcome, NotHeld};
///
/// let job = Job::new(&engine, "invoices", Duration::from_secs(3_600)).at_most_for(Duration::from_secs(600));
/// let first = job.run_if_due(|lease| async move {
///     lease.ensure_held()?;
///     println!("run {}", lease.fencing_token());
///     Ok::<_, NotHeld>(12)
/// });
/// assert_eq!(first.await?, JobOutcome::Ran(12));
/// let second = job.run_if_due(|_lease| async { Ok::<_, NotHeld>(13) }).await?;
/// assert!(matches!(second, JobOutcome::AlreadyRan { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a job does nothing until it is run"]
pub struct Job {
    /// Held while the work runs.
    running: Lock,
    /// Kept for `at_least_for` from the begin of a run.
    ran: Lock,
    at_least_for: Duration,
    at_most_for: Option<Duration>,
}

/// Whether the begin of a run is marked on the server.
enum Mark {
    Free,
    Kept(Option<Duration>),
    /// The server did not say. The acquire asks again, and gives the error.
    Unknown,
}

/// What a try to begin has found.
enum Turn {
    Ours(Lease),
    AlreadyRan(Option<Duration>),
    Running,
}

/// How the work ended.
enum End<T, E> {
    Done(Result<T, E>),
    Stopped,
    Lost(LossReason),
}

impl Job {
    /// A job that begins at most once in `at_least_for`, in all processes that use this name. At least 1 s, at most 30
    /// days with Redis. All processes must give the same time: each run sets the time until the next one.
    ///
    /// The job uses two exclusive locks: `name` and `name:ran`. Use neither for anything else. Where `restart_grace` is
    /// set, it has to be at least `at_least_for`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Job};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// // Each process calls it on the hour, by its own clock. A run on the hour must not keep out the next one, which
    /// // may come a little early: so the time is shorter than the hour, by more than the clocks differ.
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(55 * 60));
    /// # drop(job);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(engine: &Engine, name: impl AsRef<str>, at_least_for: Duration) -> Self {
        let name = name.as_ref();
        let ran = engine.lock(format!("{name}{RAN}")).ttl(at_least_for).no_renewal();
        Self { running: engine.lock(name), ran, at_least_for, at_most_for: None }
    }

    /// Sets how long a run may take. The work is then dropped. Default: no limit.
    ///
    /// A thread that blocks cannot be dropped. The lock is not renewed after this time, so another process may run the
    /// job one ttl later at the latest. Such code has to check [`LeaseView::ensure_held`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::{Job, JobOutcome};
    ///
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(60)).at_most_for(Duration::from_millis(20));
    /// let hangs = job.run_if_due(|_lease| std::future::pending::<Result<(), std::io::Error>>());
    /// assert_eq!(hangs.await?, JobOutcome::Stopped);
    /// # Ok(())
    /// # }
    /// ```
    pub fn at_most_for(mut self, time: Duration) -> Self {
        self.at_most_for = Some(time);
        self.running = self.running.max_hold(time);
        self
    }

    /// Sets the ttl of the lock that is held while the work runs. It is renewed, so a run may take longer. After the
    /// death of the process the lock is free within this time. Default: the engine's ttl, 30 s. At least 1 s.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Job};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(60)).ttl(Duration::from_secs(10));
    /// # drop(job);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.running = self.running.ttl(ttl);
        self
    }

    /// Sets the class that both locks count as in metrics. As [`Lock::class`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Job};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// # use std::time::Duration;
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(60)).class("jobs");
    /// # drop(job);
    /// # Ok(())
    /// # }
    /// ```
    pub fn class(mut self, name: &str) -> Self {
        self.running = self.running.class(name);
        self.ran = self.ran.class(name);
        self
    }

    /// Runs the work if the job is due and no other caller runs it, and does not wait. For callers with a schedule of
    /// their own, such as cron in each process.
    ///
    /// The begin is marked on the server before the work starts. So an error of the work does not make the job due
    /// again: repeat the failed step within the work.
    ///
    /// # Errors
    /// The first of these that applies. [`RunError::Acquire`]: the work did not start; as of
    /// [`Lock::try_acquire`]. An `at_least_for` or `at_most_for` that cannot be used is
    /// [`AcquireError::Invalid`]. [`RunError::Work`]: the work failed. [`RunError::Lost`]: the lease was lost, and the
    /// work dropped. [`RunError::Release`]: the work is done, and it is not certain that the lease was held until the
    /// end.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then releases the lock. The begin stays marked.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::{Job, JobOutcome, NotHeld};
    ///
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(55 * 60));
    /// let done = job.run_if_due(|lease| async move {
    ///     for invoice in 0..3 {
    ///         lease.ensure_held()?; // before each guarded step
    ///         println!("invoice {invoice}, token {}", lease.fencing_token());
    ///     }
    ///     Ok::<_, NotHeld>(())
    /// });
    /// assert_eq!(done.await?, JobOutcome::Ran(()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_if_due<T, E, F, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<JobOutcome<T>, RunError<E>>> + use<T, E, F, W>
    where
        W: FnOnce(LeaseView) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let job = self.clone();
        async move {
            let mut run = job.new_run();
            let done = match job.try_turn().await {
                Ok(Turn::Ours(lease)) => job.work(lease, work, &mut run).await,
                Ok(Turn::AlreadyRan(again_in)) => Ok(JobOutcome::AlreadyRan { again_in }),
                Ok(Turn::Running) => Ok(JobOutcome::Running),
                Err(error) => Err(RunError::Acquire(error)),
            };
            run.end(&done);
            done
        }
    }

    /// Waits until the job is due, this caller has its turn, and runs the work. Call it in a loop in each process, and
    /// the job runs once per `at_least_for`, in any of them.
    ///
    /// The period counts from the begin of the last run, on the server. So begins are not tied to the hour or to
    /// midnight, and they move later by the time that a begin takes, some milliseconds. A run that takes longer than
    /// the period delays the next one. Periods in which no process was there are not caught up: there is one run, then
    /// the next period. A call looks at least once every 10 s whether the job has become due.
    ///
    /// # Errors
    /// As [`run_if_due`](Self::run_if_due). While the servers give no answer the call ends with
    /// [`AcquireError::Unavailable`] after `unavailable_after` (default 10 s); call it again.
    ///
    /// # Cancel safety
    /// As [`run_if_due`](Self::run_if_due). Nothing is marked while the call waits.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).on_current_runtime().build().await?;
    /// use std::time::Duration;
    /// use leasehold::{AcquireError, Job, RunError};
    ///
    /// let job = Job::new(&engine, "invoices", Duration::from_secs(3_600));
    /// # let mut runs = 0;
    /// loop {
    ///     match job.run_when_due(|lease| async move { Ok::<_, std::io::Error>(lease.fencing_token()) }).await {
    ///         Ok(outcome) => println!("{outcome:?}"),
    ///         Err(RunError::Acquire(AcquireError::ShuttingDown)) => break,
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// #   runs += 1;
    /// #   if runs == 3 { break }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_when_due<T, E, F, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<JobOutcome<T>, RunError<E>>> + use<T, E, F, W>
    where
        W: FnOnce(LeaseView) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let job = self.clone();
        async move {
            let mut run = job.new_run();
            let done = match job.wait_for_turn().await {
                Ok(lease) => job.work(lease, work, &mut run).await,
                Err(error) => Err(RunError::Acquire(error)),
            };
            run.end(&done);
            done
        }
    }

    fn new_run(&self) -> JobRun {
        JobRun::new(self.running.engine(), self.running.labels())
    }

    // A job that is not due is only looked at: callers of other processes then see no lock that is held for a moment.
    async fn try_turn(&self) -> Result<Turn, AcquireError> {
        match self.mark().await? {
            Mark::Free | Mark::Unknown => self.begin(self.running.try_acquire()).await,
            Mark::Kept(_) if self.running.is_locked().await.unwrap_or(false) => Ok(Turn::Running),
            Mark::Kept(left) => Ok(Turn::AlreadyRan(left)),
        }
    }

    async fn wait_for_turn(&self) -> Result<Lease, AcquireError> {
        let running = self.running.clone().wait(LOOK);
        loop {
            let pause = match self.mark().await? {
                Mark::Kept(left) => left.unwrap_or(LOOK),
                Mark::Free | Mark::Unknown => {
                    match self.begin(async { running.acquire().await.map(Some) }).await? {
                        Turn::Ours(lease) => return Ok(lease),
                        Turn::AlreadyRan(left) => left.unwrap_or(LOOK),
                        Turn::Running => SHORTEST_SLEEP, // the acquire has waited for `LOOK`
                    }
                }
            };
            self.sleep(pause.clamp(SHORTEST_SLEEP, LOOK)).await;
        }
    }

    /// Takes the lock, then marks the begin. If another caller has marked it meanwhile, the lock is released.
    async fn begin(
        &self,
        acquire: impl Future<Output = Result<Option<Lease>, AcquireError>>,
    ) -> Result<Turn, AcquireError> {
        self.check()?;
        let lease = match acquire.await {
            Ok(Some(lease)) => lease,
            Ok(None) | Err(AcquireError::TimedOut { .. }) => return Ok(Turn::Running),
            Err(error) => return Err(error),
        };
        if let Some(mark) = self.ran.try_acquire().await? {
            mark.leave_to_expire();
            return Ok(Turn::Ours(lease));
        }
        let _ = lease.release().await;
        match self.mark().await? {
            Mark::Kept(left) => Ok(Turn::AlreadyRan(left)),
            Mark::Free => Ok(Turn::AlreadyRan(Some(Duration::ZERO))), // expired a moment ago
            Mark::Unknown => Ok(Turn::AlreadyRan(None)),
        }
    }

    async fn mark(&self) -> Result<Mark, AcquireError> {
        match self.ran.holder().await {
            Ok(Some(holder)) => Ok(Mark::Kept(holder.remaining)),
            Ok(None) => Ok(Mark::Free),
            Err(InspectError::Transport(_)) => Ok(Mark::Unknown),
            Err(InspectError::Invalid(invalid)) => Err(AcquireError::Invalid(invalid)),
            Err(InspectError::ShuttingDown) => Err(AcquireError::ShuttingDown),
        }
    }

    async fn work<T, E, F>(
        &self,
        lease: Lease,
        work: impl FnOnce(LeaseView) -> F,
        run: &mut JobRun,
    ) -> Result<JobOutcome<T>, RunError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        run.begin_work();
        let end = {
            let (work, lost, limit) = (work(LeaseView::of(&lease)), lease.lost(), self.limit());
            tokio::select! {
                biased;
                reason = lost => End::Lost(reason),
                done = work => End::Done(done),
                () = limit => End::Stopped,
            }
        };
        match end {
            End::Lost(reason) => Err(RunError::Lost(reason)),
            End::Stopped => finish(lease).await.map(|()| JobOutcome::Stopped),
            End::Done(Ok(done)) => finish(lease).await.map(|()| JobOutcome::Ran(done)),
            End::Done(Err(error)) => {
                let _ = lease.release().await; // the work's error is the one to tell
                Err(RunError::Work(error))
            }
        }
    }

    async fn limit(&self) {
        if let Some(time) = self.at_most_for {
            self.sleep(time).await;
        }
        if self.at_most_for.is_none() || self.running.engine().check_open().is_err() {
            pending().await // at a shutdown the sleep ends early, and the loss of the lease ends the work
        }
    }

    async fn sleep(&self, time: Duration) {
        sleep(self.running.engine(), time).await;
    }

    fn check(&self) -> Result<(), Invalid> {
        let engine = self.running.engine();
        engine.config.check_ttl("at_least_for", self.at_least_for, engine.capabilities.ttl_max)?;
        match self.at_most_for {
            Some(Duration::ZERO) => {
                Err(Invalid::new("at_most_for", "0s", "must be longer; leave it out for no limit"))
            }
            _ => Ok(()),
        }
    }
}

async fn finish<E>(lease: Lease) -> Result<(), RunError<E>> {
    lease.release().await.map_err(RunError::Release)
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Job({:?}, at least for {:?}, at most for {:?})",
            self.running, self.at_least_for, self.at_most_for
        )
    }
}

/// What follows the job's name in the name of the lock that marks the begin of a run.
const RAN: &str = ":ran";
/// The longest time between two looks at a job that is not due, and the longest wait for a run that overruns.
const LOOK: Duration = Duration::from_secs(10);
/// The server may say that no time is left shortly before the mark expires.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);
