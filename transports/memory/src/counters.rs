//! The table of counters. Pure: it has names, numbers and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - A counter exists from the operation that makes it to the one that deletes it. A semaphore that does not exist has
//!   no permits; a latch that does not exist is open.
//! - Beside it is the last number of each client with its result, until `remember` is over.
//! - Nothing is executed after its `execute_by`, nor below the last number of its client.

use std::{collections::HashMap, sync::Arc};

use crate::{by_key::ByKey, hold::expiry, table::Moment};
use leasehold::{
    key::LockKey,
    transport::{Counter, CounterCall, CounterOp, CounterReply},
};

/// The part of an owner that names its engine, as a number.
type ClientId = u128;

/// All counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    numbers: ByKey<i64>,
    markers: HashMap<(Arc<LockKey>, ClientId), Marker>,
    /// How many markers the last sweep has left. The next sweep is due at twice as many, plus `LEFTOVERS_MAX`.
    swept: usize,
}

/// The last operation of one client on one counter.
#[derive(Clone, Copy, Debug)]
struct Marker {
    number: u64,
    result: i64,
    expires_at: u64,
}

/// What an operation did.
struct Effect {
    result: i64,
    /// Whether the watchers are notified.
    told: bool,
}

impl Counters {
    /// Executes one operation. Returns the reply, and whether the watchers of the key are to be notified.
    pub(crate) fn count(&mut self, call: &CounterCall, now: Moment) -> (CounterReply, bool) {
        let at = now.server;
        if now.ours > call.execute_by {
            return (CounterReply::TooLate { at }, false);
        }
        if call.op == CounterOp::Read {
            let left = self.number(&call.key);
            return (CounterReply::Done { result: left, left, at }, false);
        }
        let last = self.last(call, at.micros);
        match last {
            Some(last) if last.number > call.number => (CounterReply::TooLate { at }, false),
            Some(last) if last.number == call.number => {
                (CounterReply::Done { result: last.result, left: self.number(&call.key), at }, false)
            }
            last => {
                let Effect { result, told } = self.execute(call, last);
                self.mark(call, result, now);
                (CounterReply::Done { result, left: self.number(&call.key), at }, told)
            }
        }
    }

    fn execute(&mut self, call: &CounterCall, last: Option<Marker>) -> Effect {
        match (&call.op, call.counter) {
            (CounterOp::Take(wants), _) => {
                let mut left = self.number(&call.key);
                let fits = |permits: i64| {
                    left -= permits;
                    (left >= 0).then_some(permits)
                };
                let taken = wants.iter().map(|permits| i64::from(permits.get())).map_while(fits).sum::<i64>();
                self.change(call, -taken, taken)
            }
            (CounterOp::Drain, _) => {
                let all = self.number(&call.key).max(0);
                self.change(call, -all, all)
            }
            (CounterOp::Give(permits), _) => self.change(call, permits.get().into(), permits.get().into()),
            (CounterOp::Add(permits), _) => {
                let sum = self.number(&call.key) + i64::from(*permits);
                self.change(call, i64::from(*permits), sum)
            }
            (CounterOp::Void { number }, _) => {
                let taken = last.filter(|last| last.number == *number).map_or(0, |last| last.result);
                self.change(call, taken, taken)
            }
            (CounterOp::SetIfAbsent(count), counter) => self.set_if_absent(call, *count, counter),
            (CounterOp::CountDown(steps), _) => self.count_down(call, i64::from(steps.get())),
            (CounterOp::Delete, _) => {
                let existed = self.numbers.remove(&call.key).is_some();
                Effect { result: existed.into(), told: existed }
            }
            (CounterOp::Read, _) => Effect { result: self.number(&call.key), told: false },
        }
    }

    fn change(&mut self, call: &CounterCall, by: i64, result: i64) -> Effect {
        if by == 0 {
            return Effect { result, told: false };
        }
        let number = self.numbers.entry(call.key.clone()).or_default();
        *number += by;
        Effect { result, told: by > 0 && *number > 0 }
    }

    fn set_if_absent(&mut self, call: &CounterCall, count: u32, counter: Counter) -> Effect {
        if self.numbers.contains_key(&call.key) {
            return Effect { result: 0, told: false };
        }
        self.numbers.insert(call.key.clone(), count.into());
        Effect { result: 1, told: count > 0 || counter == Counter::Latch }
    }

    fn count_down(&mut self, call: &CounterCall, steps: i64) -> Effect {
        let left = self.number(&call.key);
        let counted = steps.min(left).max(0);
        match counted > 0 && counted == left {
            true => drop(self.numbers.remove(&call.key)),
            false => drop(self.change(call, -counted, counted)),
        }
        Effect { result: counted, told: counted > 0 && counted == left }
    }

    /// Forgets everything, like a server without persistence.
    pub(crate) fn lose_all(&mut self) {
        *self = Self::default();
    }

    /// The number of markers in memory, including expired ones that were not removed yet.
    pub(crate) fn stored_markers(&self) -> usize {
        self.markers.len()
    }

    /// The available permits of a semaphore.
    pub(crate) fn available(&self, key: &Arc<LockKey>) -> i64 {
        self.number(key)
    }

    /// Changes the available permits of a semaphore by a grant or the end of a hold. Makes it if it does not exist.
    pub(crate) fn add_available(&mut self, key: &Arc<LockKey>, permits: i64) {
        if permits != 0 {
            *self.numbers.entry(key.clone()).or_default() += permits;
        }
    }

    fn number(&self, key: &Arc<LockKey>) -> i64 {
        self.numbers.get(key).copied().unwrap_or(0)
    }

    fn last(&self, call: &CounterCall, now: u64) -> Option<Marker> {
        let marker = self.markers.get(&(call.key.clone(), call.client.as_u128())).copied();
        marker.filter(|marker| now < marker.expires_at)
    }

    fn mark(&mut self, call: &CounterCall, result: i64, now: Moment) {
        if self.markers.len() >= 2 * self.swept + LEFTOVERS_MAX {
            self.markers.retain(|_, marker| now.server.micros < marker.expires_at);
            self.swept = self.markers.len();
        }
        let expires_at = expiry(now.server, call.remember);
        let marker = Marker { number: call.number, result, expires_at };
        self.markers.insert((call.key.clone(), call.client.as_u128()), marker);
    }
}

/// The number of expired markers, above the number of live ones, at which they are swept.
const LEFTOVERS_MAX: usize = 1024;
