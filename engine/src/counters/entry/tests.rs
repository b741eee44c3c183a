use super::{
    work::{Outcome, Work},
    *,
};
use crate::{
    routing::topology::{ClockId, NodeId},
    transport::{CounterReply, ErrorKind, ServerTime},
};

const PACE: Pace = Pace {
    command_timeout: Duration::from_secs(1),
    unavailable_after: Duration::from_secs(10),
    remember: Duration::from_secs(300),
    safety_poll: Duration::from_secs(2),
};

/// An entry with a clock, and numbers from 1 on.
struct Bench {
    entry: Entry<&'static str>,
    now: Instant,
    ids: u64,
    minted: u64,
    ahead: Option<i64>,
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn permits(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("above zero")
}

fn take(number: u32) -> Work {
    Work::Take(permits(number))
}

fn at() -> ServerTime {
    ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 0 } }
}

impl Bench {
    fn new(counter: Counter) -> Self {
        let now = Instant::default() + seconds(1_000);
        Self { entry: Entry::new(counter), now, ids: 0, minted: 0, ahead: None }
    }

    fn join(&mut self, name: &'static str, work: Work, patience: Patience) -> u64 {
        self.ids += 1;
        let (id, joined) = (self.ids, self.now);
        self.entry.join(Caller { id, work, patience, joined, reply_to: name });
        id
    }

    fn waits(&mut self, name: &'static str, work: Work) -> u64 {
        self.join(name, work, Patience::Wait(None))
    }

    fn step(&mut self) -> Step {
        self.entry.handle_time(self.now, &PACE);
        let minted = &mut self.minted;
        self.entry.take_step(self.now, &PACE, self.ahead, &mut || {
            *minted += 1;
            *minted
        })
    }

    /// What is sent now.
    fn sent(&mut self) -> (u64, CounterOp) {
        match self.step() {
            Step::Send(command) => (command.number, command.op),
            step => panic!("a send, not {step:?}"),
        }
    }

    fn done(&mut self, result: i64, left: i64) {
        let reply = CounterReply::Done { result, left, at: at() };
        self.entry.handle_answer(Ok(reply), self.now, &PACE);
    }

    fn unknown(&mut self) {
        let error = TransportError::unknown(ErrorKind::TimedOut, at(), "no answer");
        self.entry.handle_answer(Err(error), self.now, &PACE);
    }

    fn not_done(&mut self, kind: ErrorKind) {
        let error = TransportError::without_effect(kind, None, "not done");
        self.entry.handle_answer(Err(error), self.now, &PACE);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Lets the pause before a retry pass.
    fn retry(&mut self) -> (u64, CounterOp) {
        self.pass(PAUSE_MAX);
        self.sent()
    }

    fn told(&mut self) -> Vec<(&'static str, String)> {
        let word = |outcome| match outcome {
            Outcome::Done { result, left } => format!("{result}, {left} left"),
            Outcome::Short => "short".to_owned(),
            Outcome::TimedOut => "timed out".to_owned(),
            Outcome::Unavailable { .. } => "unavailable".to_owned(),
            Outcome::Unknown { .. } => "unknown".to_owned(),
            Outcome::Refused(_) => "refused".to_owned(),
        };
        self.entry.take_leaving().into_iter().map(|gone| (gone.reply_to, word(gone.outcome))).collect()
    }

    fn names(&mut self) -> Vec<&'static str> {
        self.told().into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn one_take_carries_all_wants_and_serves_a_prefix() {
    let mut bench = Bench::new(Counter::Semaphore);
    for (name, number) in [("a", 1), ("b", 2), ("c", 5), ("d", 1)] {
        bench.waits(name, take(number));
    }
    let wants = [1, 2, 5, 1].map(permits).to_vec();
    assert_eq!(bench.sent(), (1, CounterOp::Take(wants)));
    bench.done(3, 1);
    assert_eq!(bench.names(), ["a", "b"]);
    assert!(matches!(bench.step(), Step::Wait { watch: true, until: Some(_) }));
}

#[test]
fn at_most_64_wants_go_into_one_take() {
    let mut bench = Bench::new(Counter::Semaphore);
    for _ in 0..70 {
        bench.waits("a", take(1));
    }
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1); 64]));
    bench.done(64, 100);
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1); 6]));
}

