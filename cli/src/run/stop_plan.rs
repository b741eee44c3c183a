//! When a command is stopped because its lease runs out. Pure.
//!
//! The engine renews a lease after a third of its ttl, and tries again until the deadline. The command must be dead
//! before the deadline, so it is stopped while the lease still lasts: SIGTERM when the grace and the lead are left,
//! SIGKILL when the lead is left.

use std::time::Duration;

use leasehold::LossReason;

use crate::duration::shown;

/// The times of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopPlan {
    /// From SIGTERM to SIGKILL.
    grace: Duration,
    /// From SIGKILL to the deadline.
    lead: Duration,
}

/// What is known at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// How long the lease lasts if no renewal is confirmed.
    pub(crate) remaining: Duration,
    pub(crate) loss: Option<LossReason>,
    /// How long ago the command got SIGTERM, if it has.
    pub(crate) since_term: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to do; look again after this time at the latest.
    Wait(Duration),
    Terminate,
    Kill,
}

impl StopPlan {
    /// The plan for leases with this ttl. `grace`: what the user wants.
    ///
    /// # Errors
    /// The grace is longer than a third of the ttl: then there would be no time to repeat a renewal.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, String> {
        let most = ttl / 3;
        if let Some(grace) = grace.filter(|grace| *grace > most) {
            return Err(format!(
                "--grace = {}: must be at most {}, a third of the ttl; raise --ttl",
                shown(grace),
                shown(most)
            ));
        }
        let lead = (ttl / 30).clamp(LEAD_MIN, LEAD_MAX);
        Ok(Self { grace: grace.unwrap_or((ttl / 6).min(GRACE_MAX)), lead })
    }

    /// What is to be done now.
    pub(crate) fn step(&self, view: View) -> Step {
        match (view.loss, view.since_term) {
            // The deadline is over: this process stood still.
            (Some(LossReason::Expired | LossReason::RenewalStopped), _) => Step::Kill,
            (Some(_), None) => Step::Terminate,
            (loss, Some(since)) => self.until_kill(view.remaining, loss.is_some(), since),
            (None, None) => match view.remaining.checked_sub(self.grace + self.lead) {
                None | Some(Duration::ZERO) => Step::Terminate,
                Some(left) => Step::Wait(left.min(TICK)),
            },
        }
    }

    // The remaining time of a lost lease is zero, and says nothing.
    fn until_kill(&self, remaining: Duration, is_lost: bool, since: Duration) -> Step {
        let of_grace = self.grace.saturating_sub(since);
        let left = if is_lost { of_grace } else { of_grace.min(remaining.saturating_sub(self.lead)) };
        if left.is_zero() { Step::Kill } else { Step::Wait(left.min(TICK)) }
    }

    /// How long before the deadline the command gets SIGKILL.
    pub(crate) fn lead(&self) -> Duration {
        self.lead
    }

    /// How long the command has between SIGTERM and SIGKILL.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }
}

/// The longest time between two looks.
const TICK: Duration = Duration::from_millis(100);
const GRACE_MAX: Duration = Duration::from_secs(10);
const LEAD_MIN: Duration = Duration::from_millis(100);
const LEAD_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn plan() -> StopPlan {
        StopPlan::new(TTL, None).expect("a plan")
    }

    fn view(remaining_ms: u64) -> View {
        View { remaining: Duration::from_millis(remaining_ms), loss: None, since_term: None }
    }

    fn after(since_ms: u64, view: View) -> View {
        View { since_term: Some(Duration::from_millis(since_ms)), ..view }
    }

    fn lost(reason: LossReason) -> View {
        View { loss: Some(reason), ..view(0) }
    }

    #[test]
    fn a_lease_that_is_renewed_stops_nothing() {
        assert_eq!(plan().step(view(28_500)), Step::Wait(TICK));
        assert_eq!(plan().step(view(6_050)), Step::Wait(Duration::from_millis(50)));
    }

    #[test]
    fn a_lease_that_runs_out_gets_sigterm_then_sigkill_before_the_deadline() {
        assert_eq!(plan().step(view(6_000)), Step::Terminate);
        assert_eq!(plan().step(after(1_000, view(5_000))), Step::Wait(TICK));
        assert_eq!(plan().step(after(4_999, view(1_001))), Step::Wait(Duration::from_millis(1)));
        assert_eq!(plan().step(after(5_000, view(1_000))), Step::Kill);
        // This process stood still in between: the lead is kept.
        assert_eq!(plan().step(after(10, view(900))), Step::Kill);
    }

    #[test]
    fn a_renewal_after_sigterm_does_not_lengthen_the_grace() {
        assert_eq!(plan().step(after(5_000, view(28_000))), Step::Kill);
    }

    #[test]
    fn a_lost_lease_gets_sigterm_at_once_and_one_that_is_over_sigkill() {
        assert_eq!(plan().step(lost(LossReason::NotOurs)), Step::Terminate);
        assert_eq!(plan().step(after(4_000, lost(LossReason::NotOurs))), Step::Wait(TICK));
        assert_eq!(plan().step(after(5_000, lost(LossReason::NotOurs))), Step::Kill);
        assert_eq!(plan().step(lost(LossReason::Expired)), Step::Kill);
    }

    #[test]
    fn a_grace_of_more_than_a_third_of_the_ttl_is_refused() {
        assert!(StopPlan::new(TTL, Some(Duration::from_secs(10))).is_ok());
        let refused = StopPlan::new(TTL, Some(Duration::from_secs(11))).expect_err("refused");
        assert_eq!(refused, "--grace = 11s: must be at most 10s, a third of the ttl; raise --ttl");
    }

    #[test]
    fn the_shortest_ttl_leaves_time_to_renew() {
        let plan = StopPlan::new(Duration::from_secs(1), None).expect("a plan");
        // The first renewal is due with two thirds of a second less the margin left.
        assert!(matches!(plan.step(view(566)), Step::Wait(_)));
        assert_eq!(plan.step(view(266)), Step::Terminate);
    }
}
