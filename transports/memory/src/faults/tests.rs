use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::{Clock, Instant},
    key::LockKey,
    owner::Owner,
    transport::{
        Call, Effect, ErrorKind, HoldKind, Lane, LanePurpose, Op, OpenLane, Outcome, ServerTime, Transport,
        TransportError,
    },
};

use super::*;
use crate::{ClockStep, MemoryTransport};

const TTL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

struct Ground {
    transport: Faulty<MemoryTransport>,
    faults: Faults,
    /// The lane with faults.
    lane: Arc<dyn Lane>,
    /// A lane without faults.
    sound: Arc<dyn Lane>,
}

async fn ground() -> Ground {
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    let lane = transport.open(open(LanePurpose::Calls)).await.unwrap();
    let sound = transport.inner().open(open(LanePurpose::Calls)).await.unwrap();
    Ground { transport, faults, lane, sound }
}

impl Ground {
    async fn held_by(&self, name: &str) -> Vec<String> {
        let seen = self.sound.inspect(&key(name)).await.unwrap();
        seen.holds.into_iter().map(|hold| hold.owner).collect()
    }

    async fn server_now(&self) -> ServerTime {
        self.sound.inspect(&key("nobody's")).await.unwrap().at
    }

    async fn renew(&self, batch: Vec<Call>) -> Vec<Call> {
        let node = self.lane.topology().borrow().nodes()[0].id;
        let mut answered = self.lane.call(node, batch).await;
        answered.sort_by_key(|member| member.ticket);
        answered
    }
}

fn open(purpose: LanePurpose) -> OpenLane {
    OpenLane::new(purpose, Clock::Tokio, TIMEOUT)
}

fn now() -> Instant {
    Clock::Tokio.now()
}

fn key(name: &str) -> Arc<LockKey> {
    LockKey::new("", name).unwrap()
}

fn owner(n: u64) -> Owner {
    Owner::new(Default::default(), n)
}

fn acquire(name: &str, n: u64) -> Call {
    let execute_by = now() + TIMEOUT;
    Call::new(key(name), HoldKind::Exclusive, Op::Acquire { ttl: TTL }, owner(n), execute_by)
}

fn release(name: &str, n: u64) -> Call {
    Call::new(key(name), HoldKind::Exclusive, Op::Release, owner(n), now() + TIMEOUT)
}

fn renewal(name: &str, n: u64, ticket: u64) -> Call {
    let execute_by = now() + TIMEOUT;
    Call::new(key(name), HoldKind::Exclusive, Op::Renew { ttl: 2 * TTL }, owner(n), execute_by)
        .with_ticket(ticket)
}

fn not_after(error: &TransportError) -> ServerTime {
    match error.effect {
        Effect::Unknown { not_after } => not_after,
        Effect::None => panic!("not unknown: {error:?}"),
    }
}

fn is_granted(reply: &Result<Outcome, TransportError>) -> bool {
    matches!(reply, Ok(Outcome::Granted { .. }))
}

fn is_unknown(answer: &Outcome) -> bool {
    matches!(answer, Outcome::Failed(TransportError { effect: Effect::Unknown { .. }, .. }))
}

fn is_renewed(answer: &Outcome) -> bool {
    matches!(answer, Outcome::Renewed { .. })
}

