//! The scripts. Their text is constant; names and values are passed only as `KEYS` and `ARGV`.

use std::sync::{
    LazyLock,
    atomic::{AtomicU8, Ordering},
};

use fred::bytes_utils::Str;

/// A script with its digest. Sending either copies nothing.
pub(crate) struct Script {
    pub(crate) source: Str,
    pub(crate) sha: Str,
    bit: u8,
}

/// The scripts whose text was already sent on a connection.
#[derive(Debug, Default)]
pub(crate) struct SentScripts(AtomicU8);

impl Script {
    fn new(source: &'static str, bit: u8) -> Self {
        Self { source: Str::from_static(source), sha: fred::util::sha1_hash(source).into(), bit }
    }
}

impl SentScripts {
    /// Returns whether this is the first use, and records it. The caller then sends the text, and every later
    /// command on the connection finds the script known.
    pub(crate) fn is_first_use(&self, script: &Script) -> bool {
        self.0.fetch_or(script.bit, Ordering::Relaxed) & script.bit == 0
    }
}

pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/acquire.lua"), 1 << 0));
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/release.lua"), 1 << 1));
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/renew.lua"), 1 << 2));
pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/inspect.lua"), 1 << 3));
pub(crate) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/force_release.lua"), 1 << 4));

pub(crate) static RENEW_ACROSS_SLOTS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/renew_across_slots.lua"), 1 << 5));

/// For the audit. It is only sent as text.
pub(crate) static RIGHTS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../scripts/rights.lua"), 1 << 6));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_why_it_is_safe_to_run_twice() {
        for script in [&ACQUIRE, &RELEASE, &RENEW, &INSPECT, &FORCE_RELEASE, &RENEW_ACROSS_SLOTS, &RIGHTS] {
            assert!(script.source.contains("-- Safe to run twice:"), "{}", &*script.source);
            assert_eq!(script.sha.len(), 40);
        }
    }

    #[test]
    fn each_script_has_one_first_use() {
        let (told, all) = (
            SentScripts::default(),
            [&ACQUIRE, &RELEASE, &RENEW, &INSPECT, &FORCE_RELEASE, &RENEW_ACROSS_SLOTS, &RIGHTS],
        );
        assert!(all.iter().all(|script| told.is_first_use(script)));
        assert!(!all.iter().any(|script| told.is_first_use(script)));
    }
}
