//! How soon to ask again for the current servers. Pure.
//!
//! While every slot has a connected server, each lane asks every 5 s. Otherwise it asks every 150 ms for the first
//! 5 s, in which most failovers finish. After that the interval doubles, because a thousand engines must not
//! overload a node or a sentinel while a master is away for days. Sentinels are asked at least every 5 s; that is
//! enough, because they publish a message at a failover. Cluster nodes publish none, so they are asked at least
//! every 2 s, which keeps promise L5 after a long outage too.

use std::time::Duration;

use leasehold::clock::Instant;

/// The polling intervals of one lane for one server.
#[derive(Debug)]
pub(super) struct PollInterval {
    longest: Duration,
    broken_since: Option<Instant>,
    pause: Duration,
}

impl PollInterval {
    pub(super) fn of_sentinels() -> Self {
        Self::up_to(PERIOD)
    }

    pub(super) fn of_cluster_nodes() -> Self {
        Self::up_to(PAUSE_CLUSTER)
    }

    fn up_to(longest: Duration) -> Self {
        Self { longest, broken_since: None, pause: Duration::ZERO }
    }

    /// Returns the pause before the next poll. `is_whole`: every slot has a connected server.
    pub(super) fn next_pause(&mut self, is_whole: bool, now: Instant) -> Duration {
        if is_whole {
            *self = Self::up_to(self.longest);
            return PERIOD;
        }
        let since = *self.broken_since.get_or_insert(now);
        if now - since < EAGER {
            self.pause = PAUSE_BROKEN;
            return PAUSE_BROKEN;
        }
        self.pause = (self.pause * 2).clamp(PAUSE_BROKEN, self.longest);
        shortened(self.pause, now)
    }
}

/// A pause that doubles from 5 s to 5 minutes, between attempts that the server refuses until an operator changes
/// something.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pause: Duration,
}

impl Refusals {
    /// Returns the pause before the next attempt.
    pub(super) fn next_pause(&mut self, now: Instant) -> Duration {
        self.pause = (self.pause * 2).clamp(PERIOD, RARE);
        shortened(self.pause, now)
    }
}

/// Shortens a pause by up to half of it, so that clients do not ask all at once. The low digits of `now` differ
/// between clients.
fn shortened(pause: Duration, now: Instant) -> Duration {
    let half_nanos = u64::try_from(pause.as_nanos() / 2).unwrap_or(u64::MAX);
    pause - Duration::from_nanos(now.as_nanos() % half_nanos.max(1))
}

/// The interval while every slot has a connected server.
pub(super) const PERIOD: Duration = Duration::from_secs(5);
/// The first interval while a slot has no connected server.
pub(super) const PAUSE_BROKEN: Duration = Duration::from_millis(150);
/// The longest interval for cluster nodes while a slot has no connected server.
const PAUSE_CLUSTER: Duration = Duration::from_secs(2);
/// For this long the interval stays at [`PAUSE_BROKEN`].
const EAGER: Duration = Duration::from_secs(5);
const RARE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn questions_of_an_outage_become_rare_after_5_s() {
        let (mut pace, mut now) = (PollInterval::of_sentinels(), Instant::default());
        assert_eq!(pace.next_pause(true, now), PERIOD);
        let mut pauses = Vec::new();
        for _ in 0..45 {
            let pause = pace.next_pause(false, now);
            pauses.push(pause);
            now = now + pause;
        }
        let (eager, rare) = pauses.split_at(34);
        assert!(eager.iter().all(|pause| *pause == PAUSE_BROKEN), "34 questions in 5.1 s: {eager:?}");
        let longest = [300, 600, 1_200, 2_400, 4_800, 5_000].map(Duration::from_millis);
        for (pause, longest) in rare.iter().zip(longest.into_iter().chain([PERIOD; 5])) {
            assert!(*pause > longest / 2 && *pause <= longest, "{rare:?}");
        }
        assert_eq!(pace.next_pause(true, now), PERIOD, "whole again");
        assert_eq!(pace.next_pause(false, now), PAUSE_BROKEN, "the next outage");
    }

    #[test]
    fn l5_nodes_of_a_cluster_are_asked_every_2_s_at_least() {
        let mut pace = PollInterval::of_cluster_nodes();
        let longest = (0..100).map(|second| pace.next_pause(false, at(second))).max();
        assert_eq!(longest, Some(PAUSE_CLUSTER));
    }

    #[test]
    fn what_is_refused_is_asked_for_ever_more_rarely() {
        let mut refusals = Refusals::default();
        let pauses: Vec<_> = (0..8).map(|_| refusals.next_pause(at(0)).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
    }
}
