//! Evens renewals out over ticks, so that leases that were taken or asked about all at once are not renewed all at once
//! ever after, and leases that came one by one are not renewed one by one. Pure.
//!
//! It counts how many renewals each tick of the wheel's next revolution has been promised. A renewal may be pulled
//! forward by an eighth of its period, never back, so no deadline comes closer.
//!
//! - Where its tick is full it goes to the last tick before it that has room; if none has, to the emptiest of those it
//!   looked at. Crowds thin out from period to period.
//! - Where nobody is in its tick it goes to the fullest one before it that has room: a command for fifty leases costs
//!   both sides little more than one for a single lease. A tick that is full draws nobody, so this makes no crowds. What
//!   has met stays together: the next time they are due in one tick.
//!
//! While they move there are at most an eighth more renewals.

/// The promises of one shard.
#[derive(Debug)]
pub(crate) struct Smoothing {
    reserved: Box<[u32]>,
    /// Ticks up to here have passed.
    tick: u64,
}

impl Smoothing {
    pub(crate) fn new(tick: u64) -> Self {
        Self { reserved: vec![0; TICKS].into(), tick }
    }

    /// Moves on: the ticks that have passed are empty again, for the next revolution.
    pub(crate) fn advance(&mut self, tick: u64) {
        for passed in (self.tick + 1..=tick).take(TICKS) {
            self.reserved[place(passed)] = 0;
        }
        self.tick = self.tick.max(tick);
    }

    /// Promises a tick to a renewal that would be due at tick `due` and has a period of `period` ticks; `leases` is how
    /// many the shard has. A tick further away than a revolution is not counted, and so not moved.
    pub(crate) fn reserve(&mut self, due: u64, period: u64, leases: usize) -> u64 {
        if due <= self.tick || due > self.tick + TICKS as u64 {
            return due;
        }
        let room = room(period, leases);
        let earliest = due.saturating_sub(period / 8).max(self.tick + 1);
        let tick = match self.count(due) {
            0 => self.fuller(earliest, due, room),
            count if count < room => due,
            _ => self.emptier(earliest, due, room),
        };
        self.reserved[place(tick)] += 1;
        tick
    }

    /// A renewal that was promised this tick will not be made in it.
    pub(crate) fn release(&mut self, due: u64) {
        if due > self.tick && due <= self.tick + TICKS as u64 {
            let reserved = &mut self.reserved[place(due)];
            *reserved = reserved.saturating_sub(1);
        }
    }

    // The fullest with room; of several the latest, which is `due` where nobody is.
    fn fuller(&self, earliest: u64, due: u64, room: u32) -> u64 {
        let with_room = candidates(earliest, due).filter(|tick| self.count(*tick) < room);
        with_room.max_by_key(|tick| (self.count(*tick), *tick)).unwrap_or(due)
    }

    // The first with room, going back; else the emptiest of a bounded look.
    fn emptier(&self, earliest: u64, due: u64, room: u32) -> u64 {
        let with_room = candidates(earliest, due).find(|tick| self.count(*tick) < room);
        with_room.or_else(|| candidates(earliest, due).min_by_key(|tick| self.count(*tick))).unwrap_or(due)
    }

    fn count(&self, tick: u64) -> u32 {
        self.reserved[place(tick)]
    }
}

fn candidates(earliest: u64, due: u64) -> impl Iterator<Item = u64> {
    (earliest..=due).rev().take(LOOK_MAX)
}

/// What a tick may have before it counts as full: one good batch, or twice its even share.
fn room(period: u64, leases: usize) -> u32 {
    let share = (leases as u64 / period.max(1)).saturating_mul(2);
    u32::try_from(share).unwrap_or(u32::MAX).max(ROOM_MIN)
}

fn place(tick: u64) -> usize {
    (tick % TICKS as u64) as usize
}

/// As many as the wheel has buckets.
const TICKS: usize = 1024;
const ROOM_MIN: u32 = 100;
/// Bounds the work of one promise.
const LOOK_MAX: usize = 64;

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

    /// How many ticks have renewals in each period, of leases that came one in each tick.
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
    fn a_crowd_in_one_tick_is_thin_after_some_periods() {
        const LEASES: usize = 12_500; // one of eight shards of 100,000
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
        assert!(*widest.last().unwrap() <= 160, "towards twice the even share of 62: {widest:?}");
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
