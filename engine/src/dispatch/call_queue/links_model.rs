//! Many callers of free locks on one node, over a link with a delay, to a server with a rate and a queue. In simulated time.
//!
//! Every caller is granted, and grants a second do not fall when callers are added. Each rule that this rests on is also left
//! out once; then the model finds callers that are not served in time.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

const MILLI: u64 = 1_000_000;
const TIME: Duration = Duration::from_secs(1);
const MOST: usize = 128;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    None,
    /// A call's time counts from when it came.
    TimeFromSend,
    /// The window stays that of a near node.
    Learning,
    /// Any number of calls may be unanswered.
    Cuts,
    /// Calls that are too few wait until the node answers.
    Gathering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caller {
    put_at: Instant,
    counts_from: Instant,
    /// It closes an owner whose acquire had no answer.
    closes: bool,
}

impl Timed for Caller {
    fn put_at(&self) -> Instant {
        self.put_at
    }

    fn time(&self) -> Duration {
        TIME
    }

    fn leaves(&self) -> Option<Instant> {
        None
    }

    fn start(&mut self, at: Instant) {
        self.counts_from = at;
    }

    fn is_release(&self) -> bool {
        self.closes
    }

    fn is_groupable(&self) -> bool {
        true
    }
}

/// A link and a server.
#[derive(Clone, Copy, Debug)]
struct Link {
    round_trip: u64,
    nanos_a_command: u64,
    nanos_a_call: u64,
}

impl Link {
    fn new(round_trip_micros: u64) -> Self {
        Self { round_trip: round_trip_micros * 1_000, nanos_a_command: 10_000, nanos_a_call: 5_000 }
    }

    fn slow(self, calls_a_second: u64) -> Self {
        Self { nanos_a_call: 1_000_000_000 / calls_a_second, ..self }
    }
}

enum Event {
    /// Callers come.
    Come(usize),
    /// A command ends. The second part: whether its calls had an effect.
    End(Sent, End, Vec<(Caller, bool)>),
    /// Calls may have waited for others for long enough.
    Gathered,
}

struct World {
    queue: CallQueue<Caller>,
    link: Link,
    without: Without,
    now: u64,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    of_event: Vec<Option<Event>>,
    server_free: u64,
    granted: Vec<u64>,
    closings: usize,
}

impl World {
    fn new(link: Link, without: Without) -> Self {
        let mut queue = CallQueue::default();
        // As the transport tells it, which has connected.
        queue.window.expect(Duration::from_nanos(link.round_trip), Instant::from_nanos(0));
        if without == Without::Learning {
            queue.window.fixed = Some((16, 3));
        }
        Self {
            queue,
            link,
            without,
            now: 0,
            events: BinaryHeap::new(),
            of_event: Vec::new(),
            server_free: 0,
            granted: Vec::new(),
            closings: 0,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, self.of_event.len())));
        self.of_event.push(Some(event));
    }

    fn put(&mut self, closes: bool) {
        let at = Instant::from_nanos(self.now);
        self.queue.put(Caller { put_at: at, counts_from: at, closes });
    }

    // Runs until nothing is left to do, at most until this time. Later events stay for the next run.
    fn run(&mut self, until: u64) {
        while self.events.peek().is_some_and(|Reverse((time, _))| *time <= until) {
            let Some(Reverse((time, number))) = self.events.pop() else { return };
            self.now = time;
            match self.of_event[number].take().expect("each event once") {
                Event::Come(callers) => (0..callers).for_each(|_| {
                    self.put(false);
                    self.send();
                }),
                Event::End(sent, end, calls) => self.end(sent, end, calls),
                Event::Gathered => {}
            }
            self.send();
        }
    }

    fn end(&mut self, sent: Sent, end: End, calls: Vec<(Caller, bool)>) {
        self.queue.handle_end(sent, end, Instant::from_nanos(self.now));
        for (call, had_effect) in calls {
            match (call.closes, end == End::Replied && had_effect) {
                (true, true) => {}
                (true, false) => self.put(true),
                (false, true) => self.granted.push(self.now),
                (false, false) => {
                    if end == End::Unanswered {
                        self.closings += 1;
                        self.put(true);
                    }
                    self.put(false);
                }
            }
        }
    }

    fn send(&mut self) {
        if self.without == Without::Cuts {
            self.queue.window.uncut();
        }
        while let Some((ready, sent)) = self.queue.take_ready(MOST, Instant::from_nanos(self.now)) {
            let calls = match ready {
                Ready::Alone(call) => vec![call],
                Ready::Together(calls) => calls,
            };
            self.serve(sent, calls);
        }
        if let Some(until) = self.queue.gathers_until().filter(|_| self.without != Without::Gathering) {
            self.at(until.as_nanos().max(self.now), Event::Gathered);
        }
    }

    fn serve(&mut self, sent: Sent, calls: Vec<Caller>) {
        let Link { round_trip, nanos_a_command, nanos_a_call } = self.link;
        let begins = (self.now + round_trip / 2).max(self.server_free);
        let counts_from = |call: &Caller| match self.without {
            Without::TimeFromSend => call.put_at,
            _ => call.counts_from,
        };
        let has_effect = |call: &Caller| call.closes || begins <= (counts_from(call) + TIME).as_nanos();
        let calls: Vec<_> = calls.into_iter().map(|call| (call, has_effect(&call))).collect();
        self.server_free = begins + nanos_a_command + calls.len() as u64 * nanos_a_call;
        let (answer, over) = (self.server_free + round_trip / 2, self.now + TIME.as_nanos() as u64);
        match answer <= over {
            true => self.at(answer, Event::End(sent, End::Replied, calls)),
            false => self.at(over, Event::End(sent, End::Unanswered, calls)),
        }
    }
}

