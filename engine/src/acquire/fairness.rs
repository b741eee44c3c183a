//! Fairness between processes: decides when this process asks again directly after its own release, and when it stands
//! back, which means that it waits before it asks. Pure.
//!
//! A process that releases is a round trip ahead of every other process. So without a rule one process keeps the lock
//! for ever (measured: 0 changes of process in 41,421 grants). While no other client listens for notices, this process
//! has no reason to wait. Otherwise it asks directly after its own release (or loss), or hands its grant off, for one
//! streak: [`STREAK_MAX`] grants, [`STREAK_TIME_MAX`] or a third of the ttl, whichever ends first. A streak that would take
//! less than [`STREAK_TIME_MIN`] goes on until then, for at most [`SHORT_STREAK_MAX`] grants: the pause after it would be
//! longer than the streak. Then it stands back until a notice that is not its own, or for one pause.
//!
//! A notice reaches the listeners one after the other, always in the same order. So with these rules alone the first
//! listeners get most of the grants (measured: 4 processes, 9 % of the grants for the last). So a process that has had
//! a streak goes behind the other listeners for one round: it asks one pause after a notice instead of at once. The
//! round ends when the other listeners have had as many grants as one streak for each of them; this process counts
//! those grants by their notices. A listener that hands its grants off tells of the last of them only, so a notice that
//! comes half the time of a streak after the one before counts as a streak. The round also ends after twice the time of
//! one streak for each listener. A listener may need as long to learn of a release as it holds the lock, and after one long hold this process must not wait for
//! many short holds of the listener. A streak during which no other client waited causes no round.
//!
//! A pause is a quarter of the time of the streak, at least 2 ms and at most 16 ms, plus one round trip. A listener
//! with another client library needs milliseconds between the notice and its command (measured: Redisson 2.3 ms, 1 %
//! above 9.3 ms). With a shorter pause this process would take the lock from that listener again and again. The price
//! is a fifth of the time next to a listener that does not want the lock. Other processes with this engine ask at once
//! and lose nothing in virtual time (on real servers: see `benches/README.md`).

use std::time::Duration;

use crate::{clock::Instant, transport::HoldKind};

/// The number of grants in a row after which a process stands back if other clients listen.
pub(crate) const STREAK_MAX: u32 = 32;

/// When this process asks after its own release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    AtOnce,
    StandBack,
}

/// Whether processes take turns at holds of this kind. Those of other kinds are beside each other, or in a line on the
/// server, so no process stands back for another.
pub(crate) fn takes_turns(kind: HoldKind) -> bool {
    !matches!(kind, HoldKind::Read | HoldKind::Permits(_) | HoldKind::Fair)
}

/// The fairness state of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fairness {
    streak: u32,
    streak_since: Instant,
    streak_until: Instant,
    nobody_listens: bool,
    /// The number of other listeners at the last release of this process; 0 if not known.
    others: u32,
    /// The moment at which the round ends in which the other listeners go first. It ends earlier after `behind_grants`
    /// of their grants.
    behind_until: Instant,
    behind_grants: u32,
    /// When the last complete streak of this process ended, or a notice of another client came after it.
    heard: Instant,
    own_notices: u64,
    /// The time from the first grant of the last complete streak of this process to the end of that streak.
    streak_time: Duration,
    /// The number of grants of that streak, at most [`STREAK_MAX`].
    streak_grants: u32,
    /// Whether a notice of another client has arrived since the server's last "held".
    noticed: bool,
}

impl Fairness {
    /// How long the other listeners may go first before this process asks.
    pub(crate) fn pause(&self, round_trip: Duration) -> Duration {
        (self.streak_time / 4).clamp(PAUSE_MIN, PAUSE_MAX) + round_trip
    }

    /// The state of a key of which only this grant is known.
    pub(crate) fn of_one_grant(kind: HoldKind, at: Instant) -> Self {
        let mut fairness = Self::default();
        if takes_turns(kind) {
            fairness.handle_grant(at);
        }
        fairness
    }

