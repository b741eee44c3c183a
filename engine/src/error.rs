//! Errors, divided by what the caller can do next.

use std::{error::Error, fmt, time::Duration};

use crate::{
    clock::Instant,
    lease::state::LossReason,
    shown_time::ShownTime,
    transport::{ErrorKind, Kinds, TransportError},
};

/// A value that cannot be used: which field, what value, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid {
    /// The field, as the caller wrote it: `name`, `ttl`, `wait` and so on.
    pub field: &'static str,
    /// The value, as text. Never a secret.
    pub value: String,
    /// Why the value cannot be used, and what to write instead.
    pub remedy: String,
}

/// Why a lock was not acquired.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::AcquireError;
///
/// match engine.lock("orders:42").wait(Duration::from_secs(2)).acquire().await {
///     Ok(lease) => lease.release().await?,
///     Err(AcquireError::TimedOut { waited }) => println!("held by another caller for {waited:?}"),
///     Err(AcquireError::Unavailable { after, .. }) => println!("no answer for {after:?}"),
///     Err(AcquireError::ShuttingDown) => println!("this process is going down"),
///     Err(error) => return Err(error.into()), // its text says what to do
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// A value of the call cannot be used. Nothing was sent.
    Invalid(Invalid),
    /// The caller's wait is over, and the lock was known to be held since the call: a server answered that it is held,
    /// or a lease of this engine held it. Try later, or wait longer. The error does not name
    /// the owner: the answer "held" says for how long, not by whom, because reading the owner would cost the server one
    /// command more for each such answer. [`Lock::holder`](crate::Lock::holder) asks for it.
    TimedOut {
        /// How long the caller waited: its wait, and at most one command timeout more.
        waited: Duration,
    },
    /// No definite answer for `unavailable_after` (default 10 s), or for the whole of a shorter wait: the servers are
    /// down or cannot be reached. This is not "held".
    Unavailable {
        /// How long no definite answer came: `unavailable_after`, or the time that the caller waited.
        after: Duration,
        /// The last error, with the node's address in its text.
        last_error: Option<TransportError>,
    },
    /// The server refuses the request, and will refuse it until its settings or the key change: a missing right, a key
    /// of another type, a name that cannot work on this topology.
    Refused(TransportError),
    /// The re-entry scope has lost this lock and still keeps a lease of it. Drop the scope's leases first.
    Lost(LossReason),
    /// A limit of the engine is reached. Release what is not needed, or raise the setting.
    LimitReached {
        /// The name of the setting.
        limit: &'static str,
        /// The value of the setting.
        value: usize,
    },
    /// The transport does not support this kind of lock, or permits. Nothing was sent. Use another kind, or another
    /// transport.
    Unsupported {
        /// The kind of the lock, or permits.
        kind: Kinds,
        /// The name of the transport.
        transport: &'static str,
    },
    /// The re-entry scope reads this lock, so its writer would wait for its own reader. Nothing was sent. Release the
    /// read lease first, or acquire for writing in the first place: a write lease may be downgraded.
    WouldDeadlock,
    /// The engine is shutting down or has ended.
    ShuttingDown,
}

/// Why a release was not confirmed. After each of these errors the lease is no longer held.
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
///     Ok(()) => println!("the lock was held to the end"),
///     Err(ReleaseError::Unknown { within, .. }) => println!("other callers get the lock within {within:?}"),
///     Err(error) => println!("another owner may have held the lock: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease was lost before the release, so another owner may have held the lock meanwhile.
    AlreadyLost(LossReason),
    /// An earlier send of the release was not answered, and a repeat found that the lease does not hold the lock.
    /// Either the earlier send released the lock, or the lease was lost before.
    ReleasedOrLost,
    /// No answer. The engine repeats the release in the background. Other callers get the lock at `gone_by` at the
    /// latest.
    Unknown {
        /// The moment on the engine's clock by which the lock has expired on the server.
        gone_by: Instant,
        /// The same moment as a time from this error on.
        within: Duration,
        /// The last error, if there was one.
        last_error: Option<TransportError>,
    },
}

/// Why an engine was not built.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::{BuildError, Engine};
/// use leasehold_memory::MemoryTransport;
///
/// let built = Engine::builder(MemoryTransport::new()).ttl(Duration::from_millis(10)).build().await;
/// match built {
///     Err(BuildError::Invalid(invalid)) => assert_eq!(invalid.field, "ttl_ms"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting cannot be used.
    Invalid(Invalid),
    /// No server was ready within `unavailable_after` (default 10 s).
    Unavailable {
        /// How long the engine tried to connect.
        after: Duration,
        /// The last error, with the node's address in its text.
        last_error: TransportError,
    },
    /// A server refuses this client: a wrong password, a missing right, TLS.
    Refused(TransportError),
    /// The operating system could not create a thread or a runtime.
    Threads(String),
}

