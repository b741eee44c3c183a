//! The calls to one node that wait to be sent together, and when they are sent. Pure.
//!
//! A node with little to do gets each call at once, in a command of its own. With more calls unanswered than the node can
//! work on during a round trip, another command would only wait at the node; so the calls wait here, and those that wait
//! leave together in one command. A call waits only while the node has calls to answer, so an answer always comes, and no
//! timer is needed.

use std::{collections::VecDeque, time::Duration};

/// The calls of one node.
#[derive(Debug)]
pub(crate) struct NodeQueue<T> {
    waiting: VecDeque<T>,
    /// Calls that were sent and are not answered, alone or together.
    unanswered: usize,
    /// Commands for many calls that are not answered.
    groups: usize,
}

/// What may be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ready<T> {
    Alone(T),
    Together(Vec<T>),
}

/// How many calls, and commands for many calls, may be unanswered at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Below so many unanswered calls, each call is sent at once, alone.
    pub(crate) calls: usize,
    /// So many commands for many calls.
    pub(crate) groups: usize,
}

impl Window {
    /// For a round trip without a queue at the node: as many calls as client and server work on meanwhile.
    pub(crate) fn of_round_trip(round_trip: Duration) -> Self {
        let nanos = usize::try_from(round_trip.as_nanos()).unwrap_or(usize::MAX);
        Self {
            calls: (nanos / NANOS_A_CALL).clamp(CALLS_MIN, CALLS_MAX),
            groups: (GROUPS_MIN + nanos / ROUND_TRIP_NANOS_A_GROUP).min(GROUPS_MAX),
        }
    }
}

impl<T> NodeQueue<T> {
    /// A node without calls.
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::new(), unanswered: 0, groups: 0 }
    }

    /// A call waits. [`take_ready`](Self::take_ready) says what to send.
    pub(crate) fn put(&mut self, call: T) {
        self.waiting.push_back(call);
    }

    /// Takes what may be sent now, the longest wait first, and counts it as unanswered. At most `most` calls go together.
    pub(crate) fn take_ready(&mut self, window: Window, most: usize) -> Option<Ready<T>> {
        if self.unanswered < window.calls {
            let call = self.waiting.pop_front()?;
            self.unanswered += 1;
            return Some(Ready::Alone(call));
        }
        if self.waiting.len() < GROUP_MIN.min(most) || self.groups >= window.groups {
            return None;
        }
        let calls: Vec<T> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        self.unanswered += calls.len();
        self.groups += 1;
        Some(Ready::Together(calls))
    }

    /// The calls that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter()
    }

    /// Takes the waiting calls for which this is true. They are not sent.
    pub(crate) fn take_waiting(&mut self, is_taken: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.waiting);
        let (taken, kept) = all.into_iter().partition::<Vec<_>, _>(is_taken);
        self.waiting = kept.into();
        taken
    }

    /// A call that was sent alone is answered.
    pub(crate) fn handle_alone(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// So many calls that were sent together are answered.
    pub(crate) fn handle_group(&mut self, calls: usize) {
        self.unanswered = self.unanswered.saturating_sub(calls);
        self.groups = self.groups.saturating_sub(1);
    }

    /// Whether nothing waits and nothing is unanswered.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unanswered == 0
    }
}

