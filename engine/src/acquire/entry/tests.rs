//! Tests the entry with hand-made answers; no clock, no transport.

use std::time::Duration;

use super::*;
use crate::{
    acquire::caller::{Leaving, Patience, Refusal},
    fencing::FencingToken,
    key::LockKey,
    lease::{state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    owner::OwnerMint,
    routing::topology::{ClockId, NodeId},
    transport::{ErrorKind, HoldKind, Outcome, Remaining, ServerTime, TransportError},
};

const TTL: Duration = Duration::from_secs(10);
const TERMS: Terms = Terms {
    kind: HoldKind::Exclusive,
    ttl: TTL,
    renewed: true,
    max_hold: None,
    labels: crate::metrics::LabelSet::DEFAULT,
};
const OTHER_TTL: Terms = Terms { ttl: Duration::from_secs(20), ..TERMS };
const FENCED: Terms = Terms { kind: HoldKind::Fenced(crate::FencingMode::Hybrid), ..TERMS };
const SPIN: Terms = Terms { kind: HoldKind::Spin, ..TERMS };
const POLL: u64 = 1_000;
const ROUND_TRIP: u64 = 1;
const PACE: Pace = Pace {
    unavailable_after: Duration::from_secs(10),
    command_timeout: Duration::from_secs(1),
    safety_poll: Duration::from_millis(POLL),
    jitter: 0,
    hand_offs_max: 512,
    round_trip: Duration::from_millis(ROUND_TRIP),
};
const FOREVER: Patience = Patience::Wait(None);

type Answer = Result<Outcome, TransportError>;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn server(ms: u64) -> ServerTime {
    ServerTime { micros: ms * 1000, clock: ClockId { node: NodeId(0), epoch: 1 } }
}

fn granted() -> Answer {
    Ok(Outcome::Granted { token: FencingToken::at_server_micros(1), at: server(1) })
}

fn held(left_ms: u64) -> Answer {
    held_with(Remaining::For(Duration::from_millis(left_ms)))
}

fn held_with(remaining: Remaining) -> Answer {
    Ok(Outcome::Busy { remaining, at: server(1) })
}

fn too_late() -> Answer {
    Ok(Outcome::TooLate { at: server(1) })
}

fn unknown(not_after_ms: u64) -> Answer {
    Err(TransportError::unknown(ErrorKind::TimedOut, server(not_after_ms), "no answer"))
}

fn failed(kind: ErrorKind) -> Answer {
    Err(TransportError::without_effect(kind, None, "no"))
}

/// An entry, and a driver that does what the entry says.
struct Ground {
    entry: Entry<()>,
    mint: OwnerMint,
    callers: u64,
}

impl Ground {
    fn new() -> Self {
        Self { entry: Entry::default(), mint: OwnerMint::new(), callers: 0 }
    }

    /// An entry with one caller without limit, whose ask was answered "held" with `left_ms` remaining.
    fn waiting(left_ms: u64) -> Self {
        let mut ground = Self::new();
        ground.caller(FOREVER, 0);
        ground.ask(0);
        ground.answer(held(left_ms), 0, 1);
        ground
    }

    /// A lease of this engine that was granted at 1 ms, in `scope`, with no caller queued.
    fn holding(scope: Option<u64>) -> (Self, Arc<LeaseCore>) {
        let mut ground = Self::new();
        ground.join(FOREVER, 0, TERMS, scope);
        ground.ask(0);
        let lease = ground.granted(0, 1);
        (ground, lease)
    }

    fn caller(&mut self, patience: Patience, ms: u64) -> CallerId {
        self.join(patience, ms, TERMS, None)
    }

    fn join(&mut self, patience: Patience, ms: u64, terms: Terms, scope: Option<u64>) -> CallerId {
        self.callers += 1;
        let id = CallerId(self.callers);
        let scope = scope.map(ScopeId::new);
        self.entry.join(Caller {
            id,
            terms,
            side: terms.kind,
            patience,
            joined: at(ms),
            scope,
            late: 0,
            reply_to: (),
        });
        id
    }

    fn step(&mut self, ms: u64) -> (Step, Option<UnconfirmedOwner>) {
        self.entry.take_step(at(ms), &self.mint, &PACE)
    }

    /// The next ask, and the owner that it closes.
    fn ask_and_closing(&mut self, ms: u64) -> (Ask, Option<UnconfirmedOwner>) {
        let (step, closing) = self.step(ms);
        let Step::Ask(ask) = step else { panic!("no ask at {ms}: {step:?}") };
        self.entry.note_sent(at(ms));
        (ask, closing)
    }

    fn ask(&mut self, ms: u64) -> Ask {
        self.ask_and_closing(ms).0
    }

    /// Until when the entry waits, in milliseconds, and whether it watches. The next look at a grant is left out.
    fn wait(&mut self, ms: u64) -> (Option<u64>, bool) {
        let (step, closing) = self.step(ms);
        assert!(closing.is_none(), "{closing:?}");
        let Step::Wait { until, watch } = step else { panic!("no wait at {ms}: {step:?}") };
        let is_look = until.is_some() && until == self.entry.next_look(at(ms));
        let until = if is_look { self.entry.next_give_up(&PACE) } else { until };
        (until.map(|until| until.as_nanos() / 1_000_000), watch)
    }

    fn answer(&mut self, answer: Answer, sent: u64, now: u64) -> Verdict<()> {
        self.entry.handle_answer(answer, at(sent), at(sent + 1_000), at(now), &PACE)
    }

    /// A grant that is installed.
    fn granted(&mut self, sent: u64, now: u64) -> Arc<LeaseCore> {
        let grant = self.answer(granted(), sent, now).grant.expect("somebody wants it");
        self.install(grant).0
    }

    fn install(&mut self, grant: Grant<()>) -> (Arc<LeaseCore>, Option<Arc<LeaseCore>>) {
        let holds = 1 + grant.sharers.len() as u32;
        let key = LockKey::new("", "a").unwrap();
        let lease = LeaseCore::new(key, grant.receiver.terms, grant.granted, grant.open, holds);
        let lease = Arc::new(lease);
        let earlier = self.entry.install(lease.clone(), grant.receiver.scope);
        (lease, earlier.into_iter().next().map(|earlier| earlier.lease().clone()))
    }

    fn release(&mut self, lease: &Arc<LeaseCore>, ms: u64) {
        assert!(lease.release());
        self.entry.handle_local_release(lease, at(ms), true, PACE.round_trip);
    }

    fn overdue(&mut self, ms: u64) -> Vec<(u64, &'static str)> {
        names(self.entry.take_overdue(at(ms), &PACE))
    }
}

fn names(leaving: Vec<Leaving<()>>) -> Vec<(u64, &'static str)> {
    let name = |leaving: &Leaving<()>| match leaving.refusal {
        Refusal::Held => "held",
        Refusal::TimedOut => "timed out",
        Refusal::Unavailable { .. } => "unavailable",
        Refusal::Failed(_) => "failed",
    };
    leaving.iter().map(|leaving| (leaving.caller.id.0, name(leaving))).collect()
}

fn until(ms: u64) -> Patience {
    Patience::Wait(Some(at(ms)))
}

// The queue and the attempt.

#[test]
fn callers_are_served_in_the_order_of_their_coming() {
    let mut ground = Ground::new();
    let callers = [0, 1, 2].map(|ms| ground.caller(FOREVER, ms));
    for (turn, caller) in callers.into_iter().enumerate() {
        let ms = 10 * turn as u64;
        assert_eq!(ground.ask(ms).oldest, at(turn as u64));
        let grant = ground.answer(granted(), ms, ms + 1).grant.unwrap();
        assert_eq!(grant.receiver.id, caller);
        let (lease, _) = ground.install(grant);
        ground.release(&lease, ms + 2);
    }
    assert!(matches!(ground.step(99).0, Step::Rest) && ground.entry.is_idle());
}

#[test]
fn nothing_is_asked_while_a_lease_of_ours_holds_the_key() {
    let (mut ground, _lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    assert_eq!(ground.wait(5), (None, false));
    ground.entry.handle_notices(3, true, at(6), &PACE);
    assert_eq!(ground.wait(6), (None, false));
}

#[test]
fn a_grant_goes_to_the_first_caller_with_the_ttl_that_was_asked_for() {
    let mut ground = Ground::new();
    let head = ground.caller(FOREVER, 0);
    ground.join(FOREVER, 1, OTHER_TTL, None);
    let second = ground.caller(FOREVER, 2);
    assert_eq!(ground.ask(0).ttl, TTL);
    assert!(ground.entry.depart(head).is_some() && ground.entry.depart(head).is_none());
    assert_eq!(ground.answer(granted(), 0, 1).grant.unwrap().receiver.id, second);
}

#[test]
fn a_grant_goes_to_the_first_caller_of_its_kind() {
    let mut ground = Ground::new();
    let head = ground.join(FOREVER, 0, FENCED, None);
    ground.caller(FOREVER, 1);
    let second = ground.join(FOREVER, 2, FENCED, None);
    assert_eq!(ground.ask(0).kind, FENCED.kind);
    ground.entry.depart(head);
    assert_eq!(ground.answer(granted(), 0, 1).grant.unwrap().receiver.id, second);
}

#[test]
fn a_grant_of_a_kind_that_nobody_wants_is_given_back() {
    let mut ground = Ground::new();
    let head = ground.join(FOREVER, 0, FENCED, None);
    ground.ask(0);
    ground.entry.depart(head);
    ground.caller(FOREVER, 1);
    let verdict = ground.answer(granted(), 0, 5);
    assert!(verdict.grant.is_none() && verdict.closing.unwrap().kind == FENCED.kind);
    assert_eq!(ground.ask(5).kind, HoldKind::Exclusive);
}

#[test]
fn a_final_refusal_ends_the_callers_of_its_kind_and_closes_its_owner() {
    let mut ground = Ground::new();
    ground.join(FOREVER, 0, FENCED, None);
    let plain = ground.caller(FOREVER, 1);
    ground.join(FOREVER, 2, FENCED, None);
    let owner = ground.ask(0).owner;
    ground.answer(unknown(1_000), 0, 1_000);
    ground.ask(1_010);
    let verdict = ground.answer(failed(ErrorKind::WrongType), 1_010, 1_011);
    assert_eq!(names(verdict.leaving), [(1, "failed"), (3, "failed")]);
    assert_eq!(verdict.closing.unwrap().owner, owner);
    assert_eq!(ground.ask(1_011).kind, HoldKind::Exclusive);
    assert_eq!(ground.answer(granted(), 1_011, 1_012).grant.unwrap().receiver.id, plain);
}

// Spin locks.

#[test]
fn a_spin_caller_polls_without_a_watch_and_ever_more_slowly() {
    let mut ground = Ground::new();
    ground.join(FOREVER, 0, SPIN, None);
    let (mut ms, mut pauses) = (0, Vec::new());
    for round in 0..9 {
        let ask = ground.ask(ms);
        assert_eq!(ask.cause, if round == 0 { Cause::Arrival } else { Cause::Poll });
        ground.answer(held(10_000), ms, ms);
        let (next, watch) = ground.wait(ms);
        assert!(!watch);
        pauses.push(next.unwrap() - ms);
        ms = next.unwrap();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 128]);
    ground.ask(ms);
    let lease = ground.granted(ms, ms);
    ground.join(FOREVER, ms, SPIN, None);
    ground.release(&lease, ms);
    ground.ask(ms);
    ground.answer(held(10_000), ms, ms);
    assert_eq!(ground.wait(ms).0, Some(ms + 1), "the next wait begins with short pauses");
}

#[test]
fn a_spin_caller_does_not_wait_for_the_poll_of_the_caller_before_it() {
    let mut ground = Ground::waiting(10_000);
    let plain = CallerId(1);
    assert_eq!(ground.wait(1), (Some(1 + POLL), true));
    ground.join(FOREVER, 2, SPIN, None);
    assert_eq!(ground.wait(2), (Some(1 + POLL), true), "the head decides");
    ground.entry.depart(plain);
    assert_eq!(ground.wait(3), (Some(4), false));
}

#[test]
fn a_plain_caller_behind_a_spin_caller_watches_once_it_is_the_head() {
    let mut ground = Ground::new();
    let spin = ground.join(FOREVER, 0, SPIN, None);
    ground.caller(FOREVER, 0);
    ground.ask(0);
    ground.answer(held(10_000), 0, 1);
    assert!(!ground.wait(1).1);
    ground.entry.depart(spin);
    assert_eq!(ground.wait(1), (Some(2), true));
    ground.ask(2);
    ground.answer(held(10_000), 2, 3);
    assert_eq!(ground.wait(3), (Some(3 + POLL), true));
}

#[test]
fn s5_a_grant_that_nobody_wants_is_given_back_and_the_new_head_is_asked_for() {
    let mut ground = Ground::new();
    let head = ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.entry.depart(head);
    ground.join(FOREVER, 1, OTHER_TTL, None);
    let verdict = ground.answer(granted(), 0, 5);
    let closing = verdict.closing.unwrap();
    assert!(verdict.grant.is_none() && closing.may_hold && closing.open.is_closed());
    assert_eq!((closing.owner, closing.gone_by), (owner, at(1_000 + 10_000 + 500)));
    let ask = ground.ask(5);
    assert!(ask.ttl == OTHER_TTL.ttl && ask.owner != owner);
}

#[test]
fn an_attempt_that_was_never_sent_has_the_ttl_of_the_new_head() {
    let mut ground = Ground::new();
    let head = ground.caller(FOREVER, 0);
    assert!(matches!(ground.step(0).0, Step::Ask(ask) if ask.ttl == TTL), "held back by the retry rate");
    ground.entry.depart(head);
    ground.join(FOREVER, 1, OTHER_TTL, None);
    assert_eq!(ground.ask(2).ttl, OTHER_TTL.ttl);
    assert!(ground.answer(granted(), 2, 3).grant.is_some());
}

#[test]
fn s7_a_grant_that_comes_after_its_deadline_is_given_back_and_its_caller_stays() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    let verdict = ground.answer(granted(), 0, 9_500);
    assert!(verdict.grant.is_none() && verdict.closing.unwrap().owner == owner);
    assert_ne!(ground.ask(9_500).owner, owner);
}

