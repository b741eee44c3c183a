//! The calls to one node that wait to be sent, and when they are sent: alone, or together with others. Pure.
//!
//! Rules.
//! - A node with little to do gets each call at once, in a command of its own. With more calls unanswered than the node can
//!   work on during a round trip, another command would only wait at the node; so the calls wait here, and those that wait
//!   leave together in one command. The more calls are unanswered, the more go together. To a far node, calls that are too
//!   few to go together wait for a part of the round trip at most.
//! - First come, first served. A call's time counts from the moment when the call is sent. Until then it waits as long as the
//!   node answers other calls, and no longer than its caller.
//! - A node is *silent* once a call had no answer in time and the node has answered nothing since that call was sent. A silent
//!   node gets one call at a time: the one that has the most time left, a release before an acquire. The others wait unsent:
//!   they have no effect on the server, so they leave nothing to close. Any answer of the node ends its silence. The time of a
//!   call that waits for a silent node counts from the node's last answer.
//! - A call waits only while the node has calls to answer that end later, or until
//!   [`gathers_until`](CallQueue::gathers_until).

use std::{collections::VecDeque, time::Duration};

use super::window::{Timing, Window};
use crate::clock::Instant;

/// A call that can wait in a queue.
pub(crate) trait Timed {
    /// When the call came into the queue.
    fn put_at(&self) -> Instant;

    /// How long the call may take from the moment when it is sent.
    fn time(&self) -> Duration;

    /// When its caller leaves, also if the call was not sent until then.
    fn leaves(&self) -> Option<Instant>;

    /// The call is sent, and its time counts from this moment.
    fn start(&mut self, at: Instant);

    fn is_release(&self) -> bool;

    /// Whether the call can go together with others.
    fn is_groupable(&self) -> bool;
}

/// The calls of one node.
#[derive(Debug)]
pub(crate) struct CallQueue<T> {
    /// The calls that can go together.
    groupable: VecDeque<T>,
    /// The others.
    single: VecDeque<T>,
    pub(crate) window: Window,
    /// Whether the node takes calls of many slots together.
    pub(crate) takes_groups: bool,
    /// Calls that were sent and are not answered, alone or together.
    unanswered: usize,
    /// Commands for many calls that are not answered.
    groups: usize,
    /// How many commands were sent.
    sent: u64,
    /// How many commands had been sent when the node answered last.
    answered: u64,
    /// When the node answered last.
    answered_at: Instant,
    is_silent: bool,
    /// When the time of the last call that was sent is over.
    sent_until: Instant,
    /// When calls that wait for others to go with are sent at the latest.
    gathers_until: Option<Instant>,
}

/// What may be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ready<T> {
    Alone(T),
    Together(Vec<T>),
}

/// A command that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    number: u64,
    calls: usize,
    is_group: bool,
    at: Instant,
    /// How long its calls may take.
    time: Duration,
    /// How many calls were unanswered once it was sent.
    unanswered: usize,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Its time was over before it was sent. That says nothing of the node.
    NotSent,
    /// Its time is over.
    Unanswered,
    /// A refusal, or the end of the connection.
    Refused,
    /// A reply.
    Replied,
}

impl<T> Default for CallQueue<T> {
    fn default() -> Self {
        Self {
            groupable: VecDeque::new(),
            single: VecDeque::new(),
            window: Window::default(),
            takes_groups: true,
            unanswered: 0,
            groups: 0,
            sent: 0,
            answered: 0,
            answered_at: Instant::default(),
            is_silent: false,
            sent_until: Instant::default(),
            gathers_until: None,
        }
    }
}

impl<T: Timed> CallQueue<T> {
    /// A call waits. [`take_ready`](Self::take_ready) says what to send.
    pub(crate) fn put(&mut self, call: T) {
        let queue = if call.is_groupable() { &mut self.groupable } else { &mut self.single };
        queue.push_back(call);
    }

    /// Takes what may be sent now, and counts it as unanswered: the longest wait first, but to a silent node the call with the
    /// most time left. At most `most` calls go together.
    pub(crate) fn take_ready(&mut self, most: usize, now: Instant) -> Option<(Ready<T>, Sent)> {
        if self.is_silent {
            let call = self.take_probe()?;
            let at = self.counts_from(&call);
            return Some(self.send_alone(call, now, at));
        }
        if self.is_empty() {
            return None;
        }
        if let Some(until) = self.window.dry_until(self.unanswered, now) {
            self.gathers_until = Some(until);
            return None;
        }
        let room = self.window.most().saturating_sub(self.unanswered);
        if room == 0 {
            return None;
        }
        let most = if self.takes_groups { most.min(room) } else { 1 };
        if let Some(call) = self.take_alone(most) {
            return Some(self.send_alone(call, now, now));
        }
        let wanted = GROUP_MIN.max(self.unanswered / UNANSWERED_A_CALL).min(most);
        if self.groupable.is_empty() || self.groups >= self.window.groups() {
            return None;
        }
        if self.groupable.len() < wanted && !self.has_gathered(now) {
            return None;
        }
        self.gathers_until = None;
        let mut calls: Vec<T> = self.groupable.drain(..most.min(self.groupable.len())).collect();
        calls.iter_mut().for_each(|call| call.start(now));
        let sent = self.note_sent(&calls, true, (now, now));
        Some((Ready::Together(calls), sent))
    }

