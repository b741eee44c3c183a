//! The requests of one connection: the bytes that are not written yet, and who waits for a reply. Pure.
//!
//! A server answers in the order of the requests, so the order of the bytes is the order of those who wait. One thread
//! writes at a time.

use std::collections::VecDeque;

use leasehold::clock::Instant;

use super::super::lost::Lost;
use crate::wire::encode::{Bulk, push_command};

/// `W` waits for one reply.
#[derive(Debug)]
pub(super) struct Requests<W> {
    unwritten: Vec<u8>,
    /// Whether the task has got the first request, for which it waits before it reads.
    has_begun: bool,
    is_writing: bool,
    /// Whether the task handles replies. It writes what came meanwhile.
    is_answering: bool,
    waiting: VecDeque<Waiting<W>>,
    /// The moment at which [`take_overdue`](Self::take_overdue) is called next, if it is.
    look: Option<Instant>,
    end: Option<Lost>,
    /// An empty buffer that was used before.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct Waiting<W> {
    /// `None`: it has been given up, and its reply is to be dropped.
    waits: Option<W>,
    /// When it is given up. `None`: whoever waits keeps the time.
    until: Option<Instant>,
}

/// A request that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) written_by: WrittenBy,
    /// It is given up before the next look at those that are overdue.
    pub(super) is_earliest: bool,
}

/// Who writes a request that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenBy {
    /// Few requests are unanswered, and the task has nothing to do: whoever has added the request may write it.
    Adder,
    /// The task, which must be woken.
    TaskOnceWoken,
    /// Whoever writes or handles replies now looks again afterwards.
    WhoeverIsBusy,
}

impl<W> Default for Requests<W> {
    fn default() -> Self {
        Self {
            unwritten: Vec::new(),
            has_begun: false,
            is_writing: false,
            is_answering: false,
            waiting: VecDeque::new(),
            look: None,
            end: None,
            spare: Vec::new(),
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
            return Err((end.clone(), waits));
        }
        let written_by = self.writer_of_next();
        push_command(&mut self.unwritten, command, args);
        self.waiting.push_back(Waiting { waits: Some(waits), until });
        let is_earliest = until.is_some_and(|until| self.look.is_none_or(|look| until < look));
        if is_earliest {
            self.look = until;
        }
        Ok(Added { written_by, is_earliest })
    }

    fn writer_of_next(&mut self) -> WrittenBy {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        if self.is_writing || self.is_answering || !self.unwritten.is_empty() {
            return WrittenBy::WhoeverIsBusy;
        }
        match has_begun && self.waiting.len() < FEW {
            true => WrittenBy::Adder,
            false => WrittenBy::TaskOnceWoken,
        }
    }

    /// Begins a write: returns all bytes to write. `None`: there are none, or a write is under way.
    pub(super) fn begin_write(&mut self) -> Option<Vec<u8>> {
        if self.is_writing || self.unwritten.is_empty() {
            return None;
        }
        self.is_writing = true;
        Some(std::mem::replace(&mut self.unwritten, std::mem::take(&mut self.spare)))
    }

    /// Ends a write of `bytes`, of which the first `written` were written. Returns whether there is more to write.
    pub(super) fn end_write(&mut self, mut bytes: Vec<u8>, written: usize) -> bool {
        self.is_writing = false;
        if written < bytes.len() && self.end.is_none() {
            self.unwritten.splice(..0, bytes.drain(written..));
        }
        if bytes.capacity() <= KEPT_BYTES {
            bytes.clear();
            self.spare = bytes;
        }
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
        self.waiting.pop_front().map(|waiting| waiting.waits)
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
        (self.unwritten, self.spare, self.look) = (Vec::new(), Vec::new(), None);
        std::mem::take(&mut self.waiting).into_iter().filter_map(|waiting| waiting.waits).collect()
    }

    /// Why the connection has ended, if it has.
    pub(super) fn ended_by(&self) -> Option<&Lost> {
        self.end.as_ref()
    }
}