#[test]
fn s7_a_caller_whose_grant_was_not_taken_in_time_is_the_head_again() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.caller(FOREVER, 1);
    ground.ask(0);
    let grant = ground.answer(granted(), 0, 1).grant.unwrap();
    let receiver = Caller { id: grant.receiver.id, ..grant.receiver };
    let again = Caller { late: 1, ..receiver };
    let id = again.id;
    ground.entry.join(again);
    ground.ask(2);
    assert_eq!(ground.answer(granted(), 2, 3).grant.unwrap().receiver.id, id);
}

#[test]
fn s5_when_the_last_caller_leaves_the_unanswered_attempt_is_closed() {
    let mut ground = Ground::new();
    let caller = ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(unknown(1_000), 0, 1_000);
    ground.entry.depart(caller);
    assert!(!ground.entry.is_idle());
    let (step, closing) = ground.step(1_000);
    assert!(matches!(step, Step::Rest) && closing.unwrap().owner == owner && ground.entry.is_idle());
}

#[test]
fn shutdown_takes_every_caller() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.caller(Patience::Try, 0);
    assert_eq!((ground.entry.depart_all().len(), ground.entry.callers_len()), (2, 0));
    assert!(ground.overdue(100_000).is_empty());
}

// Unknown, too late, failed.

