//! Explores every interleaving of callers, sends, answers, late copies and failovers, for one entry and one server.
//!
//! The world has a server that knows a number and one marker; a network that keeps copies of commands and executes each
//! at any moment, also long after its caller got an error; callers that come and go; and a failover, which loses the last
//! operation if it was not answered yet. Once nothing is on its way, the number on the server must be what the answers
//! say, and no copy that is still in the network may change it.
//!
//! Each mutant is one rule broken. The search must find each of them.

use super::{
    work::{Outcome, Work},
    *,
};
use crate::{
    clock::Instant,
    routing::topology::{ClockId, NodeId},
    transport::{CounterReply, ErrorKind, ServerTime},
};

const START: Instant = Instant::from_nanos(1_000_000_000_000);
const PACE: Pace = Pace {
    command_timeout: Duration::from_secs(1),
    unavailable_after: Duration::from_secs(1_000_000),
    remember: Duration::from_secs(10_000_000),
    safety_poll: Duration::from_secs(1_000),
};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The server does an operation again whose number it remembers.
    CountsTwice,
    /// The server does an operation below the number that it remembers.
    CountsLateCopies,
    /// A void does not keep its operation from being done later.
    ForgetfulVoid,
    /// The engine forgets a take that nobody wants any more, instead of sending a void.
    NoVoid,
    /// A resend gets a number of its own.
    NewNumbers,
    /// Permits for a caller that has left are not given back.
    KeepsSurplus,
}

/// Which events may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    count: i64,
    callers: &'static [Work],
    departures: u32,
    /// Answers that are lost after the execution.
    lost: u32,
    /// Commands that are reported as unknown before the network executes them.
    late: u32,
    /// Commands of which the network keeps a second copy.
    twice: u32,
    refused: u32,
    failovers: u32,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    count: i64,
    marker: Option<(u64, i64)>,
}

#[derive(Clone, Debug)]
struct World {
    entry: Entry<usize>,
    server: Server,
    /// The state before the last operation, until that is answered.
    before: Option<Server>,
    copies: Vec<Command>,
    sending: Option<Command>,
    joined: usize,
    told: Vec<Option<i64>>,
    gone: Vec<bool>,
    minted: u64,
    now: Instant,
    left: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Join,
    Depart(usize),
    Step,
    Answer,
    AnswerAndKeep,
    LoseAnswer,
    Late,
    Refuse,
    Copy(usize),
    Failover,
}

impl Server {
    fn execute(&mut self, command: &Command, mutant: Mutant) -> CounterReply {
        let at = ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 0 } };
        let (number, last) = (command.number, self.marker.unwrap_or((0, 0)));
        if command.op == CounterOp::Read {
            return CounterReply::Done { result: self.count, left: self.count, at };
        }
        if last.0 > number && mutant != Mutant::CountsLateCopies {
            return CounterReply::TooLate { at };
        }
        if last.0 == number && mutant != Mutant::CountsTwice {
            return CounterReply::Done { result: last.1, left: self.count, at };
        }
        let result = self.change(&command.op, last);
        if !(mutant == Mutant::ForgetfulVoid && matches!(command.op, CounterOp::Void { .. })) {
            self.marker = Some((number, result));
        }
        CounterReply::Done { result, left: self.count, at }
    }

    fn change(&mut self, op: &CounterOp, last: (u64, i64)) -> i64 {
        let (by, result) = match op {
            CounterOp::Take(wants) => {
                let mut taken = 0;
                for permits in wants.iter().map(|permits| i64::from(permits.get())) {
                    if taken + permits > self.count {
                        break;
                    }
                    taken += permits;
                }
                (-taken, taken)
            }
            CounterOp::Drain => (-self.count, self.count),
            CounterOp::Give(permits) => (permits.get().into(), permits.get().into()),
            CounterOp::CountDown(steps) => {
                let steps = i64::from(steps.get()).min(self.count);
                (-steps, steps)
            }
            CounterOp::Void { number } if last.0 == *number => (last.1, last.1),
            CounterOp::Void { .. } => (0, 0),
            other => panic!("not in the model: {other:?}"),
        };
        self.count += by;
        result
    }
}

impl World {
    fn new(bounds: Bounds, counter: Counter) -> Self {
        Self {
            entry: Entry::new(counter),
            server: Server { count: bounds.count, marker: None },
            before: None,
            copies: Vec::new(),
            sending: None,
            joined: 0,
            told: vec![None; bounds.callers.len()],
            gone: vec![false; bounds.callers.len()],
            minted: 0,
            now: START,
            left: bounds,
        }
    }

