use serde::Serialize;

use super::{LockMode, Remaining, ServerTime};

/// The holds of a lock, as the server shows them to any client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holds, or at most 1,000 of the permits that are held. Empty: the lock is free. Data of other clients may show more than one hold, or counts above 1.
    pub holds: Vec<Hold>,
    /// How long the holds last; without meaning if there are none.
    pub remaining: Remaining,
    /// The owners that wait in the line of a fair lock, the head first, at most 1,000. Empty for locks that keep no line.
    pub line: Vec<String>,
    /// The numbers of a semaphore whose permits expire. `None` for every other lock.
    pub permits: Option<PermitCount>,
    /// The server time of the answer.
    pub at: ServerTime,
}

/// One hold of a lock. serde writes `remaining_ms`: null if the hold has no expiry, and left out if it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hold {
    /// The owner, as opaque text. It is not necessarily an owner of an engine.
    pub owner: String,
    /// How many times the owner holds the lock. A hold of an engine always counts 1 on the server.
    pub count: u64,
    /// What the hold allows to others. Never [`LockMode::Free`].
    pub mode: LockMode,
    /// How long this hold lasts.
    #[serde(rename = "remaining_ms", skip_serializing_if = "Remaining::is_unknown")]
    pub remaining: Remaining,
}

/// The numbers of a semaphore whose permits expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitCount {
    /// The permits that can be taken now. Negative after the total was made smaller than what is held.
    pub available: i64,
    /// The permits that are held and have not expired.
    pub held: u64,
}

impl Inspection {
    /// What was seen at this server time. No line, and no permits.
    pub fn new(holds: Vec<Hold>, remaining: Remaining, at: ServerTime) -> Self {
        Self { holds, remaining, line: Vec::new(), permits: None, at }
    }

    /// Sets the owners that wait in line, the head first.
    pub fn with_line(mut self, line: Vec<String>) -> Self {
        self.line = line;
        self
    }

    /// Sets the numbers of a semaphore whose permits expire.
    pub fn with_permits(mut self, permits: PermitCount) -> Self {
        self.permits = Some(permits);
        self
    }

    /// How the lock is held. A writer of another client may read beside its own write hold: that is a write.
    pub fn mode(&self) -> LockMode {
        let mut modes = self.holds.iter().map(|hold| hold.mode);
        let first = modes.next().unwrap_or(LockMode::Free);
        modes.find(|mode| *mode == LockMode::Write).unwrap_or(first)
    }
}

impl Hold {
    /// The hold of `owner`, which has acquired the lock `count` times. It is exclusive, and its remaining time is not
    /// known.
    pub fn new(owner: impl Into<String>, count: u64) -> Self {
        Self { owner: owner.into(), count, mode: LockMode::Exclusive, remaining: Remaining::NotKnown }
    }

    /// Sets what the hold allows to others.
    pub fn with_mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how long the hold lasts.
    pub fn with_remaining(mut self, remaining: Remaining) -> Self {
        self.remaining = remaining;
        self
    }
}

impl PermitCount {
    /// These numbers of permits.
    pub const fn new(available: i64, held: u64) -> Self {
        Self { available, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::topology::{ClockId, NodeId};

    fn seen(modes: &[LockMode]) -> Inspection {
        let holds = modes.iter().map(|mode| Hold::new("u:1", 1).with_mode(*mode)).collect();
        let at = ServerTime { micros: 7, clock: ClockId { node: NodeId(0), epoch: 1 } };
        Inspection::new(holds, Remaining::NotKnown, at)
    }

    #[test]
    fn a_lock_without_holds_is_free_and_a_writer_decides() {
        use LockMode::{Exclusive, Free, Read, Write};
        for (modes, mode) in [
            (vec![], Free),
            (vec![Exclusive], Exclusive),
            (vec![Read, Read], Read),
            (vec![Read, Write], Write),
            (vec![Write, Read], Write),
        ] {
            assert_eq!(seen(&modes).mode(), mode, "{modes:?}");
        }
        assert_eq!(seen(&[]).with_line(vec!["u:2".into()]).mode(), Free, "a line is no hold");
    }
}