#[test]
fn s5_an_unanswered_ask_is_repeated_with_the_same_owner_for_half_a_ttl() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(unknown(1_000), 0, 1_000);
    assert_eq!(ground.wait(1_000), (Some(1_010), false), "backs off");
    let (again, closing) = ground.ask_and_closing(1_010);
    assert!(again.owner == owner && again.cause == Cause::Retry && closing.is_none());
    ground.answer(unknown(2_010), 1_010, 4_900);
    let (last, closing) = ground.ask_and_closing(5_000);
    assert!(last.owner != owner);
    let closing = closing.unwrap();
    assert_eq!((closing.owner, closing.open.execute_by()), (owner, Some(at(2_010))));
}

#[test]
fn s5_an_owner_granted_after_an_unanswered_send_stays_open() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.ask(0);
    ground.answer(unknown(1_000), 0, 1_000);
    ground.ask(1_010);
    let grant = ground.answer(granted(), 1_010, 1_011).grant.unwrap();
    assert!(!grant.open.is_closed());
    assert_eq!(grant.granted.sent, at(1_010), "the deadline counts from the send that was answered");
}

#[test]
fn s5_held_closes_an_owner_with_unanswered_sends_only() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(unknown(1_000), 0, 1_000);
    ground.ask(1_010);
    let verdict = ground.answer(held(100), 1_010, 1_011);
    assert_eq!(verdict.closing.unwrap().owner, owner);
    let next = ground.ask(1_200).owner;
    assert_ne!(next, owner);
    assert!(ground.answer(held(100), 1_200, 1_201).closing.is_none());
}

