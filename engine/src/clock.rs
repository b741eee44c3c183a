//! The engine's clock: the only place that reads a clock.
//!
//! `Instant` continues while the machine is suspended, because a lease on the server continues to run out too.
//! `std::time::Instant` stops during suspend on Linux and macOS, so an ended lease would still look held.
//!
//! | system | clock | why it counts the time of a suspend |
//! |---|---|---|
//! | Linux, Android | `CLOCK_BOOTTIME` | that is its difference from `CLOCK_MONOTONIC`: clock_gettime(2) |
//! | macOS | `CLOCK_MONOTONIC` | Apple's clock_gettime(3): it increments while the system is asleep |
//! | Windows | `QueryPerformanceCounter` | Microsoft's page of that function: standby and hibernation are included |
//!
//! A suspend is tested on none of them. The rows for macOS and Windows were compiled and not run.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::system_clock;

/// A moment on the engine's own clock, in nanoseconds. Moments of different machines cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// A moment by its number of nanoseconds; for pure tests and for storage in an atomic.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self - time`, but never before the origin.
    pub fn before(self, time: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(time)))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates: `now + Duration::MAX` is a moment that never comes.
    fn add(self, time: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(time)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", Duration::from_nanos(self.0).as_secs_f64())
    }
}

// Computes in 64 bits, because `as_nanos` computes in 128 bits and makes every sum slower.
const fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

/// The clock that an engine reads. The builder chooses it once: boot time with the engine's own threads, or tokio's
/// clock (which tests can pause) on the caller's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The system's clock that continues during suspend: `CLOCK_BOOTTIME` on Linux. The table at the head of this
    /// module has the others.
    Boot,
    /// tokio's clock: stops under `tokio::time::pause`. Readable only inside a tokio runtime.
    Tokio,
}

impl Clock {
    /// The present moment.
    pub fn now(self) -> Instant {
        match self {
            Clock::Boot => Instant(system_clock::boot_nanos()),
            Clock::Tokio => tokio_now(),
        }
    }

    /// How many microseconds the wall clock of this machine is ahead of this clock. The engine decides nothing by it.
    pub(crate) fn wall_ahead_micros(self) -> i64 {
        let wall = system_clock::wall_micros();
        let ours = i64::try_from(self.now().as_nanos() / 1_000).unwrap_or(i64::MAX);
        wall.saturating_sub(ours)
    }

    /// The wall-clock time of a moment, by the difference of the two clocks now.
    pub(crate) fn system_time(self, moment: Instant) -> SystemTime {
        let since_boot = Duration::from_nanos(moment.as_nanos());
        let ahead = self.wall_ahead_micros();
        let boot = match ahead.is_negative() {
            false => UNIX_EPOCH + Duration::from_micros(ahead.unsigned_abs()),
            true => UNIX_EPOCH - Duration::from_micros(ahead.unsigned_abs()),
        };
        boot.checked_add(since_boot).unwrap_or(boot)
    }

    /// Sleeps until `moment`; returns at once if it has passed. Needs a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future ends the sleep and nothing else.
    pub async fn sleep_until(self, moment: Instant) {
        tokio::time::sleep(moment.since(self.now())).await;
    }
}

// A paused tokio clock may show an earlier moment than the one at which this origin is taken. So the origin is set one
// day back.
#[allow(clippy::disallowed_methods)]
fn tokio_now() -> Instant {
    static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(|| {
        let now = std::time::Instant::now();
        now.checked_sub(DAY).unwrap_or(now)
    });
    Instant::default() + tokio::time::Instant::now().into_std().saturating_duration_since(*ORIGIN)
}

/// Whether tokio's clock is paused: it does not move while real time does.
#[allow(clippy::disallowed_methods)]
pub(crate) fn tokio_clock_is_paused() -> bool {
    let (real, virtual_) = (std::time::Instant::now(), tokio::time::Instant::now());
    while real.elapsed() < PAUSE_PROBE {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == virtual_
}

const DAY: Duration = Duration::from_secs(86_400);
const PAUSE_PROBE: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let moment = Instant::from_nanos(5);
        assert_eq!(moment + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(moment.before(Duration::from_secs(1)), Instant::from_nanos(0));
        assert_eq!(Instant::from_nanos(3) - moment, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_moves_with_paused_time() {
        let before = Clock::Tokio.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(Clock::Tokio.now() - before, Duration::from_secs(3));
        assert!(tokio_clock_is_paused());
    }

    #[test]
    fn the_wall_clock_time_of_now_is_now_and_of_later_is_later() {
        let now = Clock::Boot.now();
        let shown = Clock::Boot.system_time(now);
        let apart = shown.elapsed().unwrap_or_else(|ahead| ahead.duration());
        assert!(apart < Duration::from_secs(60), "{apart:?}");
        let later = Clock::Boot.system_time(now + Duration::from_secs(3_600));
        assert!(later.duration_since(shown).unwrap() > Duration::from_secs(3_500));
        assert!(Clock::Boot.system_time(Instant::from_nanos(u64::MAX)) > later);
    }

    #[tokio::test]
    async fn a_running_clock_is_not_taken_for_a_paused_one() {
        assert!(!tokio_clock_is_paused());
        assert!(Clock::Boot.now() > Instant::from_nanos(0));
    }
}
