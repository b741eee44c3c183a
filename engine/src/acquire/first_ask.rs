//! The first ask of a key, which most often is the only one: the thread of the caller sends it, and its answer is handled
//! where it arrives. So an acquire without contention needs no task. Everything else is left to the driver.

use std::sync::Arc;

use super::{
    ask::{After, SentAsk},
    driver::{self, Begin, DrainGuard, Stepped, Todo},
    table::Slot,
};
use crate::{
    dispatch::group_commit::Begun,
    inner::Inner,
    key::LockKey,
    transport::{AnswerTo, Lane, Outcome},
};

/// Takes the first step of an entry that was just marked as driven. [`begin`] does the rest once the table is unlocked.
pub(super) fn step(inner: &Inner, key: &LockKey, slot: &mut Slot) -> Stepped {
    let (now, pace) = (inner.clock.now(), inner.pace(key.slot()));
    driver::step(inner, slot, (now, &pace), false, false)
}

/// Serves the entry.
pub(super) fn begin(inner: &Arc<Inner>, key: &Arc<LockKey>, first: Stepped) {
    let guard = DrainGuard::new(inner, key);
    match first.finish(inner, key) {
        Todo::Ask(sent) => begin_ask(guard, sent),
        todo => driver::go_on(guard, None, Begin::Taken(todo)),
    }
}

fn begin_ask(guard: DrainGuard, sent: SentAsk) {
    let inner = guard.inner.clone();
    match open_lane(&inner, &guard.key, &sent) {
        Some(lane) => send(&inner, &lane, guard, sent),
        None => driver::go_on(guard, None, Begin::Taken(Todo::Ask(sent))),
    }
}

// `None`: the ask is left to the driver. A caller may leave by the clock before the ask is answered, or the ask is not sent.
fn open_lane(inner: &Inner, key: &LockKey, sent: &SentAsk) -> Option<Arc<dyn Lane>> {
    let may_leave = |leaves| leaves < sent.sent + inner.config.command_timeout();
    if sent.ask.give_up.is_some_and(may_leave) {
        return None;
    }
    let lane = inner.calls.lane()?;
    inner.check_restart_grace(key, sent.sent).ok().map(|()| lane)
}

fn send(inner: &Arc<Inner>, lane: &Arc<dyn Lane>, guard: DrainGuard, sent: SentAsk) {
    inner.events.totals.asks.add(1);
    let (call, begun) = (sent.call(&guard.key), inner.group_commit.count());
    let goes_alone = inner.group_commit.goes_alone(&call, &begun);
    let answer_to = AnswerTo::new(move |outcome| land(guard, sent, outcome, begun));
    inner.group_commit.begin(&inner.core, lane, call, goes_alone, answer_to);
}

fn land(mut guard: DrainGuard, sent: SentAsk, outcome: Outcome, begun: Begun) {
    let answer = sent.check(&guard.inner, outcome, begun);
    match sent.handle_answer(&guard.inner, &guard.key, answer, None) {
        After::AtRest => guard.disarm(),
        After::Next => driver::go_on(guard, None, Begin::Step),
        After::GiveBack(closing) => driver::go_on(guard, None, Begin::GiveBack(closing)),
    }
}
