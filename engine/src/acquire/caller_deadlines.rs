//! When callers of a key leave by the clock alone, in the order of those moments. Pure.
//!
//! Each look begins at the earliest moment and ends at the first that has not come, so it costs as much as callers leave
//! or stay by it, however many wait.

use std::collections::{BTreeMap, BTreeSet};

use super::caller::{Caller, Patience};
use crate::clock::Instant;

/// A caller's number in its queue: the lowest is served first.
pub(crate) type Place = i64;

/// A caller's number in the order of their coming, counted from 1. 0: it had come before, and is the head again.
pub(crate) type Coming = u64;

type Moment = (Instant, Place);

/// The moments of one queue.
#[derive(Debug, Default)]
pub(crate) struct CallerDeadlines {
    /// When each caller came that only tries.
    tries: BTreeSet<Moment>,
    /// When each other caller came.
    waits: BTreeSet<Moment>,
    /// When the wait of each caller with a limit ends; of one that stayed, its last moment.
    ends: BTreeSet<Moment>,
    /// Those whose wait is over and who stayed, in the order of their coming, with their last moment.
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

    /// A caller whose wait is over stays, until `last` at most. `false`: it has stayed already.
    pub(crate) fn stay<S>(&mut self, reply_to: (Coming, Place), caller: &Caller<S>, last: Instant) -> bool {
        if self.stayed.contains_key(&reply_to) {
            return false;
        }
        self.remove(reply_to, caller);
        self.waits.insert((caller.joined, reply_to.1));
        self.ends.insert((last, reply_to.1));
        self.stayed.insert(reply_to, last);
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

    /// Of those who stayed, who came first.
    pub(crate) fn first_stayed(&self) -> Option<(Coming, Place)> {
        self.stayed.first_key_value().map(|(came, _)| *came)
    }

    /// Before this moment no caller that stayed leaves by the clock; `None`: no caller has stayed.
    pub(crate) fn stayed_until(&self) -> Option<Instant> {
        self.first_end().filter(|_| !self.stayed.is_empty()).map(|(end, _)| end)
    }
}
