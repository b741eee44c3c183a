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
    waiting: VecDeque<W>,
    end: Option<Lost>,
}

impl<W> Default for Requests<W> {
    fn default() -> Self {
        Self { unwritten: Vec::new(), waiting: VecDeque::new(), end: None }
    }
}

impl<W> Requests<W> {
    /// Adds a request. Returns whether no other is unwritten, so that the task must be woken.
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
        Ok(is_first)
    }

    /// Puts the unwritten bytes in the place of `bytes`, which are dropped.
    pub(super) fn take_unwritten(&mut self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        std::mem::swap(&mut self.unwritten, bytes);
    }

    /// Who waits for the next reply. `None`: no request does.
    pub(super) fn next(&mut self) -> Option<W> {
        self.waiting.pop_front()
    }

    /// Refuses every later request. Returns those who wait. The first reason stays.
    pub(super) fn end(&mut self, why: Lost) -> VecDeque<W> {
        self.end.get_or_insert(why);
        self.unwritten = Vec::new();
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

    fn taken(requests: &mut Requests<u8>) -> Vec<u8> {
        let mut bytes = b"written before".to_vec();
        requests.take_unwritten(&mut bytes);
        bytes
    }

    #[test]
    fn bytes_and_those_who_wait_keep_the_order_of_the_requests() {
        let mut requests = two();
        assert_eq!(taken(&mut requests), b"*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
        assert_eq!(requests.next(), Some(1));
        assert!(put(&mut requests, "C", 3), "all others were taken");
        assert_eq!(taken(&mut requests), b"*1\r\n$1\r\nC\r\n");
        assert_eq!([requests.next(), requests.next(), requests.next()], [Some(2), Some(3), None]);
        assert_eq!(taken(&mut requests), b"");
    }

    #[test]
    fn the_end_drops_the_bytes_frees_those_who_wait_and_refuses_what_comes() {
        let mut requests = two();
        assert_eq!(requests.end(Lost::of_details("first")), [1, 2]);
        assert!(requests.end(Lost::of_details("second")).is_empty());
        assert_eq!(taken(&mut requests), b"");
        assert_eq!(requests.put("C", &[], 3).unwrap_err().to_string(), "first");
        assert_eq!(requests.next(), None);
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let (mut requests, mut bytes) = (Requests::<u8>::default(), Vec::with_capacity(4 * KEPT_BYTES));
        requests.take_unwritten(&mut bytes);
        assert!(requests.unwritten.capacity() <= 2 * KEPT_BYTES, "{}", requests.unwritten.capacity());
    }
}
