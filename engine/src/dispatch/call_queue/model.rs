//! Every order of puts, answers, calls without an answer, answers to calls of another path, and calls that are taken back.
//!
//! While a call waits, another is unanswered, so that its end sends the waiting one; or the node is silent, and the time of the
//! waiting call is over. No call is sent twice or forgotten, and the limits hold. A node is silent exactly when the last thing
//! known of it is a call without an answer.

use super::*;

const CALLS: usize = 2;
const GROUPS: usize = 2;
const MOST: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Four calls.
    Put,
    /// The oldest command is answered.
    Answer,
    /// The oldest command has no answer in time.
    Lose,
    /// The node answers a call that did not go through the queue.
    AnswerElsewhere,
    /// The calls that wait are taken back.
    TakeBack,
}

const STEPS: [Step; 5] = [Step::Put, Step::Answer, Step::Lose, Step::AnswerElsewhere, Step::TakeBack];

/// A call with its number. Of four calls that come together, some end later than some of the next four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered(u32);

impl Timed for Numbered {
    fn put_at(&self) -> Instant {
        NOW
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(u64::from(2 * (self.0 / 4) + [3, 1, 4, 2][self.0 as usize % 4]))
    }

    fn leaves(&self) -> Option<Instant> {
        None
    }

    fn start(&mut self, _at: Instant) {}

    fn is_release(&self) -> bool {
        false
    }

    fn is_groupable(&self) -> bool {
        true
    }
}

impl Numbered {
    fn ends(&self) -> Instant {
        NOW + self.time()
    }
}

const NOW: Instant = Instant::from_nanos(0);

struct World {
    queue: CallQueue<Numbered>,
    put: u32,
    gone: Vec<Numbered>,
    sent_until: Instant,
    commands: VecDeque<(Sent, Vec<Numbered>, u64)>,
    /// Counts sends and answers, in their order.
    time: u64,
    answered: Option<u64>,
}

#[test]
fn in_every_order_of_puts_and_answers_what_waits_is_sent() {
    let (mut looked, mut silences) = (0, 0);
    explore(&mut vec![], 7, &mut looked, &mut silences);
    assert!(looked > 90_000 && silences > 1_000, "{looked} {silences}");
}

fn explore(steps: &mut Vec<Step>, more: usize, looked: &mut usize, silences: &mut usize) {
    *looked += 1;
    *silences += usize::from(run(steps));
    if more == 0 {
        return;
    }
    for step in STEPS {
        steps.push(step);
        explore(steps, more - 1, looked, silences);
        steps.pop();
    }
}

// Returns whether the node was silent at the end of the steps. Then the node answers, and everything must have been sent.
fn run(steps: &[Step]) -> bool {
    let mut world = World::new();
    for (place, step) in steps.iter().enumerate() {
        world.step(*step);
        world.check(&steps[..=place]);
    }
    let was_silent = world.queue.is_silent();
    world.step(Step::AnswerElsewhere);
    (0..60).for_each(|_| world.step(Step::Answer));
    world.gone.sort_unstable();
    assert_eq!(world.gone, (0..world.put).map(Numbered).collect::<Vec<_>>(), "{steps:?}");
    assert!(world.queue.is_idle() && world.commands.is_empty(), "{steps:?}");
    was_silent
}

impl World {
    fn new() -> Self {
        let mut queue = CallQueue::default();
        queue.window.fixed = Some((CALLS, GROUPS));
        let (gone, commands) = (Vec::new(), VecDeque::new());
        Self { queue, put: 0, gone, sent_until: NOW, commands, time: 0, answered: None }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put => {
                (0..4).for_each(|n| self.queue.put(Numbered(self.put + n)));
                self.put += 4;
            }
            Step::Answer => self.end(true),
            Step::Lose => self.end(false),
            Step::AnswerElsewhere => self.answer_elsewhere(),
            Step::TakeBack => self.take_back(),
        }
        self.send();
    }

    fn end(&mut self, is_answered: bool) {
        let Some((sent, calls, at)) = self.commands.pop_front() else { return };
        self.queue.handle_end(sent, if is_answered { End::Replied } else { End::Unanswered }, NOW);
        self.gone.extend(calls);
        match is_answered {
            true => self.note_answer(),
            false if self.answered.is_none_or(|answered| answered < at) => assert!(self.queue.is_silent()),
            false => {}
        }
    }

    fn answer_elsewhere(&mut self) {
        self.queue.handle_answer(NOW);
        self.note_answer();
    }

    fn note_answer(&mut self) {
        self.time += 1;
        self.answered = Some(self.time);
        assert!(!self.queue.is_silent());
    }

    fn take_back(&mut self) {
        self.gone.extend(self.queue.take_waiting());
    }

    fn send(&mut self) {
        let was_busy = !self.commands.is_empty();
        let mut count = 0;
        while let Some((ready, sent)) = self.queue.take_ready(MOST, NOW) {
            self.time += 1;
            count += 1;
            let calls = match ready {
                Ready::Alone(call) => vec![call],
                Ready::Together(calls) => calls,
            };
            assert!(calls.len() == 1 || calls.len() == MOST, "{calls:?}");
            self.sent_until = calls.iter().map(Numbered::ends).fold(self.sent_until, Instant::max);
            self.commands.push_back((sent, calls, self.time));
        }
        if self.queue.is_silent() {
            assert!(count <= usize::from(!was_busy), "a silent node gets one call at a time");
        }
    }

    fn check(&self, steps: &[Step]) {
        let waits = self.queue.waiting().any(|call| !self.queue.is_silent() || call.ends() > self.sent_until);
        assert!(!waits || !self.commands.is_empty(), "{steps:?}: calls wait for nothing");
        let groups = self.commands.iter().filter(|(_, calls, _)| calls.len() > 1).count();
        assert!(groups <= GROUPS, "{steps:?}");
        let unanswered: usize = self.commands.iter().map(|(_, calls, _)| calls.len()).sum();
        assert!(unanswered <= CALLS + GROUPS * MOST, "{steps:?}");
    }
}
