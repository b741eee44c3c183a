//! Estimates how far the server's clock is ahead of ours, so that the error is only ever early. Pure.
//!
//! Each reply that carries a server time gives two bounds. The server read its clock after we sent and before we
//! received, so `server time − received ≤ true offset ≤ server time − sent`. The estimate is the largest of the
//! lower bounds of the last minute: a latest execution time translated with it is never later than the moment it
//! stands for, whatever the network did. A server clock that was stepped back shows in two ways, both of which make
//! the older samples worthless: a server time below the highest seen, or an upper bound below the estimate.
//!
//! A proxy may answer `TIME` from its own clock, or send requests to servers whose clocks differ. So a lower bound
//! above the smallest upper bound of the minute is not believed. In that case the estimate is the lower bound that
//! belongs to that upper bound. A server clock that was stepped forward is followed after one minute, or as soon as
//! a request comes too late because of it. Until then the estimate is early by as much as the step.
//!
//! Guarantees page, "Latest execution time".

use std::collections::VecDeque;

use leasehold::clock::Instant;

/// The three times of one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Our clock, before the request was sent.
    pub(crate) sent: Instant,
    /// Our clock, when the reply was received.
    pub(crate) received: Instant,
    /// The server's clock, in µs.
    pub(crate) server_micros: u64,
}

impl Sample {
    /// Returns the lower bound of the server clock's offset to ours, in µs.
    pub(crate) fn offset_micros(&self) -> i64 {
        difference(self.server_micros, self.received)
    }
}

/// The estimate of one connection.
#[derive(Debug, Default)]
pub(crate) struct Offset {
    /// Strictly falling in offset and rising in second, so the front is the largest lower bound of the window.
    seconds: VecDeque<Second>,
    /// Strictly rising in upper bound and in second, so the front is the smallest upper bound of the window.
    ceilings: VecDeque<Ceiling>,
    highest_server_micros: u64,
}

/// The smallest upper bound within one second of our clock, with the lower bound of the same sample.
#[derive(Clone, Copy, Debug)]
struct Ceiling {
    second: u64,
    upper_micros: i64,
    lower_micros: i64,
}

/// The largest lower bound within one second of our clock.
#[derive(Clone, Copy, Debug)]
struct Second {
    second: u64,
    offset_micros: i64,
}

impl Offset {
    /// Takes in the times of a reply.
    pub(crate) fn observe(&mut self, sample: Sample) {
        if self.contradicts(sample) {
            *self = Self::default();
        }
        self.highest_server_micros = self.highest_server_micros.max(sample.server_micros);
        let second = sample.received.as_nanos() / NANOS_PER_SECOND;
        let lower_micros = difference(sample.server_micros, sample.received);
        let upper_micros = difference(sample.server_micros, sample.sent) + ROUNDING_MICROS;
        self.insert(Second { second, offset_micros: lower_micros });
        self.insert_ceiling(Ceiling { second, upper_micros, lower_micros });
        self.expire(second);
    }

    /// Forgets every sample except this one, because the server has answered that a translated time has passed.
    pub(crate) fn restart(&mut self, sample: Sample) {
        *self = Self::default();
        self.observe(sample);
    }

    /// Translates `moment` to the server's clock, in µs. The result is never too late, but may be too early.
    /// `None`: no sample in the last minute.
    pub(crate) fn translate(&mut self, moment: Instant, now: Instant) -> Option<u64> {
        self.expire(now.as_nanos() / NANOS_PER_SECOND);
        let (largest, ceiling) = (self.seconds.front()?.offset_micros, self.ceilings.front()?);
        let offset = if largest <= ceiling.upper_micros { largest } else { ceiling.lower_micros };
        u64::try_from(micros(moment).saturating_add(offset)).ok()
    }

    /// Returns the largest lower bound, in µs, for reports about clocks. `None`: no sample in the last minute.
    pub(crate) fn ahead_micros(&mut self, now: Instant) -> Option<i64> {
        self.expire(now.as_nanos() / NANOS_PER_SECOND);
        Some(self.seconds.front()?.offset_micros)
    }

    fn contradicts(&self, sample: Sample) -> bool {
        let above = |front: &Second| {
            front.offset_micros > difference(sample.server_micros, sample.sent) + ROUNDING_MICROS
        };
        sample.server_micros < self.highest_server_micros || self.seconds.front().is_some_and(above)
    }

    fn insert(&mut self, new: Second) {
        while self.seconds.back().is_some_and(|old| old.offset_micros <= new.offset_micros) {
            self.seconds.pop_back();
        }
        // One entry per second limits the queue to the window, however many replies there are.
        if self.seconds.back().is_none_or(|old| old.second != new.second) {
            self.seconds.push_back(new);
        }
    }

    fn insert_ceiling(&mut self, new: Ceiling) {
        while self.ceilings.back().is_some_and(|old| old.upper_micros >= new.upper_micros) {
            self.ceilings.pop_back();
        }
        if self.ceilings.back().is_none_or(|old| old.second != new.second) {
            self.ceilings.push_back(new);
        }
    }

    fn expire(&mut self, second: u64) {
        while self.ceilings.front().is_some_and(|old| old.second + WINDOW_SECONDS < second) {
            self.ceilings.pop_front();
        }
        while self.seconds.front().is_some_and(|old| old.second + WINDOW_SECONDS < second) {
            self.seconds.pop_front();
        }
    }
}