/// About what client and server together need for a command of its own. Measured with 64 and 256 callers on loopback
/// (`--pairs` in `benches/`): with the server's share alone, 4 µs, 64 callers did not gain; with this, 1.4 times as many pairs.
const NANOS_A_CALL: usize = 16_000;
const CALLS_MIN: usize = 8;
const CALLS_MAX: usize = 512;
/// Fewer calls than this do not go together.
const GROUP_MIN: usize = 8;
const GROUPS_MIN: usize = 3;
const GROUPS_MAX: usize = 16;
const ROUND_TRIP_NANOS_A_GROUP: usize = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { calls: 2, groups: 2 };

    fn queue(calls: u32) -> NodeQueue<u32> {
        let mut queue = NodeQueue::new();
        (0..calls).for_each(|call| queue.put(call));
        queue
    }

    fn take(queue: &mut NodeQueue<u32>) -> Option<Ready<u32>> {
        queue.take_ready(WINDOW, 64)
    }

    fn all(queue: &mut NodeQueue<u32>) -> Vec<Ready<u32>> {
        std::iter::from_fn(|| take(queue)).collect()
    }

    #[test]
    fn a_node_with_little_to_do_gets_each_call_alone() {
        assert_eq!(all(&mut queue(2)), [Ready::Alone(0), Ready::Alone(1)]);
    }

    #[test]
    fn the_others_wait_until_eight_can_go_together() {
        let mut queue = queue(9);
        assert_eq!(all(&mut queue), [Ready::Alone(0), Ready::Alone(1)]);
        queue.put(9);
        assert_eq!(take(&mut queue), Some(Ready::Together((2..10).collect())));
    }

    #[test]
    fn no_more_groups_than_places_and_no_larger_group_than_the_limit() {
        let mut queue = queue(400);
        let sent = all(&mut queue);
        let sizes: Vec<_> = sent[2..]
            .iter()
            .map(|ready| matches!(ready, Ready::Together(calls) if calls.len() == 64))
            .collect();
        assert_eq!(sizes, [true, true], "{sent:?}");
        queue.handle_group(64);
        assert!(matches!(take(&mut queue), Some(Ready::Together(_))));
    }

    #[test]
    fn calls_that_are_taken_back_are_not_sent() {
        let mut queue = queue(20);
        assert_eq!(queue.take_waiting(|call| call % 2 == 0), (0..20).step_by(2).collect::<Vec<_>>());
        assert!(queue.waiting().eq(&[1, 3, 5, 7, 9, 11, 13, 15, 17, 19]));
        assert_eq!((take(&mut queue), take(&mut queue)), (Some(Ready::Alone(1)), Some(Ready::Alone(3))));
        assert_eq!(take(&mut queue), Some(Ready::Together(vec![5, 7, 9, 11, 13, 15, 17, 19])));
        queue.handle_alone();
        queue.handle_alone();
        queue.handle_group(8);
        assert!(queue.is_idle());
    }

    #[test]
    fn a_window_follows_the_round_trip() {
        let window = |micros| Window::of_round_trip(Duration::from_micros(micros));
        assert_eq!(window(0), Window { calls: 8, groups: 3 });
        assert_eq!(window(160), Window { calls: 10, groups: 3 });
        assert_eq!(window(500), Window { calls: 31, groups: 4 });
        assert_eq!(window(100_000), Window { calls: 512, groups: 16 });
    }

    /// Every order of puts and answers: while a call waits, another is unanswered, so that its answer sends the waiting one.
    /// No call is sent twice or forgotten, and the limits hold.
    #[test]
    fn in_every_order_of_puts_and_answers_what_waits_is_sent() {
        let mut looked = 0;
        explore(&mut vec![], 12, &mut looked);
        assert!(looked > 4_000, "{looked}");
    }

    // Each step puts four calls or answers the oldest command.
    fn explore(steps: &mut Vec<bool>, more: usize, looked: &mut usize) {
        *looked += 1;
        check(steps);
        if more == 0 {
            return;
        }
        for step in [true, false] {
            steps.push(step);
            explore(steps, more - 1, looked);
            steps.pop();
        }
    }

    fn check(steps: &[bool]) {
        let (mut queue, mut put, mut sent, mut commands) = (NodeQueue::new(), 0, vec![], VecDeque::new());
        for step in steps.iter().copied().chain([false; 60]) {
            if step {
                (0..4).for_each(|n| queue.put(put + n));
                put += 4;
            } else {
                match commands.pop_front() {
                    Some(1) => queue.handle_alone(),
                    Some(calls) => queue.handle_group(calls),
                    None => {}
                }
            }
            while let Some(ready) = queue.take_ready(WINDOW, 6) {
                let calls = match ready {
                    Ready::Alone(call) => vec![call],
                    Ready::Together(calls) => calls,
                };
                assert!(calls.len() == 1 || calls.len() == 6, "{calls:?}");
                commands.push_back(calls.len());
                sent.extend(calls);
            }
            assert!(queue.waiting.is_empty() || !commands.is_empty(), "{steps:?}: calls wait for nothing");
            assert!(commands.iter().filter(|calls| **calls > 1).count() <= WINDOW.groups, "{steps:?}");
        }
        assert_eq!(sent, (0..put).collect::<Vec<u32>>(), "{steps:?}");
        assert!(queue.is_idle(), "{steps:?}");
    }
}
