//! The calls to one node that wait to be sent, and when they are sent: alone, or together with others. Pure.
//!
//! Rules.
//! - A node with little to do gets each call at once, in a command of its own. With more calls unanswered than the node can
//!   work on during a round trip, another command would only wait at the node; so the calls wait here, and those that wait
//!   leave together in one command.
//! - A node is *silent* once a call had no answer in time and the node has answered nothing since that call was sent. A silent
//!   node gets one call at a time: the one that has the most time left, a release before an acquire. The others wait unsent:
//!   they have no effect on the server, so they leave nothing to close. Any answer of the node ends its silence.
//! - A call waits only while the node has calls to answer that end later. So an answer or the end of its time always comes,
//!   and no timer is needed here.

use std::collections::VecDeque;

use super::window::Window;
use crate::clock::Instant;

/// A call that can wait in a queue.
pub(crate) trait Timed {
    /// When the call's time is over.
    fn ends(&self) -> Instant;

    fn is_release(&self) -> bool;
}

/// The calls of one node.
#[derive(Debug)]
pub(crate) struct CallQueue<T> {
    waiting: VecDeque<T>,
    /// Calls that were sent and are not answered, alone or together.
    unanswered: usize,
    /// Commands for many calls that are not answered.
    groups: usize,
    /// How many commands were sent.
    sent: u64,
    /// How many commands had been sent when the node answered last.
    answered: u64,
    is_silent: bool,
    /// When the time of the last call that was sent is over.
    sent_until: Instant,
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
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Anything came back in time: a reply, a refusal, or the end of the connection.
    Answered,
    /// Its time is over.
    Unanswered,
    /// Its time was over before it was sent. That says nothing of the node.
    NotSent,
}

impl<T> Default for CallQueue<T> {
    fn default() -> Self {
        let waiting = VecDeque::new();
        Self {
            waiting,
            unanswered: 0,
            groups: 0,
            sent: 0,
            answered: 0,
            is_silent: false,
            sent_until: Instant::default(),
        }
    }
}

impl<T: Timed> CallQueue<T> {
    /// A call waits. [`take_ready`](Self::take_ready) says what to send.
    pub(crate) fn put(&mut self, call: T) {
        self.waiting.push_back(call);
    }

    /// Takes what may be sent now, and counts it as unanswered: the longest wait first, but to a silent node the call with the
    /// most time left. At most `most` calls go together.
    pub(crate) fn take_ready(&mut self, window: Window, most: usize) -> Option<(Ready<T>, Sent)> {
        if self.is_silent {
            let call = self.take_probe()?;
            return Some(self.send_alone(call));
        }
        if self.unanswered < window.calls {
            let call = self.waiting.pop_front()?;
            return Some(self.send_alone(call));
        }
        if self.waiting.len() < GROUP_MIN.min(most) || self.groups >= window.groups {
            return None;
        }
        let calls: Vec<T> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        let sent = self.note_sent(&calls, true);
        Some((Ready::Together(calls), sent))
    }

    // Calls that end before the last one that was sent have waited for as long as that one.
    fn take_probe(&mut self) -> Option<T> {
        if self.unanswered > 0 {
            return None;
        }
        let (waiting, sent_until) = (&self.waiting, self.sent_until);
        let may = |place: &usize| waiting[*place].ends() > sent_until;
        let rank = |place: &usize| (waiting[*place].is_release(), waiting[*place].ends());
        let best = (0..waiting.len()).filter(may).max_by_key(rank)?;
        self.waiting.remove(best)
    }

    fn send_alone(&mut self, call: T) -> (Ready<T>, Sent) {
        let sent = self.note_sent(std::slice::from_ref(&call), false);
        (Ready::Alone(call), sent)
    }

    fn note_sent(&mut self, calls: &[T], is_group: bool) -> Sent {
        self.unanswered += calls.len();
        self.groups += usize::from(is_group);
        self.sent += 1;
        self.sent_until = calls.iter().map(T::ends).fold(self.sent_until, Instant::max);
        Sent { number: self.sent, calls: calls.len(), is_group }
    }

    /// A command has ended.
    pub(crate) fn handle_end(&mut self, sent: Sent, end: End) {
        self.unanswered = self.unanswered.saturating_sub(sent.calls);
        self.groups = self.groups.saturating_sub(usize::from(sent.is_group));
        match end {
            End::Answered => self.handle_answer(),
            End::Unanswered => self.is_silent |= self.answered < sent.number,
            End::NotSent => {}
        }
    }