    /// This process has had its streak.
    #[cfg(test)]
    pub(crate) fn end_streak_for_test(&mut self, now: Instant) {
        (self.streak, self.streak_since) = (STREAK_MAX, now.before(STREAK_TIME_MIN));
    }

    pub(crate) fn handle_grant(&mut self, now: Instant) {
        if self.streak == 0 {
            self.streak_since = now;
        }
        self.streak = self.streak.saturating_add(1);
    }

    /// An ask was answered "held": another client has had a grant.
    pub(crate) fn handle_held(&mut self, now: Instant) {
        // If a notice has arrived, that grant is counted already. Otherwise its notice will never come, so the grant is
        // counted here.
        if !std::mem::take(&mut self.noticed) {
            self.behind_grants = self.behind_grants.saturating_sub(1);
        }
        if self.streak > 0 {
            self.end_streak(now);
        }
    }

    fn end_streak(&mut self, now: Instant) {
        let others = self.others.clamp(1, OTHERS_MAX);
        self.streak_time = self.streak_until - self.streak_since;
        self.heard = now;
        self.behind_until = self.behind_until.max(now + self.streak_time * 2 * others);
        self.streak_grants = self.streak.clamp(1, STREAK_MAX);
        self.behind_grants = self.behind_grants.max(self.streak_grants * others);
        self.streak = 0;
    }

    /// A release of this process is about to be sent. `subscribed`: its notice will reach this process too.
    pub(crate) fn handle_release(&mut self, now: Instant, ttl: Duration, subscribed: bool) -> Precedence {
        self.own_notices += u64::from(subscribed);
        self.next(now, ttl)
    }

    /// A lease of this process was lost. The task that closes the lease's owner is as far ahead as a process that
    /// releases. Whether closing publishes a notice is not known here, so no own notice is expected.
    pub(crate) fn handle_loss(&mut self, now: Instant, ttl: Duration) -> Precedence {
        self.next(now, ttl)
    }

    fn next(&mut self, now: Instant, ttl: Duration) -> Precedence {
        self.streak_until = now;
        if self.may_go_on(now, ttl) {
            return Precedence::AtOnce;
        }
        self.end_streak(now);
        Precedence::StandBack
    }

    /// Whether the next grant may go to this process too.
    pub(crate) fn may_go_on(&self, now: Instant, ttl: Duration) -> bool {
        let time = now - self.streak_since;
        let most = if time < STREAK_TIME_MIN { SHORT_STREAK_MAX } else { STREAK_MAX };
        self.nobody_listens || (self.streak < most && time < STREAK_TIME_MAX.min(ttl / 3))
    }

    /// How long to wait after a notice, so that listeners without a streak in this round go first.
    pub(crate) fn delay_after_notice(&self, now: Instant, round_trip: Duration) -> Duration {
        let is_behind = now < self.behind_until && self.behind_grants > 0 && !self.nobody_listens;
        if is_behind { self.pause(round_trip) } else { Duration::ZERO }
    }

    /// The answer to a release had the number of listeners that its notice reached. `None`: not known.
    pub(crate) fn handle_listeners(&mut self, listeners: Option<u32>, subscribed: bool) {
        self.nobody_listens = listeners.is_some_and(|count| count <= u32::from(subscribed));
        self.others = listeners.map_or(0, |count| count.saturating_sub(u32::from(subscribed)));
        if self.nobody_listens {
            (self.streak, self.streak_since) = (self.streak.min(1), self.streak_until);
        }
    }

    /// Whether the notice of this process's last release reached no other client.
    pub(crate) fn nobody_listens(&self) -> bool {
        self.nobody_listens
    }

    /// Stops expecting notices of this process's own releases, because some of them may never come.
    pub(crate) fn forget_own_notices(&mut self) {
        self.own_notices = 0;
    }

