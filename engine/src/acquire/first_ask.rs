//! The first ask of a key, which most often is the only one: the thread of the caller sends it, and its answer is handled
//! where it arrives. So an acquire without contention needs no task. Everything else is left to the driver.

use std::sync::Arc;

use super::{
    ask::{After, SentAsk},
    driver::{self, Begin, DrainGuard, Stepped, Todo},
    table::Slot,
};
use crate::{
    clock::Instant,
    dispatch::{calls::Begun, permit::Permit},
    inner::Inner,
    key::LockKey,
    transport::{AnswerTo, Lane, Outcome},
};

/// Takes the first step of an entry that was just marked as driven. [`begin`] does the rest once the table is unlocked.
///
/// `joined`: a moment just before, which saves a look at the clock. A lease whose ask counts as sent a little earlier only ends
/// a little earlier. But the entry may ask only after a moment that may lie between the two.
pub(super) fn step(inner: &Inner, key: &LockKey, slot: &mut Slot, joined: Option<Instant>) -> Stepped {
    let joined = joined.filter(|joined| slot.entry.may_ask(*joined));
    let (now, pace) = (joined.unwrap_or_else(|| inner.clock.now()), inner.pace(key.slot()));
    driver::step(inner, slot, (now, &pace), false, false)
}

/// Serves the entry. A call of a list keeps its `permit` until the first definite answer.
pub(super) fn begin(inner: &Arc<Inner>, key: &Arc<LockKey>, first: Stepped, permit: Option<Permit>) {
    let guard = DrainGuard::new(inner, key);
    match first.finish(inner, key) {
        Todo::Ask(sent) => begin_ask(inner, guard, sent, permit),
        todo => driver::go_on(guard, permit, Begin::Taken(todo)),
    }
}

fn begin_ask(inner: &Arc<Inner>, guard: DrainGuard, sent: SentAsk, permit: Option<Permit>) {
    match open_lane(inner, &guard.key, &sent) {
        Some(lane) => send(inner, &lane, guard, sent, permit),
        None => driver::go_on(guard, permit, Begin::Taken(Todo::Ask(sent))),
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

fn send(inner: &Arc<Inner>, lane: &Arc<dyn Lane>, guard: DrainGuard, sent: SentAsk, permit: Option<Permit>) {
    inner.events.totals.asks.add(1);
    let (call, begun) = (sent.call(&guard.key), inner.dispatcher.count());
    let goes_alone = inner.dispatcher.goes_alone(&begun);
    let answer_to = AnswerTo::of_queued(move |outcome, waited| {
        driver::note_waited(&guard.inner, &guard.key, waited);
        land(guard, sent.later(waited), permit, outcome, begun);
    });
    inner.dispatcher.begin(&inner.core, lane, call, sent.times(), goes_alone, answer_to);
}

fn land(mut guard: DrainGuard, sent: SentAsk, permit: Option<Permit>, outcome: Outcome, begun: Begun) {
    let answer = sent.check(&guard.inner, outcome, begun);
    let last_error = driver::passing_error(&answer);
    let after = sent.handle_answer(&guard.inner, &guard.key, answer, None);
    let permit = permit.and_then(|permit| permit.after(last_error));
    match after {
        After::AtRest => guard.disarm(),
        After::Next => driver::go_on(guard, permit, Begin::Step),
        After::GiveBack(closing) => driver::go_on(guard, permit, Begin::GiveBack(closing)),
    }
}