#[test]
fn a_give_goes_first_and_then_a_take_that_is_due() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("taker", take(1));
    bench.waits("giver", Work::Give(permits(1)));
    assert_eq!(bench.sent().1, CounterOp::Give(permits(1)));
    bench.waits("giver 2", Work::Give(permits(1)));
    bench.done(1, 1);
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1)]));
    bench.done(1, 0);
    assert_eq!(bench.sent().1, CounterOp::Give(permits(1)));
}

#[test]
fn gives_that_wait_are_added_up_and_each_is_answered() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("a", Work::Give(permits(1)));
    bench.sent();
    bench.waits("b", Work::Give(permits(2)));
    bench.waits("c", Work::Give(permits(3)));
    bench.done(1, 1);
    assert_eq!(bench.sent(), (2, CounterOp::Give(permits(5))));
    bench.done(5, 6);
    assert_eq!(bench.names(), ["a", "b", "c"]);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn steps_of_a_latch_that_wait_are_added_up_and_each_is_told_what_was_left() {
    let mut bench = Bench::new(Counter::Latch);
    bench.waits("a", Work::CountDown);
    bench.sent();
    for name in ["b", "c", "d"] {
        bench.waits(name, Work::CountDown);
    }
    bench.done(1, 2);
    assert_eq!(bench.sent().1, CounterOp::CountDown(permits(3)));
    bench.done(2, 0); // only two were left
    let told = bench.told().into_iter().map(|(_, word)| word).collect::<Vec<_>>();
    assert_eq!(told, ["1, 2 left", "2, 1 left", "2, 0 left", "2, 0 left"]);
}

#[test]
fn an_unanswered_operation_keeps_its_number_and_what_was_not_done_gets_a_new_one() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("a", Work::Give(permits(1)));
    assert_eq!(bench.sent().0, 1);
    bench.not_done(ErrorKind::Unreachable);
    assert_eq!(bench.retry().0, 2);
    bench.unknown();
    assert_eq!(bench.retry().0, 2);
    bench.not_done(ErrorKind::Unreachable);
    assert_eq!(bench.retry().0, 2);
    bench.done(1, 1);
    assert_eq!(bench.names(), ["a"]);
}

#[test]
fn a_take_that_nobody_wants_any_more_is_voided() {
    let mut bench = Bench::new(Counter::Semaphore);
    let caller = bench.waits("a", take(2));
    bench.sent();
    bench.unknown();
    assert!(bench.entry.depart(caller).is_some());
    assert_eq!(bench.retry(), (2, CounterOp::Void { number: 1 }));
    bench.unknown();
    assert_eq!(bench.retry(), (2, CounterOp::Void { number: 1 }));
    bench.done(2, 2);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn permits_of_a_caller_that_left_go_to_the_next_and_what_is_over_goes_back() {
    let mut bench = Bench::new(Counter::Semaphore);
    let gone = bench.waits("gone", take(3));
    bench.sent();
    bench.entry.depart(gone);
    bench.waits("next", take(1));
    bench.done(3, 0);
    assert_eq!(bench.names(), ["next"]);
    assert_eq!(bench.sent().1, CounterOp::Give(permits(2)));
}

#[test]
fn a_give_goes_on_without_its_caller_and_a_set_does_not() {
    let mut bench = Bench::new(Counter::Semaphore);
    let (giver, setter) = (bench.waits("a", Work::Give(permits(1))), bench.waits("b", Work::SetIfAbsent(3)));
    bench.entry.depart(giver);
    bench.entry.depart(setter);
    assert_eq!(bench.sent().1, CounterOp::Give(permits(1)));
    bench.done(1, 1);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn a_try_is_told_short_at_the_first_answer_and_waits_behind_earlier_callers() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("first", take(5));
    bench.join("try", take(1), Patience::Try);
    bench.sent();
    bench.done(0, 3);
    assert_eq!(bench.told(), [("try", "short".to_owned())]);
}

#[test]
fn the_server_is_asked_once_more_at_the_deadline() {
    let mut bench = Bench::new(Counter::Semaphore);
    let deadline = bench.now + seconds(1);
    bench.join("a", take(1), Patience::Wait(Some(deadline)));
    bench.sent();
    bench.done(0, 0);
    let Step::Wait { until, watch: true } = bench.step() else { panic!("a wait") };
    assert_eq!(until, Some(deadline));
    bench.pass(seconds(1));
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1)]));
    bench.done(0, 0);
    assert_eq!(bench.told(), [("a", "timed out".to_owned())]);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn a_caller_that_nobody_answered_is_told_unavailable_and_its_take_is_voided() {
    let mut bench = Bench::new(Counter::Semaphore);
    let deadline = bench.now + seconds(1);
    bench.join("a", take(1), Patience::Wait(Some(deadline)));
    bench.sent();
    bench.unknown();
    bench.pass(seconds(1));
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1)])); // the last look
    bench.unknown();
    assert!(matches!(bench.step(), Step::Wait { .. }));
    assert_eq!(bench.told(), [("a", "unavailable".to_owned())]);
    assert!(matches!(bench.retry().1, CounterOp::Void { number: 1 }));
}