    // The call that goes next, in a command of its own. `None`: the next call waits for others.
    fn take_alone(&mut self, most: usize) -> Option<T> {
        let is_first =
            |single: &T| self.groupable.front().is_none_or(|call| single.put_at() <= call.put_at());
        if self.single.front().is_some_and(is_first) {
            return self.single.pop_front();
        }
        let goes_alone = most <= 1 || self.unanswered < self.window.calls();
        if goes_alone { self.groupable.pop_front() } else { None }
    }

    // Whether calls that are too few have waited for long enough. At a near node an answer comes before a timer would.
    fn has_gathered(&mut self, now: Instant) -> bool {
        let pause = self.window.round_trip() / GATHERS_A_ROUND_TRIP;
        pause >= GATHER_MIN && *self.gathers_until.get_or_insert(now + pause) <= now
    }

    // Calls that end before the last one that was sent have waited for as long as that one.
    fn take_probe(&mut self) -> Option<T> {
        if self.unanswered > 0 {
            return None;
        }
        let rank = |call: &T| (call.is_release(), self.ends(call));
        let best = |queue: &VecDeque<T>| {
            let may = |place: &usize| self.ends(&queue[*place]) > self.sent_until;
            let place = (0..queue.len()).filter(may).max_by_key(|place| rank(&queue[*place]))?;
            Some((rank(&queue[place]), place))
        };
        let (groupable, single) = (best(&self.groupable), best(&self.single));
        let queue = if groupable > single { &mut self.groupable } else { &mut self.single };
        let (_, place) = groupable.max(single)?;
        queue.remove(place)
    }

    // Until the node has answered something, the time of a call that waits goes by.
    fn counts_from(&self, call: &T) -> Instant {
        call.put_at().max(self.answered_at)
    }

    // When the time of a call is over, if the node answers nothing more.
    fn ends(&self, call: &T) -> Instant {
        self.counts_from(call) + call.time()
    }

    fn send_alone(&mut self, mut call: T, now: Instant, counts_from: Instant) -> (Ready<T>, Sent) {
        call.start(counts_from);
        let sent = self.note_sent(std::slice::from_ref(&call), false, (now, counts_from));
        (Ready::Alone(call), sent)
    }

    fn note_sent(&mut self, calls: &[T], is_group: bool, (at, counts_from): (Instant, Instant)) -> Sent {
        self.unanswered += calls.len();
        self.groups += usize::from(is_group);
        self.sent += 1;
        let times = || calls.iter().map(T::time);
        self.sent_until = self.sent_until.max(counts_from + times().max().unwrap_or_default());
        let (number, unanswered, time) = (self.sent, self.unanswered, times().min().unwrap_or_default());
        Sent { number, calls: calls.len(), is_group, at, time, unanswered }
    }

    /// A command has ended.
    pub(crate) fn handle_end(&mut self, sent: Sent, end: End, now: Instant) {
        let Sent { number, calls, time, unanswered, .. } = sent;
        self.unanswered = self.unanswered.saturating_sub(calls);
        self.groups = self.groups.saturating_sub(usize::from(sent.is_group));
        let timing = Timing { number, unanswered, calls, took: now - sent.at, time };
        match end {
            End::Replied => self.window.handle_reply(timing, self.sent, !self.is_empty(), now),
            End::Unanswered => self.window.handle_late(timing, self.sent),
            End::Refused | End::NotSent => {}
        }
        match end {
            End::Replied | End::Refused => self.handle_answer(now),
            End::Unanswered => self.is_silent |= self.answered < number,
            End::NotSent => {}
        }
    }

    /// The node has answered something.
    pub(crate) fn handle_answer(&mut self, now: Instant) {
        (self.answered, self.answered_at, self.is_silent) = (self.sent, now, false);
    }

