//! What is counted of recipes: terms of leaders, and tries to run a job. Pure.

use super::label_names::label_names;

/// How a term of a [`Leader`](crate::Leader) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TermEnd {
    /// The work returned, and with it the candidacy ended.
    Finished,
    /// The candidate resigned.
    Resigned,
    /// The lease was lost, for another reason than a shutdown.
    Lost,
    /// The engine was shut down.
    Shutdown,
    /// The future of the candidate was dropped, or its work panicked.
    Dropped,
}

/// How a try to run a [`Job`](crate::Job) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobEnd {
    /// The work was done under the lock.
    Ran,
    /// The work was done, and it is not certain that the lease was held until its end.
    Unconfirmed,
    /// The work returned an error.
    Failed,
    /// The work took longer than `at_most_for` and was dropped.
    Stopped,
    /// The lease was lost while the work ran, also by a shutdown, and the work dropped.
    Lost,
    /// The future was dropped while the work ran, or the work panicked.
    Dropped,
    /// The job was not due: a process had begun it within `at_least_for`. The work did not start.
    AlreadyRan,
    /// Another caller ran the job. The work did not start.
    Running,
    /// No definite answer, refused, a limit, or shutdown. The work did not start.
    Error,
}

impl TermEnd {
    /// The value of the label `end`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Resigned => "resigned",
            Self::Lost => "lost",
            Self::Shutdown => "shutdown",
            Self::Dropped => "dropped",
        }
    }

    pub(super) const ALL: [Self; 5] =
        [Self::Finished, Self::Resigned, Self::Lost, Self::Shutdown, Self::Dropped];

    /// All label values, in the order of the variants.
    pub(super) const NAMES: [&'static str; Self::ALL.len()] = label_names!(Self::ALL);
}

impl JobEnd {
    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Unconfirmed => "unconfirmed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Dropped => "dropped",
            Self::AlreadyRan => "already_ran",
            Self::Running => "running",
            Self::Error => "error",
        }
    }

    pub(super) const ALL: [Self; 9] = [
        Self::Ran,
        Self::Unconfirmed,
        Self::Failed,
        Self::Stopped,
        Self::Lost,
        Self::Dropped,
        Self::AlreadyRan,
        Self::Running,
        Self::Error,
    ];

    /// All label values, in the order of the variants.
    pub(super) const NAMES: [&'static str; Self::ALL.len()] = label_names!(Self::ALL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_listed_in_their_order() {
        for (place, end) in TermEnd::ALL.into_iter().enumerate() {
            assert_eq!((end as usize, TermEnd::NAMES[place]), (place, end.as_str()));
        }
        for (place, end) in JobEnd::ALL.into_iter().enumerate() {
            assert_eq!((end as usize, JobEnd::NAMES[place]), (place, end.as_str()));
        }
    }
}
