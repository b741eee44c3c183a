//! The pause after an attempt at a quorum that failed. Pure.
//!
//! The pause lasts 10 to 200 ms, at random. A notice that a member was released ends it, but not before a random time
//! of 1 to 2^failures ms. Without the second bound all contenders would begin again with the same notice and share the
//! members among them again and again.

use std::time::Duration;

/// The pauses of one caller.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    failures: u32,
    random: u64,
}

/// One pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Before this time is over nothing ends the pause.
    pub(super) quiet: Duration,
    /// The length of the pause if no notice comes.
    pub(super) longest: Duration,
}

impl Backoff {
    /// `seed`: any number that differs from caller to caller and from process to process.
    pub(super) fn new(seed: u64) -> Self {
        Self { failures: 0, random: seed }
    }

    /// The pause after one more attempt that failed.
    pub(super) fn next(&mut self) -> Pause {
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        let quiet = self.between(MILLISECOND, MILLISECOND << self.failures);
        let longest = self.between(PAUSE_MIN, PAUSE_MAX).max(quiet);
        Pause { quiet: Duration::from_micros(quiet), longest: Duration::from_micros(longest) }
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next_random() % (most - least + 1)
    }

    // SplitMix64 (Steele, Lea, Flood 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Microseconds.
const MILLISECOND: u64 = 1_000;
const PAUSE_MIN: u64 = 10 * MILLISECOND;
const PAUSE_MAX: u64 = 200 * MILLISECOND;
/// 128 ms, below the longest pause.
const FAILURES_MAX: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_10_to_200_ms_and_its_quiet_time_doubles() {
        let millis = Duration::from_millis;
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            for failures in 1..20_u32 {
                let pause = backoff.next();
                assert!(pause.longest >= millis(10) && pause.longest <= millis(200), "{pause:?}");
                let most = millis(1 << failures.min(7));
                assert!(pause.quiet >= millis(1) && pause.quiet <= most, "{failures}: {pause:?}");
                assert!(pause.quiet <= pause.longest, "{pause:?}");
            }
        }
    }

    #[test]
    fn callers_with_different_seeds_pause_differently() {
        let pauses: std::collections::BTreeSet<_> =
            (0..100).map(|seed| Backoff::new(seed).next().longest).collect();
        assert!(pauses.len() > 90, "{}", pauses.len());
    }

    /// One of many contenders for three members, in rounds of 1 ms.
    struct Contender {
        backoff: Backoff,
        again_at: u64,
    }

    // All contenders try at their time; each takes the members that are free, in an order of its own, as commands
    // arrive. The lock is released at once when it is had, so every pause ends with a notice.
    fn rounds_for_each_grant(contenders: usize, seed: u64, doubles: bool) -> f64 {
        let mut all: Vec<_> = (0..contenders as u64)
            .map(|number| Contender { backoff: Backoff::new(seed * 1_000 + number), again_at: 0 })
            .collect();
        let (mut rounds, mut grants) = (0_u32, 0_u32);
        let mut arrival = Backoff::new(seed ^ 0xABCD);
        for now in 0..20_000_u64 {
            let mut trying: Vec<_> = (0..all.len()).filter(|place| all[*place].again_at == now).collect();
            trying.sort_by_key(|_| arrival.next_random());
            let mut taken: Vec<Vec<usize>> = vec![vec![]; all.len()];
            for _member in 0..3 {
                if !trying.is_empty() {
                    taken[trying[arrival.next_random() as usize % trying.len()]].push(0);
                }
            }
            for place in trying {
                rounds += 1;
                let contender = &mut all[place];
                if taken[place].len() >= 2 {
                    grants += 1;
                    contender.backoff.failures = 0;
                }
                let pause = contender.backoff.next();
                if !doubles {
                    contender.backoff.failures = 0;
                }
                contender.again_at = now + 1 + pause.quiet.as_millis() as u64;
            }
        }
        assert!(grants > 0, "nobody was ever granted: seed {seed}");
        f64::from(rounds) / f64::from(grants)
    }

    #[test]
    fn eight_contenders_need_few_rounds_for_a_grant_because_the_quiet_time_doubles() {
        let mean = |doubles| (1..=10).map(|seed| rounds_for_each_grant(8, seed, doubles)).sum::<f64>() / 10.0;
        let (doubling, constant) = (mean(true), mean(false));
        assert!(doubling < 8.0, "{doubling} rounds for a grant");
        assert!(constant > 1.5 * doubling, "{constant} without, {doubling} with");
    }
}