#[test]
fn a_refusal_without_effect_keeps_the_owner_and_opens_nothing() {
    let mut ground = Ground::new();
    let caller = ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(failed(ErrorKind::NotReady), 0, 1);
    assert_eq!(ground.ask(50).owner, owner);
    ground.answer(failed(ErrorKind::NotReady), 50, 51);
    ground.entry.depart(caller);
    assert!(ground.step(52).1.is_none());
}

#[test]
fn troubles_in_a_row_back_off_up_to_200_ms() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    for delay in [10, 20, 40, 80, 160, 200, 200] {
        ground.ask(0);
        ground.answer(failed(ErrorKind::Unreachable), 0, 0);
        assert_eq!(ground.wait(0).0, Some(delay));
        ground.entry.handle_topology(at(0));
    }
}

#[test]
fn too_late_is_asked_again_at_once_and_the_second_in_a_row_after_a_while() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(too_late(), 0, 1);
    assert_eq!(ground.ask(1).owner, owner);
    ground.answer(too_late(), 1, 2);
    assert_eq!(ground.wait(2).0, Some(22));
    ground.ask(22);
    ground.answer(held(5), 22, 23);
    ground.ask(29);
    ground.answer(too_late(), 29, 30);
    ground.ask(30);
}

#[test]
fn s10_a_final_error_fails_every_caller() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.caller(Patience::Try, 0);
    ground.ask(0);
    let verdict = ground.answer(failed(ErrorKind::WrongType), 0, 1);
    assert_eq!(names(verdict.leaving), [(1, "failed"), (2, "failed")]);
    assert!(verdict.closing.is_none() && ground.entry.is_idle());
}

#[test]
fn s5_a_final_error_closes_an_owner_with_unanswered_sends() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    let owner = ground.ask(0).owner;
    ground.answer(unknown(1_000), 0, 1_000);
    ground.ask(1_010);
    assert_eq!(ground.answer(failed(ErrorKind::Denied), 1_010, 1_011).closing.unwrap().owner, owner);
}

#[test]
fn l5_a_changed_topology_ends_the_back_off() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.ask(0);
    ground.answer(unknown(1_000), 0, 1_000);
    ground.entry.handle_topology(at(1_002));
    assert_eq!(ground.ask(1_002).cause, Cause::Resync);
}

#[test]
fn a_changed_topology_does_not_disturb_who_waits_for_a_held_lock() {
    let mut ground = Ground::waiting(500);
    ground.entry.handle_topology(at(2));
    assert_eq!(ground.wait(2), (Some(502), true));
}

// How long callers are kept.

#[test]
fn l3_a_caller_leaves_when_its_wait_is_over() {
    let mut ground = Ground::waiting(5_000);
    ground.caller(until(400), 10);
    ground.caller(until(300), 10);
    assert_eq!(ground.wait(20), (Some(300), true));
    assert!(ground.overdue(299).is_empty());
    assert_eq!(ground.overdue(400), [(3, "timed out"), (2, "timed out")]);
    assert_eq!(ground.wait(400), (Some(1_001), true));
}

#[test]
fn l3_a_wait_ends_behind_a_lease_of_our_own() {
    let (mut ground, _lease) = Ground::holding(None);
    ground.caller(until(400), 10);
    assert_eq!(ground.wait(20), (Some(400), false));
    assert_eq!(ground.overdue(400), [(2, "timed out")]);
}

#[test]
fn l3_a_wait_that_no_answer_came_to_is_unavailable() {
    let mut ground = Ground::new();
    ground.caller(until(400), 0);
    ground.ask(0);
    ground.answer(unknown(1_000), 0, 300);
    ground.caller(until(400), 350);
    assert_eq!(ground.overdue(400), [(1, "unavailable")], "no ask was sent for the other one yet");
    assert!(ground.overdue(1_399).is_empty());
    assert_eq!(ground.overdue(1_400), [(2, "unavailable")], "one command timeout later");
}

#[test]
fn l3_a_wait_of_zero_leaves_with_the_answer_that_was_asked_for_it() {
    for (reply, told) in [
        (held(5_000), "timed out"),
        (unknown(1_000), "unavailable"),
        (failed(ErrorKind::NotReady), "unavailable"),
    ] {
        let mut ground = Ground::new();
        ground.caller(until(5), 5);
        assert!(ground.overdue(5).is_empty());
        ground.ask(6);
        assert!(ground.overdue(6).is_empty());
        ground.answer(reply, 6, 7);
        assert_eq!(ground.overdue(7), [(1, told)]);
    }
}