    /// The number of these notices, heard at `now`, that do not come from this process's own releases.
    pub(crate) fn take_foreign(&mut self, notices: u64, now: Instant) -> u64 {
        let own = notices.min(self.own_notices);
        self.own_notices -= own;
        let foreign = notices - own;
        if foreign > 0 {
            self.noticed = true;
            let told = u32::try_from(foreign).unwrap_or(u32::MAX);
            self.behind_grants = self.behind_grants.saturating_sub(told.max(self.grants_until(now)));
            self.heard = now;
        }
        foreign
    }

    // How many grants the notice of a listener that hands them off stands for.
    fn grants_until(&self, now: Instant) -> u32 {
        if now - self.heard >= self.streak_time / 2 { self.streak_grants } else { 1 }
    }
}

/// The time after which a streak ends if other clients listen. They then wait for less than a second, however long a
/// hold lasts.
pub(crate) const STREAK_TIME_MAX: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The time of which the shortest pause is a quarter.
const STREAK_TIME_MIN: Duration = Duration::from_millis(8);
/// The maximum number of grants of a streak in that time.
const SHORT_STREAK_MAX: u32 = 1_024;
const PAUSE_MAX: Duration = Duration::from_millis(16);
/// The maximum number of streaks in a round, because not every listener wants the lock.
const OTHERS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);
    const RTT: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn release(fairness: &mut Fairness, ms: u64) -> Precedence {
        fairness.handle_grant(at(ms));
        fairness.handle_release(at(ms), TTL, true)
    }

    #[test]
    fn it_stands_back_after_32_grants_in_a_row() {
        let mut fairness = Fairness::default();
        for grant in 1..u64::from(STREAK_MAX) {
            assert_eq!(release(&mut fairness, 5 + grant), Precedence::AtOnce);
        }
        assert_eq!(release(&mut fairness, 37), Precedence::StandBack);
        assert_eq!(release(&mut fairness, 37), Precedence::AtOnce, "a new row");
    }

    #[test]
    fn a_short_row_goes_on_for_8_ms_or_1024_grants() {
        for (ms, grants) in [(12, 1_023), (13, 31)] {
            let mut fairness = Fairness::default();
            fairness.handle_grant(at(5));
            (2..=grants).for_each(|_| fairness.handle_grant(at(ms)));
            assert!(fairness.may_go_on(at(ms), TTL));
            fairness.handle_grant(at(ms));
            assert!(!fairness.may_go_on(at(ms), TTL), "{grants} and one more in {ms} ms");
        }
    }

    #[test]
    fn it_stands_back_after_100_ms_or_a_third_of_the_ttl() {
        for (ttl, longest) in [(TTL, 100), (Duration::from_millis(90), 30)] {
            let mut fairness = Fairness::default();
            fairness.handle_grant(at(1));
            assert_eq!(fairness.handle_release(at(longest), ttl, true), Precedence::AtOnce);
            fairness.handle_grant(at(longest));
            assert_eq!(fairness.handle_release(at(longest + 1), ttl, true), Precedence::StandBack);
        }
    }

    #[test]
    fn it_never_stands_back_for_nobody() {
        let mut fairness = Fairness::default();
        fairness.handle_listeners(Some(1), true);
        assert!((0..1000).all(|_| release(&mut fairness, 1) == Precedence::AtOnce));
        for listeners in [Some(2), None] {
            let mut fairness = fairness.clone();
            fairness.handle_listeners(listeners, true);
            fairness.end_streak_for_test(at(1_000));
            assert_eq!(release(&mut fairness, 1_000), Precedence::StandBack);
        }
    }

    #[test]
    fn another_holder_begins_a_new_row() {
        let mut fairness = Fairness::default();
        for _ in 1..STREAK_MAX {
            release(&mut fairness, 1);
        }
        fairness.handle_held(at(1));
        assert_eq!(release(&mut fairness, 1), Precedence::AtOnce);
    }

    /// One streak of 20 ms with 4 grants, while 2 other clients listen. The streak ends at 20 ms.
    fn behind_two_others() -> Fairness {
        let mut fairness = Fairness::default();
        fairness.handle_listeners(Some(3), true);
        for ms in [0, 5, 10, 15] {
            fairness.handle_grant(at(ms));
            assert_eq!(fairness.handle_release(at(ms + 5), TTL, false), Precedence::AtOnce);
            assert_eq!(fairness.delay_after_notice(at(ms + 5), RTT), Duration::ZERO, "its row goes on");
        }
        fairness.handle_held(at(20));
        fairness
    }

    #[test]
    fn a_row_is_paid_back_with_a_row_of_each_other() {
        let mut fairness = behind_two_others();
        for _ in 0..8 {
            assert_eq!(fairness.delay_after_notice(at(21), RTT), 5 * RTT + RTT, "a quarter of the row");
            assert_eq!(fairness.take_foreign(1, at(21)), 1);
            fairness.handle_held(at(21));
        }
        assert_eq!(fairness.delay_after_notice(at(21), RTT), Duration::ZERO, "2 others, 4 grants each");
    }

    #[test]
    fn l5_a_row_is_paid_back_with_one_notice_of_each_other_that_hands_its_grants_off() {
        let mut fairness = behind_two_others();
        fairness.take_foreign(1, at(29)); // of one grant
        for (ms, is_behind) in [(39, true), (49, false)] {
            fairness.take_foreign(1, at(ms)); // of four
            assert_eq!(fairness.delay_after_notice(at(ms), RTT) > Duration::ZERO, is_behind, "{ms}");
        }
    }

    #[test]
    fn a_row_is_paid_back_after_twice_the_time_of_each_other() {
        let mut fairness = behind_two_others();
        assert_eq!(fairness.delay_after_notice(at(99), RTT), 6 * RTT);
        assert_eq!(fairness.delay_after_notice(at(100), RTT), Duration::ZERO);
        fairness.handle_held(at(110));
        assert_eq!(fairness.delay_after_notice(at(110), RTT), Duration::ZERO, "no turn of ours since");
    }

    #[test]
    fn a_row_that_took_no_time_is_not_paid_back() {
        let mut fairness = Fairness::default();
        let turned: Vec<_> = (0..SHORT_STREAK_MAX).map(|_| release(&mut fairness, 60)).collect();
        assert_eq!(turned.last(), Some(&Precedence::StandBack));
        assert_eq!(fairness.delay_after_notice(at(60), RTT), Duration::ZERO);
    }

    #[test]
    fn l5_one_long_hold_is_paid_back_with_one_grant_of_each_other() {
        let mut fairness = Fairness::default();
        fairness.handle_listeners(Some(4), true);
        fairness.handle_grant(at(0));
        fairness.handle_release(at(600_000), TTL, true);
        for _ in 0..3 {
            assert_eq!(fairness.delay_after_notice(at(600_001), RTT), PAUSE_MAX + RTT);
            fairness.handle_held(at(600_001));
        }
        assert_eq!(fairness.delay_after_notice(at(600_001), RTT), Duration::ZERO, "3 others had the lock");
    }

    #[test]
    fn l5_a_row_that_nobody_waited_for_is_not_paid_for() {
        let mut fairness = Fairness::default();
        for second in 0..20 {
            release(&mut fairness, second * 1000);
            fairness.handle_listeners(Some(1), true);
        }
        release(&mut fairness, 20_000);
        fairness.handle_listeners(Some(2), true);
        fairness.handle_held(at(20_001));
        assert_eq!(fairness.delay_after_notice(at(20_002), RTT), PAUSE_MAX + RTT, "for the last second");
        assert_eq!(fairness.delay_after_notice(at(22_001), RTT), Duration::ZERO);
    }

    #[test]
    fn only_what_we_released_is_our_own_notice() {
        let mut fairness = Fairness::default();
        release(&mut fairness, 1);
        assert_eq!((fairness.take_foreign(1, at(1)), fairness.take_foreign(2, at(1))), (0, 2));
        release(&mut fairness, 1);
        fairness.forget_own_notices();
        assert_eq!(fairness.take_foreign(1, at(1)), 1);
    }
}