    fn events(&self) -> Vec<Event> {
        let (left, mut events) = (&self.left, Vec::new());
        let mut may = |is_possible: bool, event| events.extend(is_possible.then_some(event));
        may(self.joined < left.callers.len(), Event::Join);
        for caller in 0..self.joined {
            let is_there = self.told[caller].is_none() && !self.gone[caller];
            may(left.departures > 0 && is_there, Event::Depart(caller));
        }
        for copy in 0..self.copies.len() {
            may(true, Event::Copy(copy));
        }
        may(left.failovers > 0 && self.before.is_some(), Event::Failover);
        let is_sending = self.sending.is_some();
        may(is_sending, Event::Answer);
        may(is_sending && left.twice > 0, Event::AnswerAndKeep);
        may(is_sending && left.lost > 0, Event::LoseAnswer);
        may(is_sending && left.late > 0, Event::Late);
        may(is_sending && left.refused > 0, Event::Refuse);
        may(!is_sending && self.can_step(), Event::Step);
        events
    }

    fn can_step(&self) -> bool {
        matches!(self.clone().take_step(), Step::Send(_)) || self.entry.flight.is_some()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Join => self.join(),
            Event::Depart(caller) => {
                self.left.departures -= 1;
                self.gone[caller] = self.entry.depart(1 + caller as u64).is_some();
                assert!(self.gone[caller], "a caller without an answer is somewhere");
            }
            Event::Step => self.step(),
            Event::Answer => self.answer(),
            Event::AnswerAndKeep => {
                self.left.twice -= 1;
                self.copies.extend(self.sending.clone());
                self.answer();
            }
            Event::LoseAnswer => {
                self.left.lost -= 1;
                let command = self.sending.clone().expect("on its way");
                let _ = self.execute(&command);
                self.fail(true);
            }
            Event::Late => {
                self.left.late -= 1;
                self.copies.extend(self.sending.clone());
                self.fail(true);
            }
            Event::Refuse => {
                self.left.refused -= 1;
                self.fail(false);
            }
            Event::Copy(copy) => {
                let command = self.copies.remove(copy);
                let _ = self.execute(&command);
            }
            Event::Failover => {
                self.left.failovers -= 1;
                self.server = self.before.take().expect("an operation that was not answered");
            }
        }
        self.hear();
    }

    fn join(&mut self) {
        let (work, place) = (self.left.callers[self.joined], self.joined);
        let patience = Patience::Wait(None);
        self.entry.join(Caller { id: 1 + place as u64, work, patience, joined: self.now, reply_to: place });
        self.joined += 1;
    }

    fn step(&mut self) {
        self.now = self.entry.retry_at.map_or(self.now, |at| at.max(self.now));
        let before = self.entry.flight.as_ref().map(|flight| flight.number);
        if let Step::Send(mut command) = self.take_step() {
            if self.left.mutant == Mutant::NewNumbers && before == Some(command.number) {
                self.minted += 1;
                command.number = self.minted;
                self.entry.flight.as_mut().expect("on its way").number = self.minted;
            }
            if self.left.mutant == Mutant::NoVoid && matches!(command.op, CounterOp::Void { .. }) {
                self.entry.flight = None;
                return;
            }
            self.sending = Some(command);
        }
    }

    fn take_step(&mut self) -> Step {
        let (minted, now) = (&mut self.minted, self.now.max(self.entry.retry_at.unwrap_or(self.now)));
        self.entry.take_step(now, &PACE, None, &mut || {
            *minted += 1;
            *minted
        })
    }

    fn execute(&mut self, command: &Command) -> CounterReply {
        let before = self.server;
        let reply = self.server.execute(command, self.left.mutant);
        if self.server != before {
            self.before = Some(before);
        }
        reply
    }

    fn answer(&mut self) {
        let command = self.sending.take().expect("on its way");
        let reply = self.execute(&command);
        self.before = None; // what was answered is not lost
        self.entry.handle_answer(Ok(reply), self.now, &PACE);
    }

    fn fail(&mut self, may_count: bool) {
        self.sending = None;
        let at = ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 0 } };
        let error = TransportError::unknown(ErrorKind::TimedOut, at, "no answer");
        let error = if may_count { error } else { error.never_executed() };
        self.entry.handle_answer(Err(error), self.now, &PACE);
    }

    fn hear(&mut self) {
        for leaving in self.entry.take_leaving() {
            match leaving.outcome {
                Outcome::Done { result, .. } => self.told[leaving.reply_to] = Some(result),
                other => panic!("only definite answers here: {other:?}"),
            }
        }
        if self.left.mutant == Mutant::KeepsSurplus && self.entry.writes.callers() == 0 {
            self.entry.writes = Writes::default();
        }
    }

    /// What is wrong once nothing is on its way.
    fn fault(&self) -> Option<String> {
        let mut expected = self.left.count;
        for (place, work) in self.left.callers.iter().enumerate().take(self.joined) {
            expected += match (work, self.told[place]) {
                (Work::Take(_) | Work::Drain, Some(taken)) => -taken,
                (Work::Give(permits), _) => i64::from(permits.get()),
                (Work::CountDown, _) => -1,
                _ => 0,
            };
        }
        let expected = if self.entry.counter == Counter::Latch { expected.max(0) } else { expected };
        (self.server.count != expected)
            .then(|| format!("{} on the server, not {expected}", self.server.count))
    }

    /// A caller that could be served, and that nothing will wake but the safety poll.
    fn forgotten(&self) -> Option<String> {
        let first = self.entry.waiting.first(1);
        let fits = first.iter().any(|(_, permits)| i64::from(permits.get()) <= self.server.count);
        (fits && self.left.mutant == Mutant::None && !self.may_have_been_noticed())
            .then(|| format!("{first:?} waits for {} permits", self.server.count))
    }

    // In the world, permits that appear without an answer to this engine come with a notice.
    fn may_have_been_noticed(&self) -> bool {
        self.left.failovers < 1 || self.left.late < 1 || self.left.twice < 2
    }
}

