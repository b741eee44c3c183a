//! Whether one server answers for all keys of a connection. Pure.
//!
//! A proxy may spread keys over many servers, and send a script with several keys to the server of its first key. A lock
//! that was acquired at the wrong server excludes no other client. So locks are acquired and released together only after each of
//! their keys, sent alone, was answered by the run of the server that the connection was opened to, or once that is known of
//! keys in so many slots that no proxy spreads the others. Many keys of one slot prove nothing: a proxy may keep the keys
//! with one hash tag at one server.
//!
//! A proxy may get another server behind it while the connection stays. So some keys of the groups are asked for again, alone,
//! from time to time ([`Checks`]). The first answer of another run ends the groups. Until that answer a group may have acquired a
//! lock at a wrong server; OPERATORS.md tells what to set before a server is added.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use leasehold::clock::Instant;

/// Which servers have answered on one connection, by the run ids that they reported.
#[derive(Debug, Default)]
pub(crate) enum OneServer {
    /// The server with this run id answered when the connection was opened. It has also answered for the keys with these
    /// hashes, in these slots. No other server has answered.
    By { run: String, keys: HashSet<u64>, slots: HashSet<u16> },
    /// The run with this id has answered for keys in [`SLOTS`] slots, and no other since.
    Yes { run: String },
    /// Two runs have answered, or the server does not report its run id, or [`KEYS_MAX`] keys were in fewer slots.
    #[default]
    No,
}

/// Whether a key may be sent together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    Yes,
    /// Not before a server has answered for this key alone.
    NotYet,
    Never,
}

impl OneServer {
    /// The state of a new connection whose server has reported this run id.
    pub(crate) fn of_run(run: Option<&str>) -> Self {
        match run {
            Some(run) => Self::By { run: run.to_owned(), keys: HashSet::new(), slots: HashSet::new() },
            None => Self::No,
        }
    }

    /// Whether the key may be sent together with others.
    pub(crate) fn may_go_together(&self, key: &str) -> Together {
        match self {
            Self::Yes { .. } => Together::Yes,
            Self::By { keys, .. } if keys.contains(&hash(key)) => Together::Yes,
            Self::By { .. } => Together::NotYet,
            Self::No => Together::Never,
        }
    }

    /// Takes in which run has answered for a key; `None`: the server does not tell. Returns whether this is the second
    /// run.
    pub(crate) fn handle_run(&mut self, key: &str, slot: u16, run: Option<&str>) -> bool {
        let (Self::By { run: before, .. } | Self::Yes { run: before }) = self else { return false };
        if run != Some(&**before) {
            *self = Self::No;
            return run.is_some();
        }
        let Self::By { run, keys, slots } = self else { return false };
        keys.insert(hash(key));
        slots.insert(slot);
        if slots.len() >= SLOTS {
            *self = Self::Yes { run: std::mem::take(run) };
        } else if keys.len() >= KEYS_MAX {
            *self = Self::No;
        }
        false
    }
}

/// When keys of groups are asked for again.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The number of locks that went together since the last check, and when that was.
    locks: usize,
    last: Instant,
}

impl Checks {
    /// Counts locks that go together now. Returns whether to check some of them.
    pub(crate) fn is_due(&mut self, locks: usize, now: Instant) -> bool {
        self.locks += locks;
        let is_due = self.locks >= CHECK_LOCKS || now - self.last >= CHECK_PAUSE;
        if is_due {
            *self = Self { locks: 0, last: now };
        }
        is_due
    }
}

/// How many keys are checked at once. A proxy that spreads keys evenly over two servers sends so many to the first of them once
/// in 16 times.
pub(crate) const CHECK_KEYS: usize = 4;
/// The checks cost a server less than a hundredth of what the groups do.
const CHECK_LOCKS: usize = 4_096;
/// The pause between two checks of a connection with fewer locks.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A proxy that spreads slots evenly over two servers sends so many of them to one server once in 2^63 times.
const SLOTS: usize = 64;
/// Bounds the memory of one connection: 8 bytes for each key, and what the set needs.
const KEYS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    const R1: Option<&str> = Some("r1");

    #[test]
    fn a_key_goes_together_with_others_once_the_same_run_has_answered_for_it() {
        let mut one = OneServer::of_run(R1);
        assert_eq!(one.may_go_together("a"), Together::NotYet);
        assert!(!one.handle_run("a", 1, R1));
        assert_eq!((one.may_go_together("a"), one.may_go_together("b")), (Together::Yes, Together::NotYet));
    }

    #[test]
    fn after_64_slots_every_key_does() {
        let mut one = OneServer::of_run(R1);
        (0..63).for_each(|slot| assert!(!one.handle_run(&slot.to_string(), slot, R1)));
        assert_eq!(one.may_go_together("new"), Together::NotYet);
        one.handle_run("0", 0, R1);
        one.handle_run("another", 0, R1);
        assert_eq!(one.may_go_together("new"), Together::NotYet, "the same slot again is no news");
        one.handle_run("63", 63, R1);
        assert_eq!(one.may_go_together("new"), Together::Yes);
    }

    #[test]
    fn keys_of_one_slot_prove_nothing_of_others_and_take_a_bounded_memory() {
        let mut one = OneServer::of_run(R1);
        for key in 1..KEYS_MAX {
            one.handle_run(&key.to_string(), 7, R1);
            assert_eq!(one.may_go_together("new"), Together::NotYet, "{key}");
        }
        one.handle_run("0", 7, R1);
        assert_eq!(one.may_go_together("1"), Together::Never);
    }

    #[test]
    fn two_runs_or_an_unknown_run_end_it_for_every_key() {
        for second in [Some("r2"), None] {
            let mut one = OneServer::of_run(R1);
            one.handle_run("a", 1, R1);
            assert_eq!(one.handle_run("b", 2, second), second.is_some());
            assert_eq!(one.may_go_together("a"), Together::Never);
            assert!(!one.handle_run("a", 1, Some("r3")), "it is told once");
            assert_eq!(one.may_go_together("a"), Together::Never);
        }
    }

    #[test]
    fn after_64_slots_too_a_second_run_or_an_unknown_one_ends_it_for_every_key() {
        for second in [Some("r2"), None] {
            let mut one = OneServer::of_run(R1);
            (0..64).for_each(|slot| assert!(!one.handle_run(&slot.to_string(), slot, R1)));
            assert!(!one.handle_run("0", 0, R1), "the same run again is no news");
            assert_eq!(one.may_go_together("new"), Together::Yes);
            assert_eq!(one.handle_run("0", 0, second), second.is_some());
            assert_eq!(one.may_go_together("new"), Together::Never);
            assert!(!one.handle_run("0", 0, R1));
            assert_eq!(one.may_go_together("new"), Together::Never);
        }
    }

    #[test]
    fn groups_are_checked_each_half_second_and_each_4096_locks() {
        let (mut checks, at) = (Checks::default(), |ms: u64| Instant::from_nanos(ms * 1_000_000));
        assert!(checks.is_due(4, at(1_000)), "the first group");
        assert!(!checks.is_due(4, at(1_499)));
        assert!(checks.is_due(4, at(1_500)));
        assert!(!checks.is_due(4_095, at(1_501)));
        assert!(checks.is_due(1, at(1_502)));
        assert!(!checks.is_due(4_095, at(2_001)));
        assert!(checks.is_due(4, at(2_002)));
    }

    #[test]
    fn the_run_that_the_connection_was_opened_to_must_answer() {
        assert!(OneServer::of_run(R1).handle_run("a", 1, Some("r2")));
        assert_eq!(OneServer::of_run(None).may_go_together("a"), Together::Never);
    }
}
