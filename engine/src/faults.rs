//! Faults on purpose: they show that the checkers of the tests can fail. They exist only in a build with
//! `--cfg leasehold_fault`, which compiles only with debug assertions.
//!
//! Such a build has all faults. The variable `LEASEHOLD_FAULT` chooses one at run time.

use std::{env, sync::OnceLock, time::Duration};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A deadline counts from the answer, however late that comes, instead of from the send.
    LateDeadline,
    /// A release deletes the lock, whichever owner holds it.
    BlindRelease,
    /// An ask that was not answered is repeated with another owner, and the first one is forgotten.
    NewOwner,
    /// The grant to a place in the line of a fair lock goes to the caller of the engine that came last.
    LastComeFirst,
    /// A quorum takes half of its members, rounded down, for enough.
    SmallQuorum,
    /// A quorum that has lost its majority goes on, and members join it.
    LateJoin,
}

impl Fault {
    /// Whether this process has it.
    pub(crate) fn is_on(self) -> bool {
        static CHOSEN: OnceLock<Option<Fault>> = OnceLock::new();
        *CHOSEN.get_or_init(|| env::var(VARIABLE).ok().map(|name| named(&name))) == Some(self)
    }
}

// A typo must not make a healthy engine out of one that is to fail.
fn named(name: &str) -> Fault {
    match name {
        "late_deadline" => Fault::LateDeadline,
        "blind_release" => Fault::BlindRelease,
        "new_owner" => Fault::NewOwner,
        "last_come_first" => Fault::LastComeFirst,
        "small_quorum" => Fault::SmallQuorum,
        "late_join" => Fault::LateJoin,
        _ => panic!("{VARIABLE} is no fault: {name:?}"),
    }
}

/// How long a client waits that believes an answer however late it comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const VARIABLE: &str = "LEASEHOLD_FAULT";

#[cfg(not(debug_assertions))]
compile_error!(
    "leasehold_fault builds faults into the engine for its own tests; a release build must not have it"
);
