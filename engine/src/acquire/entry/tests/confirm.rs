//! Tests when the server is asked whether it still has a hold of this engine, and what its answer does.

use super::*;

/// A lease that was granted at 1 ms, and a caller that waits for it.
fn wanted() -> (Ground, Arc<LeaseCore>) {
    let (mut ground, lease) = Ground::holding(None);
    lease.take(at(1));
    ground.caller(FOREVER, 5);
    (ground, lease)
}

#[test]
fn the_server_is_asked_a_safety_poll_after_the_grant_and_after_each_answer() {
    let (mut ground, lease) = wanted();
    let fairness = ground.entry.fairness.clone();
    for due in [1 + POLL, 1 + 2 * POLL, 1 + 3 * POLL] {
        assert_eq!(ground.wait(due - 1), (Some(due), false));
        assert_eq!(ground.ask(due).cause, Cause::SafetyPoll);
        let verdict = ground.answer(held(9_000), due, due + 1);
        assert!(verdict.grant.is_none() && verdict.leaving.is_empty() && verdict.closing.is_none());
    }
    assert_eq!(ground.entry.fairness, fairness, "no other process has had the lock");
    ground.release(&lease, 4_000);
    ground.ask(4_030);
}

#[test]
fn a_grant_ends_the_lease_whose_hold_has_gone() {
    let (mut ground, lease) = wanted();
    ground.ask(1 + POLL);
    let grant = ground.answer(granted(), 1 + POLL, 2 + POLL).grant.expect("for the caller that waits");
    let (_next, lost) = ground.install(grant);
    assert!(lost.is_some_and(|lost| Arc::ptr_eq(&lost, &lease)));
}

#[test]
fn a_confirmed_renewal_is_an_answer_unless_it_asked_for_more_than_the_ttl() {
    for (ttl, due) in [(TERMS.ttl, 700 + POLL), (Duration::from_secs(3_600), 1 + POLL)] {
        let (mut ground, lease) = wanted();
        lease.confirm(at(700), ttl);
        assert_eq!(ground.wait(701), (Some(due), false), "{ttl:?}");
    }
}

#[test]
fn an_ask_without_an_answer_is_repeated_with_the_same_owner_and_keeps_no_caller() {
    let (mut ground, _lease) = wanted();
    ground.caller(Patience::Wait(Some(at(1_500))), 6);
    let first = ground.ask(1 + POLL);
    assert_eq!(first.give_up, Some(at(1_500)));
    ground.answer(unknown(2_500), 1 + POLL, 2_000);
    assert_eq!(ground.overdue(2_000), [(3, "timed out")]);
    assert_eq!(ground.wait(2_000), (Some(1 + 2 * POLL), false));
    let (second, closing) = ground.ask_and_closing(1 + 2 * POLL);
    assert!(second.owner == first.owner && closing.is_none());
}

#[test]
fn what_is_known_of_a_hold_is_kept_with_it() {
    let (mut ground, _lease) = wanted();
    ground.ask(1 + POLL);
    ground.answer(held(9_000), 1 + POLL, 2 + POLL);
    let caller = ground.entry.callers.head().unwrap().id;
    ground.entry.depart(caller);
    ground.step(3 + POLL);
    assert!(ground.entry.as_held().is_none(), "the next caller would ask at once");
}

#[test]
fn a_caller_that_only_tries_asks_as_often_and_is_refused_by_what_was_answered_last() {
    let (mut ground, _lease) = Ground::holding(None);
    let is_known =
        |ground: &Ground, ms| ground.entry.is_known_held_to_newcomers(HoldKind::Exclusive, at(ms), &PACE);
    assert!(is_known(&ground, POLL) && !is_known(&ground, 1 + POLL));
    ground.caller(Patience::Try, 1 + POLL);
    assert!(ground.overdue(1 + POLL).is_empty());
    assert_eq!(ground.ask(1 + POLL).cause, Cause::Arrival);
    let verdict = ground.answer(held(9_000), 1 + POLL, 2 + POLL);
    assert_eq!(names(verdict.leaving), [(2, "held")]);
    assert!(is_known(&ground, 2 * POLL) && !is_known(&ground, 1 + 2 * POLL));
    ground.caller(Patience::Try, 1 + 2 * POLL);
    ground.ask(1 + 2 * POLL);
    ground.answer(unknown(3_000), 1 + 2 * POLL, 2_500);
    assert_eq!(ground.overdue(2_500), [(3, "held")], "by the lease, which has not ended");
}