// How long it takes until this number of callers who come at once is served. `None`: some are not within 30 s.
fn takes(link: Link, callers: usize, without: Without) -> Option<u64> {
    let mut world = World::new(link, without);
    world.at(0, Event::Come(callers));
    world.run(30_000 * MILLI);
    (world.granted.len() == callers).then(|| *world.granted.last().expect("a caller"))
}

const ROUND_TRIPS: [u64; 8] = [50, 500, 2_000, 10_000, 20_000, 60_000, 100_000, 300_000];
const CALLERS: [usize; 8] = [1, 8, 64, 515, 1_000, 5_000, 20_000, 100_000];

// The first that is not served as it should be.
fn first_fault(without: Without) -> Option<String> {
    for micros in ROUND_TRIPS {
        let (link, mut best) = (Link::new(micros), 0.0_f64);
        for callers in CALLERS {
            let Some(took) = takes(link, callers, without) else {
                return Some(format!("{micros} us, {callers} callers: not all are served"));
            };
            // A client that sends everything at once, each call in a command of its own.
            let plain = link.round_trip + callers as u64 * 10_000;
            if took > plain * 3 / 2 {
                return Some(format!("{micros} us, {callers} callers: {took} ns, a plain client {plain} ns"));
            }
            let rate = callers as f64 / took as f64;
            if rate < best * 0.8 {
                return Some(format!("{micros} us, {callers} callers: {rate} of {best} grants a ns"));
            }
            best = best.max(rate);
        }
    }
    let slow = takes(Link::new(60_000).slow(2_000), 10_000, without);
    if slow.is_none_or(|took| took > 15_000 * MILLI) {
        return Some(format!("a slow server takes {slow:?} for 10,000 callers, 5 s of work"));
    }
    let mut world = World::new(Link::new(60_000), without);
    (0..100).for_each(|number| world.at(number * 60 * MILLI, Event::Come(500)));
    world.run(30_000 * MILLI);
    let last = world.granted.last().copied().unwrap_or(0);
    if world.granted.len() < 50_000 || last > 6_200 * MILLI {
        return Some(format!(
            "500 callers each 60 ms: {} served, the last after {last} ns",
            world.granted.len()
        ));
    }
    None
}

#[test]
fn callers_at_any_distance_are_all_served_and_more_callers_do_not_slow_them_down() {
    assert_eq!(first_fault(Without::None), None);
}

#[test]
fn without_any_of_the_rules_some_are_not() {
    for without in [Without::TimeFromSend, Without::Learning, Without::Cuts, Without::Gathering] {
        let fault = first_fault(without);
        assert!(fault.is_some(), "{without:?}");
        println!("without {without:?}: {}", fault.expect("just checked"));
    }
}

#[test]
fn a_slow_server_gets_no_more_than_it_can_work_on() {
    for micros in [50, 2_000, 60_000] {
        let mut world = World::new(Link::new(micros).slow(2_000), Without::None);
        world.at(0, Event::Come(60_000));
        world.run(12_000 * MILLI);
        let before = (world.closings, world.granted.len());
        world.run(22_000 * MILLI);
        let (closings, granted) = (world.closings - before.0, world.granted.len() - before.1);
        assert!(
            closings == 0 && granted > 18_000,
            "{micros} us: {granted} grants, {closings} closings in 10 s"
        );
    }
}
