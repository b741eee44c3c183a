//! Where a connection is served: by the task of the link, or by a task on a runtime of its callers. Pure.

use std::time::Duration;

use leasehold::clock::Instant;

use super::requests::Look;

/// `R` names a runtime.
#[derive(Debug)]
pub(super) struct Stage<R> {
    now: Now<R>,
    /// How many tasks were asked for. The last one has this number.
    asked: u64,
    /// How long the link serves the connection itself after the next time that the callers' runtime does not keep up.
    rest: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Now<R> {
    /// The task of the link serves the connection, and calls are not counted.
    Stays,
    /// The task of the link serves the connection. So many calls in a row came from this runtime since this moment.
    Counts { from: Option<R>, calls: u64, since: Instant },
    /// The same, until a task on the callers' runtime begins.
    Asked,
    /// A task on the callers' runtime serves the connection.
    Follows,
}

/// Why the link takes the connection back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recall {
    /// Replies lay unread.
    Late,
    /// Few calls came for a while.
    Quiet,
}

impl<R> Default for Stage<R> {
    fn default() -> Self {
        Self { now: Now::Stays, asked: 0, rest: REST_MIN }
    }
}

impl<R: PartialEq> Stage<R> {
    /// From now on calls are counted.
    pub(super) fn count(&mut self) {
        if self.now == Now::Stays {
            self.now = Now::counts();
        }
    }

    /// Counts a call from another runtime than the link's. Returns the number of the task that is to serve the connection
    /// there.
    pub(super) fn note_call(&mut self, runtime: R, now: Instant) -> Option<u64> {
        let Now::Counts { from, calls, since } = &mut self.now else { return None };
        if from.as_ref() == Some(&runtime) && now - *since <= CALLS_WITHIN {
            *calls += 1;
        } else {
            (*from, *calls, *since) = (Some(runtime), 1, now);
        }
        if *calls < CALLS_MIN {
            return None;
        }
        (self.now, self.asked) = (Now::Asked, self.asked + 1);
        Some(self.asked)
    }

    /// The task with this number begins. `false`: it is not wanted any more.
    pub(super) fn begin(&mut self, number: u64) -> bool {
        let begins = self.now == Now::Asked && number == self.asked;
        if begins {
            self.now = Now::Follows;
        }
        begins
    }

    /// The task with this number has ended. Returns whether it is to be replaced by the link's.
    pub(super) fn end(&mut self, number: u64) -> bool {
        let is_wanted = self.is_wanted(number);
        if is_wanted {
            self.now = Now::counts();
        }
        is_wanted
    }

    /// Whether the task with this number serves the connection, or is to begin.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        matches!(self.now, Now::Asked | Now::Follows) && number == self.asked
    }

    /// The link takes the connection back. Returns for how long calls are not counted; then [`count`](Self::count) is to be
    /// called.
    pub(super) fn recall(&mut self, why: Recall, followed_for: Duration) -> Duration {
        self.now = Now::Stays;
        if why == Recall::Quiet {
            return Duration::ZERO;
        }
        let rest = if followed_for >= REST_MAX { REST_MIN } else { self.rest };
        self.rest = (2 * rest).min(REST_MAX);
        rest
    }

    /// No task will serve the connection on a runtime of the callers.
    #[cfg(test)]
    pub(super) fn stay(&mut self) {
        self.now = Now::Stays;
    }

    pub(super) fn follows(&self) -> bool {
        self.now == Now::Follows
    }
}

impl<R> Now<R> {
    fn counts() -> Self {
        Self::Counts { from: None, calls: 0, since: Instant::default() }
    }
}

/// What two looks say, one after the other. A reply or a request that came between them has waited for an unknown time.
impl Look {
    /// Requests have waited since the look before, and no reply was handled.
    pub(super) fn reads_nothing_since(self, before: Self) -> bool {
        before.unanswered > 0 && self.answered == before.answered
    }

    /// Bytes have waited since the look before, and none were written.
    pub(super) fn writes_nothing_since(self, before: Self) -> bool {
        before.has_unwritten && self.has_unwritten && self.written == before.written
    }

    /// So few calls came since the look before, [`CALLS_WITHIN`] ago, that a task on the callers' runtime is not worth its looks.
    pub(super) fn is_quiet_since(self, before: Self) -> bool {
        self.called - before.called < CALLS_MIN
    }
}