#[test]
fn l3_a_wait_is_timed_out_if_the_lock_was_held_since_it_came() {
    let mut ground = Ground::new();
    ground.caller(until(400), 0);
    ground.ask(0);
    ground.answer(held(50), 0, 1);
    ground.caller(until(400), 40);
    ground.ask(60);
    ground.answer(unknown(1_060), 60, 300);
    assert_eq!(ground.overdue(400), [(1, "timed out"), (2, "unavailable")]);
}

#[test]
fn l3_a_grant_that_goes_back_is_no_answer_to_the_others() {
    let mut ground = Ground::new();
    let head = ground.caller(FOREVER, 0);
    ground.join(until(5), 0, OTHER_TTL, None);
    ground.ask(0);
    ground.entry.depart(head);
    assert!(ground.answer(granted(), 0, 10).grant.is_none());
    assert!(ground.overdue(10).is_empty(), "the lock was free");
    ground.ask(10);
    assert!(ground.answer(granted(), 10, 11).grant.is_some());
}

#[test]
fn callers_are_looked_at_as_often_with_100_000_others_as_with_100() {
    let mut looks = [100, 100_000].map(|callers| {
        let mut ground = Ground::new();
        for number in 0..callers {
            ground.caller(until(1_000_000 + number), 0);
        }
        ground.join(FOREVER, 0, TERMS, Some(1));
        ground.ask(0);
        let mut lease = ground.granted(0, 1);
        for ms in 2..30 {
            assert!(ground.overdue(ms).is_empty());
            assert_eq!(ground.wait(ms).0, Some(1_000_000 + ms - 1), "{ms}");
            assert!(matches!(ground.entry.scope_view(ScopeId::new(1)), ScopeView::Queued(_)));
            ground.release(&lease, ms);
            ground.ask(ms);
            lease = ground.granted(ms, ms);
        }
        assert!(ground.entry.depart(CallerId(99)).is_some());
        ground.release(&lease, 50);
        ground.ask(50);
        ground.answer(held(5), 50, 51);
        assert_eq!(ground.overdue(1_000_080).len(), 52);
        ground.entry.callers.looks()
    });
    looks.sort_unstable();
    assert!(looks[0] == looks[1] && looks[0] < 400, "{looks:?}");
}

#[test]
fn l3_unavailable_counts_from_the_first_send_without_a_definite_answer_or_from_joining() {
    let mut ground = Ground::waiting(0);
    ground.ask(4_000);
    ground.answer(unknown(5_000), 4_000, 5_000);
    ground.caller(FOREVER, 6_000);
    ground.ask(5_010);
    ground.answer(too_late(), 5_010, 6_010);
    assert!(ground.overdue(13_999).is_empty());
    assert_eq!(ground.overdue(14_000), [(1, "unavailable")]);
    assert!(ground.overdue(15_999).is_empty());
    assert_eq!(ground.overdue(16_000), [(2, "unavailable")]);
}

#[test]
fn l3_a_definite_answer_sets_unavailable_back() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.ask(0);
    ground.answer(unknown(1_000), 0, 1_000);
    ground.ask(1_010);
    ground.answer(held(5_000), 1_010, 1_011);
    assert!(ground.overdue(100_000).is_empty());
}

#[test]
fn l3_unavailable_carries_the_last_trouble() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.ask(0);
    ground.answer(unknown(1_000), 0, 1_000);
    let leaving = ground.entry.take_overdue(at(10_000), &PACE);
    assert!(
        matches!(&leaving[0].refusal, Refusal::Unavailable { last_error: Some(error), .. } if error.kind == ErrorKind::TimedOut)
    );
}

#[test]
fn l3_unavailable_does_not_run_behind_a_lease_of_our_own() {
    let (mut ground, lease) = Ground::holding(None);
    lease.take(at(2));
    lease.enter_jeopardy();
    let asker = ground.caller(Patience::Try, 10);
    ground.ask(10);
    ground.answer(unknown(1_010), 10, 1_010);
    ground.entry.depart(asker);
    ground.caller(FOREVER, 1_020);
    ground.ask(1_020);
    ground.answer(unknown(2_020), 1_020, 2_020);
    assert!(ground.overdue(60_000).is_empty(), "the lease is held, whether the server confirms it or not");
}

// Callers that only try.

#[test]
fn a_try_needs_no_command_while_the_last_answer_was_held() {
    let mut ground = Ground::waiting(500);
    assert!(ground.entry.is_known_held(HoldKind::Exclusive, at(2)));
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(502)), "its time is over");
    ground.entry.handle_notices(1, false, at(10), &PACE);
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(10)), "a notice came");
    ground.ask(10);
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(11)), "an ask is in flight");
    ground.answer(unknown(1_010), 10, 1_010);
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(1_011)), "nothing definite");
}

#[test]
fn a_try_needs_no_command_while_a_lease_of_ours_holds() {
    let (mut ground, lease) = Ground::holding(None);
    assert!(ground.entry.is_known_held(HoldKind::Exclusive, at(5)));
    lease.enter_jeopardy();
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(5)));
    lease.confirm(at(6), TTL);
    assert!(ground.entry.is_known_held(HoldKind::Exclusive, at(9_505)));
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(9_506)), "past its deadline");
    ground.release(&lease, 9_507);
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(9_507)));
}

