//! How renewals of many locks are sent to a server: as its version allows, and as far as its replies have been
//! correct.
//!
//! A proxy may send a command with several keys to the server of its first key, or refuse it with its own error
//! text. This shows when a negative reply to such a command is checked with a command for that key alone.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::{clock::Instant, routing::topology};

/// How a connection renews many locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    /// All keys are declared, whatever their slots. For servers outside of a cluster.
    Declared,
    /// One script for keys of many slots, which declares no keys.
    AcrossSlots,
    /// One script for each slot.
    BySlot,
    /// One script for each lock.
    OneByOne,
}

impl Batches {
    /// Returns the form in the engine's terms.
    pub(crate) fn for_engine(self) -> topology::Batching {
        match self {
            Self::Declared | Self::AcrossSlots => topology::Batching::AcrossSlots,
            Self::BySlot | Self::OneByOne => topology::Batching::BySlot,
        }
    }

    /// Whether a command for this many locks names one key, and declares it. Every proxy sends such a command to
    /// the right server.
    pub(crate) fn declares_one_key(self, locks: usize) -> bool {
        locks == 1 && self != Self::AcrossSlots
    }

    fn smaller(self) -> Self {
        match self {
            Self::Declared | Self::AcrossSlots => Self::BySlot,
            Self::BySlot | Self::OneByOne => Self::OneByOne,
        }
    }
}

/// What the replies of one server have shown. All lanes share it.
#[derive(Debug, Default)]
pub(crate) struct BatchLimit(Mutex<Option<Limited>>);

#[derive(Clone, Copy, Debug)]
struct Limited {
    to: Batches,
    until: Instant,
}

impl BatchLimit {
    /// Returns `batches`, or a smaller form if the replies have shown that the server needs one.
    pub(crate) fn apply(&self, batches: Batches, now: Instant) -> Batches {
        let limited = self.lock().filter(|limited| now < limited.until);
        match limited.map(|limited| limited.to) {
            None | Some(Batches::Declared | Batches::AcrossSlots) => batches,
            Some(Batches::BySlot) if batches == Batches::OneByOne => batches,
            Some(to) => to,
        }
    }

    /// Records that a batch in this form was answered wrongly or refused, while its members alone were not. Returns
    /// the new form if the server has never needed it before.
    pub(crate) fn refute(&self, form: Batches, now: Instant) -> Option<Batches> {
        let mut limited = self.lock();
        let (to, before) = (form.smaller(), limited.map(|limited| limited.to));
        if to == Batches::BySlot && before == Some(Batches::OneByOne) {
            return None;
        }
        *limited = Some(Limited { to, until: now + REMEMBERED });
        (before != Some(to)).then_some(to)
    }

    /// Whether replies have shown that the server needs smaller batches.
    pub(crate) fn is_in_force(&self, now: Instant) -> bool {
        self.lock().is_some_and(|limited| now < limited.until)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Limited>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to ask again whether scripts may span slots, if the server has not answered that question.
#[derive(Debug, Default)]
pub(crate) struct Inquiry(Mutex<Option<Next>>);

#[derive(Clone, Copy, Debug)]
struct Next {
    at: Instant,
    pause: Duration,
}

impl Inquiry {
    /// Starts after the server was asked at `now` and did not answer the question.
    pub(crate) fn open(now: Instant) -> Self {
        Self(Mutex::new(Some(Next { at: now + PAUSE_MIN, pause: PAUSE_MIN })))
    }

    /// Whether to ask now. If so, the next time is after twice the pause, at most [`PAUSE_MAX`].
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut next = self.lock();
        let Some(due) = next.filter(|next| next.at <= now) else { return false };
        let pause = (2 * due.pause).min(PAUSE_MAX);
        *next = Some(Next { at: now + pause, pause });
        true
    }

    /// Ends the inquiry, because the server has answered the question.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Next>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
// After this time a larger batch is tried again. A refusal may have had another cause, and a wrong reply is checked
// with a single renewal in any case.
const REMEMBERED: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_refuted_form_gives_way_to_the_next_smaller() {
        let limit = BatchLimit::default();
        assert_eq!(limit.apply(Batches::AcrossSlots, at(0)), Batches::AcrossSlots);
        assert_eq!(limit.refute(Batches::AcrossSlots, at(0)), Some(Batches::BySlot));
        assert_eq!(limit.apply(Batches::AcrossSlots, at(1)), Batches::BySlot);
        assert_eq!(limit.refute(Batches::BySlot, at(1)), Some(Batches::OneByOne));
        assert_eq!(limit.apply(Batches::Declared, at(2)), Batches::OneByOne);
        assert_eq!(limit.apply(Batches::BySlot, at(2)), Batches::OneByOne);
    }

    #[test]
    fn each_form_is_told_once() {
        let limit = BatchLimit::default();
        assert_eq!(limit.refute(Batches::Declared, at(0)), Some(Batches::BySlot));
        assert_eq!(limit.refute(Batches::Declared, at(1)), None);
        assert_eq!(limit.refute(Batches::BySlot, at(2)), Some(Batches::OneByOne));
        // A larger batch that was in flight at that time.
        assert_eq!(limit.refute(Batches::Declared, at(3)), None);
        assert_eq!(limit.apply(Batches::Declared, at(3)), Batches::OneByOne);
    }

    #[test]
    fn after_ten_minutes_a_batch_is_tried_again() {
        let limit = BatchLimit::default();
        limit.refute(Batches::Declared, at(0));
        assert!(limit.is_in_force(at(599)) && !limit.is_in_force(at(600)));
        assert_eq!(limit.apply(Batches::Declared, at(599)), Batches::BySlot);
        assert_eq!(limit.apply(Batches::Declared, at(600)), Batches::Declared);
        assert_eq!(limit.refute(Batches::Declared, at(601)), None);
        assert_eq!(limit.apply(Batches::Declared, at(602)), Batches::BySlot);
    }

    #[test]
    fn what_was_not_told_is_asked_again_with_longer_pauses() {
        let inquiry = Inquiry::open(at(0));
        let asked: Vec<u64> = (0..200).filter(|second| inquiry.is_due(at(*second))).collect();
        assert_eq!(asked, [1, 3, 7, 15, 31, 63, 123, 183]);
        inquiry.close();
        assert!(!inquiry.is_due(at(1_000)) && !Inquiry::default().is_due(at(1_000)));
    }

    #[test]
    fn only_one_declared_key_is_sure_to_reach_its_server() {
        assert!(Batches::Declared.declares_one_key(1) && Batches::BySlot.declares_one_key(1));
        assert!(!Batches::Declared.declares_one_key(2) && !Batches::AcrossSlots.declares_one_key(1));
    }
}