    /// The node has answered something.
    pub(crate) fn handle_answer(&mut self) {
        (self.answered, self.is_silent) = (self.sent, false);
    }

    /// A node that was silent may be connected again.
    pub(crate) fn handle_topology(&mut self) {
        self.handle_answer();
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
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

    /// Whether nothing waits and nothing is unanswered.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unanswered == 0
    }
}

/// Fewer calls than this do not go together.
const GROUP_MIN: usize = 8;

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { calls: 2, groups: 2 };
    const RELEASE: u32 = 1_000;

    impl Timed for u32 {
        fn ends(&self) -> Instant {
            Instant::from_nanos(1 + u64::from(*self))
        }

        fn is_release(&self) -> bool {
            *self == RELEASE
        }
    }

    fn queue(calls: u32) -> CallQueue<u32> {
        let mut queue = CallQueue::default();
        (0..calls).for_each(|call| queue.put(call));
        queue
    }

    fn all(queue: &mut CallQueue<u32>) -> (Vec<Ready<u32>>, Vec<Sent>) {
        std::iter::from_fn(|| queue.take_ready(WINDOW, 64)).unzip()
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
        queue.handle_end(sent[2], End::Answered);
        assert!(matches!(all(&mut queue).0[..], [Ready::Together(_)]));
    }

    #[test]
    fn calls_that_are_taken_back_are_not_sent() {
        let mut queue = queue(20);
        assert_eq!(queue.take_waiting(|call| call % 2 == 0), (0..20).step_by(2).collect::<Vec<_>>());
        assert!(queue.waiting().eq(&[1, 3, 5, 7, 9, 11, 13, 15, 17, 19]));
        let (ready, sent) = all(&mut queue);
        let group = Ready::Together(vec![5, 7, 9, 11, 13, 15, 17, 19]);
        assert_eq!(ready, [Ready::Alone(1), Ready::Alone(3), group]);
        sent.into_iter().for_each(|sent| queue.handle_end(sent, End::Answered));
        assert!(queue.is_idle());
    }

    #[test]
    fn a_silent_node_gets_one_call_at_a_time_until_it_answers() {
        let mut queue = queue(100);
        let (_, sent) = all(&mut queue);
        sent.iter().for_each(|sent| queue.handle_end(*sent, End::Unanswered));
        assert!(queue.is_silent());
        (100..200).for_each(|call| queue.put(call));
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(199)], "it has the most time left");
        queue.handle_end(sent[0], End::Unanswered);
        assert_eq!(all(&mut queue).0, [], "the time of the others is over");
        queue.put(200);
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(200)]);
        [300, 250].into_iter().for_each(|call| queue.put(call));
        assert_eq!(all(&mut queue).0, []);
        queue.handle_end(sent[0], End::Unanswered);
        let (ready, sent) = all(&mut queue);
        assert_eq!(ready, [Ready::Alone(300)]);
        queue.handle_end(sent[0], End::Answered);
        assert!(all(&mut queue).0.len() > 1 && !queue.is_silent());
    }

    #[test]
    fn a_call_without_an_answer_makes_no_node_silent_that_has_answered_since() {
        let mut queue = queue(2);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[1], End::Answered);
        queue.handle_end(sent[0], End::Unanswered);
        assert!(!queue.is_silent());
    }

    #[test]
    fn a_call_that_was_not_sent_says_nothing_of_its_node() {
        let mut queue = queue(2);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[0], End::NotSent);
        assert!(!queue.is_silent());
        queue.handle_end(sent[1], End::Unanswered);
        queue.put(5);
        let (_, sent) = all(&mut queue);
        queue.handle_end(sent[0], End::NotSent);
        assert!(queue.is_silent());
    }

    #[test]
    fn a_call_whose_time_is_over_is_not_sent_to_a_silent_node() {
        let mut queue = CallQueue::default();
        [50, 10].into_iter().for_each(|call| queue.put(call));
        let (_, sent) = all(&mut queue);
        sent.iter().for_each(|sent| queue.handle_end(*sent, End::Unanswered));
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
        queue.handle_end(sent[0], End::Unanswered);
        [RELEASE, RELEASE + 1].into_iter().for_each(|call| queue.put(call));
        assert_eq!(all(&mut queue).0, [Ready::Alone(RELEASE)]);
    }
}
