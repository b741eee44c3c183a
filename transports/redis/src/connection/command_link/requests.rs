//! The requests of one connection: the bytes that are not written yet, and who waits for a reply. Pure.
//!
//! A server answers in the order of the requests, so the order of the bytes is the order of those who wait.

use std::collections::VecDeque;

use leasehold::clock::Instant;

use super::super::lost::Lost;
use crate::wire::encode::{Bulk, push_command};

/// `W` waits for one reply.
#[derive(Debug)]
pub(super) struct Requests<W> {
    unwritten: Vec<u8>,
    /// Whether the task has begun to write.
    has_begun: bool,
    /// Whether the task or a caller writes. What comes meanwhile stays unwritten until they look again.
    is_writing: bool,
    /// Whether the task handles replies. It writes what came meanwhile.
    is_answering: bool,
    waiting: VecDeque<Waiting<W>>,
    /// The most requests that were unanswered at once: since the last moment without any, and before that moment.
    peaks: [usize; 2],
    /// The moment at which [`take_overdue`](Self::take_overdue) is called next, if it is.
    look: Option<Instant>,
    /// What a look tells, but for what it sees.
    counts: Look,
    end: Option<Lost>,
}

/// How far the requests of a connection are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// How many requests have come that are given up at a moment of their own.
    pub(super) called: u64,
    /// How many writes have ended.
    pub(super) written: u64,
    /// How many replies have come.
    pub(super) answered: u64,
    /// How many requests wait for a reply.
    pub(super) unanswered: usize,
    /// Whether bytes wait to be written.
    pub(super) has_unwritten: bool,
}

#[derive(Debug)]
struct Waiting<W> {
    /// `None`: it has been given up, and its reply is to be dropped.
    waits: Option<W>,
    /// When the request is given up. `None`: its task has a timer of its own.
    until: Option<Instant>,
}

/// What is to be done behind a request that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Added {
    /// No other request is unwritten, and neither the task nor a caller looks for one by itself.
    pub(super) wakes_task: bool,
    /// The caller may write it in place of the task.
    pub(super) may_write: bool,
    /// It is given up before the next look at those that are overdue.
    pub(super) is_earliest: bool,
}

impl<W> Default for Requests<W> {
    fn default() -> Self {
        Self {
            unwritten: Vec::new(),
            has_begun: false,
            is_writing: false,
            is_answering: false,
            waiting: VecDeque::new(),
            peaks: [0; 2],
            look: None,
            counts: Look::default(),
            end: None,
        }
    }
}

impl<W> Requests<W> {
    /// Adds a request. Without a reply by `until` it is given up.
    ///
    /// # Errors
    /// Why the connection has ended, and who wanted to wait. Nothing was added.
    pub(super) fn put(
        &mut self,
        command: &str,
        args: &[impl Bulk],
        until: Option<Instant>,
        waits: W,
    ) -> Result<Added, (Lost, W)> {
        if let Some(end) = &self.end {
            return Err((end.clone().before_request(), waits));
        }
        let wakes_task = self.unwritten.is_empty() && !self.is_answering && !self.is_writing;
        let may_write = wakes_task && self.has_begun && self.has_few();
        push_command(&mut self.unwritten, command, args);
        self.waiting.push_back(Waiting { waits: Some(waits), until });
        self.counts.called += u64::from(until.is_some());
        self.peaks[0] = self.peaks[0].max(self.waiting.len());
        let is_earliest = until.is_some_and(|until| self.look.is_none_or(|look| until < look));
        if is_earliest {
            self.look = until;
        }
        Ok(Added { wakes_task, may_write, is_earliest })
    }

    fn has_few(&self) -> bool {
        self.waiting.len() <= UNANSWERED_MAX && self.peaks.iter().all(|peak| *peak <= PEAK_MAX)
    }

    /// The task begins to write: puts the unwritten bytes in the place of `bytes`, which are dropped. `false`: nothing is
    /// unwritten, or a caller writes.
    pub(super) fn begin_write(&mut self, bytes: &mut Vec<u8>) -> bool {
        self.has_begun = true;
        if self.is_writing || self.unwritten.is_empty() {
            return false;
        }
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        std::mem::swap(&mut self.unwritten, bytes);
        self.is_writing = true;
        true
    }

    /// The task has written all that it took.
    pub(super) fn end_write(&mut self) {
        self.is_writing = false;
        self.counts.written += 1;
    }

    /// A caller that [may](Added::may_write) begins to write these bytes.
    pub(super) fn begin_write_by_caller(&mut self) -> Vec<u8> {
        self.is_writing = true;
        std::mem::take(&mut self.unwritten)
    }

