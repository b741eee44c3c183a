//! Which channels are watched, where they are subscribed, and who is told. No I/O; `now` is passed in.
//!
//! One subscription per key, shared by all its watches, kept warm for a while after the last of them. A channel has its
//! *seat* at the node that serves its slot: there it is *wanted* until it was handed out to be subscribed, *asked* until
//! the server has confirmed it, and then *in force*. With a connection all subscriptions of its node end: every watched
//! channel is wanted again and counts a gap, every other one is forgotten. A channel whose slot moves takes its watches
//! along to the other node, and counts a gap too.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use fred::bytes_utils::Str;
use leasehold::{
    clock::Instant,
    routing::{slot::Slot, topology::NodeId},
    transport::WatchState,
};
use tokio::sync::watch;

/// The channels of one lane.
#[derive(Debug)]
pub(crate) struct Notices {
    channels: HashMap<Str, Channel>,
    /// To be subscribed, in this order: one that is refused waits behind all others.
    wanted: HashMap<NodeId, VecDeque<Str>>,
    /// To be ended: nobody has watched them for a while.
    ended: HashMap<NodeId, Vec<Str>>,
    /// Their slot has moved to another node.
    left: HashMap<NodeId, Vec<Str>>,
    /// Channels that were idle when they were put here, with that moment, each at most once. Not their own last idle
    /// moment: a busy one at the front would keep all behind it for ever.
    idle: VecDeque<(Str, Instant)>,
    idle_count: usize,
    warm: Duration,
    warm_max: usize,
}

#[derive(Debug)]
struct Channel {
    slot: Slot,
    seat: Option<NodeId>,
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

/// What a node's connection has to do next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) wanted: Vec<Str>,
    pub(crate) ended: Vec<Str>,
    pub(crate) left: Vec<Str>,
}

impl Notices {
    pub(crate) fn new(warm: Duration, warm_max: usize) -> Self {
        Self {
            channels: HashMap::new(),
            wanted: HashMap::new(),
            ended: HashMap::new(),
            left: HashMap::new(),
            idle: VecDeque::new(),
            idle_count: 0,
            warm,
            warm_max,
        }
    }

    /// One more watch of a channel; `seat` is who serves its slot now. Whether there is something to subscribe.
    pub(crate) fn watch(
        &mut self,
        name: &Str,
        slot: Slot,
        seat: Option<NodeId>,
    ) -> (watch::Receiver<WatchState>, bool) {
        let is_new = !self.channels.contains_key(name);
        if is_new {
            self.channels.insert(name.clone(), Channel::wanted(slot, seat));
            self.want(seat, name.clone());
            self.idle_count += 1;
        }
        let channel = self.channels.get_mut(name).expect("inserted above if it was missing");
        self.idle_count -= usize::from(channel.watches == 0);
        channel.watches += 1;
        (channel.receiver(), is_new)
    }

    fn want(&mut self, seat: Option<NodeId>, name: Str) {
        if let Some(node) = seat {
            self.wanted.entry(node).or_default().push_back(name);
        }
    }

    /// One watch less. Whether somebody must look for expired subscriptions earlier than known so far.
    pub(crate) fn unwatch(&mut self, name: &Str, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        channel.watches -= 1;
        if channel.watches > 0 {
            return false;
        }
        if channel.seat.is_none() && !channel.queued {
            // Subscribed nowhere, and there may be no node whose connection would look for it later.
            self.channels.remove(name);
            return false;
        }
        channel.state = None;
        channel.idle_since = now;
        self.idle_count += 1;
        if !std::mem::replace(&mut channel.queued, true) {
            self.idle.push_back((name.clone(), now));
        }
        self.idle.len() == 1 || self.idle_count > self.warm_max
    }