#[test]
fn what_was_known_is_forgotten_when_nobody_watches() {
    let (mut ground, lease) = Ground::holding(Some(1));
    ground.entry.handle_local_loss(&lease, at(5), PACE.round_trip);
    assert!(lease.lose(LossReason::NotOurs) && !ground.entry.is_idle());
    let caller = ground.caller(FOREVER, 10);
    ground.ask(10);
    ground.answer(held(5_000), 10, 11);
    ground.entry.depart(caller);
    assert!(matches!(ground.step(12).0, Step::Rest));
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(13)));
    ground.caller(Patience::Try, 13);
    ground.ask(13);
}

#[test]
fn our_own_release_ends_what_a_try_knew() {
    let (mut ground, lease) = Ground::holding(None);
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 10);
    ground.ask(10);
    assert_eq!(names(ground.answer(held(9_000), 10, 11).leaving), [(2, "held")]);
    ground.entry.fairness.handle_listeners(None, true);
    for _ in 0..1_100 {
        ground.entry.fairness.handle_grant(at(11));
    }
    ground.release(&lease, 12);
    assert!(!ground.entry.is_known_held(HoldKind::Exclusive, at(12)), "standing back, but nobody said held");
}

#[test]
fn a_try_waits_for_the_answer_and_leaves_with_it() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.caller(Patience::Try, 0);
    ground.ask(0);
    assert_eq!(names(ground.answer(held(50), 0, 1).leaving), [(2, "held")]);
    assert_eq!(ground.entry.callers_len(), 1);
}

#[test]
fn a_try_leaves_when_another_caller_of_ours_is_granted() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.caller(Patience::Try, 0);
    ground.ask(0);
    let verdict = ground.answer(granted(), 0, 1);
    assert_eq!((verdict.grant.unwrap().receiver.id.0, names(verdict.leaving)), (1, vec![(2, "held")]));
}

#[test]
fn l3_a_try_is_told_unavailable_in_time() {
    let mut ground = Ground::new();
    ground.caller(Patience::Try, 5);
    ground.ask(5);
    ground.answer(unknown(1_005), 5, 9_999);
    assert_eq!(ground.wait(10_000), (Some(10_005), false));
    assert_eq!(ground.overdue(10_005), [(1, "unavailable")]);
}

#[test]
fn in_jeopardy_a_try_asks_the_server() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    lease.enter_jeopardy();
    assert_eq!(ground.wait(5), (None, false), "who waits does not ask");
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    assert_eq!(names(ground.answer(held(9_000), 6, 7).leaving), [(3, "held")]);
    assert_eq!(ground.wait(8), (None, false));
}

#[test]
fn in_jeopardy_a_try_is_told_what_an_earlier_one_was_told() {
    let (mut ground, lease) = Ground::holding(None);
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    ground.answer(held(9_000), 6, 7);
    assert!(
        ground.entry.is_known_held(HoldKind::Exclusive, at(8))
            && !ground.entry.is_known_held(HoldKind::Exclusive, at(7 + POLL))
    );
}

#[test]
fn a_try_that_joined_in_jeopardy_leaves_when_it_is_over() {
    let (mut ground, lease) = Ground::holding(None);
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    ground.answer(unknown(1_006), 6, 1_006);
    lease.confirm(at(1_000), TTL);
    assert_eq!(ground.overdue(1_016), [(2, "held")]);
    let (step, closing) = ground.step(1_016);
    assert!(matches!(step, Step::Rest) && closing.is_some());
}

#[test]
fn s1_a_grant_in_jeopardy_replaces_the_earlier_lease_and_its_scope_is_lost() {
    let (mut ground, lease) = Ground::holding(Some(1));
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    let grant = ground.answer(granted(), 6, 7).grant.unwrap();
    let (new, earlier) = ground.install(grant);
    assert!(Arc::ptr_eq(&earlier.unwrap(), &lease));
    assert!(lease.lose(LossReason::NotOurs));
    ground.entry.handle_local_loss(&lease, at(8), PACE.round_trip);
    assert!(
        Arc::ptr_eq(ground.entry.only_lease().unwrap(), &new),
        "a late word of the earlier one changes nothing"
    );
    assert!(matches!(ground.entry.scope_view(ScopeId::new(1)), ScopeView::Lost(_)));
}

// Wake-ups.

#[test]
fn l1_it_asks_when_the_time_on_the_server_is_over() {
    let mut ground = Ground::waiting(500);
    assert_eq!(ground.wait(2), (Some(502), true));
    assert_eq!(ground.ask(502).cause, Cause::Expiry);
}

#[test]
fn l2_it_polls_a_long_hold() {
    for answer in [held(60_000), held_with(Remaining::NotKnown), held_with(Remaining::For(Duration::MAX))] {
        let mut ground = Ground::new();
        ground.caller(FOREVER, 0);
        ground.ask(0);
        ground.answer(answer, 0, 1);
        assert_eq!(ground.wait(2), (Some(1 + POLL), true));
        assert_eq!(ground.ask(1 + POLL).cause, Cause::SafetyPoll);
    }
}

