//! Whether one server answers for all keys of a connection. Pure.
//!
//! A proxy may spread keys over many servers, and send a script with several keys to the server of its first key. A lock
//! that was acquired at the wrong server excludes nobody. So locks are acquired and released together only after each of
//! their keys, sent alone, was answered by the same run of a server, or once that is known of so many keys that no proxy
//! spreads the others.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What the servers behind one connection have told of themselves.
#[derive(Debug, Default)]
pub(crate) enum OneServer {
    #[default]
    NothingKnown,
    /// One run has answered for the keys with these hashes, and no other run.
    By { run: String, keys: HashSet<u64> },
    /// One run has answered for [`KEYS`] keys.
    Yes,
    /// Two runs have answered, or the server does not tell its run.
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
    /// Whether the key may be sent together with others.
    pub(crate) fn may_go_together(&self, key: &str) -> Together {
        match self {
            Self::Yes => Together::Yes,
            Self::By { keys, .. } if keys.contains(&hash(key)) => Together::Yes,
            Self::By { .. } | Self::NothingKnown => Together::NotYet,
            Self::No => Together::Never,
        }
    }

    /// Takes in which run has answered for a key; `None`: the server does not tell. Returns whether this is the second
    /// run.
    pub(crate) fn handle_run(&mut self, key: &str, run: Option<String>) -> bool {
        let is_second = matches!((&*self, &run), (Self::By { run: before, .. }, Some(run)) if before != run);
        match (&mut *self, run) {
            (Self::Yes | Self::No, _) => {}
            (_, None) => *self = Self::No,
            (Self::NothingKnown, Some(run)) => *self = Self::By { run, keys: HashSet::from([hash(key)]) },
            (Self::By { .. }, _) if is_second => *self = Self::No,
            (Self::By { keys, .. }, _) => {
                keys.insert(hash(key));
                if keys.len() >= KEYS {
                    *self = Self::Yes;
                }
            }
        }
        is_second
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A proxy that spreads keys evenly over two servers sends so many keys to one of them once in 2^63 times.
const KEYS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn a_key_goes_together_with_others_once_the_same_run_has_answered_for_it() {
        let mut one = OneServer::default();
        assert_eq!(one.may_go_together("a"), Together::NotYet);
        assert!(!one.handle_run("a", run("r1")));
        assert_eq!((one.may_go_together("a"), one.may_go_together("b")), (Together::Yes, Together::NotYet));
    }

    #[test]
    fn after_64_keys_every_key_does() {
        let mut one = OneServer::default();
        (0..63).for_each(|n| assert!(!one.handle_run(&n.to_string(), run("r1"))));
        assert_eq!(one.may_go_together("new"), Together::NotYet);
        one.handle_run("0", run("r1"));
        assert_eq!(one.may_go_together("new"), Together::NotYet, "the same key again is no news");
        one.handle_run("63", run("r1"));
        assert_eq!(one.may_go_together("new"), Together::Yes);
    }

    #[test]
    fn two_runs_or_an_unknown_run_end_it_for_every_key() {
        for second in [run("r2"), None] {
            let mut one = OneServer::default();
            one.handle_run("a", run("r1"));
            assert_eq!(one.handle_run("b", second.clone()), second.is_some());
            assert_eq!(one.may_go_together("a"), Together::Never);
            one.handle_run("a", run("r1"));
            assert_eq!(one.may_go_together("a"), Together::Never);
        }
        assert_eq!(OneServer::Yes.may_go_together("a"), Together::Yes);
    }
}
