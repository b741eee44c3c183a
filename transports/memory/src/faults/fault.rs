use std::time::Duration;

use leasehold::transport::ErrorKind;

/// What a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Asking for a lock.
    Acquire,
    /// Giving it back.
    Release,
    /// One renewal batch. A rule with a key applies to the members of that key, and the others are renewed as ever;
    /// the batch is answered when all its members are.
    Renew,
    /// Reading who holds a lock.
    Inspect,
    /// Ending whatever hold there is.
    ForceRelease,
    /// A notice on its way to one watch. A delay delays it, a repetition doubles it, anything else loses it.
    Notice,
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is executed this much later than it was sent.
    DelayRequest(Duration),
    /// It is executed at once, and the answer comes this much later.
    DelayReply(Duration),
    /// It is never executed, and the caller learns nothing.
    LoseRequest,
    /// It is executed, and the caller learns nothing.
    LoseReply,
    /// Of a renewal batch the first half of the members (rounded down) is executed and the rest is not, and the caller
    /// learns nothing. Any other operation: as [`LoseReply`](Self::LoseReply).
    LoseHalf,
    /// It is executed twice, one right after the other. The caller gets the *second* answer.
    Repeat,
    /// It is executed and answered as ever, and a copy is executed this much later. The caller gets the *first* answer.
    RepeatLater(Duration),
    /// It is executed after this many later operations of its lane went by unharmed.
    Reorder(u64),
    /// It is kept back until [`Rule::deliver`](super::Rule::deliver).
    Hold,
    /// It is never executed, and the caller learns just that, at once: this kind, `Effect::None`.
    Refuse(ErrorKind),
    /// It is never executed, and the connection breaks at once: `Unreachable`, `Effect::Unknown`.
    Reset,
}

/// How a lane is cut off from its servers. Requests that were on their way when the cut came are not touched.
///
/// While it lasts, no rule counts anything, no notice arrives, every watch is out of force after one gap, and no
/// lane opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Every call fails at once: `Unreachable`, `Effect::None`.
    Refused,
    /// Every call fails at once without being executed: `Unreachable`, `Effect::Unknown`.
    Reset,
    /// No call is executed, none is answered in time: `TimedOut`, `Effect::Unknown`.
    BlackHole,
    /// Every call is executed, none is answered in time: `TimedOut`, `Effect::Unknown`.
    RepliesLost,
}

impl Cut {
    pub(super) fn as_fault(self) -> Fault {
        match self {
            Cut::Refused => Fault::Refuse(ErrorKind::Unreachable),
            Cut::Reset => Fault::Reset,
            Cut::BlackHole => Fault::LoseRequest,
            Cut::RepliesLost => Fault::LoseReply,
        }
    }
}
