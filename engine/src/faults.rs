//! Faults on purpose: they show that the checkers of the tests can fail. Not in any build without
//! `--cfg leasehold_fault`, and a build without debug assertions refuses that.
//!
//! One build has all of them; `LEASEHOLD_FAULT` chooses at run time.

use std::{env, sync::OnceLock, time::Duration};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A deadline counts from the answer, however late that comes, instead of from the send.
    LateDeadline,
    /// A release deletes the lock, whoever has it.
    BlindRelease,
    /// An ask that was not answered is repeated with another owner, and the first one is forgotten.
    NewOwner,
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
        _ => panic!("{VARIABLE} is no fault: {name:?}"),
    }
}

/// So long a client waits that believes an answer whenever it comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const VARIABLE: &str = "LEASEHOLD_FAULT";

#[cfg(not(debug_assertions))]
compile_error!(
    "leasehold_fault builds faults into the engine for its own tests; a release build must not have it"
);
