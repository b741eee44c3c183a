//! A duration in half the space, for values that are kept a hundred thousand times.

use std::time::Duration;

/// Whole nanoseconds, at most 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_what_it_was_made_of_and_what_is_longer_than_any_is_the_longest() {
        let ttl = Duration::new(30, 123_456_789);
        assert_eq!((Span::from(ttl).get(), size_of::<Span>()), (ttl, 8));
        assert_eq!(Span::from(Duration::MAX).get(), Duration::from_nanos(u64::MAX));
    }
}
