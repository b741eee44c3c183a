//! Which channels are watched, which are subscribed, and who is told. No I/O; `now` is passed in.
//!
//! One subscription per key, shared by all its watches, kept warm for a while after the last of them. A channel is
//! *wanted* until it was handed out to be subscribed, *asked* until the server has confirmed it, and then *in force*.
//! With the connection all subscriptions end: every watched channel is wanted again and counts a gap, every other one
//! is forgotten.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use fred::bytes_utils::Str;
use leasehold::{clock::Instant, transport::WatchState};
use tokio::sync::watch;

/// The channels of one lane.
#[derive(Debug)]
pub(crate) struct Notices {
    channels: HashMap<Str, Channel>,
    wanted: Vec<Str>,
    /// Channels that were idle when they were put here, oldest first, each at most once.
    idle: VecDeque<Str>,
    idle_count: usize,
    warm: Duration,
    warm_max: usize,
}

#[derive(Debug)]
struct Channel {
    phase: Phase,
    /// Only while somebody watches: a warm channel costs its name and little else.
    state: Option<watch::Sender<WatchState>>,
    watches: usize,
    idle_since: Instant,
    queued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Wanted,
    Asked,
    InForce,
}

impl Notices {
    pub(crate) fn new(warm: Duration, warm_max: usize) -> Self {
        Self {
            channels: HashMap::new(),
            wanted: Vec::new(),
            idle: VecDeque::new(),
            idle_count: 0,
            warm,
            warm_max,
        }
    }

    /// One more watch of a channel.
    pub(crate) fn watch(&mut self, name: &Str) -> watch::Receiver<WatchState> {
        if !self.channels.contains_key(name) {
            self.wanted.push(name.clone());
            self.channels.insert(name.clone(), Channel::wanted());
            self.idle_count += 1;
        }
        let channel = self.channels.get_mut(name).expect("inserted above if it was missing");
        self.idle_count -= usize::from(channel.watches == 0);
        channel.watches += 1;
        channel.receiver()
    }

    /// One watch less. Whether somebody must look for expired subscriptions earlier than known so far.
    pub(crate) fn unwatch(&mut self, name: &Str, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        channel.watches -= 1;
        if channel.watches > 0 {
            return false;
        }
        channel.state = None;
        channel.idle_since = now;
        self.idle_count += 1;
        if !std::mem::replace(&mut channel.queued, true) {
            self.idle.push_back(name.clone());
        }
        self.idle.len() == 1 || self.idle_count > self.warm_max
    }

    /// Up to `max` channels to be subscribed now.
    pub(crate) fn take_wanted(&mut self, max: usize) -> Vec<Str> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(name) = self.wanted.pop() else { break };
            let Some(channel) = self.channels.get_mut(&name) else { continue };
            if channel.phase == Phase::Wanted {
                channel.phase = Phase::Asked;
                taken.push(name);
            }
        }
        taken
    }

    /// The server has confirmed these.
    pub(crate) fn confirm(&mut self, names: &[Str]) {
        for name in names {
            let Some(channel) = self.channels.get_mut(name) else { continue };
            if channel.phase == Phase::Asked {
                channel.phase = Phase::InForce;
                channel.tell(|state| state.in_force = true);
            }
        }
    }

    /// A message came, whatever it says.
    pub(crate) fn notice(&self, name: &Str) {
        if let Some(channel) = self.channels.get(name) {
            channel.tell(|state| state.notices += 1);
        }
    }

    /// Messages may have been missed on any channel.
    pub(crate) fn gap(&self) {
        for channel in self.channels.values() {
            channel.tell(|state| state.gaps += 1);
        }
    }

    /// The connection is gone.
    pub(crate) fn lose(&mut self) {
        self.channels.retain(|_, channel| channel.watches > 0);
        (self.idle, self.idle_count) = (VecDeque::new(), 0);
        self.wanted = self.channels.keys().cloned().collect();
        for channel in self.channels.values_mut() {
            (channel.phase, channel.queued) = (Phase::Wanted, false);
            channel.tell(|state| {
                state.in_force = false;
                state.gaps += 1;
            });
        }
    }

    /// Subscriptions that have been idle for long enough, or are too many; they are forgotten here.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Str> {
        let mut expired = Vec::new();
        // Each entry is looked at once: one that has to wait goes to the back of the queue.
        for _ in 0..self.idle.len() {
            if self.next_expiry().is_none_or(|at| at > now) && self.idle_count <= self.warm_max {
                break;
            }
            let Some(name) = self.idle.pop_front() else { break };
            if self.expires(&name, now) {
                self.idle_count -= 1;
                let channel = self.channels.remove(&name);
                // One that was never sent out needs no end.
                expired.extend(channel.is_some_and(|channel| channel.phase != Phase::Wanted).then_some(name));
            }
        }
        expired
    }

    /// When to look for expired subscriptions next, at the earliest.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let oldest = self.channels.get(self.idle.front()?)?;
        Some(oldest.idle_since + self.warm)
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether a channel that left the queue is to be forgotten. One that is watched again leaves the queue, one that
    /// was watched in between waits once more.
    fn expires(&mut self, name: &Str, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        channel.queued = false;
        if channel.watches > 0 {
            return false;
        }
        let over = channel.idle_since + self.warm <= now || self.idle_count > self.warm_max;
        // An end that overtakes its own confirmation would leave a subscription that nobody knows.
        let waits = !over || channel.phase == Phase::Asked;
        if waits {
            channel.queued = true;
            channel.idle_since = if over { now } else { channel.idle_since };
            self.idle.push_back(name.clone());
        }
        !waits
    }
}

