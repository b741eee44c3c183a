//! Tests which grants are handed off, and what the next holder gets.

use super::*;
use crate::acquire::fairness::STREAK_MAX;

const UNRENEWED: Terms = Terms { renewed: false, ..TERMS };
const MAX_HOLD: Terms = Terms { max_hold: Some(Duration::from_secs(1)), ..TERMS };

impl Ground {
    /// The last fenced grant had the server's time as its token.
    fn of_tokens_in_time() -> Self {
        let mut ground = Self::new();
        ground.entry.note_token(FencingToken::of_counter(1), server(1));
        ground
    }

    /// The last hold of the lease ends at `ms`.
    fn hand_off(&mut self, lease: &Arc<LeaseCore>, ms: u64) -> Option<Grant<()>> {
        self.entry.hand_off(lease, at(ms), PACE.hand_offs_max, |()| false)
    }

    /// The same, if the grant is handed off.
    fn next(&mut self, lease: &Arc<LeaseCore>, ms: u64) -> Arc<LeaseCore> {
        let grant = self.hand_off(lease, ms).expect("it may be handed off");
        self.install(grant).0
    }
}

/// A lease that was granted at 1 ms to an ask of 0 ms, and two callers that wait for it.
fn wanted() -> (Ground, Arc<LeaseCore>, [CallerId; 2]) {
    let (mut ground, lease) = Ground::holding(None);
    lease.take(at(1));
    let waiting = [2, 3].map(|ms| ground.caller(FOREVER, ms));
    (ground, lease, waiting)
}

#[test]
fn s2_s6_s8_callers_get_the_grant_in_turn_with_its_deadline_and_rising_tokens() {
    let (mut ground, first, waiting) = wanted();
    let grant = ground.hand_off(&first, 10).unwrap();
    assert_eq!(grant.receiver.id, waiting[0]);
    let (second, earlier) = ground.install(grant);
    assert!(earlier.is_none() && !first.is_live() && second.is_held(at(10)));
    let third = ground.next(&second, 20);
    for (before, after) in [(&first, &second), (&second, &third)] {
        assert_eq!(
            (after.owner, after.deadline(), after.gone_by()),
            (before.owner, before.deadline(), before.gone_by())
        );
        assert!(after.token > before.token);
    }
    assert_eq!((third.granted_at, third.token.hand_offs()), (at(20), 2));
    assert!(ground.hand_off(&third, 30).is_none(), "no caller is queued");
    ground.release(&third, 30);
    assert!(matches!(ground.step(30).0, Step::Rest) && ground.entry.is_idle());
}

#[test]
fn a_caller_that_stays_waits_on_without_an_ask() {
    let (mut ground, first, _) = wanted();
    let second = ground.next(&first, 10);
    assert_eq!(ground.wait(10), (None, false));
    assert!(!ground.entry.join(caller(7, FOREVER)), "its driver sleeps on");
    assert!(ground.entry.join(caller(8, until(50))), "its driver has to wake up at 50");
    ground.release(&second, 11);
    assert_eq!(ground.ask(11).cause, Cause::Turn);
}

#[test]
fn a_caller_whose_wait_ends_while_a_later_holder_has_the_lock_is_told_so() {
    let (mut ground, first) = Ground::holding(None);
    lease_is_taken(&first);
    ground.caller(FOREVER, 2);
    ground.caller(until(30), 3);
    let second = ground.next(&first, 10);
    assert!(second.is_held(at(30)));
    assert_eq!(ground.overdue(30), [(3, "timed out")]);
}

fn lease_is_taken(lease: &LeaseCore) {
    lease.take(at(1));
}

fn caller(id: u64, patience: Patience) -> Caller<()> {
    Caller {
        id: CallerId(id),
        terms: TERMS,
        side: TERMS.kind,
        patience,
        joined: at(9),
        scope: None,
        late: 0,
        reply_to: (),
    }
}

#[test]
fn callers_of_one_scope_share_the_grant() {
    let (mut ground, first) = Ground::holding(None);
    lease_is_taken(&first);
    let ids =
        [(1, Some(9)), (2, None), (3, Some(9))].map(|(ms, scope)| ground.join(FOREVER, ms, TERMS, scope));
    let grant = ground.hand_off(&first, 10).unwrap();
    assert_eq!((grant.receiver.id, grant.sharers.len(), grant.sharers[0].id), (ids[0], 1, ids[2]));
    let (second, _) = ground.install(grant);
    assert_eq!(second.holds(), 2);
    assert!(matches!(ground.entry.scope_view(ScopeId::new(9)), ScopeView::Holds(_)));
}