/// So a runtime that calls now and then is not bothered.
const CALLS_MIN: u64 = 32;
/// In this time.
pub(super) const CALLS_WITHIN: Duration = Duration::from_secs(1);
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Recall = Recall::Late;

    fn counting() -> Stage<u8> {
        let mut stage = Stage::default();
        stage.count();
        stage
    }

    fn call(stage: &mut Stage<u8>, runtime: u8, times: u64) -> Option<u64> {
        (0..times).filter_map(|_| stage.note_call(runtime, Instant::default())).last()
    }

    fn following() -> (Stage<u8>, u64) {
        let mut stage = counting();
        let number = call(&mut stage, 1, CALLS_MIN).expect("enough calls");
        assert!(stage.begin(number));
        (stage, number)
    }

    #[test]
    fn a_connection_follows_many_calls_in_a_row_of_one_runtime() {
        let mut stage = counting();
        assert_eq!(call(&mut stage, 1, CALLS_MIN - 1), None);
        assert_eq!(call(&mut stage, 2, CALLS_MIN - 1), None, "another runtime counts from the start");
        assert_eq!(call(&mut stage, 2, 1), Some(1));
        assert_eq!(call(&mut stage, 2, CALLS_MIN), None, "a task was asked for");
        assert!(!stage.follows());
        assert!(stage.begin(1) && stage.follows());
    }

    #[test]
    fn it_stays_if_calls_are_few_for_their_time() {
        let (mut stage, pause) = (counting(), CALLS_WITHIN / 30);
        let asked = (0..500_u32).find_map(|turn| stage.note_call(1, Instant::default() + turn * pause));
        assert_eq!(asked, None);
        let asked = (0..500_u32).find_map(|turn| stage.note_call(1, Instant::default() + turn * pause / 2));
        assert_eq!(asked, Some(1));
        let look = |called| Look { called, ..Look::default() };
        assert!(look(131).is_quiet_since(look(100)) && !look(132).is_quiet_since(look(100)));
    }

    #[test]
    fn it_stays_where_calls_are_not_counted() {
        let mut stage = Stage::default();
        assert_eq!(call(&mut stage, 1, 10 * CALLS_MIN), None);
        let mut stage = counting();
        stage.stay();
        assert_eq!(call(&mut stage, 1, 10 * CALLS_MIN), None);
    }

    #[test]
    fn only_the_last_task_that_was_asked_for_serves() {
        let (mut stage, first) = following();
        stage.recall(LATE, Duration::ZERO);
        assert!(!stage.follows());
        assert!(!stage.begin(first), "it comes too late");
        stage.count();
        let second = call(&mut stage, 1, CALLS_MIN).expect("enough calls");
        assert!(!stage.end(first), "the connection was taken back from it before");
        assert!(!stage.is_wanted(first) && stage.is_wanted(second));
        assert!(stage.begin(second));
        assert!(!stage.end(first) && stage.follows());
        assert!(stage.end(second) && !stage.follows());
        assert_eq!(call(&mut stage, 1, CALLS_MIN), Some(3), "calls are counted again");
    }

    #[test]
    fn a_task_that_ends_before_it_has_begun_is_asked_for_again() {
        let mut stage = counting();
        let number = call(&mut stage, 1, CALLS_MIN).expect("enough calls");
        assert!(stage.end(number));
        assert!(!stage.begin(number));
        assert_eq!(call(&mut stage, 1, CALLS_MIN), Some(number + 1));
    }

    #[test]
    fn the_rest_doubles_up_to_a_minute_and_is_short_again_after_a_minute_of_service() {
        let (mut stage, _) = following();
        let rests: Vec<u64> = (0..8).map(|_| stage.recall(LATE, Duration::ZERO).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(stage.recall(LATE, REST_MAX).as_secs(), 1);
        assert_eq!(stage.recall(Recall::Quiet, Duration::ZERO), Duration::ZERO);
        assert_eq!(stage.recall(LATE, Duration::ZERO).as_secs(), 2);
    }

    #[test]
    fn requests_and_bytes_that_have_waited_since_the_look_before_stand() {
        let look = |answered, unanswered| Look { answered, unanswered, ..Look::default() };
        for (before, now, stands) in [
            (look(5, 0), look(5, 0), false),
            (look(5, 0), look(5, 2), false),
            (look(5, 2), look(5, 2), true),
            (look(5, 2), look(5, 3), true),
            (look(5, 2), look(6, 2), false),
            (look(5, 2), look(7, 0), false),
        ] {
            assert_eq!(now.reads_nothing_since(before), stands, "{before:?} {now:?}");
        }
        let look = |written, has_unwritten| Look { written, has_unwritten, ..Look::default() };
        for (before, now, stands) in [
            (look(5, true), look(5, true), true),
            (look(5, true), look(6, true), false),
            (look(5, false), look(5, true), false),
            (look(5, true), look(6, false), false),
        ] {
            assert_eq!(now.writes_nothing_since(before), stands, "{before:?} {now:?}");
        }
    }
}
