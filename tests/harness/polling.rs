//! Waiting for a fact, never for a time: look, and look again, until it is true or the deadline has passed.

use std::thread;
use std::time::{Duration, Instant};

/// Looks every few milliseconds until `fact` is true; false if it still is not after `within`.
///
/// It looks at least once, also for a zero `within`. It blocks its thread.
#[must_use]
pub fn holds_within(within: Duration, mut fact: impl FnMut() -> bool) -> bool {
    found_within(within, || fact().then_some(())).is_some()
}

/// Looks every few milliseconds until `search` finds something; `None` if it has not after `within`.
#[must_use]
pub fn found_within<T>(within: Duration, mut search: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = search() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// Short against everything a test measures, long enough to leave two cores to the servers.
const PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_becomes_true_is_found() {
        let mut looks = 0;
        let third_look = || {
            looks += 1;
            looks == 3
        };
        assert!(holds_within(Duration::from_secs(5), third_look));
    }

    #[test]
    fn a_fact_that_stays_false_ends_at_the_deadline_after_at_least_one_look() {
        let mut looks = 0;
        assert!(!holds_within(Duration::ZERO, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1);
    }
}
