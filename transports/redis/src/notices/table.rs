//! The watched channels, the nodes of their subscriptions, and the watches to notify. No I/O; `now` is passed in.
//!
//! All watches of a key share one subscription. It is kept for a while after its last watch has ended. A channel
//! belongs to the node that serves its slot. There the subscription is *wanted* until it is sent to the server,
//! *asked* until the server has confirmed it, and then *in force*. When a connection ends, all subscriptions of its
//! node end: every watched channel is wanted again and counts a gap, and all other channels are forgotten. When a
//! slot moves, its channels move with their watches to the other node, and count a gap too.

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
    /// Channels to subscribe, in this order. A refused channel goes to the end.
    wanted: HashMap<NodeId, VecDeque<Str>>,
    /// Subscriptions to end, because their channels had no watch for a while.
    ended: HashMap<NodeId, Vec<Str>>,
    /// Channels whose slots have moved to another node.
    moved_away: HashMap<NodeId, Vec<Str>>,
    /// Channels without a watch, each at most once, with the moment at which they were put here. This is not the
    /// moment at which they last became idle: a busy channel at the front would block all channels behind it.
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
    pub(crate) moved_away: Vec<Str>,
}

impl Notices {
    pub(crate) fn new(warm: Duration, warm_max: usize) -> Self {
        Self {
            channels: HashMap::new(),
            wanted: HashMap::new(),
            ended: HashMap::new(),
            moved_away: HashMap::new(),
            idle: VecDeque::new(),
            idle_count: 0,
            warm,
            warm_max,
        }
    }

    /// Adds a watch of a channel. `node` is the node that serves its slot now. Returns whether there is a new
    /// channel to subscribe.
    pub(crate) fn watch(
        &mut self,
        name: &Str,
        slot: Slot,
        node: Option<NodeId>,
    ) -> (watch::Receiver<WatchState>, bool) {
        let is_new = !self.channels.contains_key(name);
        if is_new {
            self.channels.insert(name.clone(), Channel::wanted(slot, node));
            self.want(node, name.clone());
            self.idle_count += 1;
        }
        let channel = self.channels.get_mut(name).expect("inserted above if it was missing");
        self.idle_count -= usize::from(channel.watches == 0);
        channel.watches += 1;
        (channel.receiver(), is_new)
    }

    fn want(&mut self, node: Option<NodeId>, name: Str) {
        if let Some(node) = node {
            self.wanted.entry(node).or_default().push_back(name);
        }
    }

