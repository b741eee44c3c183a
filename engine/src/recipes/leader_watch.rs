//! Whether a candidate leads, for other tasks of its process.

use std::{fmt, pin::pin, sync::Arc};

use tokio::sync::{Notify, futures::Notified, watch};

use crate::{clock::Clock, fencing::FencingToken, lease::shared::LeaseCore, process::Process};

/// What a candidate does. [`LeaderWatch::state`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderState {
    /// The candidate does not run: it has not begun, or it has ended.
    Idle,
    /// The candidate campaigns, and does not lead.
    Following,
    /// The candidate campaigns, and the servers have given no definite answer for `unavailable_after` (default 10 s).
    /// It is not known whether another process leads.
    Unavailable,
    /// The candidate leads.
    Leading {
        /// The fencing token of the term. It is higher than that of every earlier term.
        token: FencingToken,
    },
}

/// Follows one candidate from other tasks: a readiness probe, a request handler, a metric. Clones follow the same
/// candidate. [`Leader::watch`](crate::Leader::watch) makes it. It keeps no engine alive.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, Leader, LeaderState};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let leader = Leader::of(engine.lock("leader of reports"));
/// let mut watch = leader.watch();
/// tokio::spawn(leader.run(|_term| std::future::pending::<Result<(), std::io::Error>>()));
/// while let Some(state) = watch.changed().await {
///     if let LeaderState::Leading { token } = state {
///         println!("this process leads, term {token}");
///         break;
///     }
/// }
/// assert!(watch.is_leading());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderWatch {
    standing: watch::Receiver<Standing>,
    resign: Arc<Notify>,
    process: Process,
}

/// What the candidate itself knows.
#[derive(Clone)]
pub(super) enum Standing {
    Idle,
    Following,
    Unavailable,
    Leading(Arc<LeaseCore>, Clock),
}

/// The candidate's end of its watches.
pub(super) struct Status {
    standing: watch::Sender<Standing>,
    resign: Arc<Notify>,
    process: Process,
}

impl Status {
    pub(super) fn new(process: Process) -> Self {
        Self { standing: watch::Sender::new(Standing::Idle), resign: Arc::default(), process }
    }

    pub(super) fn watch(&self) -> LeaderWatch {
        let (standing, resign) = (self.standing.subscribe(), self.resign.clone());
        LeaderWatch { standing, resign, process: self.process.clone() }
    }

    pub(super) fn set(&self, standing: Standing) {
        self.standing.send_if_modified(|known| {
            let is_news = std::mem::discriminant(known) != std::mem::discriminant(&standing);
            *known = standing;
            is_news
        });
    }

    /// Resolves at a resignation from now on.
    pub(super) fn resigned(&self) -> Notified<'_> {
        self.resign.notified()
    }
}

impl LeaderWatch {
    /// What the candidate does now. If it leads, the call reads the clock and compares it with the deadline of the
    /// term, so the answer is right also if the candidate's task is blocked.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::{Leader, LeaderState};
    ///
    /// let watch = Leader::of(engine.lock("leader of reports")).watch();
    /// assert_eq!(watch.state(), LeaderState::Idle); // the candidate does not run
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> LeaderState {
        match &*self.standing.borrow() {
            _ if self.has_ended() => LeaderState::Idle,
            Standing::Idle => LeaderState::Idle,
            Standing::Unavailable => LeaderState::Unavailable,
            Standing::Leading(lease, clock) if lease.is_held(clock.now()) => {
                LeaderState::Leading { token: lease.token }
            }
            Standing::Leading(..) | Standing::Following => LeaderState::Following,
        }
    }

    /// Whether the candidate leads now. The answer says nothing about the moment after the call: give the
    /// [fencing token](LeaderState::Leading) along with each write.
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
    /// let status_page = || if watch.is_leading() { "leader" } else { "follower" };
    /// assert_eq!(status_page(), "follower");
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_leading(&self) -> bool {
        matches!(self.state(), LeaderState::Leading { .. })
    }

    /// Waits for the next change of the state, and returns the state. Changes that follow each other quickly are told
    /// as one. `None`: the candidate has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: a change that was not told is told by the next call.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Leader};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let leader = Leader::of(engine.lock("leader of reports"));
    /// let mut watch = leader.watch();
    /// tokio::spawn(leader.run(|_term| async { Ok::<_, std::io::Error>(()) }));
    /// while let Some(state) = watch.changed().await {
    ///     println!("{state:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Option<LeaderState> {
        let changed = self.process.here(pin!(self.standing.changed())).await;
        changed.ok()?.ok()?;
        Some(self.state())
    }

    /// Ends the term of this candidate: its work is dropped, then the lock is released. The candidate campaigns again
    /// after a pause of 0.5 s to 30 s, so another candidate that waits leads next. Does nothing if the candidate does
    /// not lead. To end the candidacy, drop the future of [`Leader::run`](crate::Leader::run) instead.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Leader};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let watch = Leader::of(engine.lock("leader of reports")).watch();
    /// watch.resign(); // for example before this process is updated
    /// # Ok(())
    /// # }
    /// ```
    pub fn resign(&self) {
        self.resign.notify_waiters();
    }

    fn has_ended(&self) -> bool {
        self.standing.has_changed().is_err()
    }
}

impl fmt::Debug for LeaderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaderWatch({:?})", self.state())
    }
}