    /// What `node` has to do now, at most `max` subscriptions of it.
    pub(crate) fn take_changes(&mut self, node: NodeId, max: usize, now: Instant) -> Changes {
        self.expire(now);
        Changes {
            wanted: self.take_wanted(node, max),
            ended: self.ended.remove(&node).unwrap_or_default(),
            left: self.left.remove(&node).unwrap_or_default(),
        }
    }

    fn take_wanted(&mut self, node: NodeId, max: usize) -> Vec<Str> {
        let Self { wanted, channels, .. } = self;
        let Some(names) = wanted.get_mut(&node) else { return Vec::new() };
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(name) = names.pop_front() else { break };
            let Some(channel) = channels.get_mut(&name) else { continue };
            if channel.phase == Phase::Wanted && channel.seat == Some(node) {
                channel.phase = Phase::Asked;
                taken.push(name);
            }
        }
        taken
    }

    /// `node` has confirmed these.
    pub(crate) fn confirm(&mut self, node: NodeId, names: &[Str]) {
        for name in names {
            let Some(channel) = self.channels.get_mut(name) else { continue };
            if channel.phase == Phase::Asked && channel.seat == Some(node) {
                channel.phase = Phase::InForce;
                channel.tell(|state| state.in_force = true);
            }
        }
    }

    /// `node` does not serve the slots of these: they are asked for again, here or elsewhere.
    pub(crate) fn refuse(&mut self, node: NodeId, names: Vec<Str>) {
        for name in names {
            let Some(channel) = self.channels.get_mut(&name) else { continue };
            if channel.phase == Phase::Asked && channel.seat == Some(node) {
                channel.phase = Phase::Wanted;
                self.wanted.entry(node).or_default().push_back(name);
            }
        }
    }

    /// A message came, whatever it says.
    pub(crate) fn notice(&self, name: &Str) {
        if let Some(channel) = self.channels.get(name) {
            channel.tell(|state| state.notices += 1);
        }
    }

    /// Messages of `node` may have been missed on any channel.
    pub(crate) fn gap(&self, node: NodeId) {
        for channel in self.channels.values().filter(|channel| channel.seat == Some(node)) {
            channel.tell(|state| state.gaps += 1);
        }
    }

    /// The connection of `node` is gone.
    pub(crate) fn lose(&mut self, node: NodeId) {
        self.channels.values_mut().filter(|channel| channel.seat == Some(node)).for_each(Channel::unsettle);
        self.ended.remove(&node);
        self.left.remove(&node);
        self.stay_lost(node);
    }

    /// `node` has no connection, and an attempt has failed: only what is watched will be wanted of it, each once.
    pub(crate) fn stay_lost(&mut self, node: NodeId) {
        self.forget(|channel| channel.seat == Some(node) && channel.watches == 0);
        let here = self.channels.iter().filter(|(_, channel)| channel.seat == Some(node));
        let wanted: VecDeque<Str> = here.map(|(name, _)| name.clone()).collect();
        self.wanted.remove(&node);
        if !wanted.is_empty() {
            self.wanted.insert(node, wanted);
        }
    }

    /// Slots may be served by others now.
    pub(crate) fn reseat(&mut self, serving: impl Fn(Slot) -> Option<NodeId>) {
        let mut moved = Vec::new();
        for (name, channel) in &mut self.channels {
            let (before, after) = (channel.seat, serving(channel.slot));
            if before != after {
                let subscribed_at = before.filter(|_| channel.phase != Phase::Wanted);
                channel.seat = after;
                channel.unsettle();
                moved.push((name.clone(), subscribed_at, after));
            }
        }
        for (name, before, after) in moved {
            if let Some(node) = before {
                self.left.entry(node).or_default().push(name.clone());
            }
            self.want(after, name);
        }
    }

    /// Only these nodes are in use.
    pub(crate) fn retain_nodes(&mut self, is_in_use: impl Fn(NodeId) -> bool) {
        self.wanted.retain(|node, _| is_in_use(*node));
        for names in [&mut self.ended, &mut self.left] {
            names.retain(|node, _| is_in_use(*node));
        }
    }

    fn forget(&mut self, is_forgotten: impl Fn(&Channel) -> bool) {
        self.channels.retain(|_, channel| !is_forgotten(channel));
        let Self { idle, channels, .. } = self;
        idle.retain(|(name, _)| channels.contains_key(name));
        self.idle_count = self.channels.values().filter(|channel| channel.watches == 0).count();
    }

    /// Subscriptions that have been idle for long enough, or are too many, are forgotten and to be ended.
    fn expire(&mut self, now: Instant) {
        // Each entry is looked at once: one that has to wait goes to the back of the queue.
        for _ in 0..self.idle.len() {
            if self.next_expiry().is_none_or(|at| at > now) && self.idle_count <= self.warm_max {
                break;
            }
            let Some((name, _)) = self.idle.pop_front() else { break };
            if self.expires(&name, now) {
                self.idle_count -= 1;
                let channel = self.channels.remove(&name);
                // One that was never sent out needs no end.
                let seat =
                    channel.filter(|channel| channel.phase != Phase::Wanted).and_then(|channel| channel.seat);
                if let Some(node) = seat {
                    self.ended.entry(node).or_default().push(name);
                }
            }
        }
    }

    /// When to look for expired subscriptions next, at the earliest.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let (_, since) = self.idle.front()?;
        Some(*since + self.warm)
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
            self.idle.push_back((name.clone(), channel.idle_since));
        }
        !waits
    }
}