impl Channel {
    fn wanted() -> Self {
        Self { phase: Phase::Wanted, state: None, watches: 0, idle_since: Instant::default(), queued: false }
    }

    fn receiver(&mut self) -> watch::Receiver<WatchState> {
        let state = WatchState { in_force: self.phase == Phase::InForce, ..WatchState::default() };
        self.state.get_or_insert_with(|| watch::Sender::new(state)).subscribe()
    }

    fn tell(&self, change: impl FnOnce(&mut WatchState)) {
        if let Some(state) = &self.state {
            state.send_modify(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn name(text: &'static str) -> Str {
        Str::from_static(text)
    }

    fn notices() -> Notices {
        Notices::new(Duration::from_secs(5), 2)
    }

    #[test]
    fn a_watch_is_in_force_when_the_server_has_said_so() {
        let mut notices = notices();
        let watch = notices.watch(&name("a"));
        assert_eq!(*watch.borrow(), WatchState::default());
        let wanted = notices.take_wanted(10);
        assert_eq!(wanted, [name("a")]);
        assert!(notices.take_wanted(10).is_empty());
        notices.confirm(&wanted);
        notices.notice(&name("a"));
        notices.notice(&name("b"));
        assert_eq!(*watch.borrow(), WatchState { in_force: true, notices: 1, gaps: 0 });
    }

    #[test]
    fn a_loss_is_a_gap_and_everything_watched_is_wanted_again() {
        let mut notices = notices();
        let (watch, _) = (notices.watch(&name("a")), notices.watch(&name("b")));
        let wanted = notices.take_wanted(10);
        notices.confirm(&wanted);
        notices.unwatch(&name("b"), at(0));
        notices.lose();
        assert_eq!(*watch.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
        let wanted = notices.take_wanted(10);
        assert_eq!(wanted, [name("a")]);
        notices.confirm(&wanted);
        assert!(watch.borrow().in_force);
        assert!(notices.take_expired(at(60_000)).is_empty());
    }

    #[test]
    fn a_warm_subscription_is_in_force_at_once_for_the_next_watch() {
        let mut notices = notices();
        notices.watch(&name("a"));
        let wanted = notices.take_wanted(10);
        notices.confirm(&wanted);
        notices.unwatch(&name("a"), at(0));
        assert!(notices.take_expired(at(4_999)).is_empty());
        assert!(notices.watch(&name("a")).borrow().in_force);
        assert!(!notices.has_wanted());
        notices.unwatch(&name("a"), at(4_999));
        assert!(notices.take_expired(at(5_000)).is_empty());
        assert_eq!(notices.take_expired(at(9_999)), [name("a")]);
        assert!(!notices.watch(&name("a")).borrow().in_force);
        assert_eq!(notices.take_wanted(10), [name("a")]);
    }

    #[test]
    fn beyond_the_bound_the_oldest_go_first() {
        let mut notices = notices();
        for text in ["a", "b", "c", "d"] {
            notices.watch(&name(text));
        }
        let wanted = notices.take_wanted(10);
        notices.confirm(&wanted);
        for (millis, text) in ["a", "b", "c"].into_iter().enumerate() {
            notices.unwatch(&name(text), at(millis as u64));
        }
        assert_eq!(notices.take_expired(at(10)), [name("a")]);
        assert_eq!(notices.idle_count, 2);
    }

    #[test]
    fn more_unconfirmed_ones_than_may_be_idle_are_looked_at_once() {
        let mut notices = notices();
        for text in ["a", "b", "c", "d"] {
            notices.watch(&name(text));
        }
        let asked = notices.take_wanted(10);
        for text in ["a", "b", "c", "d"] {
            notices.unwatch(&name(text), at(0));
        }
        assert!(notices.take_expired(at(1)).is_empty());
        notices.confirm(&asked);
        assert_eq!(notices.take_expired(at(1)).len(), 2);
    }

    #[test]
    fn churn_on_one_key_leaves_one_entry() {
        let mut notices = notices();
        for millis in 0..1_000 {
            notices.watch(&name("a"));
            notices.unwatch(&name("a"), at(millis));
        }
        assert_eq!((notices.idle.len(), notices.wanted.len(), notices.idle_count), (1, 1, 1));
        // Never sent out: forgotten without a command.
        assert!(notices.take_expired(at(60_000)).is_empty());
        assert!(notices.channels.is_empty() && notices.take_wanted(9).is_empty());
    }

    #[test]
    fn a_subscription_is_not_ended_before_it_was_confirmed() {
        let mut notices = notices();
        notices.watch(&name("a"));
        let asked = notices.take_wanted(10);
        notices.unwatch(&name("a"), at(0));
        assert!(notices.take_expired(at(6_000)).is_empty());
        notices.confirm(&asked);
        assert_eq!(notices.take_expired(at(11_000)), [name("a")]);
    }
}
