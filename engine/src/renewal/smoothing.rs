//! Distributes renewals over ticks. Leases that were granted or asked about at the same moment are not renewed in one
//! tick for ever, and leases that were granted one by one are not renewed one by one. Pure.
//!
//! The scheduler counts how many renewals are reserved in each tick of the wheel's next revolution. A renewal may be moved
//! forward by at most an eighth of its period and is never moved back, so no renewal comes closer to its deadline.
//!
//! - If the due tick is full, the renewal moves to the last tick before it that is not full. If each tick is full, the
//!   renewal moves to the emptiest of the ticks that were looked at. So a full tick spreads out from period to period.
//! - If the due tick is empty, the renewal moves to the fullest tick before it that has less than a batch: a command for
//!   fifty leases costs client and server little more than a command for a single lease. Renewals that share a tick stay
//!   together, because their next due tick is the same.
//!
//! While renewals move, there are at most an eighth more of them.

/// The reserved renewals.
#[derive(Debug)]
pub(crate) struct Smoothing {
    reserved: Box<[u32]>,
    /// Ticks up to and including this tick have passed.
    tick: u64,
}

impl Smoothing {
    pub(crate) fn new(tick: u64) -> Self {
        Self { reserved: vec![0; TICKS].into(), tick }
    }

    /// Moves to `tick` and clears the ticks that have passed, so that the next revolution can use them.
    pub(crate) fn advance(&mut self, tick: u64) {
        for passed in (self.tick + 1..=tick).take(TICKS) {
            self.reserved[place(passed)] = 0;
        }
        self.tick = self.tick.max(tick);
    }

    /// Reserves a tick for a renewal that would be due at tick `due` and has a period of `period` ticks; `leases` is
    /// the number of leases in the scheduler. A tick that is further away than one revolution is not counted, so that
    /// renewal is not moved.
    pub(crate) fn reserve(&mut self, due: u64, period: u64, leases: usize) -> u64 {
        if due <= self.tick || due > self.tick + TICKS as u64 {
            return due;
        }
        let tick_max = tick_max(period, leases);
        let earliest = due.saturating_sub(period / 8).max(self.tick + 1);
        let tick = match self.count(due) {
            0 => self.fuller(earliest, due),
            count if count < tick_max => due,
            _ => self.emptier(earliest, due, tick_max),
        };
        self.reserved[place(tick)] += 1;
        tick
    }

    /// Gives back the reservation of a renewal that will not be sent in this tick.
    pub(crate) fn release(&mut self, due: u64) {
        if due > self.tick && due <= self.tick + TICKS as u64 {
            let reserved = &mut self.reserved[place(due)];
            *reserved = reserved.saturating_sub(1);
        }
    }

    // The fullest tick that has less than a batch. If several are equally full, the latest; if all are empty, `due`.
    fn fuller(&self, earliest: u64, due: u64) -> u64 {
        let not_full = candidates(earliest, due).filter(|tick| self.count(*tick) < BATCH);
        not_full.max_by_key(|tick| (self.count(*tick), *tick)).unwrap_or(due)
    }

    // The last tick before `due` that is not full. If each tick is full, the emptiest of at most `LOOK_MAX` ticks.
    fn emptier(&self, earliest: u64, due: u64, tick_max: u32) -> u64 {
        let not_full = candidates(earliest, due).find(|tick| self.count(*tick) < tick_max);
        not_full.or_else(|| candidates(earliest, due).min_by_key(|tick| self.count(*tick))).unwrap_or(due)
    }

    fn count(&self, tick: u64) -> u32 {
        self.reserved[place(tick)]
    }
}

// A half-open range, because a step of an inclusive one costs twice as much.
fn candidates(earliest: u64, due: u64) -> impl Iterator<Item = u64> {
    (earliest.max((due + 1).saturating_sub(LOOK_MAX))..due + 1).rev()
}

/// How many renewals a tick may have before it counts as full: a few batches, or twice its even share.
fn tick_max(period: u64, leases: usize) -> u32 {
    let share = (leases as u64 / period.max(1)).saturating_mul(2);
    u32::try_from(share).unwrap_or(u32::MAX).max(TICK_MAX_MIN)
}

fn place(tick: u64) -> usize {
    (tick % TICKS as u64) as usize
}