/// Why [`Lock::run`](crate::Lock::run) failed. `A` is the error of the acquire; that of
/// [`MultiLock::run`](crate::MultiLock::run) is [`MultiError`](crate::MultiError). If several steps failed, the error is the first of this list that
/// applies: the acquire, the work, the loss, the release.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use leasehold::{NotHeld, RunError};
///
/// let work = engine.lock("acct:7").run(async |lease| lease.ensure_held());
/// match work.await {
///     Ok(()) => println!("done, and the lock was held to the end"),
///     Err(RunError::Acquire(error)) => println!("the work did not start: {error}"),
///     Err(RunError::Work(NotHeld { reason, .. })) => println!("the work failed: {reason}"),
///     Err(RunError::Lost(reason)) => println!("the work was dropped: {reason}"),
///     Err(RunError::Release(error)) => println!("the work is done, and perhaps not alone: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum RunError<E, A = AcquireError> {
    /// The lock was not acquired. The work did not start.
    Acquire(A),
    /// The work failed.
    Work(E),
    /// The lease was lost, and the future of the work was dropped.
    Lost(LossReason),
    /// The work succeeded, but it is not certain that the lease was held until the end.
    Release(ReleaseError),
}

/// The lease is not held, so the guarded action must not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotHeld {
    /// Why the lease was lost.
    pub reason: LossReason,
}

/// Why [`Lease::renew`](crate::Lease::renew) was not confirmed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RenewError {
    /// A value of the call cannot be used.
    Invalid(Invalid),
    /// The lease is lost.
    Lost(LossReason),
    /// The lease was released before the renewal was confirmed.
    Released,
    /// No definite answer. The deadline has not moved. The engine goes on renewing.
    Unknown(TransportError),
    /// A limit of the engine is reached, and nothing was sent. The engine goes on renewing.
    LimitReached {
        /// The name of the setting.
        limit: &'static str,
        /// The value of the setting.
        value: usize,
    },
    /// The engine has ended.
    ShuttingDown,
}

/// Why a lock could not be inspected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InspectError {
    /// The name cannot be used.
    Invalid(Invalid),
    /// No answer, or a refusal.
    Transport(TransportError),
    /// The engine is shutting down or has ended.
    ShuttingDown,
}

impl Invalid {
    pub(crate) fn new(field: &'static str, value: impl fmt::Display, remedy: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), remedy: remedy.into() }
    }
}

impl AcquireError {
    /// The transport's error that caused this error, if there is one.
    pub fn last_error(&self) -> Option<&TransportError> {
        match self {
            AcquireError::Refused(last_error) => Some(last_error),
            AcquireError::Unavailable { last_error, .. } => last_error.as_ref(),
            AcquireError::Invalid(_)
            | AcquireError::TimedOut { .. }
            | AcquireError::Lost(_)
            | AcquireError::LimitReached { .. }
            | AcquireError::Unsupported { .. }
            | AcquireError::WouldDeadlock
            | AcquireError::ShuttingDown => None,
        }
    }

    /// Whether the server refused because this client lacks a right ([`ErrorKind::Denied`]).
    pub fn is_denied(&self) -> bool {
        self.last_error().is_some_and(|last_error| last_error.kind == ErrorKind::Denied)
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.field, self.value, self.remedy)
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::TimedOut { waited } => {
                write!(f, "other callers hold the lock, or the permits; waited {}", ShownTime(*waited))
            }
            Self::Unavailable { after, last_error: Some(last_error) } => {
                write!(f, "no definite answer for {}: {last_error}", ShownTime(*after))
            }
            Self::Unavailable { after, last_error: None } => {
                write!(f, "no definite answer for {}", ShownTime(*after))
            }
            Self::Refused(last_error) => last_error.fmt(f),
            Self::Lost(reason) => {
                write!(f, "this scope lost the lock ({reason}) and still keeps a lease of it; drop it first")
            }
            Self::LimitReached { limit, value } => {
                write!(f, "{limit} = {value} is reached; raise it, or release what is not needed")
            }
            Self::Unsupported { kind, transport } => write!(
                f,
                "the transport {transport} does not support the kind {kind}; use another kind or another transport"
            ),
            Self::WouldDeadlock => {
                f.write_str("this scope reads the lock, so it cannot write; release its read lease first")
            }
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyLost(reason) => write!(f, "the lease was lost before it was released: {reason}"),
            Self::ReleasedOrLost => {
                f.write_str("an earlier release was not answered, and this lease does not hold the lock now")
            }
            Self::Unknown { within, last_error, .. } => {
                match within.is_zero() {
                    true => f.write_str("the release was not confirmed; the lock is free by now")?,
                    false => write!(
                        f,
                        "the release was not confirmed; the lock is free within {} at the latest",
                        ShownTime(*within)
                    )?,
                }
                last_error.iter().try_for_each(|last_error| write!(f, ": {last_error}"))
            }
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Unavailable { after, last_error } => {
                write!(f, "no server was ready within {}: {last_error}", ShownTime(*after))
            }
            Self::Refused(last_error) => last_error.fmt(f),
            Self::Threads(why) => write!(f, "the engine's threads could not be started: {why}"),
        }
    }
}

