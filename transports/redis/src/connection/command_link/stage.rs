//! Where a connection is served: by the task of the link, or by a task on a runtime of its callers. Pure.

use std::time::Duration;

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
    /// The task of the link serves the connection, whoever calls.
    Stays,
    /// The task of the link serves the connection. So many calls in a row came from this runtime.
    Counts { from: Option<R>, calls: u32 },
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
    /// No request came for long.
    Quiet,
}

/// What two looks, one after the other, have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No request waits, and no reply came.
    Quiet,
    Moves,
    /// Requests have waited since the look before, and no reply was handled.
    Stands,
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
            self.now = Now::Counts { from: None, calls: 0 };
        }
    }

    /// Counts a call from another runtime than the link's. Returns the number of the task that is to serve the connection
    /// there.
    pub(super) fn note_call(&mut self, runtime: R) -> Option<u64> {
        let Now::Counts { from, calls } = &mut self.now else { return None };
        let is_same = from.as_ref() == Some(&runtime);
        (*from, *calls) = (Some(runtime), if is_same { *calls + 1 } else { 1 });
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
        let is_present = matches!(self.now, Now::Asked | Now::Follows) && number == self.asked;
        if is_present {
            self.now = Now::Counts { from: None, calls: 0 };
        }
        is_present
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
    pub(super) fn stay(&mut self) {
        self.now = Now::Stays;
    }

    pub(super) fn follows(&self) -> bool {
        self.now == Now::Follows
    }
}

impl Progress {
    pub(super) fn between(before: Look, now: Look) -> Self {
        match (now.answered != before.answered, before.unanswered, now.unanswered) {
            (true, ..) => Self::Moves,
            (false, 0, 0) => Self::Quiet,
            (false, 0, _) => Self::Moves, // of these nobody knows how long they have waited
            (false, ..) => Self::Stands,
        }
    }
}

/// So a runtime that calls now and then is not bothered.
const CALLS_MIN: u32 = 32;
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

    fn call(stage: &mut Stage<u8>, runtime: u8, times: u32) -> Option<u64> {
        (0..times).filter_map(|_| stage.note_call(runtime)).last()
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
    fn requests_stand_that_have_waited_since_the_look_before() {
        let look = |answered, unanswered| Look { answered, unanswered };
        for (before, now, expected) in [
            (look(5, 0), look(5, 0), Progress::Quiet),
            (look(5, 0), look(5, 2), Progress::Moves),
            (look(5, 2), look(5, 2), Progress::Stands),
            (look(5, 2), look(5, 3), Progress::Stands),
            (look(5, 2), look(6, 2), Progress::Moves),
            (look(5, 2), look(7, 0), Progress::Moves),
        ] {
            assert_eq!(Progress::between(before, now), expected, "{before:?} {now:?}");
        }
    }
}
