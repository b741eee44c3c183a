//! Calls that are sent together: each caller gets its own outcome.

use std::sync::{Mutex, PoisonError};

use super::{
    unanswered::Unanswered,
    unsent_call::{AnswerAfter, UnsentCall},
};
use crate::{
    guard,
    transport::{AnswersTo, Call, give_together},
};

/// Sends calls together: without a task if the transport can.
pub(super) fn begin(unanswered: Unanswered, unsent: Vec<UnsentCall>) {
    let (core, lane, node) = (unanswered.core.clone(), unanswered.lane.clone(), unanswered.node);
    let (mut waiting, mut calls) = (Vec::with_capacity(unsent.len()), Vec::with_capacity(unsent.len()));
    for (ticket, unsent) in unsent.into_iter().enumerate() {
        let (call, answer_to) = unsent.into_parts();
        calls.push(call.with_ticket(ticket as u64));
        waiting.push(Some(answer_to));
    }
    let group = Group(Mutex::new(State { left: waiting.len(), waiting, unanswered: Some(unanswered) }));
    let answers_to = AnswersTo::new(move |answered| group.answer(answered));
    if let Some((calls, answers_to)) = lane.begin_many(node, calls, answers_to) {
        core.spawn(async move {
            // A panic is passed on to each caller, which then has no answer.
            answers_to.answer(guard::run(lane.call(node, calls)).await.unwrap_or_default());
        });
    }
}

struct Group(Mutex<State>);

struct State {
    /// Those that wait for an outcome, by their ticket.
    waiting: Vec<Option<AnswerAfter>>,
    /// How many of them.
    left: usize,
    /// `None` once all have their outcomes.
    unanswered: Option<Unanswered>,
}

impl Group {
    /// Gives these calls their outcomes. Behind the last of them, what waits for the group is sent first.
    fn answer(&self, answered: Vec<Call>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told: Vec<_> = answered.into_iter().filter_map(|call| state.take(call)).collect();
        let unanswered = if state.left == 0 { state.unanswered.take() } else { None };
        drop(state);
        drop(unanswered);
        give_together(|| told.into_iter().for_each(|(answer_to, call)| answer_to.answer(call.outcome)));
    }
}

impl State {
    // `None`: no call has this ticket, or it had an outcome before.
    fn take(&mut self, call: Call) -> Option<(AnswerAfter, Call)> {
        let answer_to = self.waiting.get_mut(usize::try_from(call.ticket).ok()?)?.take()?;
        self.left -= 1;
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.note(&call.outcome);
        }
        Some((answer_to, call))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        clock::Instant,
        key::LockKey,
        owner::OwnerMint,
        transport::{AnswerTo, HoldKind, Op, Outcome},
    };

    fn call(ticket: u64) -> Call {
        let key = LockKey::new("", "a").expect("a good name");
        Call::new(key, HoldKind::Exclusive, Op::Release, OwnerMint::new().mint(), Instant::default())
            .with_ticket(ticket)
    }

    fn group(size: usize) -> (Group, Arc<Mutex<Vec<usize>>>) {
        let told = Arc::<Mutex<Vec<usize>>>::default();
        let answer_to = |place| {
            let told = told.clone();
            let answer_to = AnswerTo::new(move |_| told.lock().unwrap().push(place));
            let at = Instant::default();
            Some(UnsentCall::new(call(0), at, None, answer_to).into_parts().1)
        };
        let state = State { waiting: (0..size).map(answer_to).collect(), left: size, unanswered: None };
        (Group(Mutex::new(state)), told)
    }

    #[test]
    fn each_caller_gets_one_outcome_in_whichever_parts_they_come() {
        let (group, told) = group(3);
        group.answer(vec![call(2), call(0)]);
        group.answer(vec![call(2), call(7)]);
        assert_eq!((told.lock().unwrap().clone(), group.0.lock().unwrap().left), (vec![2, 0], 1));
        group.answer(vec![call(1).answered(Outcome::Pending)]);
        assert_eq!((told.lock().unwrap().clone(), group.0.lock().unwrap().left), (vec![2, 0, 1], 0));
    }
}
