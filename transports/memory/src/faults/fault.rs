use std::time::Duration;

use leasehold::transport::ErrorKind;

/// The operations to which a rule can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Acquiring a lock, with or without joining the line of a fair lock.
    Acquire,
    /// One batch of beats of places in the line of a fair lock.
    Beat,
    /// Releasing a lock.
    Release,
    /// One renewal batch, or one downgrade. A rule with a key applies to the members with that key, and the others are renewed as
    /// usual. The batch is answered once all its members are.
    Renew,
    /// Reading the holder of a lock.
    Inspect,
    /// Ending any hold of a lock.
    ForceRelease,
    /// One operation on a semaphore or a latch, reads included.
    Count,
    /// A notice to one watch. Delays delay it, repetitions double it, and all other faults lose it.
    Notice,
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is executed after this delay.
    DelayRequest(Duration),
    /// The request is executed at once, and the reply arrives after this delay.
    DelayReply(Duration),
    /// The request is never executed, and the caller gets no reply.
    LoseRequest,
    /// The request is executed, and the caller gets no reply.
    LoseReply,
    /// The first half of a renewal batch (rounded down) is executed, the rest is not, and the caller gets no reply.
    /// For any other operation as [`LoseReply`](Self::LoseReply).
    LoseHalf,
    /// The request is executed twice, one directly after the other. The caller gets the *second* reply.
    Repeat,
    /// The request is executed and answered as usual, and a copy is executed after this delay. The caller gets the
    /// *first* reply.
    RepeatLater(Duration),
    /// The request is executed after this many later operations of its lane have passed without a fault.
    Reorder(u64),
    /// The request is held until [`Rule::deliver`](super::Rule::deliver).
    Hold,
    /// The request is never executed, and the caller is told so at once: an error of this kind, with
    /// `Effect::None`.
    Refuse(ErrorKind),
    /// The request is never executed, and the connection breaks at once: `Unreachable`, `Effect::Unknown`.
    Reset,
}

/// How a lane is cut off from its servers. Requests that were on their way before the cut are not affected.
///
/// During a cut no rule counts operations, no notice arrives, every watch counts one gap and is out of force, and
/// no lane opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Every call fails at once: `Unreachable`, `Effect::None`.
    Refused,
    /// Every call fails at once and is not executed: `Unreachable`, `Effect::Unknown`.
    Reset,
    /// No call is executed, and none is answered in time: `TimedOut`, `Effect::Unknown`.
    BlackHole,
    /// Every call is executed, and none is answered in time: `TimedOut`, `Effect::Unknown`.
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
