//! How long contenders waited: counts in buckets that are about 6 % wide, so a run of any length costs the same.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Per power of two of microseconds, 16 buckets.
pub(crate) struct Waits {
    buckets: Vec<AtomicU64>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Waits {
    pub(crate) fn add(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The wait, in milliseconds, that this share of all waits did not exceed; `None` before the first.
    pub(crate) fn quantile_ms(&self, share: f64) -> Option<f64> {
        let mut left = (self.count() as f64 * share).ceil().max(1.0) as u64;
        for (number, bucket) in self.buckets.iter().enumerate() {
            let here = bucket.load(Ordering::Relaxed);
            if here >= left {
                return Some(highest(number) as f64 / 1_000.0);
            }
            left -= here;
        }
        None
    }
}

// Below 16 µs each microsecond has its bucket; above, the four bits behind the leading one choose.
fn bucket(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let step = (micros >> (power - STEP_BITS)) - STEPS;
    ((power - STEP_BITS + 1) * STEPS + step) as usize
}

fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((u128::from(STEPS + step + 1) << shift) - 1) as u64
}

const STEP_BITS: u64 = 4;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = ((64 - STEP_BITS + 1) * STEPS) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_lies_in_a_bucket_at_most_a_sixteenth_above_it() {
        for micros in (0..2_000).chain([65_535, 65_536, 1_000_003, u64::MAX / 2, u64::MAX]) {
            let shown = highest(bucket(micros));
            assert!(shown >= micros && shown - micros <= micros / 16, "{micros} is shown as {shown}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let waits = Waits::default();
        assert_eq!(waits.quantile_ms(0.5), None);
        (1..=100).for_each(|ms| waits.add(Duration::from_millis(ms)));
        let near = |share, ms: f64| {
            let shown = waits.quantile_ms(share).expect("waits");
            assert!((ms..=ms * 1.07).contains(&shown), "{share}: {shown} is not {ms}");
        };
        near(0.5, 50.0);
        near(0.99, 99.0);
        near(1.0, 100.0);
    }
}