/// With this many unanswered requests, the task writes: it finds more to write at once.
const FEW: usize = 2;
/// A buffer that has grown beyond this is not kept for the next write.
const KEPT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::arg::Arg;

    const NO_ARGS: [Arg; 0] = [];

    fn put(requests: &mut Requests<u8>, command: &str, waits: u8) -> WrittenBy {
        requests.put(command, &NO_ARGS, None, waits).expect("not ended").written_by
    }

    fn put_until(requests: &mut Requests<u8>, waits: u8, until: u64) -> bool {
        let until = Some(Instant::from_nanos(until));
        requests.put("A", &NO_ARGS, until, waits).expect("not ended").is_earliest
    }

    fn two() -> Requests<u8> {
        let mut requests = Requests::default();
        assert_eq!(put(&mut requests, "A", 1), WrittenBy::TaskOnceWoken, "the first of the connection");
        assert_eq!(put(&mut requests, "B", 2), WrittenBy::WhoeverIsBusy);
        requests
    }

    fn written(requests: &mut Requests<u8>) -> Vec<u8> {
        let bytes = requests.begin_write().unwrap_or_default();
        let count = bytes.len();
        assert!(!requests.end_write(bytes.clone(), count));
        bytes
    }

    #[test]
    fn bytes_and_those_who_wait_keep_the_order_of_the_requests() {
        let mut requests = two();
        assert_eq!(written(&mut requests), b"*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
        assert_eq!(requests.next(), Some(Some(1)));
        put(&mut requests, "C", 3);
        assert_eq!(written(&mut requests), b"*1\r\n$1\r\nC\r\n");
        assert_eq!([requests.next(), requests.next(), requests.next()], [Some(Some(2)), Some(Some(3)), None]);
        assert_eq!(requests.begin_write(), None);
    }

    #[test]
    fn what_comes_during_a_write_is_written_behind_it() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        assert_eq!(put(&mut requests, "C", 3), WrittenBy::WhoeverIsBusy);
        assert_eq!(requests.begin_write(), None, "one write at a time");
        assert!(requests.end_write(bytes, 22), "there is more");
        assert_eq!(written(&mut requests), b"*1\r\n$1\r\nC\r\n");
    }

    #[test]
    fn what_was_not_written_is_written_first() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        put(&mut requests, "C", 3);
        assert!(requests.end_write(bytes, 11), "A was written");
        assert_eq!(written(&mut requests), b"*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
    }

    #[test]
    fn with_few_unanswered_the_adder_writes_otherwise_the_task() {
        let mut requests = two();
        written(&mut requests);
        assert_eq!([requests.next(), requests.next()], [Some(Some(1)), Some(Some(2))]);
        for waits in 0..4 {
            let expected = if usize::from(waits) < FEW { WrittenBy::Adder } else { WrittenBy::TaskOnceWoken };
            assert_eq!(put(&mut requests, "A", waits), expected, "{waits}");
            written(&mut requests);
        }
    }

    #[test]
    fn what_comes_while_replies_are_handled_is_written_behind_them() {
        let mut requests = two();
        written(&mut requests);
        requests.begin_answers();
        requests.next();
        assert_eq!(put(&mut requests, "C", 3), WrittenBy::WhoeverIsBusy);
        assert!(requests.end_answers(), "C is to be written");
        written(&mut requests);
        requests.begin_answers();
        assert!(!requests.end_answers());
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
        assert_eq!(requests.begin_write(), None);
        let (why, waits) = requests.put("C", &NO_ARGS, None, 3).unwrap_err();
        assert_eq!((why.to_string().as_str(), waits), ("first", 3));
        assert_eq!(requests.next(), None);
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let mut requests = two();
        requests.begin_write().expect("two");
        assert!(!requests.end_write(Vec::with_capacity(4 * KEPT_BYTES), 0));
        assert_eq!(requests.spare.capacity(), 0);
    }
}
