//! The arithmetic of several leases of which some number is needed: how long enough of them are held, and what several
//! releases say together. Pure.

use std::time::Duration;

use crate::{error::ReleaseError, lease::state::LossReason};

/// How many members of a quorum are held. [`QuorumLease::tally`](crate::QuorumLease::tally) reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// How many member leases are held now.
    pub held: usize,
    /// How many are needed: the majority.
    pub needed: usize,
    /// How many members there are.
    pub of: usize,
}

/// The smallest number of which two different sets always share a member.
pub(super) fn majority(of: usize) -> usize {
    of / 2 + 1
}

/// How long at least `needed` leases are held, if each lasts for its remaining time: the `needed`-th largest of them.
/// Zero if there are fewer.
pub(super) fn validity(remaining: impl IntoIterator<Item = Duration>, needed: usize) -> Duration {
    let mut all: Vec<Duration> = remaining.into_iter().collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    needed.checked_sub(1).and_then(|place| all.get(place)).copied().unwrap_or_default()
}

/// The result of the releases so far. `None`: the releases that are not answered yet decide it.
///
/// `needed` leases that were held to the end make the whole held to the end. If so many cannot be confirmed any more,
/// the answers decide: a release that was not confirmed is not a loss.
pub(super) fn release_result(
    answers: &[Result<(), ReleaseError>],
    pending: usize,
    needed: usize,
) -> Option<Result<(), ReleaseError>> {
    let confirmed = answers.iter().filter(|answer| answer.is_ok()).count();
    if confirmed >= needed {
        return Some(Ok(()));
    }
    let errors = || answers.iter().filter_map(|answer| answer.as_ref().err());
    let lost = errors().find(|error| matches!(error, ReleaseError::AlreadyLost(_)));
    let losses = errors().filter(|error| matches!(error, ReleaseError::AlreadyLost(_))).count();
    let all = answers.len() + pending;
    match lost {
        Some(lost) if all.saturating_sub(losses) < needed => Some(Err(lost.clone())),
        _ if pending > 0 => None,
        _ => Some(Err(unconfirmed(errors()))),
    }
}

// The lock is free on all servers when the last unconfirmed hold is gone.
fn unconfirmed<'a>(errors: impl Iterator<Item = &'a ReleaseError>) -> ReleaseError {
    let rank = |error: &ReleaseError| match error {
        ReleaseError::Unknown { gone_by, .. } => (2, gone_by.as_nanos()),
        ReleaseError::ReleasedOrLost => (1, 0),
        ReleaseError::AlreadyLost(_) => (0, 0),
    };
    errors.max_by_key(|error| rank(error)).cloned().unwrap_or(ReleaseError::AlreadyLost(LossReason::Expired))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Instant;

    #[test]
    fn two_majorities_share_a_member() {
        for of in 1..=9_usize {
            let needed = majority(of);
            assert!(2 * needed > of && 2 * (needed - 1) <= of, "{needed} of {of}");
            let sets: Vec<u32> = (0..1_u32 << of).filter(|set| set.count_ones() as usize >= needed).collect();
            assert!(sets.iter().all(|one| sets.iter().all(|other| one & other != 0)), "{of}");
        }
    }

    proptest! {
        // The oracle counts at each moment.
        #[test]
        fn a_quorum_is_held_exactly_until_its_validity_is_over(
            deadlines in prop::collection::vec(0_u64..30, 0..8),
            needed in 1_usize..6,
        ) {
            let validity = validity(deadlines.iter().map(|at| Duration::from_millis(*at)), needed);
            for now in 0..32_u64 {
                let held = deadlines.iter().filter(|deadline| now < **deadline).count();
                prop_assert_eq!(held >= needed, Duration::from_millis(now) < validity, "at {}", now);
            }
        }

        #[test]
        fn a_release_result_that_is_told_early_is_the_one_of_all_answers(
            answers in prop::collection::vec(0_u8..4, 1..6),
            needed in 1_usize..6,
        ) {
            let needed = needed.min(answers.len());
            let answers: Vec<_> = answers.into_iter().map(answer).collect();
            let last = release_result(&answers, 0, needed).expect("all are in");
            for known in 0..answers.len() {
                let pending = answers.len() - known;
                if let Some(early) = release_result(&answers[..known], pending, needed) {
                    prop_assert_eq!(early.is_ok(), last.is_ok());
                }
            }
            let confirmed = answers.iter().filter(|answer| answer.is_ok()).count();
            prop_assert_eq!(last.is_ok(), confirmed >= needed);
        }
    }

    fn answer(kind: u8) -> Result<(), ReleaseError> {
        match kind {
            0 => Ok(()),
            1 => Err(ReleaseError::AlreadyLost(LossReason::NotOurs)),
            2 => Err(ReleaseError::ReleasedOrLost),
            _ => Err(unknown(5)),
        }
    }

    fn unknown(at: u64) -> ReleaseError {
        let gone_by = Instant::from_nanos(at);
        ReleaseError::Unknown { gone_by, within: Duration::ZERO, last_error: None }
    }

    #[test]
    fn an_unconfirmed_release_is_no_loss_as_long_as_enough_may_have_been_held() {
        let lost = Err(ReleaseError::AlreadyLost(LossReason::NotOurs));
        let told = release_result(&[Ok(()), Err(unknown(3)), lost.clone()], 0, 2);
        assert!(matches!(told, Some(Err(ReleaseError::Unknown { .. }))), "{told:?}");
        let told = release_result(&[lost.clone(), lost], 1, 2);
        assert!(matches!(told, Some(Err(ReleaseError::AlreadyLost(LossReason::NotOurs)))), "{told:?}");
        let told = release_result(&[Err(unknown(3)), Err(unknown(9)), Err(unknown(4))], 0, 2);
        let latest = Instant::from_nanos(9);
        assert!(matches!(told, Some(Err(ReleaseError::Unknown { gone_by, .. })) if gone_by == latest));
    }
}