#[test]
fn each_holder_has_a_max_hold_of_its_own() {
    let (mut ground, first) = Ground::holding(None);
    lease_is_taken(&first);
    ground.join(FOREVER, 2, MAX_HOLD, None);
    let second = ground.next(&first, 10);
    second.take(at(10));
    assert!(second.wants_renewal(at(1_009)) && !second.wants_renewal(at(1_010)));
}

/// Whether a grant with these terms that was sent at 0 is handed off at `ms` to a caller with those terms, after `before`.
fn is_handed_off(held: Terms, wanted: Terms, ms: u64, before: impl Fn(&mut Ground, &Arc<LeaseCore>)) -> bool {
    let mut ground = Ground::new();
    ground.join(FOREVER, 0, held, None);
    ground.ask(0);
    let lease = ground.granted(0, 1);
    lease_is_taken(&lease);
    ground.join(FOREVER, 2, wanted, None);
    ground.caller(FOREVER, 3);
    before(&mut ground, &lease);
    let grant = ground.hand_off(&lease, ms);
    assert_eq!(grant.is_none(), lease.is_live(), "it has ended if it was handed off, and only then");
    assert_eq!(ground.entry.callers_len(), 2 - usize::from(grant.is_some()));
    grant.is_some()
}

#[test]
fn a_grant_is_handed_off_to_a_head_that_asks_for_the_same_and_for_nothing_else() {
    let nothing = |_: &mut Ground, _: &Arc<LeaseCore>| {};
    assert!(is_handed_off(TERMS, TERMS, 10, nothing));
    for (held, wanted) in [
        (TERMS, OTHER_TTL),
        (TERMS, FENCED),
        (TERMS, SPIN),
        (TERMS, UNRENEWED),
        (UNRENEWED, UNRENEWED),
        (UNRENEWED, TERMS),
        (FENCED, FENCED),
        (SPIN, SPIN),
    ] {
        assert!(!is_handed_off(held, wanted, 10, nothing), "{held:?} to {wanted:?}");
    }
}

#[test]
fn s12_a_grant_in_doubt_or_of_which_anything_was_sent_is_not_handed_off() {
    assert!(!is_handed_off(TERMS, TERMS, 10, |_, lease| assert!(lease.enter_jeopardy())));
    assert!(!is_handed_off(TERMS, TERMS, 10, |_, lease| assert!(lease.forbid_hand_off())));
    assert!(!is_handed_off(TERMS, TERMS, 10, |ground, lease| {
        lease.enter_jeopardy();
        ground.join(Patience::Try, 4, TERMS, None);
        ground.ask(5); // for the caller that tries
        ground.entry.callers.take_tries(|_| true);
        lease.confirm(at(0), TTL);
    }));
}

#[test]
fn l5_a_grant_is_handed_off_for_less_than_100_ms() {
    for listeners in [None, Some(1)] {
        let told =
            |ground: &mut Ground, _: &Arc<LeaseCore>| ground.entry.fairness.handle_listeners(listeners, true);
        assert!(is_handed_off(TERMS, TERMS, 99, told) && !is_handed_off(TERMS, TERMS, 100, told));
    }
}

#[test]
fn l5_a_streak_ends_with_a_release_to_the_server() {
    let granted_often = |times| {
        move |ground: &mut Ground, _: &Arc<LeaseCore>| {
            (0..times).for_each(|_| ground.entry.fairness.handle_grant(at(1)));
        }
    };
    assert!(is_handed_off(TERMS, TERMS, 10, granted_often(STREAK_MAX - 2)));
    assert!(!is_handed_off(TERMS, TERMS, 10, granted_often(STREAK_MAX - 1)));
    assert!(is_handed_off(TERMS, TERMS, 10, |ground, lease| {
        granted_often(STREAK_MAX)(ground, lease);
        ground.entry.fairness.handle_listeners(Some(1), true); // only this process listens
    }));
}

#[test]
fn l5_a_grant_is_handed_off_so_often_at_most() {
    let (mut ground, mut lease) = Ground::holding(None);
    lease_is_taken(&lease);
    ground.entry.fairness.handle_listeners(Some(0), false);
    for _ in 0..2 * PACE.hand_offs_max {
        ground.caller(FOREVER, 2);
    }
    for _ in 0..PACE.hand_offs_max {
        lease = ground.next(&lease, 10);
        lease_is_taken(&lease);
    }
    assert!(ground.hand_off(&lease, 10).is_none() && lease.is_live());
    assert!(ground.entry.hand_off(&lease, at(10), 0, |()| false).is_none());
}

