//! Points on the boot-time clock, which engines, windows and this test share.

use std::time::Duration;

use leasehold_tests::harness::recorder::boot_ns;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(boot_ns())
    }

    /// Zero if it lies ahead.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// Zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0 + u64::try_from(time.as_nanos()).expect("a short time"))
    }
}

impl From<leasehold::clock::Instant> for Moment {
    fn from(instant: leasehold::clock::Instant) -> Self {
        Self(instant.as_nanos())
    }
}

impl From<std::time::Instant> for Moment {
    fn from(instant: std::time::Instant) -> Self {
        let ago = u64::try_from(instant.elapsed().as_nanos()).expect("a short time");
        Self(Self::now().0 - ago)
    }
}
