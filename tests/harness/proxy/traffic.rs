//! What has passed: every request in order, and how often each command was seen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A request as the proxy read it from a client, whatever a rule did to it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// When it was complete.
    pub at: Instant,
    /// The connection, counted from 1 in the order of accepting.
    pub connection: u64,
    /// The command and its arguments.
    pub arguments: Vec<Vec<u8>>,
}

impl SeenRequest {
    /// The command's name in capitals.
    pub fn command(&self) -> String {
        command_of(&self.arguments)
    }
}

#[derive(Debug, Default)]
pub(super) struct Traffic {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    commands: BTreeMap<String, u64>,
    requests: VecDeque<SeenRequest>,
}

impl Traffic {
    pub(super) fn note(&self, connection: u64, arguments: &[Vec<u8>]) {
        let request = SeenRequest { at: Instant::now(), connection, arguments: arguments.to_vec() };
        let mut seen = self.locked();
        *seen.commands.entry(command_of(arguments)).or_default() += 1;
        if seen.requests.len() == REQUESTS_MAX {
            seen.requests.pop_front();
        }
        seen.requests.push_back(request);
    }

    pub(super) fn commands(&self) -> BTreeMap<String, u64> {
        self.locked().commands.clone()
    }

    pub(super) fn requests(&self) -> Vec<SeenRequest> {
        self.locked().requests.iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        *self.locked() = Seen::default();
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn command_of(arguments: &[Vec<u8>]) -> String {
    arguments.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap_or_default()
}

/// The oldest go first, so a run of hours cannot fill the memory. The counts by command stay exact.
pub(super) const REQUESTS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_the_counts_are_not() {
        let traffic = Traffic::default();
        for number in 0..=REQUESTS_MAX {
            traffic.note(1, &[b"ping".to_vec(), number.to_string().into_bytes()]);
        }
        let requests = traffic.requests();
        assert_eq!((requests.len(), requests[0].arguments[1].as_slice()), (REQUESTS_MAX, b"1".as_slice()));
        assert_eq!(traffic.commands(), BTreeMap::from([("PING".into(), REQUESTS_MAX as u64 + 1)]));
        traffic.clear();
        assert!(traffic.requests().is_empty() && traffic.commands().is_empty());
    }
}
