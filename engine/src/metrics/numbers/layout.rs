//! The place of each metric's cells, computed from the table of metrics at compile time. Pure.

use crate::metrics::descriptors::{self, ALL, Descriptor, Kind, Unit, is_same};

/// The cells of one metric.
#[derive(Debug)]
pub(super) struct CellRange {
    pub(super) metric: &'static Descriptor,
    /// The first of its cells.
    pub(super) first: usize,
    /// The number of cells of one combination of label values: for a histogram its buckets and its sum.
    pub(super) step: usize,
    /// Buckets, infinity included; 1 for a counter.
    pub(super) buckets: usize,
    bounds: [u64; BOUNDS_MAX],
    scale: f64,
}

impl CellRange {
    const fn of(number: usize) -> Self {
        let metric = &ALL[number];
        let (mut first, mut before) = (0, 0);
        while before < number {
            if ALL[before].is_of_lock() == metric.is_of_lock() {
                first += width(&ALL[before]);
            }
            before += 1;
        }
        let (scale, buckets) = (scale(metric), buckets(metric));
        let mut bounds = [u64::MAX; BOUNDS_MAX];
        if let Kind::Histogram(from) = metric.kind {
            let mut bound = 0;
            while bound < from.len() {
                bounds[bound] = (from[bound] * scale + 0.5) as u64;
                bound += 1;
            }
        }
        Self { metric, first, step: step(metric), buckets, bounds, scale }
    }

    // The bounds behind the last one are u64::MAX, so there is always a bucket.
    /// The bucket that a value falls into. The search begins at the smallest bound, because most values are small.
    #[inline(always)]
    pub(super) fn bucket(&self, value: u64) -> usize {
        self.bounds.iter().position(|bound| value <= *bound).unwrap_or(BOUNDS_MAX)
    }

    pub(super) fn unscaled(&self, value: u64) -> f64 {
        value as f64 / self.scale
    }
}

/// The place of a metric.
pub(super) fn find(metric: &Descriptor) -> &'static CellRange {
    PLACES.iter().find(|place| place.metric.name == metric.name).expect("every metric has a place")
}

pub(super) static PLACES: [CellRange; ALL.len()] = {
    let mut places = [const { CellRange::of(0) }; ALL.len()];
    let mut number = 0;
    while number < ALL.len() {
        places[number] = CellRange::of(number);
        number += 1;
    }
    places
};

/// The number of a metric in the table, found at compile time.
const fn number(metric: &Descriptor) -> usize {
    let mut number = 0;
    while !is_same(ALL[number].name, metric.name) {
        number += 1;
    }
    number
}

const fn total(of_lock: bool) -> usize {
    let (mut total, mut number) = (0, 0);
    while number < ALL.len() {
        if ALL[number].is_of_lock() == of_lock {
            total += width(&ALL[number]);
        }
        number += 1;
    }
    total
}

const fn width(metric: &Descriptor) -> usize {
    match metric.kind {
        Kind::Gauge => 0,
        Kind::Counter | Kind::Histogram(_) => step(metric) * metric.combinations(),
    }
}

const fn step(metric: &Descriptor) -> usize {
    match metric.kind {
        Kind::Gauge | Kind::Counter => 1,
        Kind::Histogram(bounds) => bounds.len() + 2,
    }
}

const fn buckets(metric: &Descriptor) -> usize {
    match metric.kind {
        Kind::Gauge | Kind::Counter => 1,
        Kind::Histogram(bounds) => bounds.len() + 1,
    }
}

// Times and shares are kept in billionths, counts as they are.
const fn scale(metric: &Descriptor) -> f64 {
    match (metric.unit, metric.kind) {
        (Unit::None, Kind::Histogram(bounds)) if bounds[0] >= 1.0 => 1.0,
        _ => 1e9,
    }
}

/// The number of cells of one class and kind.
pub(super) const OF_LOCK: usize = total(true);
/// The number of cells of metrics without class and kind.
pub(super) const OF_ENGINE: usize = total(false);
const BOUNDS_MAX: usize = 16;

macro_rules! places {
    ($($name:ident)*) => { $(pub(super) static $name: &CellRange = &PLACES[number(&descriptors::$name)];)* };
}
places! {
    ACQUIRE_STARTED ACQUIRES ACQUIRE_WAIT ACQUIRE_CONTENDED ACQUIRE_ATTEMPTS GRANTS_WITHOUT_CALLER COMPOSITION_ACQUIRES HOLD
    WAKEUPS
    WAKEUP_TO_ACQUIRE RELEASES LEASES_LOST LEASE_LOST_DETECTED LEASE_JEOPARDY RENEWALS RENEW RENEW_BATCH_SIZE
    RENEW_MARGIN RENEW_LATENESS ATTEMPTS_UNKNOWN TTL_SURPRISES PEERS_WITHOUT_EXPIRY PLACES_LOST SUBSCRIPTION_GAPS
    BACKEND_COMMAND BACKEND_ERRORS BACKEND_RECONNECTS RUNTIME_STALL COUNTER_CALLS COUNTER_WAIT
    GROUP_COMMIT_SIZE TERMS_BEGUN TERMS_ENDED JOB_RUNS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_metrics_share_a_cell() {
        for of_lock in [true, false] {
            let mut next = 0;
            for place in PLACES.iter().filter(|place| place.metric.is_of_lock() == of_lock) {
                assert_eq!(place.first, next, "{}", place.metric.name);
                next += width(place.metric);
            }
            assert_eq!(next, if of_lock { OF_LOCK } else { OF_ENGINE });
        }
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let bucket = |nanos| ACQUIRE_WAIT.bucket(nanos);
        assert_eq!([0, 500_000, 500_001, 1_000_000].map(bucket), [0, 0, 1, 1]);
        assert_eq!([60_000_000_000, 60_000_000_001, u64::MAX].map(bucket), [15, 16, 16]);
        assert_eq!([1, 2, 1_000, 1_001].map(|members| RENEW_BATCH_SIZE.bucket(members)), [0, 1, 9, 10]);
    }
}
