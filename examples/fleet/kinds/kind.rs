//! What a fleet must know of a kind of primitive.

use std::pin::Pin;

use leasehold::{Engine, Lock};

use crate::{crew::Shared, windows::Share};

/// A kind of primitive.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// As `--kind` takes it.
    pub(crate) name: &'static str,
    /// The lock of this name that is taken at this turn, and whether others may hold it at the same time. A kind that is
    /// no lock has plain locks for the leases that are held beside its contest.
    pub(crate) lock: fn(&Engine, &str, usize) -> (Lock, Share),
    pub(crate) contest: Contest,
}

/// How contenders contend, and who judges them.
#[derive(Clone, Copy)]
pub(crate) enum Contest {
    /// They take the lock of a key and give it back (`contenders.rs`), and `windows.rs` judges.
    Locks,
    /// The kind has a contest and a judge of its own. It ends when the run is over.
    Own(fn(Shared) -> Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// The plain lock of this name, for kinds without a lock of their own.
pub(crate) fn plain(engine: &Engine, name: &str, _turn: usize) -> (Lock, Share) {
    (engine.lock(name), Share::Alone)
}
