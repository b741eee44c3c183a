//! The clocks of the operating system. The head of `clock.rs` says which clock of which system, and why.

#[cfg(unix)]
pub(crate) use self::unix::{boot_nanos, wall_micros};
#[cfg(windows)]
pub(crate) use self::windows::{boot_nanos, wall_micros};

#[cfg(unix)]
mod unix {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTS_SUSPEND: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const COUNTS_SUSPEND: ClockId = ClockId::Monotonic;

    /// Nanoseconds since boot, with the time of each suspend.
    pub(crate) fn boot_nanos() -> u64 {
        let time = clock_gettime(COUNTS_SUSPEND);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Microseconds since 1970.
    pub(crate) fn wall_micros() -> i64 {
        let wall = clock_gettime(ClockId::Realtime);
        wall.tv_sec * 1_000_000 + wall.tv_nsec / 1_000
    }
}

#[cfg(windows)]
mod windows {
    use std::{
        sync::LazyLock,
        time::{Duration, Instant, SystemTime, UNIX_EPOCH},
    };

    /// Nanoseconds since the first call and one day, with the time of each suspend. The day keeps moments that lie
    /// before the first call apart from the origin.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn boot_nanos() -> u64 {
        static FIRST_CALL: LazyLock<Instant> = LazyLock::new(Instant::now);
        let first = *FIRST_CALL;
        u64::try_from((Instant::now().saturating_duration_since(first) + DAY).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Microseconds since 1970.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn wall_micros() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    const DAY: Duration = Duration::from_secs(86_400);
}