impl Channel {
    fn wanted(slot: Slot, seat: Option<NodeId>) -> Self {
        Self {
            slot,
            seat,
            phase: Phase::Wanted,
            state: None,
            watches: 0,
            idle_since: Instant::default(),
            queued: false,
        }
    }

    fn receiver(&mut self) -> watch::Receiver<WatchState> {
        let state = WatchState { in_force: self.phase == Phase::InForce, ..WatchState::default() };
        self.state.get_or_insert_with(|| watch::Sender::new(state)).subscribe()
    }

    /// Its subscription is gone, and messages may have been.
    fn unsettle(&mut self) {
        self.phase = Phase::Wanted;
        self.tell(|state| {
            state.in_force = false;
            state.gaps += 1;
        });
    }

    fn tell(&self, change: impl FnOnce(&mut WatchState)) {
        if let Some(state) = &self.state {
            state.send_modify(change);
        }
    }
}

#[cfg(test)]
mod chance;

#[cfg(test)]
mod tests {
    use super::*;

    const X: NodeId = NodeId(0);
    const Y: NodeId = NodeId(1);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn name(text: &'static str) -> Str {
        Str::from_static(text)
    }

    fn slot(number: u16) -> Slot {
        Slot::from_number(number).unwrap()
    }

    fn notices() -> Notices {
        Notices::new(Duration::from_secs(5), 2)
    }

    /// A watch of a channel in slot 7, which X serves.
    fn watch(notices: &mut Notices, text: &'static str) -> watch::Receiver<WatchState> {
        notices.watch(&name(text), slot(7), Some(X)).0
    }

    fn take_wanted(notices: &mut Notices) -> Vec<Str> {
        notices.take_wanted(X, 10)
    }

    fn take_ended(notices: &mut Notices, now: Instant) -> Vec<Str> {
        notices.expire(now);
        notices.ended.remove(&X).unwrap_or_default()
    }

    #[test]
    fn a_watch_is_in_force_when_the_server_has_said_so() {
        let mut notices = notices();
        let watch = watch(&mut notices, "a");
        assert_eq!(*watch.borrow(), WatchState::default());
        let wanted = take_wanted(&mut notices);
        assert_eq!(wanted, [name("a")]);
        assert!(take_wanted(&mut notices).is_empty());
        notices.confirm(X, &wanted);
        notices.notice(&name("a"));
        notices.notice(&name("b"));
        assert_eq!(*watch.borrow(), WatchState { in_force: true, notices: 1, gaps: 0 });
    }