#[tokio::test(start_paused = true)]
async fn without_a_rule_nothing_is_changed() {
    let ground = ground().await;
    assert!(is_granted(&ground.lane.call_one(acquire("a", 1)).await.into_result()));
    assert!(matches!(
        ground.lane.call_one(release("a", 1)).await.into_result(),
        Ok(Outcome::Released { .. })
    ));
    assert!(ground.renew(vec![]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_unknown_at_its_limit_and_never_executed() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::LoseRequest);
    let (start, sent_at) = (now(), ground.server_now().await);
    let error = ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err();
    assert_eq!((now() - start, error.kind, rule.fired()), (TIMEOUT, ErrorKind::TimedOut, 1));
    assert_eq!(not_after(&error).micros, sent_at.micros + 1_000_000);
    assert!(ground.held_by("a").await.is_empty());
    assert!(is_granted(&ground.lane.call_one(acquire("a", 1)).await.into_result()), "the rule is spent");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_unknown_and_the_request_executed() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::LoseReply);
    let error = ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err();
    assert_eq!((error.kind, rule.fired()), (ErrorKind::TimedOut, 1));
    assert_eq!(ground.held_by("a").await, [owner(1).to_string()]);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_reply_is_unknown_after_the_command_timeout() {
    let ground = ground().await;
    ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap();
    ground.faults.on(Operation::Release).inject(Fault::LoseReply);
    let (start, sent_at) = (now(), ground.server_now().await);
    let error = ground.lane.call_one(release("a", 1)).await.into_result().unwrap_err();
    assert_eq!((now() - start, not_after(&error)), (TIMEOUT, sent_at));
    assert!(ground.held_by("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_executed_later() {
    let ground = ground().await;
    ground.faults.on(Operation::Acquire).inject(Fault::DelayRequest(TIMEOUT / 2));
    let late = ground.lane.call_one(acquire("a", 1));
    assert!(is_granted(&ground.lane.call_one(acquire("a", 2)).await.into_result()), "the second went ahead");
    assert!(matches!(late.await, Outcome::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_request_delayed_past_its_limit_is_not_executed() {
    let ground = ground().await;
    ground.faults.on(Operation::Acquire).inject(Fault::DelayRequest(TIMEOUT + MS));
    assert!(ground.lane.call_one(acquire("a", 1)).await.into_result().is_err());
    tokio::time::sleep(TIMEOUT).await;
    assert!(ground.held_by("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_reply_tells_of_the_time_of_execution() {
    let ground = ground().await;
    ground.faults.on(Operation::Acquire).inject(Fault::DelayReply(TIMEOUT / 2));
    let (start, sent_at) = (now(), ground.server_now().await);
    let Ok(Outcome::Granted { at, .. }) = ground.lane.call_one(acquire("a", 1)).await.into_result() else {
        panic!()
    };
    assert_eq!((at, now() - start), (sent_at, TIMEOUT / 2));
}

#[tokio::test(start_paused = true)]
async fn a_reply_delayed_past_the_limit_is_unknown() {
    let ground = ground().await;
    ground.faults.on(Operation::Acquire).inject(Fault::DelayReply(2 * TIMEOUT));
    let start = now();
    not_after(&ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err());
    assert_eq!(now() - start, TIMEOUT);
    assert!(!ground.held_by("a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn repeating_gives_the_second_answer() {
    let ground = ground().await;
    ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap();
    ground.faults.on(Operation::Release).inject(Fault::Repeat);
    assert!(matches!(
        ground.lane.call_one(release("a", 1)).await.into_result(),
        Ok(Outcome::NotYours { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn repeating_later_gives_the_first_answer() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::RepeatLater(TIMEOUT / 2));
    assert!(is_granted(&ground.lane.call_one(acquire("a", 1)).await.into_result()));
    ground.lane.call_one(release("a", 1)).await.into_result().unwrap();
    assert!(ground.held_by("a").await.is_empty());
    rule.until_fired(1).await;
    assert_eq!(ground.held_by("a").await, [owner(1).to_string()], "the copy came in time and was executed");
}

#[tokio::test(start_paused = true)]
async fn a_reordered_request_lets_others_go_first() {
    let ground = ground().await;
    ground.faults.on(Operation::Acquire).inject(Fault::Reorder(2));
    let mut first = ground.lane.call_one(acquire("a", 1));
    ground.lane.call_one(acquire("b", 2)).await.into_result().unwrap();
    assert!(tokio::time::timeout(MS, &mut first).await.is_err(), "one of two went by");
    assert!(is_granted(&ground.lane.call_one(acquire("a", 3)).await.into_result()));
    assert!(matches!(first.await, Outcome::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_held_request_delivered_in_time_answers_its_caller() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::Hold);
    let caller = ground.lane.call_one(acquire("a", 1));
    rule.until_fired(1).await;
    assert_eq!(rule.held_requests(), 1);
    assert!(matches!(rule.deliver().await, Some(Answer::One(Outcome::Granted { .. }))));
    assert!(is_granted(&caller.await.into_result()));
    assert!(rule.deliver().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_held_request_is_executed_at_its_limit_and_not_after() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).times(2).inject(Fault::Hold);
    let (in_time, late) = (ground.lane.call_one(acquire("a", 1)), ground.lane.call_one(acquire("b", 2)));
    let (in_time, late) = tokio::join!(in_time, late);
    assert_eq!(not_after(&in_time.into_result().unwrap_err()), ground.server_now().await);
    assert!(matches!(rule.deliver().await, Some(Answer::One(Outcome::Granted { .. }))));
    tokio::time::advance(MS).await;
    assert!(matches!(rule.deliver().await, Some(Answer::One(Outcome::TooLate { .. }))));
    assert!(late.error().is_some() && ground.held_by("b").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_request_does_not_outlive_its_rule() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::Hold);
    let caller = ground.lane.call_one(acquire("a", 1));
    rule.until_fired(1).await;
    drop(rule);
    assert!(caller.await.error().is_some());
    assert!(ground.held_by("a").await.is_empty());
}

/// The server's clock jumps past the limit that was reported to the caller. An execution now would contradict that
/// report.
#[tokio::test(start_paused = true)]
async fn a_held_request_is_not_executed_past_the_server_time_that_was_told() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::Hold);
    let caller = ground.lane.call_one(acquire("a", 1));
    rule.until_fired(1).await;
    ground.transport.inner().step_server_clock(ClockStep::Forward(2 * TIMEOUT));
    assert!(matches!(rule.deliver().await, Some(Answer::One(Outcome::TooLate { .. }))));
    assert!(matches!(caller.await, Outcome::TooLate { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_takes_only_the_answer_along() {
    let ground = ground().await;
    let rule = ground.faults.on(Operation::Acquire).inject(Fault::DelayRequest(MS));
    drop(ground.lane.call_one(acquire("a", 1)));
    rule.until_fired(1).await;
    tokio::time::sleep(2 * MS).await;
    assert_eq!(ground.held_by("a").await, [owner(1).to_string()]);
}

#[tokio::test(start_paused = true)]
async fn refusing_and_resetting_answer_at_once() {
    let ground = ground().await;
    let start = now();
    ground.faults.on(Operation::Acquire).inject(Fault::Refuse(ErrorKind::NotReady));
    let refused = ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err();
    assert_eq!((refused.kind, refused.effect), (ErrorKind::NotReady, Effect::None));
    ground.faults.on(Operation::Acquire).inject(Fault::Reset);
    let reset = ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err();
    assert_eq!(reset.kind, ErrorKind::Unreachable);
    assert_eq!(not_after(&reset).micros, ground.server_now().await.micros + 1_000_000);
    assert!(ground.held_by("a").await.is_empty());
    assert_eq!(now(), start);
}

#[tokio::test(start_paused = true)]
async fn conditions_choose_the_operation() {
    let ground = ground().await;
    let renewals = ground.transport.open(open(LanePurpose::Renewals)).await.unwrap();
    let refuse = Fault::Refuse(ErrorKind::NotReady);
    let third_of_a = ground.faults.on(Operation::Acquire).key("a").nth(3).inject(refuse);
    let over_renewals =
        ground.faults.on(Operation::Acquire).lane(LanePurpose::Renewals).always().inject(refuse);
    let mut fine = vec![];
    for name in ["a", "b", "a", "b", "a", "a"] {
        fine.push(ground.lane.call_one(acquire(name, 1)).await.into_result().is_ok());
    }
    assert_eq!(fine, [true, true, true, true, false, true]);
    for _ in 0..5 {
        assert!(renewals.call_one(acquire("c", 1)).await.into_result().is_err());
    }
    over_renewals.remove();
    assert!(renewals.call_one(acquire("c", 1)).await.into_result().is_ok());
    assert_eq!((third_of_a.fired(), over_renewals.fired()), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_batch_may_be_lost_before_inside_and_after() {
    for (fault, executed) in [(Fault::LoseRequest, 0), (Fault::LoseHalf, 2), (Fault::LoseReply, 4)] {
        let ground = ground().await;
        let mut batch = vec![];
        for n in 0..4 {
            let name = n.to_string();
            ground.lane.call_one(acquire(&name, n)).await.into_result().unwrap();
            batch.push(renewal(&name, n, n));
        }
        ground.faults.on(Operation::Renew).inject(fault);
        let (start, answered) = (now(), ground.renew(batch).await);
        assert_eq!((now() - start, answered.len()), (TIMEOUT, 4), "{fault:?}");
        assert!(answered.iter().all(|member| is_unknown(&member.outcome)), "{fault:?}");
        tokio::time::sleep(TTL).await;
        let mut left = 0;
        for n in 0..4 {
            left += ground.held_by(&n.to_string()).await.len();
        }
        assert_eq!(left, executed, "{fault:?}: only what was executed outlives the first ttl");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_with_a_key_spares_the_other_members() {
    let ground = ground().await;
    for n in 0..3 {
        ground.lane.call_one(acquire(&n.to_string(), n)).await.into_result().unwrap();
    }
    let rule = ground.faults.on(Operation::Renew).key("1").inject(Fault::LoseReply);
    let answered = ground.renew((0..3).map(|n| renewal(&n.to_string(), n, n)).collect()).await;
    assert!(is_renewed(&answered[0].outcome) && is_renewed(&answered[2].outcome), "{answered:?}");
    assert!(is_unknown(&answered[1].outcome), "{answered:?}");
    assert_eq!(rule.fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_cut_answers_as_it_says() {
    use ErrorKind::{TimedOut, Unreachable};
    let kinds = [
        (Cut::Refused, Unreachable, false, Duration::ZERO, false),
        (Cut::Reset, Unreachable, true, Duration::ZERO, false),
        (Cut::BlackHole, TimedOut, true, TIMEOUT, false),
        (Cut::RepliesLost, TimedOut, true, TIMEOUT, true),
    ];
    for (cut, kind, unknown, after, executed) in kinds {
        let ground = ground().await;
        ground.faults.cut(cut);
        let (start, error) = (now(), ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap_err());
        let is_unknown = matches!(error.effect, Effect::Unknown { .. });
        assert_eq!((error.kind, is_unknown, now() - start), (kind, unknown, after), "{cut:?}");
        assert_eq!(!ground.held_by("a").await.is_empty(), executed, "{cut:?}");
        assert!(ground.transport.open(open(LanePurpose::Calls)).await.is_err(), "{cut:?}");
        ground.faults.heal();
        assert!(ground.lane.call_one(acquire("b", 1)).await.into_result().is_ok(), "{cut:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_takes_watches_out_of_force_with_a_gap() {
    let ground = ground().await;
    let mut watch = ground.lane.watch(&key("a"));
    assert!(watch.observe().in_force);
    ground.faults.cut_lane(LanePurpose::Calls, Cut::Refused);
    watch.changed().await;
    let cut = watch.observe();
    assert_eq!((cut.in_force, cut.gaps), (false, 1));
    ground.sound.call_one(acquire("a", 1)).await.into_result().unwrap();
    ground.sound.call_one(release("a", 1)).await.into_result().unwrap();
    tokio::time::sleep(MS).await;
    ground.faults.heal();
    watch.changed().await;
    let healed = watch.observe();
    assert_eq!((healed.in_force, healed.gaps, healed.notices), (true, 1, 0), "what came in between is lost");
    ground.sound.call_one(acquire("a", 1)).await.into_result().unwrap();
    ground.sound.call_one(release("a", 1)).await.into_result().unwrap();
    watch.changed().await;
    assert_eq!(watch.observe().notices, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_nobody_saw_leaves_its_gap() {
    let ground = ground().await;
    let mut watch = ground.lane.watch(&key("a"));
    ground.faults.cut(Cut::BlackHole);
    ground.faults.heal();
    watch.changed().await;
    assert_eq!((watch.observe().in_force, watch.observe().gaps), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn notices_are_lost_delayed_and_doubled() {
    for (fault, at_once, later) in [
        (Fault::LoseReply, 0, 0),
        (Fault::DelayReply(TTL), 0, 1),
        (Fault::Repeat, 2, 2),
        (Fault::RepeatLater(TTL), 1, 2),
    ] {
        let ground = ground().await;
        let mut watch = ground.lane.watch(&key("a"));
        let rule = ground.faults.on(Operation::Notice).inject(fault);
        ground.lane.call_one(acquire("a", 1)).await.into_result().unwrap();
        ground.lane.call_one(release("a", 1)).await.into_result().unwrap();
        rule.until_fired(1).await;
        tokio::time::sleep(MS).await;
        assert_eq!(watch.observe().notices, at_once, "{fault:?}");
        tokio::time::sleep(2 * TTL).await;
        assert_eq!(watch.observe().notices, later, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_ends_the_interest_inside() {
    let ground = ground().await;
    let watch = ground.lane.watch(&key("a"));
    assert_eq!(ground.transport.inner().watched_keys(), 1);
    drop(watch);
    tokio::time::sleep(MS).await;
    assert_eq!(ground.transport.inner().watched_keys(), 0);
}
