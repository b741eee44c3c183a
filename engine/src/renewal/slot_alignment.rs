//! Aligns the renewal of a lease with the renewals of the other leases of its slot. Pure.
//!
//! A node that takes one call per slot is cheap to renew only if the leases of a slot are renewed together. So each
//! slot has its own phase within the period of a third of the ttl, and a renewal happens at the last moment of that
//! phase before it would be due without alignment. Leases of one slot with one ttl then share their ticks, and the
//! slots are distributed evenly over the period. A renewal is never later than without alignment, and at most one
//! period earlier.

use std::time::Duration;

use crate::{
    clock::Instant,
    lease::state,
    routing::slot::{SLOTS, Slot},
};

/// When a lease is renewed that was confirmed by a command sent at `sent`, aligned with its slot; never before `now`.
pub(crate) fn in_step(sent: Instant, ttl: Duration, slot: Slot, now: Instant) -> Instant {
    let due = state::renew_at(sent, ttl);
    let period = nanos(due - sent).max(1);
    let phase = u64::from(slot.number()) * (period / u64::from(SLOTS));
    let behind = (due.as_nanos() + period - phase) % period;
    let aligned = Instant::from_nanos(due.as_nanos().saturating_sub(behind));
    aligned.max(now).min(due.max(now))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn slot(number: u16) -> Slot {
        Slot::from_number(number).unwrap()
    }

    #[test]
    fn leases_of_a_slot_that_were_granted_at_different_times_are_renewed_together() {
        let ttl = Duration::from_secs(30);
        let first = |granted| in_step(at(granted), ttl, slot(8_192), at(granted));
        let moments: Vec<_> = [20_001, 22_000, 24_999].map(first).to_vec();
        assert!(moments.iter().all(|moment| *moment == moments[0]), "{moments:?}");
        assert_ne!(first(25_001), moments[0], "that one would come too late");
        let next = in_step(moments[0], ttl, slot(8_192), moments[0]);
        assert_eq!(next - moments[0], Duration::from_secs(10), "a whole period");
    }

    #[test]
    fn slots_are_spread_over_the_period() {
        let ttl = Duration::from_secs(3);
        let moment = |number| in_step(at(5_000), ttl, slot(number), at(5_000));
        let smoothing = moment(SLOTS - 1) - moment(1);
        assert!(
            smoothing > Duration::from_millis(990) && smoothing < Duration::from_secs(1),
            "{smoothing:?}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn never_later_than_without_never_before_now_and_at_most_a_period_earlier(
            sent in 0..u64::MAX / 4, took in 0..10_000_000_000u64, ttl_ms in 1_000..100_000_000u64, number in 0..SLOTS
        ) {
            let (sent, ttl) = (Instant::from_nanos(sent), Duration::from_millis(ttl_ms));
            let (now, due) = (sent + Duration::from_nanos(took), state::renew_at(sent, ttl));
            let moment = in_step(sent, ttl, slot(number), now);
            prop_assert!(moment >= now && moment <= due.max(now));
            prop_assert!(moment + ttl / 3 >= due);
        }

        #[test]
        fn all_leases_of_one_slot_and_one_ttl_share_their_moments(
            sent in prop::collection::vec(1_000_000_000_000..2_000_000_000_000u64, 2..20),
            ttl_ms in 1_000..100_000u64,
            number in 0..SLOTS,
        ) {
            let ttl = Duration::from_millis(ttl_ms);
            let period = nanos(ttl / 3);
            let phases: Vec<_> = sent
                .into_iter()
                .map(|sent| in_step(Instant::from_nanos(sent), ttl, slot(number), Instant::from_nanos(sent)))
                .map(|moment| moment.as_nanos() % period)
                .collect();
            prop_assert!(phases.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", phases);
        }
    }
}