#[test]
fn without_an_answer_a_give_is_unknown_and_goes_on_and_a_take_is_unavailable() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("giver", Work::Give(permits(1)));
    bench.waits("taker", take(1));
    bench.waits("setter", Work::SetIfAbsent(1));
    bench.sent();
    bench.unknown();
    bench.pass(PACE.unavailable_after);
    assert_eq!(bench.sent().1, CounterOp::Give(permits(1)));
    let mut told = bench.told();
    told.sort();
    let expected = [("giver", "unknown"), ("setter", "unavailable"), ("taker", "unavailable")];
    assert_eq!(told, expected.map(|(name, word)| (name, word.to_owned())));
    bench.done(1, 1);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn nothing_is_sent_again_once_the_number_may_be_forgotten() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("a", Work::Give(permits(1)));
    let first = bench.now;
    let mut last = first;
    loop {
        match bench.step() {
            Step::Send(command) => {
                assert!(command.execute_by <= first + (PACE.remember - seconds(60)));
                last = bench.now;
                bench.unknown();
            }
            Step::Wait { .. } => bench.pass(PAUSE_MAX),
            Step::Rest => break,
        }
    }
    assert!(last + seconds(2) > first + (PACE.remember - seconds(60)), "given up too early");
    assert_eq!((bench.entry.take_given_up(), bench.names()), (1, vec!["a"]));
}

#[test]
fn nothing_is_sent_again_after_the_servers_clock_has_jumped() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.ahead = Some(1_000);
    bench.waits("a", Work::Give(permits(1)));
    bench.sent();
    bench.unknown();
    bench.ahead = Some(20_000_000);
    bench.retry();
    bench.unknown();
    bench.ahead = Some(30_001_000);
    bench.pass(PAUSE_MAX);
    assert_eq!(bench.step(), Step::Rest);
    assert_eq!(bench.told(), [("a", "unknown".to_owned())]);
}

#[test]
fn a_refusal_is_told_and_nothing_is_repeated() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("a", take(1));
    bench.sent();
    bench.not_done(ErrorKind::WrongType);
    assert_eq!(bench.told(), [("a", "refused".to_owned())]);
    assert_eq!(bench.step(), Step::Rest);
}

#[test]
fn a_notice_during_a_look_causes_another_look() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("a", take(1));
    bench.sent();
    bench.entry.handle_notice();
    bench.done(0, 0);
    assert_eq!(bench.sent().1, CounterOp::Take(vec![permits(1)]));
}

#[test]
fn a_latch_opens_for_the_callers_that_were_there_when_it_was_asked() {
    let mut bench = Bench::new(Counter::Latch);
    bench.waits("a", Work::Open);
    assert_eq!(bench.sent(), (0, CounterOp::Read));
    bench.waits("b", Work::Open);
    bench.done(0, 0);
    assert_eq!(bench.names(), ["a"]);
    assert_eq!(bench.sent(), (0, CounterOp::Read));
    bench.done(2, 2);
    assert!(matches!(bench.step(), Step::Wait { watch: true, .. }));
}

#[test]
fn our_own_last_step_opens_the_latch_without_a_look() {
    let mut bench = Bench::new(Counter::Latch);
    bench.waits("a", Work::Open);
    bench.sent();
    bench.done(1, 1);
    bench.waits("counter", Work::CountDown);
    bench.sent();
    bench.done(1, 0);
    assert_eq!(bench.names(), ["counter", "a"]);
}

#[test]
fn a_shutdown_keeps_releases_and_dismisses_the_rest() {
    let mut bench = Bench::new(Counter::Semaphore);
    bench.waits("taker", take(1));
    bench.waits("giver", Work::Give(permits(1)));
    bench.waits("drainer", Work::Drain);
    assert_eq!(bench.entry.depart_all().len(), 2);
    assert_eq!(bench.sent().1, CounterOp::Give(permits(1)));
    bench.done(1, 1);
    assert_eq!(bench.names(), ["giver"]);
}
