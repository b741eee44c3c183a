//! The callers that are queued for a key, and why a caller leaves the queue. Pure.

use std::{num::NonZeroU64, time::Duration};

use crate::{
    clock::Instant,
    lease::shared::Terms,
    transport::{HoldKind, TransportError},
};

/// The number of one caller of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallerId(pub(crate) u64);

/// The number of one re-entry scope of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScopeId(NonZeroU64);

impl ScopeId {
    /// The scope with this number, counted from 1.
    pub(crate) fn new(number: u64) -> Self {
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MAX))
    }
}

/// A caller that wants the key. `S` is the place of its answer; this file never looks at it.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Caller<S> {
    pub(crate) id: CallerId,
    pub(crate) terms: Terms,
    /// The kind that the caller asked for. A reader whose scope waits to write has the terms of the writer.
    pub(crate) side: HoldKind,
    pub(crate) patience: Patience,
    pub(crate) joined: Instant,
    pub(crate) scope: Option<ScopeId>,
    /// How many grants of this call it did not take in time.
    pub(crate) late: u8,
    pub(crate) reply_to: S,
}

impl<S> Caller<S> {
    /// Whether the caller may share a lease with these terms with callers outside of its scope: only readers do.
    pub(crate) fn may_share(&self, terms: Terms) -> bool {
        let is_reader = self.terms.kind == HoldKind::Read && self.scope.is_none();
        is_reader && self.terms.max_hold.is_none() && terms.max_hold.is_none() && self.terms.is_like(terms)
    }
}

/// A caller that did not take its grant in time, and is queued again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// When it was queued first; its wait counts from then.
    pub(crate) joined: Instant,
    /// How many of its grants it did not take in time.
    pub(crate) late: u8,
}

/// What a caller does if the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The caller leaves with `None`.
    Try,
    /// The caller waits until this moment; `None`: without limit.
    Wait(Option<Instant>),
}

/// Why a caller leaves the queue without the lock.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// The caller only tried, and the lock is held.
    Held,
    /// The caller's wait has ended, and the lock was known to be held since it joined.
    TimedOut,
    /// No definite answer for `after`; `last_error` is the last error, if there was one.
    Unavailable { after: Duration, last_error: Option<TransportError> },
    /// Asking again is useless.
    Failed(TransportError),
}

/// A caller that leaves the queue, and why.
#[derive(Debug)]
pub(crate) struct Leaving<S> {
    pub(crate) caller: Caller<S>,
    pub(crate) refusal: Refusal,
}
