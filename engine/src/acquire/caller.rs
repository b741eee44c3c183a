//! Who is queued for a key, and what can come of it. Pure.

use std::{num::NonZeroU64, time::Duration};

use crate::{clock::Instant, lease::shared::Terms, transport::TransportError};

/// Names one caller of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallerId(pub(crate) u64);

/// Names one re-entry scope of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScopeId(NonZeroU64);

impl ScopeId {
    /// The scope with this number, counted from 1.
    pub(crate) fn new(number: u64) -> Self {
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MAX))
    }
}

/// Somebody who wants the key. `S` is where the answer goes; this file never looks at it.
#[derive(Debug)]
pub(crate) struct Caller<S> {
    pub(crate) id: CallerId,
    pub(crate) terms: Terms,
    pub(crate) patience: Patience,
    pub(crate) joined: Instant,
    pub(crate) scope: Option<ScopeId>,
    pub(crate) reply_to: S,
}

/// What a caller does about a lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It goes away with `None`.
    Try,
    /// It waits until this moment; `None`: without limit.
    Wait(Option<Instant>),
}

/// Why a caller leaves the queue without the lock.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// It only tried, and somebody holds the lock.
    Held,
    /// Its wait is over, and the lock was known to be held since it came.
    TimedOut,
    /// No definite answer for so long; the last trouble, if there was any.
    Unavailable { after: Duration, last_error: Option<TransportError> },
    /// Asking again is of no use.
    Failed(TransportError),
}

/// A caller on its way out.
#[derive(Debug)]
pub(crate) struct Leaving<S> {
    pub(crate) caller: Caller<S>,
    pub(crate) refusal: Refusal,
}
