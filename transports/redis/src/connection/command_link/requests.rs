//! The requests of one connection: the bytes that are not written yet, and who waits for a reply. Pure.
//!
//! A server answers in the order of the requests, so the order of the bytes is the order of those who wait.

use std::collections::VecDeque;

use super::super::lost::Lost;
use crate::wire::{arg::Arg, encode::push_command};

/// `W` waits for one reply.
#[derive(Debug)]
pub(super) struct Requests<W> {
    unwritten: Vec<u8>,
    is_writing: bool,
    waiting: VecDeque<W>,
    end: Option<Lost>,
    /// An empty buffer that was used before.
    spare: Vec<u8>,
}

impl<W> Default for Requests<W> {
    fn default() -> Self {
        Self {
            unwritten: Vec::new(),
            is_writing: false,
            waiting: VecDeque::new(),
            end: None,
            spare: Vec::new(),
        }
    }
}

impl<W> Requests<W> {
    /// Adds a request. Returns whether the task must be woken to write it: it does not write, and knows of no other.
    ///
    /// # Errors
    /// Why the connection has ended. Then nothing was added.
    pub(super) fn put(&mut self, command: &str, args: &[Arg], waits: W) -> Result<bool, Lost> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let is_first = self.unwritten.is_empty();
        push_command(&mut self.unwritten, command, args);
        self.waiting.push_back(waits);
        Ok(is_first && !self.is_writing)
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

    /// Who waits for the next reply. `None`: nobody does.
    pub(super) fn next(&mut self) -> Option<W> {
        self.waiting.pop_front()
    }

    /// Refuses every later request. Returns those who wait. The first reason stays.
    pub(super) fn end(&mut self, why: Lost) -> VecDeque<W> {
        self.end.get_or_insert(why);
        (self.unwritten, self.spare) = Default::default();
        std::mem::take(&mut self.waiting)
    }

    /// Why the connection has ended, if it has.
    pub(super) fn ended_by(&self) -> Option<&Lost> {
        self.end.as_ref()
    }
}

/// A buffer that has grown beyond this is given back after the write.
const KEPT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(requests: &mut Requests<u8>, command: &str, waits: u8) -> bool {
        requests.put(command, &[], waits).expect("not ended")
    }

    fn two() -> Requests<u8> {
        let mut requests = Requests::default();
        assert!(put(&mut requests, "A", 1), "the first wakes the task");
        assert!(!put(&mut requests, "B", 2));
        requests
    }

    #[test]
    fn bytes_and_those_who_wait_keep_the_order_of_the_requests() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        assert_eq!(bytes, b"*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
        assert!(!requests.end_write(bytes, 22));
        assert_eq!([requests.next(), requests.next(), requests.next()], [Some(1), Some(2), None]);
    }

    #[test]
    fn what_comes_during_a_write_is_written_behind_it() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        assert!(!put(&mut requests, "C", 3));
        assert_eq!(requests.begin_write(), None, "one write at a time");
        assert!(requests.end_write(bytes, 22), "there is more");
        assert_eq!(requests.begin_write().expect("one"), b"*1\r\n$1\r\nC\r\n");
    }

    #[test]
    fn the_rest_of_a_write_goes_before_what_came_meanwhile() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        put(&mut requests, "C", 3);
        assert!(requests.end_write(bytes, 11));
        assert_eq!(requests.begin_write().expect("two"), b"*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
    }

    #[test]
    fn the_end_drops_the_bytes_frees_those_who_wait_and_refuses_what_comes() {
        let mut requests = two();
        let bytes = requests.begin_write().expect("two");
        put(&mut requests, "C", 3);
        assert_eq!(requests.end(Lost::of_details("first")), [1, 2, 3]);
        assert!(requests.end(Lost::of_details("second")).is_empty());
        assert!(!requests.end_write(bytes, 11), "the rest is dropped");
        assert_eq!(requests.begin_write(), None);
        assert_eq!(requests.put("C", &[], 3).unwrap_err().to_string(), "first");
        assert_eq!(requests.next(), None);
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let mut requests = Requests::<u8>::default();
        requests.end_write(Vec::with_capacity(KEPT_BYTES + 1), 0);
        assert_eq!(requests.spare.capacity(), 0);
        requests.end_write(Vec::with_capacity(KEPT_BYTES), 0);
        assert_eq!(requests.spare.capacity(), KEPT_BYTES);
    }
}
