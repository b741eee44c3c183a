//! Where each metric has its cells: worked out from the table of metrics at compile time. Pure.

use crate::metrics::descriptors::{self, ALL, Descriptor, Kind, Unit};

/// The cells of one metric.
#[derive(Debug)]
pub(super) struct CellRange {
    pub(super) metric: &'static Descriptor,
    /// The first of its cells.
    pub(super) first: usize,
    /// How many cells one combination of label values has: for a histogram its buckets and the sum.
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
            if ALL[before].has_class() == metric.has_class() {
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

    // Behind the last bound the others are never passed, so there is always one.
    /// The bucket that a value falls into. From the smallest on: what happens most often is quick.
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

pub(super) const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut byte = 0;
    while byte < one.len() {
        if one[byte] != other[byte] {
            return false;
        }
        byte += 1;
    }
    true
}

const fn total(of_classes: bool) -> usize {
    let (mut total, mut number) = (0, 0);
    while number < ALL.len() {
        if ALL[number].has_class() == of_classes {
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

// Times and shares in billionths, counts as they are.
const fn scale(metric: &Descriptor) -> f64 {
    match (metric.unit, metric.kind) {
        (Unit::None, Kind::Histogram(bounds)) if bounds[0] >= 1.0 => 1.0,
        _ => 1e9,
    }
}

/// Cells of each class.
pub(super) const BY_CLASS: usize = total(true);
/// Cells of what has no class.
pub(super) const OF_ALL: usize = total(false);
const BOUNDS_MAX: usize = 16;

macro_rules! places {
    ($($name:ident)*) => { $(pub(super) static $name: &CellRange = &PLACES[number(&descriptors::$name)];)* };
}
places! {
    ACQUIRE_STARTED ACQUIRES ACQUIRE_WAIT ACQUIRE_CONTENDED ACQUIRE_ATTEMPTS GRANTS_WITHOUT_CALLER HOLD WAKEUPS
    WAKEUP_TO_ACQUIRE RELEASES LEASES_LOST LEASE_LOST_DETECTED LEASE_JEOPARDY RENEWALS RENEW RENEW_BATCH_SIZE
    RENEW_MARGIN RENEW_LATENESS ATTEMPTS_UNKNOWN TTL_SURPRISES PEERS_WITHOUT_EXPIRY SUBSCRIPTION_GAPS
    BACKEND_COMMAND BACKEND_ERRORS BACKEND_RECONNECTS RUNTIME_STALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_metrics_share_a_cell() {
        for of_classes in [true, false] {
            let mut next = 0;
            for place in PLACES.iter().filter(|place| place.metric.has_class() == of_classes) {
                assert_eq!(place.first, next, "{}", place.metric.name);
                next += width(place.metric);
            }
            assert_eq!(next, if of_classes { BY_CLASS } else { OF_ALL });
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
