//! How many calls, and commands for many calls, may be unanswered at a node, as its answers show. Pure.
//!
//! Rules.
//! - The window follows the round trip without a queue at the node: as many calls as client and server work on meanwhile. A
//!   sample is a command that was sent while nothing was unanswered. The smallest of the last four samples counts, and a faster
//!   answer lowers the last one. The first answer of all is a sample too, and so is what the transport knows of the link.
//! - Under constant load there is no sample, and the round trip may have changed. After 10 s without one, calls wait until
//!   nothing is unanswered. The next command is a sample then.
//! - A node that is slower than the round trip lets expect gets no more calls than it answers in half of their time. A command
//!   that takes longer, and twice the round trip, cuts the number of calls to that. Each command that is answered sooner while
//!   calls wait adds its own calls to the number, so that the number doubles in each round trip.

use std::time::Duration;

use crate::clock::Instant;

/// How many calls, and commands for many calls, may be unanswered at a node.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    samples: [Duration; 4],
    next: usize,
    /// When the last sample was taken. `None`: no round trip is known.
    sampled: Option<Instant>,
    /// How many calls may be unanswered.
    most: usize,
    /// The number of commands that had been sent when `most` was cut last.
    cut_behind: u64,
    /// How long the last command took.
    last_took: Duration,
    /// For tests: [`calls`](Self::calls) and [`groups`](Self::groups).
    #[cfg(test)]
    pub(crate) fixed: Option<(usize, usize)>,
}

/// A command that has a reply, or whose time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The number of the command.
    pub(crate) number: u64,
    /// How many calls were unanswered once it was sent: its own and those of the commands before it.
    pub(crate) unanswered: usize,
    /// How many calls it had.
    pub(crate) calls: usize,
    /// How long it took.
    pub(crate) took: Duration,
    /// How long it might have taken.
    pub(crate) time: Duration,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            samples: [Duration::ZERO; 4],
            next: 0,
            sampled: None,
            most: MOST_FIRST,
            cut_behind: 0,
            last_took: Duration::ZERO,
            #[cfg(test)]
            fixed: None,
        }
    }
}

impl Window {
    /// The maximum number of unanswered calls.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// For tests: as if no command had been late.
    #[cfg(test)]
    pub(crate) fn uncut(&mut self) {
        self.most = usize::MAX / 2;
    }

    /// Below this number of unanswered calls, each call is sent at once, alone.
    pub(crate) fn calls(&self) -> usize {
        #[cfg(test)]
        if let Some((calls, _)) = self.fixed {
            return calls;
        }
        (self.nanos() / NANOS_A_CALL).clamp(CALLS_MIN, CALLS_MAX).min(self.most)
    }

    /// The maximum number of commands for many calls.
    pub(crate) fn groups(&self) -> usize {
        #[cfg(test)]
        if let Some((_, groups)) = self.fixed {
            return groups;
        }
        GROUPS_MIN + self.nanos() / ROUND_TRIP_NANOS_A_GROUP
    }

    /// The round trip without a queue at the node. Zero: not known.
    pub(crate) fn round_trip(&self) -> Duration {
        self.samples.into_iter().min().unwrap_or_default()
    }

    fn nanos(&self) -> usize {
        usize::try_from(self.round_trip().as_nanos()).unwrap_or(usize::MAX)
    }

    /// Takes in a round trip that the transport knows, unless one was measured.
    pub(crate) fn expect(&mut self, round_trip: Duration, now: Instant) {
        if self.sampled.is_none() {
            self.sample(round_trip, now);
        }
    }

    /// Takes in the round trip of a call that was sent while nothing was unanswered.
    pub(crate) fn sample(&mut self, took: Duration, now: Instant) {
        if self.sampled.is_none() {
            self.samples = [took; 4];
        }
        self.next = (self.next + 1) % self.samples.len();
        self.samples[self.next] = took;
        self.sampled = Some(now);
    }

    /// Until when nothing is to be sent, so that the next command is a sample. `None`: calls may be sent.
    pub(crate) fn dry_until(&mut self, unanswered: usize, now: Instant) -> Option<Instant> {
        let due = self.sampled? + SAMPLE_WITHIN;
        let until = due + self.last_took * DRY_ROUND_TRIPS;
        if now < due || unanswered == 0 {
            return None;
        }
        if now >= until {
            self.sampled = Some(now); // one command is not answered for long: another look in 10 s
            return None;
        }
        Some(until)
    }

    /// A command has a reply. `sent`: how many commands were sent until now. `others_wait`: calls wait to be sent.
    pub(crate) fn handle_reply(&mut self, timing: Timing, sent: u64, others_wait: bool, now: Instant) {
        let Timing { unanswered, calls, took, time, .. } = timing;
        self.last_took = took;
        if self.sampled.is_none() || unanswered == calls {
            self.sample(took, now);
        }
        self.samples[self.next] = self.samples[self.next].min(took);
        if took > time / 2 && took > self.round_trip() * 2 {
            self.handle_late(timing, sent);
        } else if others_wait {
            self.most = (self.most + calls).min(MOST_MAX);
        }
    }

