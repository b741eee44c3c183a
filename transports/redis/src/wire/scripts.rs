//! The scripts. Their text is constant; names and values are passed only as `KEYS` and `ARGV`.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use fred::bytes_utils::Str;

/// The text of a script that is made of several files: what it has in common with others, then what it does.
macro_rules! made_of {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("../../scripts/", $name, ".lua"))),+)
    };
}

/// One script of the folder `scripts`. Its file says the keys, the arguments, the replies, and why it is safe to run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    FencedAcquire,
    Release,
    Renew,
    RenewAcrossSlots,
    Inspect,
    ForceRelease,
    ReadAcquire,
    WriteAcquire,
    ReadRenew,
    ReadRenewAcrossSlots,
    ReadRenewTimeout,
    ReadRelease,
    WriteRelease,
    Downgrade,
    ReadWriteInspect,
    Semaphore,
    Latch,
    Count,
    FairQueue,
    FairBeat,
    FairRelease,
    FairForceRelease,
    /// For the audit. It is only sent as text.
    Rights,
    /// As [`Rights`](Self::Rights), for read/write locks.
    ReadWriteRights,
    PermitAcquire,
    PermitRelease,
    PermitRenew,
    PermitRenewAcrossSlots,
    PermitInspect,
    PermitCount,
    PermitForceRelease,
    /// As [`Rights`](Self::Rights), for permits that expire.
    PermitRights,
    /// As [`Rights`](Self::Rights), for fair locks.
    FairRights,
    FairInspect,
    /// As [`Rights`](Self::Rights), for semaphores and latches.
    CounterRights,
    AcquireMany,
    AcquireManyAcrossSlots,
    ReleaseMany,
    ReleaseManyAcrossSlots,
    ServerRun,
}

/// The text of a script with its digest. Sending either copies nothing.
struct Content {
    source: Str,
    sha: Str,
}

/// The scripts whose text was already sent on a connection, one bit for each.
#[derive(Debug, Default)]
pub(crate) struct SentScripts(AtomicU64);

impl Script {
    const ALL: [Script; 41] = [
        Script::Acquire,
        Script::FencedAcquire,
        Script::Release,
        Script::Renew,
        Script::RenewAcrossSlots,
        Script::Inspect,
        Script::ForceRelease,
        Script::ReadAcquire,
        Script::WriteAcquire,
        Script::ReadRenew,
        Script::ReadRenewAcrossSlots,
        Script::ReadRenewTimeout,
        Script::ReadRelease,
        Script::WriteRelease,
        Script::Downgrade,
        Script::ReadWriteInspect,
        Script::Semaphore,
        Script::Latch,
        Script::Count,
        Script::FairQueue,
        Script::FairBeat,
        Script::FairRelease,
        Script::FairForceRelease,
        Script::Rights,
        Script::ReadWriteRights,
        Script::PermitAcquire,
        Script::PermitRelease,
        Script::PermitRenew,
        Script::PermitRenewAcrossSlots,
        Script::PermitInspect,
        Script::PermitCount,
        Script::PermitForceRelease,
        Script::PermitRights,
        Script::FairRights,
        Script::FairInspect,
        Script::CounterRights,
        Script::AcquireMany,
        Script::AcquireManyAcrossSlots,
        Script::ReleaseMany,
        Script::ReleaseManyAcrossSlots,
        Script::ServerRun,
    ];

