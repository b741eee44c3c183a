//! The table next to servers that execute its commands. The properties: after any sequence of events, what the
//! table says about a subscription is true, and in the end every watched channel is subscribed at its node, and no
//! other channel is.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::test_rng::TestRng;

/// The table, the servers, and the truth.
struct World {
    test_rng: TestRng,
    notices: Notices,
    now: Instant,
    /// The node of each slot, on the servers.
    served: [Option<NodeId>; SLOTS],
    /// The node of each slot, as the table was told.
    routes: [Option<NodeId>; SLOTS],
    servers: BTreeMap<NodeId, Server>,
    /// Sharded subscriptions end when their slot moves, and start only at its node. Classic subscriptions do
    /// neither.
    sharded: bool,
    watches: Vec<(Str, watch::Receiver<WatchState>)>,
}

/// A server with its one connection.
#[derive(Default)]
struct Server {
    subscribed: BTreeSet<Str>,
    changes: Option<Changes>,
    /// The server accepts no connection.
    is_down: bool,
}

impl World {
    fn new(test_rng: TestRng, sharded: bool) -> Self {
        let served = [Some(NodeId(0)), Some(NodeId(1)), Some(NodeId(1)), None];
        let servers = (0..NODES).map(|node| (NodeId(node), Server::default())).collect();
        let notices = Notices::new(WARM, WARM_MAX);
        Self {
            test_rng,
            notices,
            now: Instant::default(),
            served,
            routes: served,
            servers,
            sharded,
            watches: Vec::new(),
        }
    }

    fn step(&mut self) {
        let node = NodeId(u32::try_from(self.test_rng.below(NODES as usize)).unwrap());
        match self.test_rng.below(23) {
            0..5 => self.watch(),
            5..9 => self.unwatch(),
            9..14 => self.serve(node),
            14 => self.lose(node),
            15 => self.move_slot(),
            19 => {
                self.move_slot();
                self.follow();
            }
            16 => self.follow(),
            17 => self.publish(),
            18 => self.notices.gap(node),
            20 => self.go_down(node),
            21 => self.come_up(node),
            _ => self.now = self.now + WARM / 7,
        }
        self.check();
    }

    fn watch(&mut self) {
        let number = self.test_rng.below(NAMES.len());
        self.watch_name(NAMES[number], number % SLOTS);
    }

    fn watch_name(&mut self, text: &'static str, slot: usize) {
        let name = Str::from_static(text);
        let number = Slot::from_number(u16::try_from(slot).unwrap()).unwrap();
        let (state, _) = self.notices.watch(&name, number, self.routes[slot]);
        self.watches.push((name, state));
    }

    fn unwatch(&mut self) {
        if !self.watches.is_empty() {
            let (name, state) = self.watches.swap_remove(self.test_rng.below(self.watches.len()));
            drop(state);
            self.notices.unwatch(&name, self.now);
        }
    }

    /// Half a round of a node's connection: it takes the changes, or has executed them.
    fn serve(&mut self, node: NodeId) {
        if !self.is_in_use(node) {
            return;
        }
        let server = self.servers.get_mut(&node).unwrap();
        if server.is_down {
            return self.fail_to_connect(node);
        }
        let Some(changes) = server.changes.take() else {
            let max = 1 + self.test_rng.below(4);
            server.changes = Some(self.notices.take_changes(node, max, self.now));
            return;
        };
        for name in changes.ended.iter().chain(&changes.moved_away) {
            server.subscribed.remove(name);
        }
        let is_here = |name: &Str| !self.sharded || self.served[slot_of(name)] == Some(node);
        let (here, elsewhere): (Vec<_>, Vec<_>) = changes.wanted.iter().cloned().partition(is_here);
        server.subscribed.extend(here);
        self.notices.refuse(node, elsewhere);
        self.notices.confirm(node, &changes.wanted);
    }

    fn fail_to_connect(&mut self, node: NodeId) {
        let states = |watches: &[(Str, watch::Receiver<WatchState>)]| -> Vec<WatchState> {
            watches.iter().map(|(_, state)| *state.borrow()).collect()
        };
        let before = states(&self.watches);
        self.notices.still_disconnected(node);
        assert_eq!(states(&self.watches), before, "nothing was missed that was not missed before");
        let here = self.notices.channels.iter().filter(|(_, channel)| channel.node == Some(node));
        let kept: BTreeSet<_> = here.map(|(name, _)| name.clone()).collect();
        assert!(kept.is_subset(&self.watched()), "{kept:?}");
        let wanted = self.notices.wanted.get(&node).cloned().unwrap_or_default();
        assert!(wanted.len() == kept.len() && wanted.iter().all(|name| kept.contains(name)));
    }

    fn go_down(&mut self, node: NodeId) {
        if self.is_in_use(node) {
            self.lose(node);
            self.servers.get_mut(&node).unwrap().is_down = true;
        }
    }

    fn come_up(&mut self, node: NodeId) {
        self.servers.get_mut(&node).unwrap().is_down = false;
    }

    fn lose(&mut self, node: NodeId) {
        if !self.is_in_use(node) || self.servers[&node].is_down {
            return;
        }
        *self.servers.get_mut(&node).unwrap() = Server::default();
        self.notices.connection_lost(node);
    }