/// Visits every path. Returns the number of paths, or the first fault with its path.
fn explore(bounds: Bounds, counter: Counter) -> Result<u64, String> {
    let mut paths = 0;
    let mut stack = vec![(World::new(bounds, counter), Vec::new())];
    while let Some((world, path)) = stack.pop() {
        let events = world.events();
        let at_rest = world.sending.is_none() && !events.contains(&Event::Step);
        if at_rest {
            if let Some(fault) = world.fault().or_else(|| world.forgotten()) {
                return Err(format!("{fault}: {path:?}"));
            }
        }
        paths += u64::from(events.is_empty());
        for event in events {
            let (mut next, mut path) = (world.clone(), path.clone());
            next.happen(event);
            path.push(event);
            assert!(path.len() < 60, "no end: {path:?}");
            stack.push((next, path));
        }
    }
    Ok(paths)
}

const fn permits(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("above zero")
}

const TAKES: Bounds = Bounds {
    count: 3,
    callers: &[Work::Take(permits(2)), Work::Take(permits(1))],
    departures: 1,
    lost: 1,
    late: 1,
    twice: 1,
    refused: 0,
    failovers: 1,
    mutant: Mutant::None,
};

const MIXED: Bounds =
    Bounds { count: 1, callers: &[Work::Take(permits(2)), Work::Give(permits(1))], ..TAKES };

const DRAINS: Bounds = Bounds { callers: &[Work::Drain, Work::Give(permits(2))], ..TAKES };

const LATCH: Bounds = Bounds { count: 3, callers: &[Work::CountDown, Work::CountDown], ..TAKES };

#[test]
fn takes_that_are_lost_late_repeated_and_failed_over_count_once() {
    println!("{} paths", explore(TAKES, Counter::Semaphore).unwrap());
}

#[test]
fn a_take_and_a_give_count_once() {
    println!("{} paths", explore(MIXED, Counter::Semaphore).unwrap());
}

#[test]
fn a_drain_that_nobody_wants_is_undone() {
    println!("{} paths", explore(DRAINS, Counter::Semaphore).unwrap());
}

#[test]
fn two_steps_of_a_latch_count_once() {
    println!("{} paths", explore(LATCH, Counter::Latch).unwrap());
}

#[test]
fn operations_that_were_certainly_not_done_are_done_once() {
    let bounds = Bounds { refused: 2, late: 1, lost: 0, twice: 0, failovers: 0, ..MIXED };
    println!("{} paths", explore(bounds, Counter::Semaphore).unwrap());
}

#[test]
fn every_mutant_is_found() {
    let all = [
        Mutant::CountsTwice,
        Mutant::CountsLateCopies,
        Mutant::ForgetfulVoid,
        Mutant::NoVoid,
        Mutant::NewNumbers,
        Mutant::KeepsSurplus,
    ];
    for mutant in all {
        let found = explore(Bounds { mutant, ..TAKES }, Counter::Semaphore);
        assert!(found.is_err(), "{mutant:?} was not found");
    }
}