#[test]
fn a_caller_that_was_dropped_gets_no_grant() {
    let (mut ground, first, _) = wanted();
    assert!(
        ground.entry.hand_off(&first, at(10), PACE.hand_offs_max, |()| true).is_none() && first.is_live()
    );
}

/// What the ask of a caller with these terms reserves if another caller waits too.
fn reserved(terms: Terms, pace: &Pace) -> u16 {
    let mut ground = Ground::of_tokens_in_time();
    for ms in [0, 1] {
        ground.join(FOREVER, ms, terms, None);
    }
    let (Step::Ask(ask), _) = ground.entry.take_step(at(1), &ground.mint, pace) else { panic!("it asks") };
    ask.reserved_tokens
}

#[test]
fn s6_a_fenced_ask_reserves_a_token_for_each_microsecond_of_half_a_round_trip() {
    let after = |micros| Pace { round_trip: Duration::from_micros(micros), ..PACE };
    assert_eq!([0, 1, 80, 5_000].map(|micros| reserved(FENCED, &after(micros))), [0, 0, 40, 512]);
    assert_eq!(reserved(FENCED, &Pace { hand_offs_max: 0, ..PACE }), 0);
    let counter = Terms { kind: HoldKind::Fenced(crate::FencingMode::Counter), ..TERMS };
    assert_eq!([TERMS, SPIN, counter].map(|terms| reserved(terms, &PACE)), [0, 0, 0]);
}

/// Three callers wait for a fenced lock whose last grant had this token at 1,000 us of the server's time.
fn reserved_after(token: u64) -> u16 {
    let mut ground = Ground::new();
    for ms in 0..3 {
        ground.join(FOREVER, ms, FENCED, None);
    }
    assert_eq!(ground.ask(3).reserved_tokens, 0, "no grant was seen yet");
    let token = FencingToken::of_counter(token);
    let grant = ground.answer(Ok(Outcome::Granted { token, at: server(1) }), 3, 4).grant.unwrap();
    let (lease, _) = ground.install(grant);
    lease_is_taken(&lease);
    ground.release(&lease, 5);
    ground.ask(5).reserved_tokens
}

// One key's grants may come much faster than the mean round trip of the engine says.
#[test]
fn s6_while_tokens_are_ahead_of_the_servers_time_none_are_reserved() {
    assert_eq!([900, 1_000, 1_001, 5_000].map(reserved_after), [500, 500, 0, 0]);
}

#[test]
fn s6_a_fenced_grant_is_handed_off_as_often_as_tokens_were_reserved() {
    let mut ground = Ground::of_tokens_in_time();
    for ms in 0..4 {
        ground.join(FOREVER, ms, FENCED, None);
    }
    let pace = Pace { hand_offs_max: 2, ..PACE };
    let (Step::Ask(ask), _) = ground.entry.take_step(at(4), &ground.mint, &pace) else { panic!("it asks") };
    assert_eq!(ask.reserved_tokens, 2);
    ground.entry.note_sent(at(4));
    let first = ground.granted(4, 5);
    lease_is_taken(&first);
    let second = ground.next(&first, 6);
    let third = ground.next(&second, 7);
    assert_eq!([&second, &third].map(|lease| lease.token.as_i64() - first.token.as_i64()), [1, 2]);
    assert!(ground.hand_off(&third, 8).is_none() && third.is_live(), "no token is left");
}

#[test]
fn s6_a_fenced_ask_that_waits_for_an_answer_is_repeated_with_the_same_number_of_tokens() {
    let mut ground = Ground::of_tokens_in_time();
    let alone = ground.join(FOREVER, 0, FENCED, None);
    assert_eq!(ground.ask(0).reserved_tokens, 0, "no other caller waits");
    ground.answer(unknown(10), 0, 1);
    ground.join(FOREVER, 2, FENCED, None);
    assert_eq!(ground.ask(1_000).reserved_tokens, 0);
    ground.answer(held(20), 1_000, 1_001);
    assert_eq!(ground.ask(1_200).reserved_tokens, 500, "a new attempt");
    ground.answer(unknown(10), 1_200, 1_201);
    ground.entry.depart(alone);
    assert_eq!(ground.ask(3_000).reserved_tokens, 500);
}
