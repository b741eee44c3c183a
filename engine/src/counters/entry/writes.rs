//! The writing operations that wait for their turn. Releases and count-downs that wait are added up. Pure.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU32,
};

use super::work::{Caller, CallerId, Leaving, Outcome, Work};
use crate::{clock::Instant, transport::CounterOp};

/// One writing operation, and the callers that it is done for.
#[derive(Clone, Debug)]
pub(crate) struct Write<R> {
    pub(super) op: CounterOp,
    pub(super) callers: BTreeMap<CallerId, Caller<R>>,
}

/// The writing operations of one counter, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Writes<R> {
    queue: VecDeque<Write<R>>,
}

impl<R> Default for Writes<R> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<R> Writes<R> {
    pub(super) fn add(&mut self, op: CounterOp, caller: Option<Caller<R>>) {
        let callers = caller.into_iter().map(|caller| (caller.id, caller)).collect();
        self.merge(Write { op, callers });
    }

    fn merge(&mut self, more: Write<R>) {
        let summed = self.queue.iter_mut().find_map(|write| Some((sum(&write.op, &more.op)?, write)));
        match summed {
            Some((op, write)) => {
                write.op = op;
                write.callers.extend(more.callers);
            }
            None => self.queue.push_back(more),
        }
    }

    /// Puts an operation back that was certainly not done.
    pub(super) fn put_back(&mut self, write: Write<R>) {
        if write.is_wanted() {
            self.queue.push_front(write);
        }
    }

    pub(super) fn next(&mut self) -> Option<Write<R>> {
        self.queue.pop_front()
    }

    pub(super) fn callers(&self) -> usize {
        self.queue.iter().map(|write| write.callers.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Removes a caller. An operation that nobody needs any more goes with it.
    pub(super) fn depart(&mut self, id: CallerId) -> Option<Caller<R>> {
        let gone = self.queue.iter_mut().find_map(|write| write.depart(id));
        self.queue.retain(Write::is_wanted);
        gone
    }

    /// Removes the callers that came by `moment`.
    pub(super) fn depart_by(&mut self, moment: Instant) -> Vec<(Caller<R>, bool)> {
        let gone = self.queue.iter_mut().flat_map(|write| {
            let goes_on = write.goes_on();
            write.depart_by(moment).into_iter().map(move |caller| (caller, goes_on))
        });
        let gone = gone.collect();
        self.queue.retain(Write::is_wanted);
        gone
    }

    /// Removes the operations that do not go on without their callers.
    pub(super) fn remove_optional(&mut self) -> Vec<Caller<R>> {
        let (stay, gone) = std::mem::take(&mut self.queue).into_iter().partition(Write::goes_on);
        self.queue = stay;
        let gone: VecDeque<Write<R>> = gone;
        gone.into_iter().flat_map(|write| write.callers.into_values()).collect()
    }

    pub(super) fn into_callers(self) -> impl Iterator<Item = Caller<R>> {
        self.queue.into_iter().flat_map(|write| write.callers.into_values())
    }

    pub(super) fn first_joined(&self) -> Option<Instant> {
        self.queue.iter().filter_map(Write::first_joined).min()
    }
}

impl<R> Write<R> {
    /// Whether the operation is done even if none of its callers waits for it: a permit that is not given back, or a
    /// step that is not counted, would be missing for ever.
    pub(super) fn goes_on(&self) -> bool {
        match self.op {
            CounterOp::Give(_) | CounterOp::CountDown(_) => true,
            CounterOp::Take(_)
            | CounterOp::SetIfAbsent(_)
            | CounterOp::Add(_)
            | CounterOp::Drain
            | CounterOp::Delete
            | CounterOp::Void { .. }
            | CounterOp::Read => false,
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.goes_on() || !self.callers.is_empty()
    }

    pub(super) fn depart(&mut self, id: CallerId) -> Option<Caller<R>> {
        self.callers.remove(&id)
    }

    pub(super) fn depart_by(&mut self, moment: Instant) -> Vec<Caller<R>> {
        let mut gone = Vec::new();
        while let Some(first) = self.callers.first_entry().filter(|first| first.get().joined <= moment) {
            gone.push(first.remove());
        }
        gone
    }

    pub(super) fn first_joined(&self) -> Option<Instant> {
        self.callers.values().next().map(|caller| caller.joined)
    }

    /// The answers to all callers of an operation that is done.
    pub(super) fn answers(self, result: i64, left: i64) -> impl Iterator<Item = Leaving<R>> {
        let before = left.saturating_add(result);
        let counts = matches!(self.op, CounterOp::CountDown(_));
        self.callers.into_values().enumerate().map(move |(place, caller)| {
            let step = i64::try_from(place).unwrap_or(i64::MAX).saturating_add(1).min(result);
            let left = if counts { before - step } else { left };
            caller.leave(Outcome::Done { result, left })
        })
    }

    pub(super) fn refused(self, outcome: &Outcome) -> impl Iterator<Item = Leaving<R>> {
        self.callers.into_values().map(|caller| caller.leave(outcome.clone()))
    }
}

impl<R> Caller<R> {
    pub(super) fn leave(self, outcome: Outcome) -> Leaving<R> {
        Leaving { work: self.work, outcome, reply_to: self.reply_to }
    }
}

/// The operation of a caller that does not wait in the queue.
pub(super) fn op_of(work: Work) -> Option<CounterOp> {
    match work {
        Work::Take(_) | Work::Open => None,
        Work::Give(permits) => Some(CounterOp::Give(permits)),
        Work::CountDown => Some(CounterOp::CountDown(NonZeroU32::MIN)),
        Work::SetIfAbsent(count) => Some(CounterOp::SetIfAbsent(count)),
        Work::Add(permits) => Some(CounterOp::Add(permits)),
        Work::Drain => Some(CounterOp::Drain),
        Work::Delete => Some(CounterOp::Delete),
    }
}

fn sum(one: &CounterOp, other: &CounterOp) -> Option<CounterOp> {
    match (one, other) {
        (CounterOp::Give(one), CounterOp::Give(other)) => sum_of(*one, *other).map(CounterOp::Give),
        (CounterOp::CountDown(one), CounterOp::CountDown(other)) => {
            sum_of(*one, *other).map(CounterOp::CountDown)
        }
        _ => None,
    }
}

// Peers read the number as a signed 32-bit integer.
fn sum_of(one: NonZeroU32, other: NonZeroU32) -> Option<NonZeroU32> {
    one.checked_add(other.get()).filter(|sum| sum.get() <= i32::MAX as u32)
}
