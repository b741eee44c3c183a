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

use super::channel::{Channel, Phase};

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
            channel.idle_since =
                if over { now + CONFIRMED_WITHIN.saturating_sub(self.warm) } else { channel.idle_since };
            self.idle.push_back((name.clone(), channel.idle_since));
        }
        !waits
    }
}

/// How soon to look again for a channel whose subscription was not confirmed yet, at the earliest.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
