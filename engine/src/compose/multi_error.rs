use std::{error::Error, fmt};

use crate::{
    error::{AcquireError, Invalid},
    lease::state::LossReason,
};

/// Why a multi lock was not acquired. Every member that was acquired is released.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::{AcquireError, MultiError, MultiLock};
///
/// let held = engine.lock("acct:9").acquire().await?;
/// let both = MultiLock::of([engine.lock("acct:7"), engine.lock("acct:9")]).wait(Duration::from_millis(50));
/// match both.acquire().await {
///     Err(MultiError::Member { name, place, error: AcquireError::TimedOut { .. } }) => {
///         assert_eq!((name.as_str(), place), ("acct:9", 1)); // held by another caller
///     }
///     other => panic!("{other:?}"),
/// }
/// # drop(held);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MultiError {
    /// The list of members cannot be used. Nothing was sent.
    Invalid(Invalid),
    /// A member was not acquired.
    Member {
        /// The name of the member, without the `name_prefix` of its engine.
        name: String,
        /// The place of the member in the list that [`MultiLock::of`](crate::MultiLock::of) was given; 0 is the first.
        place: usize,
        /// Why.
        error: AcquireError,
    },
    /// A member that was acquired was lost before the last one was acquired.
    Lost {
        /// As in `Member`.
        name: String,
        /// As in `Member`.
        place: usize,
        /// Why.
        reason: LossReason,
    },
}

impl fmt::Display for MultiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Member { name, place, error } => write!(f, "member {place}, {name:?}: {error}"),
            Self::Lost { name, place, reason } => {
                write!(f, "member {place}, {name:?}, was lost while the others were acquired: {reason}")
            }
        }
    }
}

impl Error for MultiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Member { error, .. } => error.source(),
            Self::Invalid(_) | Self::Lost { .. } => None,
        }
    }
}

impl From<Invalid> for MultiError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}
