//! The moments at which callers of a key leave by the clock alone, in order. Pure.
//!
//! Each look begins at the earliest moment and ends at the first moment that has not come. So its cost depends on the
//! number of callers that leave or stay by it, not on the number of callers that wait.

use std::collections::{BTreeMap, BTreeSet};

use super::caller::{Caller, Patience};
use crate::clock::Instant;

/// A caller's number in its queue. The lowest number is served first.
pub(crate) type Place = i64;

/// A caller's arrival number, counted from 1. 0: the caller had joined before, and is the head again.
pub(crate) type Coming = u64;

type Moment = (Instant, Place);

/// The moments of the callers of one queue.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct CallerDeadlines {
    /// The arrival of each caller that only tries.
    tries: BTreeSet<Moment>,
    /// The arrival of each other caller.
    waits: BTreeSet<Moment>,
    /// The end of the wait of each caller with a limit. For a caller that stays queued after its wait: the last moment
    /// of its stay.
    ends: BTreeSet<Moment>,
    /// The callers that stay queued after their wait, in the order of arrival, with the last moment of their stay.
    stayed: BTreeMap<(Coming, Place), Instant>,
}

impl CallerDeadlines {
    pub(crate) fn add<S>(&mut self, place: Place, caller: &Caller<S>) {
        let came = (caller.joined, place);
        match caller.patience {
            Patience::Try => self.tries.insert(came),
            Patience::Wait(until) => {
                self.ends.extend(until.map(|until| (until, place)));
                self.waits.insert(came)
            }
        };
    }

    pub(crate) fn remove<S>(&mut self, (coming, place): (Coming, Place), caller: &Caller<S>) {
        let came = (caller.joined, place);
        match caller.patience {
            Patience::Try => self.tries.remove(&came),
            Patience::Wait(until) => {
                let end = self.stayed.remove(&(coming, place)).or(until);
                end.map(|end| self.ends.remove(&(end, place)));
                self.waits.remove(&came)
            }
        };
    }

    /// Keeps a caller queued after its wait, until `last` at most. `false`: the caller has stayed already.
    pub(crate) fn stay<S>(&mut self, arrival: (Coming, Place), caller: &Caller<S>, last: Instant) -> bool {
        if self.stayed.contains_key(&arrival) {
            return false;
        }
        self.remove(arrival, caller);
        self.waits.insert((caller.joined, arrival.1));
        self.ends.insert((last, arrival.1));
        self.stayed.insert(arrival, last);
        true
    }

    pub(crate) fn first_try(&self) -> Option<Moment> {
        self.tries.first().copied()
    }

    pub(crate) fn first_wait(&self) -> Option<Moment> {
        self.waits.first().copied()
    }

    pub(crate) fn first_end(&self) -> Option<Moment> {
        self.ends.first().copied()
    }

    /// The first arrival among the callers that stay queued after their wait.
    pub(crate) fn first_stayed(&self) -> Option<(Coming, Place)> {
        self.stayed.first_key_value().map(|(came, _)| *came)
    }

    /// The moment before which no caller that stays queued after its wait leaves by the clock. `None`: no caller stays.
    pub(crate) fn stayed_until(&self) -> Option<Instant> {
        self.first_end().filter(|_| !self.stayed.is_empty()).map(|(end, _)| end)
    }
}