    /// A node that was silent may be connected again.
    pub(crate) fn handle_topology(&mut self, now: Instant) {
        self.handle_answer(now);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// When [`take_ready`](Self::take_ready) has calls although nothing is answered until then.
    pub(crate) fn gathers_until(&self) -> Option<Instant> {
        self.gathers_until.filter(|_| !self.is_empty() && !self.is_silent)
    }

    // When a call ends unsent, if the node answers nothing more.
    fn gives_up(&self, call: &T) -> Instant {
        call.leaves().map_or(self.ends(call), |leaves| leaves.min(self.ends(call)))
    }

    /// Takes the calls whose caller leaves, or whose node has not answered in their time. Their time has counted from the moment
    /// in the second part.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<(T, Instant)> {
        let is_over: Vec<_> =
            self.waiting().map(|call| (self.gives_up(call) <= now, self.counts_from(call))).collect();
        let mut is_over = is_over.into_iter();
        let mut over = Vec::new();
        for queue in [&mut self.groupable, &mut self.single] {
            for _ in 0..queue.len() {
                let (Some(call), Some((is_over, since))) = (queue.pop_front(), is_over.next()) else { break };
                if is_over { over.push((call, since)) } else { queue.push_back(call) }
            }
        }
        over
    }

    /// The calls that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.groupable.iter().chain(&self.single)
    }

    /// Takes all calls that wait. They are not sent.
    pub(crate) fn take_waiting(&mut self) -> Vec<T> {
        self.groupable.drain(..).chain(self.single.drain(..)).collect()
    }

    fn is_empty(&self) -> bool {
        self.groupable.is_empty() && self.single.is_empty()
    }

    /// Whether nothing waits and nothing is unanswered.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.unanswered == 0
    }
}

/// Fewer calls than this do not go together.
const GROUP_MIN: usize = 8;
/// For each 32 unanswered calls, one more is wanted to go together: so a burst of callers does not leave in groups of eight.
const UNANSWERED_A_CALL: usize = 32;
/// Calls that are too few wait for this part of a round trip.
const GATHERS_A_ROUND_TRIP: u32 = 32;
/// A shorter wait is left to the answers of the node.
const GATHER_MIN: Duration = Duration::from_micros(500);