    #[test]
    fn a_loss_is_a_gap_and_everything_watched_is_wanted_again() {
        let mut notices = notices();
        let (a, _) = (watch(&mut notices, "a"), watch(&mut notices, "b"));
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        notices.unwatch(&name("b"), at(0));
        notices.lose(X);
        assert_eq!(*a.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
        let wanted = take_wanted(&mut notices);
        assert_eq!(wanted, [name("a")]);
        notices.confirm(X, &wanted);
        assert!(a.borrow().in_force);
        assert!(take_ended(&mut notices, at(60_000)).is_empty());
    }

    #[test]
    fn l6_while_a_node_cannot_be_reached_only_what_is_watched_is_kept() {
        let mut notices = notices();
        let kept = watch(&mut notices, "kept");
        notices.lose(X);
        for millis in 0..1_000 {
            for text in ["a", "b"] {
                watch(&mut notices, text);
                notices.unwatch(&name(text), at(millis));
            }
            notices.stay_lost(X);
        }
        assert_eq!((notices.channels.len(), notices.idle.len(), notices.idle_count), (1, 0, 0));
        assert_eq!(notices.wanted[&X], [name("kept")]);
        assert_eq!(*kept.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
    }

    #[test]
    fn l6_what_is_watched_while_nobody_serves_its_slot_is_forgotten_with_its_last_watch() {
        let mut notices = notices();
        for millis in 0..1_000 {
            notices.watch(&name("a"), slot(7), None);
            notices.unwatch(&name("a"), at(millis));
        }
        assert_eq!((notices.channels.len(), notices.idle.len(), notices.idle_count), (0, 0, 0));
    }

    #[test]
    fn a_lost_connection_concerns_its_own_node_only() {
        let mut notices = notices();
        let here = watch(&mut notices, "a");
        let there = notices.watch(&name("b"), slot(9), Some(Y)).0;
        let changes = notices.take_changes(Y, 10, at(0));
        notices.confirm(Y, &changes.wanted);
        notices.lose(X);
        notices.gap(X);
        assert_eq!(*there.borrow(), WatchState { in_force: true, notices: 0, gaps: 0 });
        assert_eq!(here.borrow().gaps, 2);
    }

    #[test]
    fn l2_a_moved_slot_takes_its_watches_along_and_counts_a_gap() {
        let mut notices = notices();
        let a = watch(&mut notices, "a");
        let idle = watch(&mut notices, "idle");
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        drop(idle);
        notices.unwatch(&name("idle"), at(0));
        notices.reseat(|_| Some(Y));
        assert_eq!(*a.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
        let mut left = notices.take_changes(X, 10, at(1)).left;
        left.sort();
        assert_eq!(left, [name("a"), name("idle")]);
        let wanted = notices.take_wanted(Y, 10);
        assert!(wanted.contains(&name("a")));
        notices.confirm(X, &wanted);
        assert!(!a.borrow().in_force, "a late word of the old node");
        notices.confirm(Y, &wanted);
        assert!(a.borrow().in_force);
    }

    #[test]
    fn l2_a_slot_without_a_node_is_subscribed_when_it_has_one() {
        let mut notices = notices();
        let a = notices.watch(&name("a"), slot(7), None).0;
        assert!(take_wanted(&mut notices).is_empty());
        notices.reseat(|_| Some(X));
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        assert!(a.borrow().in_force);
        notices.reseat(|_| None);
        assert!(!a.borrow().in_force);
    }

    #[test]
    fn a_node_that_does_not_serve_the_slot_is_asked_again() {
        let mut notices = notices();
        let _a = watch(&mut notices, "a");
        let wanted = take_wanted(&mut notices);
        notices.refuse(X, wanted);
        assert_eq!(take_wanted(&mut notices), [name("a")]);
    }

    #[test]
    fn l2_channels_that_are_refused_again_and_again_keep_no_other_waiting() {
        let mut notices = notices();
        for text in ["a", "b", "c"] {
            watch(&mut notices, text);
        }
        let mut asked = Vec::new();
        for _ in 0..3 {
            let wanted = notices.take_wanted(X, 2);
            asked.extend(wanted.clone());
            notices.refuse(X, wanted);
        }
        let places = ["a", "b", "c", "a", "b", "c"].map(name);
        assert_eq!(asked, places, "each has its turn");
    }

    #[test]
    fn a_warm_subscription_is_in_force_at_once_for_the_next_watch() {
        let mut notices = notices();
        watch(&mut notices, "a");
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        notices.unwatch(&name("a"), at(0));
        assert!(take_ended(&mut notices, at(4_999)).is_empty());
        assert!(watch(&mut notices, "a").borrow().in_force);
        notices.unwatch(&name("a"), at(4_999));
        assert!(take_ended(&mut notices, at(5_000)).is_empty());
        assert_eq!(take_ended(&mut notices, at(9_999)), [name("a")]);
        assert!(!watch(&mut notices, "a").borrow().in_force);
        assert_eq!(take_wanted(&mut notices), [name("a")]);
    }

    #[test]
    fn beyond_the_bound_the_oldest_go_first() {
        let mut notices = notices();
        for text in ["a", "b", "c", "d"] {
            watch(&mut notices, text);
        }
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        for (millis, text) in ["a", "b", "c"].into_iter().enumerate() {
            notices.unwatch(&name(text), at(millis as u64));
        }
        assert_eq!(take_ended(&mut notices, at(10)), [name("a")]);
        assert_eq!(notices.idle_count, 2);
    }

    #[test]
    fn more_unconfirmed_ones_than_may_be_idle_are_looked_at_once() {
        let mut notices = notices();
        for text in ["a", "b", "c", "d"] {
            watch(&mut notices, text);
        }
        let asked = take_wanted(&mut notices);
        for text in ["a", "b", "c", "d"] {
            notices.unwatch(&name(text), at(0));
        }
        assert!(take_ended(&mut notices, at(1)).is_empty());
        notices.confirm(X, &asked);
        assert_eq!(take_ended(&mut notices, at(1)).len(), 2);
    }

    #[test]
    fn churn_on_one_key_leaves_one_entry() {
        let mut notices = notices();
        for millis in 0..1_000 {
            watch(&mut notices, "a");
            notices.unwatch(&name("a"), at(millis));
        }
        assert_eq!((notices.idle.len(), notices.wanted[&X].len(), notices.idle_count), (1, 1, 1));
        // Never sent out: forgotten without a command.
        assert!(take_ended(&mut notices, at(60_000)).is_empty());
        assert!(notices.channels.is_empty() && take_wanted(&mut notices).is_empty());
    }

    #[test]
    fn l6_a_busy_name_does_not_keep_others_subscribed() {
        let mut notices = notices();
        let _names = (watch(&mut notices, "busy"), watch(&mut notices, "idle"));
        let wanted = take_wanted(&mut notices);
        notices.confirm(X, &wanted);
        notices.unwatch(&name("busy"), at(0));
        notices.unwatch(&name("idle"), at(0));
        for millis in (1_000..=6_000).step_by(1_000) {
            watch(&mut notices, "busy");
            notices.unwatch(&name("busy"), at(millis));
        }
        assert_eq!(take_ended(&mut notices, at(6_000)), [name("idle")]);
    }

    #[test]
    fn a_subscription_is_not_ended_before_it_was_confirmed() {
        let mut notices = notices();
        watch(&mut notices, "a");
        let asked = take_wanted(&mut notices);
        notices.unwatch(&name("a"), at(0));
        assert!(take_ended(&mut notices, at(6_000)).is_empty());
        notices.confirm(X, &asked);
        assert_eq!(take_ended(&mut notices, at(11_000)), [name("a")]);
    }
}