/// Equal to the number of buckets of the wheel.
const TICKS: usize = 1024;
/// Few leases are not worth the work of spreading them thinner.
const TICK_MAX_MIN: u32 = 8 * BATCH;
/// The renewals of a batch of good size.
const BATCH: u32 = 100;
/// The maximum number of ticks that one reservation looks at; bounds its work.
const LOOK_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A third of 30 s in ticks of 50 ms.
    const PERIOD: u64 = 200;

    #[test]
    fn who_is_alone_within_an_eighth_of_its_period_does_not_move() {
        let mut smoothing = Smoothing::new(0);
        for due in (30..=1024).step_by(26) {
            assert_eq!(smoothing.reserve(due, PERIOD, 20_000), due);
        }
        assert_eq!(smoothing.reserve(9_999, PERIOD, 20_000), 9_999, "beyond a revolution");
    }

    /// The number of ticks with renewals in each period, for leases that were granted one per tick.
    fn meetings(leases: u64, periods: usize) -> Vec<usize> {
        let mut smoothing = Smoothing::new(0);
        let mut due: BTreeMap<u64, u64> = (1..=leases).map(|tick| (tick, 1)).collect();
        let mut meetings = Vec::new();
        for _ in 0..periods {
            let mut next: BTreeMap<u64, u64> = BTreeMap::new();
            for (tick, leases) in std::mem::take(&mut due) {
                smoothing.advance(tick);
                for _ in 0..leases {
                    *next.entry(smoothing.reserve(tick + PERIOD, PERIOD, leases as usize)).or_default() += 1;
                }
            }
            assert_eq!(next.values().sum::<u64>(), leases);
            meetings.push(next.len());
            due = next;
        }
        meetings
    }

    #[test]
    fn leases_that_came_one_by_one_meet_in_few_ticks_and_stay_together() {
        let meetings = meetings(PERIOD, 6);
        assert!(meetings[0] <= 9, "of 200 in the first period: {meetings:?}");
        assert!(meetings[5] <= meetings[0], "{meetings:?}");
    }

    #[test]
    fn a_burst_in_one_tick_is_thin_after_some_periods() {
        const LEASES: usize = 100_000;
        let mut smoothing = Smoothing::new(0);
        let mut due: BTreeMap<u64, usize> = BTreeMap::from([(PERIOD, LEASES)]);
        let mut widest = Vec::new();
        for _ in 0..12 {
            let mut next: BTreeMap<u64, usize> = BTreeMap::new();
            for (tick, leases) in std::mem::take(&mut due) {
                smoothing.advance(tick);
                for _ in 0..leases {
                    *next.entry(smoothing.reserve(tick + PERIOD, PERIOD, LEASES)).or_default() += 1;
                }
            }
            widest.push(next.values().copied().max().unwrap_or(0));
            due = next;
        }
        assert!(widest[0] <= LEASES / 20, "the first period: {widest:?}");
        assert!(widest.is_sorted_by(|a, b| a >= b), "thinner each time: {widest:?}");
        assert!(*widest.last().unwrap() <= 1_280, "towards twice the even share of 500: {widest:?}");
    }

    #[test]
    fn a_tick_that_has_passed_is_empty_again() {
        let mut smoothing = Smoothing::new(0);
        for _ in 0..500 {
            smoothing.reserve(50, 8, 0);
        }
        smoothing.advance(60);
        assert_eq!(smoothing.reserve(50 + 1024, PERIOD, 0), 50 + 1024);
        smoothing.advance(1_000_000);
        assert!(smoothing.reserved.iter().all(|reserved| *reserved == 0));
    }

    proptest! {
        #[test]
        fn never_later_never_in_the_past_and_at_most_an_eighth_of_the_period_earlier(
            moves in prop::collection::vec((0..30u64, 0..1500u64, 1..400u64, 0..100_000usize), 1..300)
        ) {
            let mut smoothing = Smoothing::new(0);
            let mut now = 0;
            for (step, ahead, period, leases) in moves {
                now += step;
                smoothing.advance(now);
                let tick = smoothing.reserve(now + ahead, period, leases);
                prop_assert!(tick <= now + ahead && tick + period / 8 >= now + ahead);
                prop_assert!(tick > now || ahead == 0);
            }
        }
    }
}