impl<E: fmt::Display, A: fmt::Display> fmt::Display for RunError<E, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(error) => error.fmt(f),
            Self::Work(error) => error.fmt(f),
            Self::Lost(reason) => write!(f, "the lease was lost and the work dropped: {reason}"),
            Self::Release(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for NotHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease is not held: {}", self.reason)
    }
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Lost(reason) => write!(f, "the lease is lost: {reason}"),
            Self::Released => f.write_str("the lease was released before the renewal was confirmed"),
            Self::Unknown(last_error) => write!(f, "the renewal was not confirmed: {last_error}"),
            Self::LimitReached { limit, value } => {
                write!(f, "{limit} = {value} is reached; ask again in a moment")
            }
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
        }
    }
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Transport(last_error) => last_error.fmt(f),
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
        }
    }
}

// The text of an error includes the text of the error that it wraps. `source` therefore returns the cause of the
// wrapped error, so that a report of the whole chain has each sentence once.

impl Error for Invalid {}
impl Error for NotHeld {}
impl Error for LossReason {}
impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last_error()?.source()
    }
}
impl Error for ReleaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unknown { last_error, .. } => last_error.as_ref()?.source(),
            Self::AlreadyLost(_) | Self::ReleasedOrLost => None,
        }
    }
}
impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable { last_error, .. } | Self::Refused(last_error) => last_error.source(),
            Self::Invalid(_) | Self::Threads(_) => None,
        }
    }
}
impl<E: Error + 'static, A: Error + 'static> Error for RunError<E, A> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Acquire(error) => error.source(),
            Self::Work(error) => error.source(),
            Self::Release(error) => error.source(),
            Self::Lost(_) => None,
        }
    }
}
impl Error for RenewError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unknown(last_error) => last_error.source(),
            Self::Invalid(_)
            | Self::Lost(_)
            | Self::Released
            | Self::LimitReached { .. }
            | Self::ShuttingDown => None,
        }
    }
}
impl Error for InspectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Transport(last_error) => last_error.source(),
            Self::Invalid(_) | Self::ShuttingDown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The texts of an error and of all its sources.
    fn chain(error: &dyn Error) -> Vec<String> {
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
    }

    #[test]
    fn a_release_that_is_not_confirmed_tells_when_the_lock_is_free() {
        let unknown =
            |within| ReleaseError::Unknown { gone_by: Instant::default(), within, last_error: None };
        let told = |within| unknown(within).to_string();
        assert!(told(Duration::from_secs(3)).ends_with("the lock is free within 3s at the latest"));
        assert!(told(Duration::ZERO).ends_with("the lock is free by now"));
    }

    #[test]
    fn a_chain_of_sources_has_each_text_once() {
        let last_error = || {
            TransportError::without_effect(ErrorKind::Unreachable, None, "cannot connect to a:1")
                .because(io::Error::other("no route"))
        };
        let after = Duration::from_secs(1);
        let acquire = || AcquireError::Unavailable { after, last_error: Some(last_error()) };
        let release = ReleaseError::Unknown {
            gone_by: Instant::default(),
            within: after,
            last_error: Some(last_error()),
        };
        let errors: [Box<dyn Error>; 7] = [
            Box::new(acquire()),
            Box::new(AcquireError::Refused(last_error())),
            Box::new(release),
            Box::new(BuildError::Unavailable { after, last_error: last_error() }),
            Box::new(RunError::<io::Error>::Acquire(acquire())),
            Box::new(RenewError::Unknown(last_error())),
            Box::new(InspectError::Transport(last_error())),
        ];
        for error in errors {
            let texts = chain(&*error);
            assert_eq!((texts.len(), &*texts[1]), (2, "no route"), "{texts:?}");
            assert!(texts[0].contains("cannot connect to a:1"), "{texts:?}");
        }
    }
}
