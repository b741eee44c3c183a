//! The slots that another server serves than before. Pure.
//!
//! Two topologies are compared once, run of slots by run of slots. Then each lease looks up its own slot in the result.
//! A slot has moved if its node has changed or that node's clock has changed. All leases of a moved slot are renewed at
//! once, because another server gives their next answer. The kind of move decides whether those leases are in doubt
//! until then:
//!
//! - *With its locks*: the server that had the locks is still there, in the same run. Then the slot has migrated, and
//!   its locks with it, or the slot had no node and got one. Nothing suggests that its leases are lost.
//! - *In doubt*: the server that had the locks is gone, or runs anew. The server that serves the slot now may lack the
//!   slot's newest locks (failover, restart). A slot that no node serves any more is in doubt too.

use super::{
    slot::{SLOTS, Slot},
    topology::{ClockId, Topology},
};

/// How a slot has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    WithItsLocks,
    InDoubt,
}

/// The slots that have moved between two topologies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    runs: Vec<Run>,
}

/// Consecutive slots that have moved in the same way. Runs are sorted; two adjacent runs differ in their `Move`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u16,
    last: u16,
    how: Move,
}

impl Moves {
    pub(crate) fn between(earlier: &Topology, later: &Topology) -> Self {
        let mut moves = Self::default();
        let mut first = 0;
        while first < SLOTS {
            let (before, before_last) = earlier.serving_run(first);
            let (after, after_last) = later.serving_run(first);
            let last = before_last.min(after_last);
            if let Some(how) = how_moved(before, after, later) {
                moves.push(Run { first, last, how });
            }
            first = last + 1;
        }
        moves
    }

    /// Whether no slot has moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How this slot has moved, if it has.
    pub(crate) fn of(&self, slot: Slot) -> Option<Move> {
        let behind = self.runs.partition_point(|run| run.first <= slot.number());
        let run = self.runs[..behind].last()?;
        (slot.number() <= run.last).then_some(run.how)
    }

    fn push(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(before) if before.last + 1 == run.first && before.how == run.how => before.last = run.last,
            Some(_) | None => self.runs.push(run),
        }
    }
}

fn how_moved(before: Option<ClockId>, after: Option<ClockId>, later: &Topology) -> Option<Move> {
    if before == after {
        return None;
    }
    let kept = after.is_some() && before.is_none_or(|before| later.is_current(before));
    Some(if kept { Move::WithItsLocks } else { Move::InDoubt })
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