    /// Sharded subscriptions end with the move. A slot that comes back before the table was told is not tested
    /// here, because the table cannot see that.
    fn move_slot(&mut self) {
        let slot = self.test_rng.below(SLOTS);
        if self.served[slot] == self.routes[slot] {
            let to = self.test_rng.below(NODES as usize + 1);
            self.served[slot] =
                u32::try_from(to).ok().map(NodeId).filter(|node| self.servers.contains_key(node));
            if self.sharded && self.served[slot] != self.routes[slot] {
                for server in self.servers.values_mut() {
                    server.subscribed.retain(|name| slot_of(name) != slot);
                }
            }
        }
    }

    /// Without any node, no connection looks at the table.
    fn serve_again(&mut self, node: NodeId) {
        if self.served == [None; SLOTS] {
            self.served[0] = Some(node);
            self.follow();
        }
    }

    fn follow(&mut self) {
        self.routes = self.served;
        let routes = self.routes;
        self.notices.follow_routes(|slot| routes[usize::from(slot.number())]);
        self.notices.retain_nodes(|node| routes.contains(&Some(node)));
        for (node, server) in &mut self.servers {
            if !routes.contains(&Some(*node)) {
                *server = Server::default();
            }
        }
    }

    fn publish(&mut self) {
        let name = Str::from_static(NAMES[self.test_rng.below(NAMES.len())]);
        let is_received =
            self.served[slot_of(&name)].is_some_and(|node| self.servers[&node].subscribed.contains(&name));
        let counts = |watches: &[(Str, watch::Receiver<WatchState>)]| -> Vec<u64> {
            let ours = watches.iter().filter(|(watched, _)| *watched == name);
            ours.map(|(_, state)| state.borrow().notices).collect()
        };
        let before = counts(&self.watches);
        if is_received {
            self.notices.notice(&name);
        }
        let after: Vec<u64> = before.iter().map(|count| count + u64::from(is_received)).collect();
        assert_eq!(counts(&self.watches), after, "{name}");
    }

    fn is_in_use(&self, node: NodeId) -> bool {
        self.routes.contains(&Some(node))
    }

    fn watched(&self) -> BTreeSet<Str> {
        self.watches.iter().map(|(name, _)| name.clone()).collect()
    }

    fn check(&self) {
        for (name, state) in &self.watches {
            let slot = slot_of(name);
            if state.borrow().in_force && self.served[slot] == self.routes[slot] {
                let node = self.routes[slot].expect("in force at a node");
                assert!(
                    self.servers[&node].subscribed.contains(name),
                    "{name} is not subscribed at {node:?}"
                );
            }
        }
        let table = &self.notices;
        for (name, channel) in &table.channels {
            assert_eq!(channel.watches, self.watches.iter().filter(|(watched, _)| watched == name).count());
            assert_eq!(channel.node, self.routes[slot_of(name)], "{name}");
            let places = table.idle.iter().filter(|entry| entry.0 == *name).count();
            assert_eq!(places, usize::from(channel.queued), "{name}");
            assert!(channel.queued || channel.watches > 0, "{name} is idle, and nobody will look");
        }
        assert_eq!(table.idle_count, table.channels.values().filter(|channel| channel.watches == 0).count());
        let mut nodes = table.wanted.keys().chain(table.ended.keys()).chain(table.moved_away.keys());
        assert!(nodes.all(|node| self.is_in_use(*node)), "names of a node that has left");
    }

    /// All events are told and executed, while one busy name is watched and unwatched.
    fn settle(&mut self) {
        (0..NODES).for_each(|node| self.come_up(NodeId(node)));
        self.follow();
        if self.served == [None; SLOTS] {
            return;
        }
        for _ in 0..40 {
            self.now = self.now + WARM / 10;
            self.watch_name(NAMES[0], 0);
            for node in 0..NODES {
                (0..6).for_each(|_| self.serve(NodeId(node)));
            }
            let (name, _) = self.watches.pop().unwrap();
            self.notices.unwatch(&name, self.now);
            self.check();
        }
        let watched = self.watched();
        for (name, state) in &self.watches {
            assert_eq!(state.borrow().in_force, self.routes[slot_of(name)].is_some(), "{name}");
        }
        for (node, server) in &self.servers {
            let here = |name: &&Str| self.routes[slot_of(name)] == Some(*node) && !is_busy(name);
            let wanted: BTreeSet<_> = watched.iter().filter(here).cloned().collect();
            let subscribed: BTreeSet<_> =
                server.subscribed.iter().filter(|name| !is_busy(name)).cloned().collect();
            assert_eq!(subscribed, wanted, "at {node:?}");
        }
        let known: BTreeSet<_> =
            self.notices.channels.keys().filter(|name| !is_busy(name)).cloned().collect();
        assert_eq!(known, watched.into_iter().filter(|name| !is_busy(name)).collect());
    }
}

fn slot_of(name: &Str) -> usize {
    NAMES.iter().position(|known| known == name).unwrap() % SLOTS
}

fn is_busy(name: &Str) -> bool {
    *name == NAMES[0]
}

#[test]
fn l2_l6_what_is_said_of_a_subscription_is_true_and_in_the_end_all_are_as_watched() {
    let mut world = World::new(TestRng::from_env(), true);
    for round in 0..60 {
        // At the end of a round only watched channels are subscribed, so the kind may change.
        world.sharded = round % 2 == 0;
        for _ in 0..100 {
            world.step();
        }
        world.settle();
        world.serve_again(NodeId(round % NODES));
    }
}

const NODES: u32 = 3;
const SLOTS: usize = 4;
const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const WARM: Duration = Duration::from_secs(5);
const WARM_MAX: usize = 6;