    /// A command has taken too long, or has no reply.
    pub(crate) fn handle_late(&mut self, Timing { number, unanswered, took, time, .. }: Timing, sent: u64) {
        if number > self.cut_behind {
            let answered_in_time = unanswered as f64 * time.as_secs_f64() / 2.0 / took.as_secs_f64();
            self.most = (answered_in_time as usize).clamp(MOST_MIN, self.most);
            self.cut_behind = sent;
        }
    }
}

/// About what client and server together need for a command of its own. Measured with 64 and 256 callers on loopback
/// (`--pairs` in `benches/`): with the server's share alone, 4 µs, 64 callers did not gain; with this, 1.4 times as many pairs.
const NANOS_A_CALL: usize = 16_000;
/// With 8, some of 16 callers on loopback waited until eight could go together, and the node had nothing to do meanwhile.
const CALLS_MIN: usize = 16;
const CALLS_MAX: usize = 512;
const GROUPS_MIN: usize = 3;
/// A server works off a group of 128 calls in about this time.
const ROUND_TRIP_NANOS_A_GROUP: usize = 500_000;
/// What a server works off in a round trip of 120 ms, before any answer shows how fast the server is.
const MOST_FIRST: usize = 16_384;
const MOST_MAX: usize = 32_768;
const MOST_MIN: usize = 16;
const SAMPLE_WITHIN: Duration = Duration::from_secs(10);
/// How many times the last round trip calls wait for a sample at most.
const DRY_ROUND_TRIPS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn of(micros: u64) -> Window {
        let mut window = Window::default();
        window.expect(Duration::from_micros(micros), at(0));
        window
    }

    fn timing(unanswered: usize, calls: usize, took: u64) -> Timing {
        let (took, time) = (Duration::from_millis(took), Duration::from_secs(1));
        Timing { number: 1, unanswered, calls, took, time }
    }

    #[test]
    fn a_window_follows_the_round_trip() {
        let window = |micros| (of(micros).calls(), of(micros).groups());
        assert_eq!(window(0), (16, 3));
        assert_eq!(window(320), (20, 3));
        assert_eq!(window(500), (31, 4));
        assert_eq!(window(100_000), (512, 203));
    }

    #[test]
    fn the_first_answer_is_a_sample_and_later_only_what_went_with_nothing_before_it_or_faster() {
        let mut window = Window::default();
        let mut end = |unanswered, took| {
            window.handle_reply(timing(unanswered, 8, took), 9, true, at(1));
            window.round_trip()
        };
        assert_eq!(end(100, 60), Duration::from_millis(60));
        assert_eq!(end(100, 90), Duration::from_millis(60), "it may have waited at the node");
        assert_eq!(end(100, 40), Duration::from_millis(40));
        let grown: Vec<_> = (0..4).map(|_| end(8, 50)).collect();
        assert_eq!(
            grown.last(),
            Some(&Duration::from_millis(50)),
            "the smallest of the last four: {grown:?}"
        );
    }

    #[test]
    fn what_the_transport_knows_counts_until_something_is_measured() {
        let mut window = of(60_000);
        window.expect(Duration::from_millis(5), at(0));
        assert_eq!(window.round_trip(), Duration::from_millis(60));
    }

    #[test]
    fn a_slow_node_gets_what_it_answers_in_half_of_the_time_and_more_once_it_is_faster() {
        let mut window = of(1_000);
        window.handle_reply(timing(2_000, 100, 800), 9, true, at(1));
        assert_eq!(window.most(), 1_250, "it answers 2,500 calls a second");
        window.handle_reply(timing(2_000, 100, 900), 9, true, at(1));
        assert_eq!(window.most(), 1_250, "that command was sent before the number was cut");
        window.handle_reply(timing(1_000, 100, 400), 9, false, at(1));
        assert_eq!(window.most(), 1_250, "no call waits");
        window.handle_reply(timing(1_000, 100, 400), 9, true, at(1));
        assert_eq!(window.most(), 1_350);
        window.handle_reply(Timing { number: 10, ..timing(100, 100, 60_000) }, 10, true, at(1));
        assert_eq!((window.most(), window.calls()), (16, 16), "at least");
    }

    #[test]
    fn a_far_node_is_not_taken_for_a_slow_one() {
        let mut window = of(600_000);
        window.handle_reply(timing(10_000, 100, 900), 9, false, at(1));
        assert_eq!(window.most(), MOST_FIRST);
    }

    #[test]
    fn after_10_s_without_a_sample_calls_wait_until_nothing_is_unanswered_but_not_for_long() {
        let mut window = of(1_000);
        window.handle_reply(timing(50, 8, 5), 9, true, at(1));
        assert_eq!(window.dry_until(50, at(9_999)), None);
        assert_eq!(window.dry_until(50, at(10_000)), Some(at(10_020)));
        assert_eq!(window.dry_until(0, at(10_010)), None, "the next command is a sample");
        assert_eq!(window.dry_until(1, at(10_020)), None, "one command is not answered");
        assert_eq!(window.dry_until(1, at(20_019)), None);
        assert!(window.dry_until(1, at(20_020)).is_some());
    }
}
