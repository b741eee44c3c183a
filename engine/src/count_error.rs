//! The error of semaphores, latches and totals of permits, divided by what the caller can do next.

use std::{error::Error, fmt, time::Duration};

use crate::{
    error::Invalid,
    shown_time::ShownTime,
    transport::{ErrorKind, TransportError},
};

/// Why a call on a [`Semaphore`](crate::Semaphore) or a [`Latch`](crate::Latch) failed.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::CountError;
///
/// let permits = engine.semaphore("downloads").wait(Duration::from_secs(2));
/// match permits.acquire(1).await {
///     Ok(()) => permits.release(1).await?,
///     Err(CountError::TimedOut { waited }) => println!("no permit for {waited:?}"),
///     Err(CountError::Unavailable { after, .. }) => println!("no answer for {after:?}"),
///     Err(error) => return Err(error.into()), // its text says what to do
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CountError {
    /// A value of the call cannot be used. Nothing was sent.
    Invalid(Invalid),
    /// The wait is over, and a server said since the call that there are not enough permits, or that the latch is not
    /// open. Nothing was taken.
    TimedOut {
        /// How long the caller waited: its wait, and at most one command timeout more.
        waited: Duration,
    },
    /// No definite answer for `unavailable_after` (default 10 s), or for the whole of a shorter wait. The call did not
    /// count: permits that it may have taken are given back.
    Unavailable {
        /// How long no definite answer came.
        after: Duration,
        /// The last error, with the node's address in its text.
        last_error: Option<TransportError>,
    },
    /// No definite answer for `unavailable_after`. The call may have counted, or may count later: the engine repeats a
    /// release and a count-down until it is answered, at the latest until a minute before `counter_memory` is over (4 min
    /// from its first send by default).
    /// Do not call again: it might count twice.
    Unknown {
        /// The last error, with the node's address in its text.
        last_error: Option<TransportError>,
    },
    /// The server refuses the request, and will refuse it until its settings or the key change: a missing right, a key
    /// of another type, a name that cannot work on this topology. The call did not count.
    Refused(TransportError),
    /// The transport keeps no primitive of this kind. Nothing was sent.
    Unsupported {
        /// The kind: `semaphore` or `latch`.
        kind: &'static str,
        /// The transport's name.
        transport: &'static str,
    },
    /// A limit of the engine is reached. Nothing was sent.
    LimitReached {
        /// The name of the setting.
        limit: &'static str,
        /// The value of the setting.
        value: usize,
    },
    /// The engine is shutting down or has ended. A call that was begun before may have counted.
    ShuttingDown,
}

impl CountError {
    /// The transport's error that caused this error, if there is one.
    pub fn last_error(&self) -> Option<&TransportError> {
        match self {
            Self::Refused(last_error) => Some(last_error),
            Self::Unavailable { last_error, .. } | Self::Unknown { last_error } => last_error.as_ref(),
            Self::Invalid(_)
            | Self::TimedOut { .. }
            | Self::Unsupported { .. }
            | Self::LimitReached { .. }
            | Self::ShuttingDown => None,
        }
    }

    /// Whether the server refused because this client lacks a right ([`ErrorKind::Denied`]).
    pub fn is_denied(&self) -> bool {
        self.last_error().is_some_and(|last_error| last_error.kind == ErrorKind::Denied)
    }
}

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::TimedOut { waited } => write!(
                f,
                "too few permits, or the latch is closed; waited {}; if the number was never set, call try_set",
                ShownTime(*waited)
            ),
            Self::Unavailable { after, last_error } => {
                write!(f, "no definite answer for {}", ShownTime(*after))?;
                last_error.iter().try_for_each(|last_error| write!(f, ": {last_error}"))
            }
            Self::Unknown { last_error } => {
                f.write_str("not answered; it may have counted, so do not call again")?;
                last_error.iter().try_for_each(|last_error| write!(f, ": {last_error}"))
            }
            Self::Refused(last_error) => last_error.fmt(f),
            Self::Unsupported { kind, transport } => {
                write!(
                    f,
                    "the transport {transport} keeps no {kind}; use a transport whose capabilities have it"
                )
            }
            Self::LimitReached { limit, value } => {
                write!(f, "{limit} = {value} is reached; raise it, or begin fewer calls at once")
            }
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
        }
    }
}

impl Error for CountError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last_error()?.source() // the text has that of `last_error`
    }
}

impl From<Invalid> for CountError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}