    /// The caller has written this many of the bytes that it took. Returns whether the task has to be woken for the others,
    /// or for what came meanwhile.
    pub(super) fn end_write_by_caller(&mut self, mut bytes: Vec<u8>, written: usize) -> bool {
        self.end_write();
        if self.end.is_some() {
            return false;
        }
        bytes.drain(..written);
        bytes.append(&mut self.unwritten);
        bytes.shrink_to(KEPT_BYTES);
        self.unwritten = bytes;
        !self.unwritten.is_empty()
    }

    /// The task begins to handle replies.
    pub(super) fn begin_answers(&mut self) {
        self.is_answering = true;
    }

    /// The task has handled all replies that came. Returns whether there is something to write.
    pub(super) fn end_answers(&mut self) -> bool {
        self.is_answering = false;
        !self.unwritten.is_empty()
    }

    /// Takes the place of the next reply. `None`: no request waits. `Some(None)`: it has been given up.
    pub(super) fn next(&mut self) -> Option<Option<W>> {
        let next = self.waiting.pop_front().map(|waiting| waiting.waits);
        self.counts.answered += u64::from(next.is_some());
        if self.waiting.is_empty() {
            self.peaks = [0, self.peaks[0]];
        }
        next
    }

    /// How far the requests are.
    pub(super) fn look(&self) -> Look {
        Look { unanswered: self.waiting.len(), has_unwritten: !self.unwritten.is_empty(), ..self.counts }
    }

    /// When to call [`take_overdue`](Self::take_overdue).
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.look
    }

    /// Gives up the requests whose time is over, and returns who waited.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<W> {
        let (mut overdue, mut look) = (Vec::new(), None);
        for Waiting { waits, until } in &mut self.waiting {
            let Some(moment) = until.filter(|_| waits.is_some()) else { continue };
            match moment <= now {
                true => overdue.extend(waits.take()),
                false => look = Some(look.map_or(moment, |look: Instant| look.min(moment))),
            }
        }
        self.look = look;
        overdue
    }

    /// Refuses every later request. Returns those who wait. The first reason stays.
    pub(super) fn end(&mut self, why: Lost) -> Vec<W> {
        self.end.get_or_insert(why);
        (self.unwritten, self.look) = (Vec::new(), None);
        std::mem::take(&mut self.waiting).into_iter().filter_map(|waiting| waiting.waits).collect()
    }

    /// Why the connection has ended, if it has.
    pub(super) fn ended_by(&self) -> Option<&Lost> {
        self.end.as_ref()
    }
}