fn difference(server_micros: u64, ours: Instant) -> i64 {
    i64::try_from(server_micros).unwrap_or(i64::MAX).saturating_sub(micros(ours))
}

fn micros(moment: Instant) -> i64 {
    i64::try_from(moment.as_nanos() / 1_000).unwrap_or(i64::MAX)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const WINDOW_SECONDS: u64 = 60;
// Both clocks are cut to whole µs.
const ROUNDING_MICROS: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: u64 = 1_795_250_671_168_783;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// A reply that took `there` µs to the server and `back` µs from it. The server's clock is `SERVER` ahead.
    fn sample(sent: u64, there: u64, back: u64) -> Sample {
        let executed = sent + there;
        Sample { sent: at(sent), received: at(executed + back), server_micros: SERVER + executed }
    }

    fn translated(offset: &mut Offset, moment: u64, now: u64) -> Option<i64> {
        offset
            .translate(at(moment), at(now))
            .map(|micros| micros.cast_signed() - (SERVER + moment).cast_signed())
    }

    #[test]
    fn without_a_sample_there_is_no_translation() {
        assert_eq!(Offset::default().translate(at(5), at(5)), None);
    }

    #[test]
    fn it_errs_early_by_the_shortest_way_back() {
        let mut offset = Offset::default();
        offset.observe(sample(1_000, 100, 300));
        assert_eq!(translated(&mut offset, 9_000, 5_000), Some(-300));
        offset.observe(sample(2_000, 900, 50));
        assert_eq!(translated(&mut offset, 9_000, 5_000), Some(-50));
        offset.observe(sample(3_000, 0, 70_000));
        assert_eq!(translated(&mut offset, 9_000, 5_000), Some(-50));
    }

    #[test]
    fn a_sample_counts_for_a_minute() {
        let mut offset = Offset::default();
        offset.observe(sample(1_000_000, 100, 10));
        offset.observe(sample(30_000_000, 100, 500));
        assert_eq!(translated(&mut offset, 0, 61_900_000), Some(-10));
        assert_eq!(translated(&mut offset, 0, 62_100_000), Some(-500));
        assert_eq!(translated(&mut offset, 0, 95_000_000), None);
    }

    #[test]
    fn a_clock_that_steps_back_replaces_everything() {
        let mut offset = Offset::default();
        offset.observe(sample(1_000_000, 100, 10));
        let back = |sample: Sample, step| Sample { server_micros: sample.server_micros - step, ..sample };
        // Below the highest server time so far.
        offset.observe(back(sample(1_500_000, 100, 20), 5_000_000));
        assert_eq!(translated(&mut offset, 0, 2_000_000), Some(-5_000_020));
        // Above the highest server time so far, but below what the estimate allows.
        offset.observe(back(sample(1_900_000, 100, 30), 5_200_000));
        assert_eq!(translated(&mut offset, 0, 2_000_000), Some(-5_200_030));
    }

    #[test]
    fn a_clock_that_steps_forward_is_followed_after_a_minute_or_when_a_request_comes_too_late() {
        let ahead = |sample: Sample| Sample { server_micros: sample.server_micros + 7_000_000, ..sample };
        let mut offset = Offset::default();
        offset.observe(sample(1_000_000, 100, 10));
        offset.observe(ahead(sample(1_500_000, 100, 20)));
        assert_eq!(translated(&mut offset, 0, 2_000_000), Some(-10));
        offset.observe(ahead(sample(60_000_000, 100, 20)));
        assert_eq!(translated(&mut offset, 0, 62_100_000), Some(6_999_980));
        let mut offset = Offset::default();
        offset.observe(sample(1_000_000, 100, 10));
        offset.restart(ahead(sample(1_500_000, 100, 20)));
        assert_eq!(translated(&mut offset, 0, 2_000_000), Some(6_999_980));
    }

    #[test]
    fn s5_another_clock_that_answers_now_and_then_does_not_make_a_moment_late() {
        let other = |sample: Sample, by: u64| Sample { server_micros: sample.server_micros + by, ..sample };
        for by in [2_000, 5_000_000] {
            let mut offset = Offset::default();
            offset.observe(other(sample(500_000, 100, 100), by)); // at connect
            for second in 1..300 {
                offset.observe(sample(second * 1_000_000, 100, 100));
                offset.observe(other(sample(second * 1_000_000 + 500_000, 100, 100), by));
                let now = second * 1_000_000 + 600_000;
                assert_eq!(translated(&mut offset, now, now), Some(-100), "{by} {second}");
            }
        }
    }

    #[test]
    fn too_late_restarts_with_the_newest_sample() {
        let mut offset = Offset::default();
        offset.observe(sample(1_000_000, 100, 10));
        offset.restart(sample(1_500_000, 100, 400));
        assert_eq!(translated(&mut offset, 0, 2_000_000), Some(-400));
    }

    #[test]
    fn never_later_than_the_truth_and_never_longer_than_the_window() {
        let mut offset = Offset::default();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for step in 0..200_000_u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            offset.observe(sample(step * 1_000, random % 400, random / 400 % 900));
            let late = translated(&mut offset, step * 1_000, step * 1_000).unwrap();
            assert!(late <= 0 && offset.seconds.len().max(offset.ceilings.len()) <= 62, "{late}");
        }
    }
}