#[cfg(test)]
mod links_model;
#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: u32 = 1_000;
    const START: Instant = Instant::from_nanos(0);

    impl Timed for u32 {
        fn put_at(&self) -> Instant {
            START
        }

        fn time(&self) -> Duration {
            Duration::from_nanos(1 + u64::from(*self))
        }

        fn leaves(&self) -> Option<Instant> {
            None
        }

        fn start(&mut self, _at: Instant) {}

        fn is_release(&self) -> bool {
            *self == RELEASE
        }

        fn is_groupable(&self) -> bool {
            true
        }
    }

    fn queue(calls: u32) -> CallQueue<u32> {
        let mut queue = CallQueue::default();
        queue.window.fixed = Some((2, 2));
        (0..calls).for_each(|call| queue.put(call));
        queue
    }

    fn all(queue: &mut CallQueue<u32>) -> (Vec<Ready<u32>>, Vec<Sent>) {
        std::iter::from_fn(|| queue.take_ready(64, START)).unzip()
    }

    #[test]
    fn a_node_with_little_to_do_gets_each_call_alone() {
        assert_eq!(all(&mut queue(2)).0, [Ready::Alone(0), Ready::Alone(1)]);
    }

    #[test]
    fn the_others_wait_until_eight_can_go_together() {
        let mut queue = queue(9);
        assert_eq!(all(&mut queue).0, [Ready::Alone(0), Ready::Alone(1)]);
        queue.put(9);
        assert_eq!(all(&mut queue).0, [Ready::Together((2..10).collect())]);
    }

    #[test]
    fn no_more_groups_than_places_and_no_larger_group_than_the_limit() {
        let mut queue = queue(400);
        let (ready, sent) = all(&mut queue);
        let is_full = |ready: &Ready<_>| matches!(ready, Ready::Together(calls) if calls.len() == 64);
        assert_eq!(ready[2..].iter().map(is_full).collect::<Vec<_>>(), [true, true], "{ready:?}");
        queue.handle_end(sent[2], End::Replied, START);
        assert!(matches!(all(&mut queue).0[..], [Ready::Together(_)]));
    }

    #[test]
    fn calls_whose_time_is_over_are_not_sent() {
        let mut queue = queue(20);
        let over = queue.take_overdue(Instant::from_nanos(10));
        assert_eq!(over.into_iter().map(|(call, _)| call).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        let (ready, sent) = all(&mut queue);
        let group = Ready::Together((12..20).collect());
        assert_eq!(ready, [Ready::Alone(10), Ready::Alone(11), group]);
        sent.into_iter().for_each(|sent| queue.handle_end(sent, End::Replied, START));
        assert!(queue.is_idle());
    }

    #[test]
    fn time_counts_from_the_last_answer_of_the_node() {
        let mut queue = queue(3);
        let at = Instant::from_nanos;
        queue.handle_answer(at(50));
        assert_eq!(queue.take_overdue(at(50)), []);
        assert_eq!(queue.take_overdue(at(52)), [(0, at(50)), (1, at(50))]);
    }

    #[test]
    fn calls_that_are_too_few_go_to_a_far_node_after_a_part_of_the_round_trip() {
        let (mut queue, at) = (queue(5), |ms: u64| Instant::from_nanos(ms * 1_000_000));
        queue.window.expect(Duration::from_millis(64), START);
        assert_eq!(all(&mut queue).0, [Ready::Alone(0), Ready::Alone(1)]);
        assert_eq!(queue.gathers_until(), Some(at(2)));
        assert_eq!(queue.take_ready(64, at(1)), None);
        assert!(
            matches!(queue.take_ready(64, at(2)), Some((Ready::Together(calls), _)) if calls == [2, 3, 4])
        );
        assert_eq!(queue.gathers_until(), None);
    }

    #[test]
    fn with_many_unanswered_more_go_together() {
        let mut queue = queue(3_000);
        queue.window.fixed = Some((512, 1_000));
        let size = |ready: &Ready<u32>| match ready {
            Ready::Alone(_) => 1,
            Ready::Together(calls) => calls.len(),
        };
        let mut sizes: Vec<_> = all(&mut queue).0.iter().map(size).collect();
        sizes.dedup();
        assert_eq!((sizes, queue.groupable.len()), (vec![1, 64], 56));
        (0..7).for_each(|call| queue.put(call));
        assert_eq!(all(&mut queue).0, []);
        queue.put(7);
        assert!(matches!(&all(&mut queue).0[..], [Ready::Together(calls)] if calls.len() == 64));
    }

    #[test]
    fn no_more_calls_are_unanswered_than_the_node_can_work_on() {
        let mut queue = queue(60_000);
        queue.window.fixed = Some((2, 10_000));
        let sent = all(&mut queue).1;
        let unanswered: usize = sent.iter().map(|sent| sent.calls).sum();
        assert_eq!(unanswered, queue.window.most());
        queue.handle_end(sent[5], End::Replied, START);
        assert!(!all(&mut queue).0.is_empty());
    }

    #[test]
    fn a_silent_node_gets_one_call_at_a_time_until_it_answers() {
        let mut queue = queue(100);
        let (_, sent) = all(&mut queue);
        sent.iter().for_each(|sent| queue.handle_end(*sent, End::Unanswered, START));
        assert!(queue.is_silent());
        (100..200).for_each(|call| queue.put(call));
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(199)], "it has the most time left");
        queue.handle_end(sent[0], End::Unanswered, START);
        assert_eq!(all(&mut queue).0, [], "the time of the others is over");
        queue.put(200);
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(200)]);
        [300, 250].into_iter().for_each(|call| queue.put(call));
        assert_eq!(all(&mut queue).0, []);
        queue.handle_end(sent[0], End::Unanswered, START);
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(300)]);
        queue.handle_end(sent[0], End::Replied, START);
        assert!(all(&mut queue).0.len() > 1 && !queue.is_silent());
    }

    #[test]
    fn a_call_without_an_answer_makes_no_node_silent_that_has_answered_since() {
        let mut queue = queue(2);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[1], End::Replied, START);
        queue.handle_end(sent[0], End::Unanswered, START);
        assert!(!queue.is_silent());
    }

    #[test]
    fn a_call_that_was_not_sent_says_nothing_of_its_node() {
        let mut queue = queue(2);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[0], End::NotSent, START);
        assert!(!queue.is_silent());
        queue.handle_end(sent[1], End::Unanswered, START);
        queue.put(5);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[0], End::NotSent, START);
        assert!(queue.is_silent());
    }

    #[test]
    fn a_call_whose_time_is_over_is_not_sent_to_a_silent_node() {
        let mut queue = queue(0);
        [50, 10].into_iter().for_each(|call| queue.put(call));
        let (_, sent) = all(&mut queue);
        sent.iter().for_each(|sent| queue.handle_end(*sent, End::Unanswered, START));
        queue.put(30);
        assert_eq!(all(&mut queue).0, []);
        queue.put(51);
        assert_eq!(all(&mut queue).0, [Ready::Alone(51)]);
    }

    // The ask of a caller behind its own engine's release would find the lock held.
    #[test]
    fn a_release_goes_to_a_silent_node_before_an_acquire() {
        let mut queue = queue(1);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[0], End::Unanswered, START);
        [RELEASE, RELEASE + 1].into_iter().for_each(|call| queue.put(call));
        assert_eq!(all(&mut queue).0, [Ready::Alone(RELEASE)]);
    }
}
