//! Runs one attempt at a quorum: tries all members at once, and stops with the answer that decides.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use super::{
    attempt::{Answer, Attempt, Verdict},
    tend::Trying,
    timer,
};
use crate::{AcquireError, Lease, Lock, inner::Inner, transport::TransportError};

/// How an attempt ended.
pub(super) enum RoundEnd {
    Reached(Reached),
    Failed(Failure),
}

/// Enough members are held. The tries of the others may still be open.
pub(super) struct Reached {
    pub(super) leases: Vec<Option<Lease>>,
    pub(super) open: Vec<Option<Trying>>,
}

/// Too few members could be held. What was granted is released.
pub(super) struct Failure {
    pub(super) refused: Vec<usize>,
    /// Whether a majority answered: the lock is held, and not out of reach because servers are down.
    pub(super) was_answered: bool,
    /// An error that another attempt would meet again.
    pub(super) lasting: Option<AcquireError>,
    pub(super) last_error: Option<TransportError>,
}

/// One attempt. Dropping it releases what was granted and gives up the rest.
struct Round {
    attempt: Attempt,
    leases: Vec<Option<Lease>>,
    open: Vec<Option<Trying>>,
    errors: Vec<AcquireError>,
}

/// Tries all members at the same time, for at most `limit`.
pub(super) async fn run(
    engines: &[Arc<Inner>],
    members: &[Lock],
    needed: usize,
    limit: Duration,
) -> RoundEnd {
    let mut round = Round::begin(members, needed);
    let mut limit = pin!(timer::sleep(engines, limit));
    poll_fn(|context| {
        round.poll(context);
        if round.attempt.verdict() == Verdict::Open && limit.as_mut().poll(context).is_ready() {
            round.attempt.time_out();
        }
        match round.attempt.verdict() {
            Verdict::Open => Poll::Pending,
            Verdict::Reached | Verdict::OutOfReach => Poll::Ready(()),
        }
    })
    .await;
    round.end(members.len() - needed)
}

impl Round {
    fn begin(members: &[Lock], needed: usize) -> Self {
        let open = members.iter().map(|lock| Some(Box::pin(lock.try_acquire()) as Trying)).collect();
        let leases = members.iter().map(|_| None).collect();
        Self { attempt: Attempt::new(members.len(), needed), leases, open, errors: Vec::new() }
    }

    // Every member is polled, so that all of them are asked before the first answer.
    fn poll(&mut self, context: &mut std::task::Context<'_>) {
        let Self { attempt, leases, open, errors } = self;
        for (place, (trying, lease)) in open.iter_mut().zip(leases).enumerate() {
            let Some(Poll::Ready(answer)) = trying.as_mut().map(|trying| trying.as_mut().poll(context))
            else {
                continue;
            };
            *trying = None;
            attempt.answer(
                place,
                match answer {
                    Ok(Some(granted)) => {
                        *lease = Some(granted);
                        Answer::Granted
                    }
                    Ok(None) => Answer::Refused,
                    Err(error) => {
                        errors.push(error);
                        Answer::Failed
                    }
                },
            );
        }
    }

    fn end(self, dispensable: usize) -> RoundEnd {
        if self.attempt.verdict() == Verdict::Reached {
            return RoundEnd::Reached(Reached { leases: self.leases, open: self.open });
        }
        RoundEnd::Failed(Failure {
            refused: self.attempt.refused().collect(),
            was_answered: self.attempt.was_answered(),
            lasting: lasting(&self.errors, dispensable),
            last_error: self.errors.iter().filter_map(|error| error.last_error()).next_back().cloned(),
        })
    }
}

/// The error that ends the call: a value that cannot be used, or so many members with a lasting error that the others
/// are no majority.
fn lasting(errors: &[AcquireError], dispensable: usize) -> Option<AcquireError> {
    let lasting = |error: &&AcquireError| {
        !matches!(error, AcquireError::Unavailable { .. } | AcquireError::TimedOut { .. })
    };
    let invalid = errors.iter().find(|error| matches!(error, AcquireError::Invalid(_)));
    let too_many = errors.iter().filter(lasting).count() > dispensable;
    invalid.or_else(|| errors.iter().find(lasting).filter(|_| too_many)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Invalid;

    #[test]
    fn a_lasting_error_of_a_minority_ends_no_call() {
        let (down, ending) = (
            AcquireError::Unavailable { after: Duration::ZERO, last_error: None },
            AcquireError::ShuttingDown,
        );
        assert!(lasting(&[ending.clone(), down.clone(), down.clone()], 1).is_none());
        let both = lasting(&[down, ending.clone(), ending], 1);
        assert!(matches!(both, Some(AcquireError::ShuttingDown)), "{both:?}");
        let invalid = AcquireError::Invalid(Invalid::new("ttl", "1ms", "must be at least 1s"));
        assert!(matches!(lasting(&[invalid], 1), Some(AcquireError::Invalid(_))));
    }
}