#[test]
fn s9_a_hold_without_expiry_is_told_once_and_polled() {
    let mut ground = Ground::new();
    ground.caller(FOREVER, 0);
    ground.ask(0);
    assert!(ground.answer(held_with(Remaining::NoExpiry), 0, 1).no_expiry);
    assert_eq!(ground.wait(1).0, Some(1 + POLL));
    ground.ask(2_000);
    assert!(!ground.answer(held_with(Remaining::NoExpiry), 2_000, 2_001).no_expiry);
}

#[test]
fn l2_a_notice_leads_to_one_ask() {
    let mut ground = Ground::waiting(5_000);
    ground.entry.handle_notices(3, false, at(10), &PACE);
    assert_eq!(ground.ask(10).cause, Cause::Notice);
    ground.answer(held(5_000), 10, 11);
    assert_eq!(ground.wait(11).0, Some(11 + POLL));
}

#[test]
fn l2_notices_during_an_ask_are_remembered_as_one() {
    let mut ground = Ground::waiting(5_000);
    ground.entry.handle_notices(1, false, at(10), &PACE);
    ground.ask(10);
    ground.entry.handle_notices(1, false, at(11), &PACE);
    ground.entry.handle_notices(2, false, at(12), &PACE);
    ground.answer(held(5_000), 10, 13);
    assert_eq!(ground.ask(13).cause, Cause::Notice);
    ground.answer(held(5_000), 13, 14);
    assert_eq!(ground.wait(14).0, Some(14 + POLL));
}

#[test]
fn l2_a_grant_clears_a_remembered_notice() {
    let mut ground = Ground::waiting(5_000);
    ground.caller(FOREVER, 5);
    ground.entry.handle_notices(1, false, at(10), &PACE);
    ground.ask(10);
    ground.entry.handle_notices(1, false, at(11), &PACE);
    let lease = ground.granted(10, 12);
    ground.release(&lease, 20);
    ground.ask(20);
    ground.answer(held(5_000), 20, 21);
    assert_eq!(ground.wait(21).0, Some(21 + POLL));
}

#[test]
fn l2_a_resync_counts_as_a_notice() {
    let mut ground = Ground::waiting(5_000);
    ground.entry.handle_notices(0, true, at(10), &PACE);
    assert_eq!(ground.ask(10).cause, Cause::Resync);
}

#[test]
fn a_notice_while_backing_off_does_not_hurry_a_sick_server() {
    let mut ground = Ground::waiting(5_000);
    ground.ask(1_001);
    ground.answer(unknown(2_001), 1_001, 2_001);
    ground.entry.handle_notices(1, false, at(2_002), &PACE);
    assert_eq!(ground.wait(2_002).0, Some(2_011));
}

#[test]
fn l2_a_release_of_ours_during_an_ask_is_followed_by_another_ask() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    ground.release(&lease, 7);
    ground.answer(held(9_000), 6, 8);
    ground.ask(8);
}

#[test]
fn l2_a_loss_of_ours_during_an_ask_is_followed_by_another_ask() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    lease.enter_jeopardy();
    ground.caller(Patience::Try, 6);
    ground.ask(6);
    ground.entry.handle_local_loss(&lease, at(7), PACE.round_trip);
    ground.answer(held(9_000), 6, 8);
    ground.ask(8);
}

// Fairness between processes.

/// Other clients listen, and this process has had its streak. It waits with one caller since its release at 100 ms.
fn standing_back() -> Ground {
    standing_back_after_a_row_since(100)
}

fn standing_back_after_a_row_since(ms: u64) -> Ground {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    ground.entry.fairness = Fairness::default();
    for _ in 0..1_100 {
        ground.entry.fairness.handle_grant(at(ms));
    }
    ground.release(&lease, 100);
    ground
}

#[test]
fn it_asks_right_behind_its_own_release() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    ground.release(&lease, 100);
    assert_eq!(ground.ask(100).cause, Cause::Turn);
}

#[test]
fn after_its_row_it_stands_back_for_2_ms_and_a_round_trip() {
    let mut ground = standing_back();
    assert_eq!(ground.wait(100), (Some(102 + ROUND_TRIP), true));
    assert_eq!(ground.ask(102 + ROUND_TRIP).cause, Cause::Turn);
}

#[test]
fn after_its_row_it_stands_back_also_behind_a_loss() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    let third = TTL.as_millis() as u64 / 3 + 2;
    ground.entry.handle_local_loss(&lease, at(third), PACE.round_trip);
    assert_eq!(ground.wait(third), (Some(third + 16 + ROUND_TRIP), true));
}

#[test]
fn standing_back_ends_with_a_notice_that_is_not_its_own() {
    let mut ground = standing_back();
    ground.entry.handle_notices(1, false, at(101), &PACE);
    assert_eq!(ground.wait(101).0, Some(102 + ROUND_TRIP), "its own");
    ground.entry.handle_notices(1, false, at(101), &PACE);
    assert_eq!(ground.ask(101).cause, Cause::Notice);
}

#[test]
fn for_one_round_after_its_row_it_asks_one_pause_behind_the_last_notice() {
    let mut ground = standing_back_after_a_row_since(84);
    assert_eq!(ground.wait(100).0, Some(104 + ROUND_TRIP), "a quarter of 16 ms");
    ground.ask(104 + ROUND_TRIP);
    ground.answer(held(9_000), 105, 106);
    ground.entry.handle_notices(2, false, at(107), &PACE);
    assert_eq!(ground.wait(107).0, Some(111 + ROUND_TRIP));
    ground.entry.handle_notices(1, false, at(110), &PACE);
    assert_eq!(ground.wait(110).0, Some(114 + ROUND_TRIP), "another client has used the pause");
    ground.ask(114 + ROUND_TRIP);
    ground.answer(held(9_000), 115, 116);
    ground.entry.handle_notices(1, false, at(132), &PACE);
    assert_eq!(ground.ask(132).cause, Cause::Notice, "one other had 32 ms");
}