/// With more unanswered requests the task writes: it is awake most often, and what comes meanwhile goes with it.
const UNANSWERED_MAX: usize = 1;
/// If more requests than this were unanswered at once, the task writes too: what many callers want goes in one write.
const PEAK_MAX: usize = 8;
/// A buffer that has grown beyond this is given back after the write.
const KEPT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::arg::Arg;

    const NO_ARGS: [Arg; 0] = [];

    fn put(requests: &mut Requests<u8>, command: &str, waits: u8) -> bool {
        requests.put(command, &NO_ARGS, None, waits).expect("not ended").wakes_task
    }

    fn put_until(requests: &mut Requests<u8>, waits: u8, until: u64) -> bool {
        let until = Some(Instant::from_nanos(until));
        requests.put("A", &NO_ARGS, until, waits).expect("not ended").is_earliest
    }

    fn two() -> Requests<u8> {
        let mut requests = Requests::default();
        assert!(put(&mut requests, "A", 1), "the first wakes the task");
        assert!(!put(&mut requests, "B", 2));
        requests
    }

    fn taken(requests: &mut Requests<u8>) -> Vec<u8> {
        let mut bytes = b"written before".to_vec();
        if !requests.begin_write(&mut bytes) {
            return Vec::new();
        }
        requests.end_write();
        bytes
    }

    #[test]
    fn bytes_and_those_who_wait_keep_the_order_of_the_requests() {
        let mut requests = two();
        assert_eq!(taken(&mut requests), b"*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
        assert_eq!(requests.next(), Some(Some(1)));
        assert!(put(&mut requests, "C", 3), "all others were taken");
        assert_eq!(taken(&mut requests), b"*1\r\n$1\r\nC\r\n");
        assert_eq!([requests.next(), requests.next(), requests.next()], [Some(Some(2)), Some(Some(3)), None]);
        assert_eq!(taken(&mut requests), b"");
    }

    #[test]
    fn what_comes_while_replies_are_handled_wakes_no_task_and_is_found_afterwards() {
        let mut requests = two();
        taken(&mut requests);
        requests.begin_answers();
        assert!(!put(&mut requests, "C", 3));
        assert!(requests.end_answers(), "C is to be written");
        assert!(!put(&mut requests, "D", 4), "the task knows of C");
        taken(&mut requests);
        requests.begin_answers();
        assert!(!requests.end_answers());
        assert!(put(&mut requests, "E", 5));
    }

    #[test]
    fn a_request_is_given_up_at_its_moment_and_keeps_the_place_of_its_reply() {
        let mut requests = Requests::default();
        assert_eq!(requests.next_look(), None);
        assert!(put_until(&mut requests, 1, 20), "the first sets the moment of the look");
        assert!(!put_until(&mut requests, 2, 30));
        put(&mut requests, "A", 3);
        assert!(put_until(&mut requests, 4, 10), "it is due before the look");
        assert_eq!(requests.next_look(), Some(Instant::from_nanos(10)));
        assert_eq!(requests.take_overdue(Instant::from_nanos(20)), [1, 4]);
        assert_eq!(requests.next_look(), Some(Instant::from_nanos(30)), "of those that still wait");
        let places = [requests.next(), requests.next(), requests.next(), requests.next(), requests.next()];
        assert_eq!(places, [Some(None), Some(Some(2)), Some(Some(3)), Some(None), None]);
        assert!(requests.take_overdue(Instant::from_nanos(40)).is_empty());
        assert_eq!(requests.next_look(), None);
    }

    #[test]
    fn the_end_drops_the_bytes_frees_those_who_wait_and_refuses_what_comes() {
        let mut requests = two();
        assert!(put_until(&mut requests, 9, 10));
        assert_eq!(requests.take_overdue(Instant::from_nanos(10)), [9]);
        assert_eq!(requests.end(Lost::of_details("first")), [1, 2]);
        assert!(requests.end(Lost::of_details("second")).is_empty());
        assert_eq!(taken(&mut requests), b"");
        let (why, waits) = requests.put("C", &NO_ARGS, None, 3).unwrap_err();
        assert_eq!((why.to_string().as_str(), waits), ("first", 3));
        assert_eq!(requests.next(), None);
    }

    fn put_by_caller(requests: &mut Requests<u8>, waits: u8) -> bool {
        requests.put("A", &NO_ARGS, None, waits).expect("not ended").may_write
    }

    #[test]
    fn a_caller_writes_if_the_task_has_begun_and_nobody_else_does_and_few_requests_are_unanswered() {
        let mut requests = Requests::default();
        assert!(!put_by_caller(&mut requests, 1), "the first write is the task's");
        taken(&mut requests);
        requests.next();
        assert!(put_by_caller(&mut requests, 2));
        assert!(!put_by_caller(&mut requests, 3), "others are unwritten");
        let bytes = requests.begin_write_by_caller();
        assert!(!put_by_caller(&mut requests, 4), "a caller writes");
        assert!(!requests.begin_write(&mut Vec::new()), "so the task does not");
        assert!(requests.end_write_by_caller(bytes, 22), "the task is woken for 4");
        assert_eq!(taken(&mut requests), b"*1\r\n$1\r\nA\r\n");
        requests.next();
        assert!(!put_by_caller(&mut requests, 5), "two are unanswered");
        taken(&mut requests);
        requests.next();
        requests.next();
        requests.begin_answers();
        assert!(!put_by_caller(&mut requests, 6), "the task handles replies, and writes it afterwards");
        assert!(requests.end_answers());
    }

    #[test]
    fn where_many_were_unanswered_at_once_the_task_writes_until_there_are_few_again() {
        let mut requests = two();
        (3..=9).for_each(|waits| assert!(!put(&mut requests, "A", waits)));
        taken(&mut requests);
        (1..=9).for_each(|_| assert!(requests.next().is_some()));
        for may_write in [false, true] {
            assert_eq!(put_by_caller(&mut requests, 1), may_write);
            taken(&mut requests);
            requests.next();
        }
    }

    #[test]
    fn what_a_caller_could_not_write_goes_first() {
        let mut requests = two();
        taken(&mut requests);
        let before = requests.begin_write_by_caller();
        assert!(!requests.end_write_by_caller(before, 0), "nothing was taken, and nothing came");
        put(&mut requests, "C", 3);
        let bytes = requests.begin_write_by_caller();
        put(&mut requests, "D", 4);
        assert!(requests.end_write_by_caller(bytes, 8));
        assert_eq!(taken(&mut requests), b"C\r\n*1\r\n$1\r\nD\r\n".as_slice());
        put(&mut requests, "E", 5);
        let bytes = requests.begin_write_by_caller();
        requests.end(Lost::of_details("gone"));
        assert!(!requests.end_write_by_caller(bytes, 0));
        assert_eq!(taken(&mut requests), b"", "it will never be written");
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let (mut requests, mut bytes) = (Requests::<u8>::default(), Vec::with_capacity(4 * KEPT_BYTES));
        requests.unwritten.push(1);
        assert!(requests.begin_write(&mut bytes));
        assert!(requests.unwritten.capacity() <= 2 * KEPT_BYTES, "{}", requests.unwritten.capacity());
    }
}
