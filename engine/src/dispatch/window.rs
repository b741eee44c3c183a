//! How many calls, and commands for many calls, may be unanswered at a node. Pure.

use std::time::Duration;

/// How many calls, and commands for many calls, may be unanswered at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Below this number of unanswered calls, each call is sent at once, alone.
    pub(crate) calls: usize,
    /// The maximum number of commands for many calls.
    pub(crate) groups: usize,
}

impl Window {
    /// For a round trip without a queue at the node: as many calls as client and server work on meanwhile.
    pub(crate) fn of_round_trip(round_trip: Duration) -> Self {
        let nanos = usize::try_from(round_trip.as_nanos()).unwrap_or(usize::MAX);
        Self {
            calls: (nanos / NANOS_A_CALL).clamp(CALLS_MIN, CALLS_MAX),
            groups: (GROUPS_MIN + nanos / ROUND_TRIP_NANOS_A_GROUP).min(GROUPS_MAX),
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
const GROUPS_MAX: usize = 16;
const ROUND_TRIP_NANOS_A_GROUP: usize = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_follows_the_round_trip() {
        let window = |micros| Window::of_round_trip(Duration::from_micros(micros));
        assert_eq!(window(0), Window { calls: 16, groups: 3 });
        assert_eq!(window(320), Window { calls: 20, groups: 3 });
        assert_eq!(window(500), Window { calls: 31, groups: 4 });
        assert_eq!(window(100_000), Window { calls: 512, groups: 16 });
    }
}