#[test]
fn after_a_release_that_published_nothing_the_next_notice_is_foreign() {
    let mut ground = standing_back();
    assert!(!ground.entry.handle_release_answer(false, None, true, at(100)));
    ground.entry.handle_notices(1, false, at(101), &PACE);
    ground.ask(101);
}

#[test]
fn standing_back_ends_when_the_release_reached_no_other_listener() {
    let mut ground = standing_back();
    assert!(!ground.entry.handle_release_answer(true, Some(2), true, at(101)), "one other listens");
    assert!(ground.entry.handle_release_answer(true, Some(1), true, at(101)));
    assert_eq!(ground.ask(101).cause, Cause::Turn);
}

#[test]
fn after_a_resync_no_notice_is_taken_for_its_own() {
    let mut ground = standing_back();
    ground.entry.handle_notices(0, true, at(101), &PACE);
    assert_eq!(ground.wait(101).0, Some(102 + ROUND_TRIP), "a resync alone is no turn of somebody else");
    ground.entry.handle_notices(1, false, at(101), &PACE);
    ground.ask(101);
}

// Re-entry.

#[test]
fn a_scope_is_a_stranger_then_queued_then_holds_and_then_a_stranger_again() {
    let mut ground = Ground::new();
    let view = |ground: &Ground| ground.entry.scope_view(ScopeId::new(1));
    assert!(matches!(view(&ground), ScopeView::Absent));
    ground.join(FOREVER, 0, TERMS, Some(1));
    assert!(matches!(view(&ground), ScopeView::Queued(terms) if terms == TERMS));
    ground.ask(0);
    let lease = ground.granted(0, 1);
    assert!(matches!(view(&ground), ScopeView::Holds(held) if Arc::ptr_eq(&held, &lease)));
    assert!(matches!(ground.entry.scope_view(ScopeId::new(2)), ScopeView::Absent));
    lease.remove_hold(HoldKind::Exclusive);
    ground.release(&lease, 5);
    assert!(matches!(view(&ground), ScopeView::Absent) && ground.entry.is_idle());
}

#[test]
fn queued_callers_of_one_scope_share_one_grant() {
    let mut ground = Ground::new();
    ground.join(FOREVER, 0, TERMS, Some(1));
    ground.caller(FOREVER, 1);
    ground.join(Patience::Try, 2, TERMS, Some(1));
    ground.join(FOREVER, 3, TERMS, Some(2));
    ground.ask(0);
    let verdict = ground.answer(granted(), 0, 1);
    let grant = verdict.grant.unwrap();
    assert_eq!(grant.sharers.iter().map(|caller| caller.id.0).collect::<Vec<_>>(), [3]);
    assert!(verdict.leaving.is_empty());
    assert_eq!(ground.install(grant).0.holds(), 2);
    assert_eq!(ground.entry.callers_len(), 2);
}

#[test]
fn a_lost_scope_is_lost_until_its_last_lease_is_dropped() {
    let (mut ground, lease) = Ground::holding(Some(1));
    lease.add_hold(HoldKind::Exclusive);
    assert!(lease.lose(LossReason::NotOurs));
    let view = |ground: &Ground| ground.entry.scope_view(ScopeId::new(1));
    assert!(matches!(view(&ground), ScopeView::Lost(_)), "also before the entry hears of it");
    ground.entry.handle_local_loss(&lease, at(5), PACE.round_trip);
    for left in [1, 0] {
        assert!(matches!(view(&ground), ScopeView::Lost(_)) && !ground.entry.is_idle());
        assert_eq!(lease.remove_hold(HoldKind::Exclusive), left);
        ground.entry.forget_dropped();
    }
    assert!(matches!(view(&ground), ScopeView::Absent) && ground.entry.is_idle());
}

#[test]
fn after_a_loss_the_next_caller_is_asked_for_at_once() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    ground.entry.handle_local_loss(&lease, at(100), PACE.round_trip);
    assert!(ground.entry.only_lease().is_none());
    ground.ask(100);
}

mod confirm;
mod hand_off;

#[test]
fn a_grant_that_was_lost_is_waited_for_and_not_taken_back() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    assert!(lease.lose(LossReason::NotOurs));
    assert_eq!(ground.wait(201), (Some(POLL + 1), false), "the loss is about to be handled");
}

#[test]
fn a_look_that_is_late_gives_the_caller_the_same_time_once_more() {
    let (mut ground, lease) = Ground::holding(None);
    ground.caller(FOREVER, 5);
    let step = |ground: &mut Ground, ms| match ground.step(ms).0 {
        Step::Wait { until, .. } => until.map(|until| until.as_nanos() / 1_000_000),
        other => panic!("{other:?}"),
    };
    assert_eq!(step(&mut ground, 10), Some(201));
    assert_eq!(step(&mut ground, 700), Some(900), "the process stood still");
    let Step::TakeBack(back) = ground.step(920).0 else { panic!("the second look was in time") };
    assert!(Arc::ptr_eq(&back, &lease) && back.end_untaken());
}