    /// The text.
    pub(crate) fn source(self) -> &'static Str {
        &self.content().source
    }

    /// The SHA-1 digest of the text, by which a server knows the script.
    pub(crate) fn sha(self) -> &'static Str {
        &self.content().sha
    }

    fn content(self) -> &'static Content {
        static CONTENTS: LazyLock<[Content; Script::ALL.len()]> =
            LazyLock::new(|| Script::ALL.map(|script| Content::of(script.text())));
        &CONTENTS[self as usize]
    }

    fn text(self) -> &'static str {
        match self {
            Script::Acquire => include_str!("../../scripts/acquire.lua"),
            Script::FencedAcquire => include_str!("../../scripts/fenced_acquire.lua"),
            Script::Release => include_str!("../../scripts/release.lua"),
            Script::Renew => include_str!("../../scripts/renew.lua"),
            Script::RenewAcrossSlots => include_str!("../../scripts/renew_across_slots.lua"),
            Script::Inspect => include_str!("../../scripts/inspect.lua"),
            Script::ForceRelease => made_of!("forced", "force_release"),
            Script::ReadAcquire => include_str!("../../scripts/read_acquire.lua"),
            Script::WriteAcquire => include_str!("../../scripts/write_acquire.lua"),
            Script::ReadRenew => include_str!("../../scripts/read_renew.lua"),
            Script::ReadRenewAcrossSlots => include_str!("../../scripts/read_renew_across_slots.lua"),
            Script::ReadRenewTimeout => include_str!("../../scripts/read_renew_timeout.lua"),
            Script::ReadRelease => include_str!("../../scripts/read_release.lua"),
            Script::WriteRelease => include_str!("../../scripts/write_release.lua"),
            Script::Downgrade => include_str!("../../scripts/downgrade.lua"),
            Script::ReadWriteInspect => include_str!("../../scripts/read_write_inspect.lua"),
            Script::Semaphore => include_str!("../../scripts/semaphore.lua"),
            Script::Latch => include_str!("../../scripts/latch.lua"),
            Script::Count => include_str!("../../scripts/count.lua"),
            Script::FairQueue => made_of!("fair_line", "fair_queue"),
            Script::FairBeat => made_of!("fair_line", "fair_beat"),
            Script::FairRelease => made_of!("fair_line", "fair_release"),
            Script::FairForceRelease => made_of!("fair_line", "forced", "fair_force_release"),
            Script::Rights => include_str!("../../scripts/rights.lua"),
            Script::ReadWriteRights => include_str!("../../scripts/read_write_rights.lua"),
            Script::PermitAcquire => include_str!("../../scripts/permit_acquire.lua"),
            Script::PermitRelease => include_str!("../../scripts/permit_release.lua"),
            Script::PermitRenew => include_str!("../../scripts/permit_renew.lua"),
            Script::PermitRenewAcrossSlots => include_str!("../../scripts/permit_renew_across_slots.lua"),
            Script::PermitInspect => include_str!("../../scripts/permit_inspect.lua"),
            Script::PermitCount => include_str!("../../scripts/permit_count.lua"),
            Script::PermitForceRelease => include_str!("../../scripts/permit_force_release.lua"),
            Script::PermitRights => include_str!("../../scripts/permit_rights.lua"),
            Script::FairRights => include_str!("../../scripts/fair_rights.lua"),
            Script::FairInspect => include_str!("../../scripts/fair_inspect.lua"),
            Script::CounterRights => include_str!("../../scripts/counter_rights.lua"),
            Script::AcquireMany => include_str!("../../scripts/acquire_many.lua"),
            Script::AcquireManyAcrossSlots => include_str!("../../scripts/acquire_many_across_slots.lua"),
            Script::ReleaseMany => include_str!("../../scripts/release_many.lua"),
            Script::ReleaseManyAcrossSlots => include_str!("../../scripts/release_many_across_slots.lua"),
            Script::ServerRun => include_str!("../../scripts/server_run.lua"),
        }
    }
}

impl Content {
    fn of(source: &'static str) -> Self {
        Self { source: Str::from_static(source), sha: fred::util::sha1_hash(source).into() }
    }
}

impl SentScripts {
    /// Returns whether this is the first use, and records it. The caller then sends the text, and every later
    /// command on the connection finds the script known.
    pub(crate) fn is_first_use(&self, script: Script) -> bool {
        let bit = 1 << script as u64;
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether the script's text was sent.
    pub(crate) fn has(&self, script: Script) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << script as u64) != 0
    }

    /// The server has forgotten the script. The next use sends its text.
    pub(crate) fn forget(&self, script: Script) {
        self.0.fetch_and(!(1 << script as u64), Ordering::Relaxed);
    }
}

const _: () = assert!(Script::ALL.len() <= 64, "one bit of SentScripts for each script");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_why_it_is_safe_to_run_twice() {
        for (place, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, place, "{script:?}");
            assert!(script.source().contains("-- Safe to run twice:"), "{script:?}");
            assert_eq!(script.sha().len(), 40, "{script:?}");
        }
    }

    #[test]
    fn each_script_has_one_first_use() {
        let sent = SentScripts::default();
        assert!(Script::ALL.into_iter().all(|script| sent.is_first_use(script)));
        assert!(!Script::ALL.into_iter().any(|script| sent.is_first_use(script)));
        sent.forget(Script::Acquire);
        assert!(!sent.has(Script::Acquire) && sent.has(Script::Release));
        assert!(sent.is_first_use(Script::Acquire) && sent.has(Script::Acquire));
    }
}