    /// Removes a watch. Returns whether expired subscriptions must be looked for earlier than known so far.
    pub(crate) fn unwatch(&mut self, name: &Str, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        channel.watches -= 1;
        if channel.watches > 0 {
            return false;
        }
        if channel.node.is_none() && !channel.queued {
            // The channel is subscribed nowhere, and there may be no node whose connection would look for it later.
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

    /// Returns what `node` has to do now, with at most `max` new subscriptions.
    pub(crate) fn take_changes(&mut self, node: NodeId, max: usize, now: Instant) -> Changes {
        self.expire(now);
        Changes {
            wanted: self.take_wanted(node, max),
            ended: self.ended.remove(&node).unwrap_or_default(),
            moved_away: self.moved_away.remove(&node).unwrap_or_default(),
        }
    }

    fn take_wanted(&mut self, node: NodeId, max: usize) -> Vec<Str> {
        let Self { wanted, channels, .. } = self;
        let Some(names) = wanted.get_mut(&node) else { return Vec::new() };
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(name) = names.pop_front() else { break };
            let Some(channel) = channels.get_mut(&name) else { continue };
            if channel.phase == Phase::Wanted && channel.node == Some(node) {
                channel.phase = Phase::Asked;
                taken.push(name);
            }
        }
        taken
    }

    /// Takes in that `node` has confirmed these subscriptions.
    pub(crate) fn confirm(&mut self, node: NodeId, names: &[Str]) {
        for name in names {
            let Some(channel) = self.channels.get_mut(name) else { continue };
            if channel.phase == Phase::Asked && channel.node == Some(node) {
                channel.phase = Phase::InForce;
                channel.notify(|state| state.in_force = true);
            }
        }
    }

    /// Takes in that `node` does not serve the slots of these channels. They are wanted again, here or at another
    /// node.
    pub(crate) fn refuse(&mut self, node: NodeId, names: Vec<Str>) {
        for name in names {
            let Some(channel) = self.channels.get_mut(&name) else { continue };
            if channel.phase == Phase::Asked && channel.node == Some(node) {
                channel.phase = Phase::Wanted;
                self.wanted.entry(node).or_default().push_back(name);
            }
        }
    }

    /// Takes in a message, whatever its content.
    pub(crate) fn notice(&self, name: &Str) {
        if let Some(channel) = self.channels.get(name) {
            channel.notify(|state| state.notices += 1);
        }
    }

    /// Counts a gap for all channels of `node`, because messages may have been lost.
    pub(crate) fn gap(&self, node: NodeId) {
        for channel in self.channels.values().filter(|channel| channel.node == Some(node)) {
            channel.notify(|state| state.gaps += 1);
        }
    }

    /// Takes in that the connection of `node` has ended.
    pub(crate) fn connection_lost(&mut self, node: NodeId) {
        self.channels.values_mut().filter(|channel| channel.node == Some(node)).for_each(Channel::reset);
        self.ended.remove(&node);
        self.moved_away.remove(&node);
        self.still_disconnected(node);
    }

    /// Takes in that `node` still has no connection. After this only its watched channels are wanted, each once.
    pub(crate) fn still_disconnected(&mut self, node: NodeId) {
        self.forget(|channel| channel.node == Some(node) && channel.watches == 0);
        let here = self.channels.iter().filter(|(_, channel)| channel.node == Some(node));
        let wanted: VecDeque<Str> = here.map(|(name, _)| name.clone()).collect();
        self.wanted.remove(&node);
        if !wanted.is_empty() {
            self.wanted.insert(node, wanted);
        }
    }

    /// Moves channels whose slots are served by another node now.
    pub(crate) fn follow_routes(&mut self, serving: impl Fn(Slot) -> Option<NodeId>) {
        let mut moved = Vec::new();
        for (name, channel) in &mut self.channels {
            let (before, after) = (channel.node, serving(channel.slot));
            if before != after {
                let subscribed_at = before.filter(|_| channel.phase != Phase::Wanted);
                channel.node = after;
                channel.reset();
                moved.push((name.clone(), subscribed_at, after));
            }
        }
        for (name, before, after) in moved {
            if let Some(node) = before {
                self.moved_away.entry(node).or_default().push(name.clone());
            }
            self.want(after, name);
        }
    }

    /// Forgets the work for nodes that are not in use any more.
    pub(crate) fn retain_nodes(&mut self, is_in_use: impl Fn(NodeId) -> bool) {
        self.wanted.retain(|node, _| is_in_use(*node));
        for names in [&mut self.ended, &mut self.moved_away] {
            names.retain(|node, _| is_in_use(*node));
        }
    }

    fn forget(&mut self, is_forgotten: impl Fn(&Channel) -> bool) {
        self.channels.retain(|_, channel| !is_forgotten(channel));
        let Self { idle, channels, .. } = self;
        idle.retain(|(name, _)| channels.contains_key(name));
        self.idle_count = self.channels.values().filter(|channel| channel.watches == 0).count();
    }

    /// Forgets channels that have been idle for long enough, or are too many, and marks their subscriptions to be
    /// ended.
    fn expire(&mut self, now: Instant) {
        // Each entry is looked at once: an entry that has to wait goes to the end of the queue.
        for _ in 0..self.idle.len() {
            if self.next_expiry().is_none_or(|at| at > now) && self.idle_count <= self.warm_max {
                break;
            }
            let Some((name, _)) = self.idle.pop_front() else { break };
            if self.expires(&name, now) {
                self.idle_count -= 1;
                let channel = self.channels.remove(&name);
                // A subscription that was never sent needs no command to end it.
                let node =
                    channel.filter(|channel| channel.phase != Phase::Wanted).and_then(|channel| channel.node);
                if let Some(node) = node {
                    self.ended.entry(node).or_default().push(name);
                }
            }
        }
    }

    /// Returns the earliest moment at which a subscription can expire.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let (_, since) = self.idle.front()?;
        Some(*since + self.warm)
    }

    /// Whether to forget a channel that was taken from the queue. A watched channel leaves the queue, and a channel
    /// that was watched in the meantime waits again.
    fn expires(&mut self, name: &Str, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(name) else { return false };
        channel.queued = false;
        if channel.watches > 0 {
            return false;
        }
        let over = channel.idle_since + self.warm <= now || self.idle_count > self.warm_max;
        // An unsubscribe that is sent before the confirmation of its subscribe could leave a subscription that the
        // table does not know.
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

/// The shortest pause before an unconfirmed channel is looked at again.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
