//! The servers of a deployment and the slots that they serve. All lanes of a transport share this state: what one
//! lane learns, every lane follows. A server that stops being a master is left by all lanes at once.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::{
    clock::Instant,
    log,
    routing::{
        slot::{SLOTS, Slot},
        topology::{NodeId, SlotRange},
    },
};
use tokio::sync::watch;
use tracing::Level;

use super::{
    master_election::{MasterElection, SentinelId},
    membership::{Membership, Origin},
    node_addresses::NodeAddresses,
    server::Server,
    slots::{NodeView, SlotClaims, SlotTable},
};
use crate::{
    config::{Address, RedisConfig, RedisTopology},
    wire::{
        cluster_nodes::Described,
        redirect::{Redirect, RedirectKind},
        sentinel::{MasterReport, Switch},
    },
};

/// What all lanes of one transport know about its servers.
pub(crate) struct Deployment {
    pub(crate) config: Arc<RedisConfig>,
    state: Mutex<State>,
    routes: watch::Sender<Arc<Routes>>,
    refresh_requests: watch::Sender<u64>,
}

/// The servers in use, and the slots that they serve, at one moment.
#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) ranges: Vec<SlotRange>,
}

#[derive(Default)]
struct State {
    servers: HashMap<Address, Arc<Server>>,
    next_id: u32,
    slots: SlotTable,
    node_addresses: NodeAddresses,
    membership: Membership,
    /// Masters of a cluster without slots. They stay connected, because slots are likely to be moved to them next.
    empty: HashSet<NodeId>,
    /// Servers that have served slots at any time. After a failover the other nodes describe the old master as a
    /// master without slots, until it has corrected them. So such a server is connected again only when it serves
    /// slots, or when a redirect names it.
    served: HashSet<NodeId>,
    master_election: MasterElection,
}

impl Deployment {
    pub(crate) fn new(config: RedisConfig) -> Self {
        let deployment = Self {
            config: Arc::new(config),
            state: Mutex::default(),
            routes: watch::Sender::default(),
            refresh_requests: watch::Sender::default(),
        };
        if let (RedisTopology::Single, Some(address)) =
            (deployment.config.topology, deployment.config.addresses.first())
        {
            let server = deployment.server_at(&mut deployment.lock(), address);
            deployment.routes.send_replace(Arc::new(Routes::of_one(server)));
        }
        deployment
    }

    pub(crate) fn routes(&self) -> Arc<Routes> {
        self.routes.borrow().clone()
    }

    /// Receives every change of the routes.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Routes>> {
        self.routes.subscribe()
    }

    /// Asks the discovery task to look soon, because something contradicts the routes.
    pub(crate) fn request_refresh(&self) {
        self.refresh_requests.send_modify(|count| *count += 1);
    }

    /// Receives every call of [`request_refresh`](Self::request_refresh).
    pub(crate) fn refresh_requests(&self) -> watch::Receiver<u64> {
        self.refresh_requests.subscribe()
    }

    /// Takes in a sentinel's reply that names the master. `known` is the number of known sentinels; the two moments
    /// are those of the question and the reply.
    pub(crate) fn handle_report(
        &self,
        sentinel: &SentinelId,
        report: MasterReport,
        known: usize,
        (asked, now): (Instant, Instant),
    ) {
        let mut state = self.lock();
        if state.master_election.handle_report(sentinel, report, known, (asked, now)) {
            self.follow_master(&mut state, now);
        }
    }

    /// Takes in a sentinel's message that a failover has happened.
    pub(crate) fn handle_switch(&self, sentinel: &SentinelId, switch: &Switch, now: Instant) {
        let mut state = self.lock();
        if state.master_election.handle_switch(sentinel, switch, now) {
            self.follow_master(&mut state, now);
            drop(state);
            let (from, to) = (switch.from.clone(), switch.to.clone());
            log::line(Level::WARN, move || {
                tracing::warn!(%from, %to, "a sentinel reports a failover: leaving the old master");
            });
        }
    }

    fn follow_master(&self, state: &mut State, now: Instant) {
        let master = state.master_election.master().cloned();
        let routes =
            master.map_or_else(Routes::default, |address| Routes::of_one(self.server_at(state, &address)));
        self.replace(state, routes, now);
    }

    /// Takes in the view of the cluster that the node at `asked` has returned. Returns `false` if the node belongs
    /// to another cluster.
    pub(crate) fn handle_view(&self, asked: &Address, view: &[Described], now: Instant) -> bool {
        let mut state = self.lock();
        let view: Vec<_> = view.iter().map(|node| self.translated(node)).collect();
        match state.membership.judge(&view, now) {
            Origin::Member => {}
            Origin::NewForeign => {
                drop(state);
                let node = asked.clone();
                log::line(Level::WARN, move || {
                    tracing::warn!(%node, "a node of another cluster answers at this address: its view is ignored");
                });
                return false;
            }
            Origin::Foreign => return false,
        }
        self.merge_view(&mut state, asked, &view, now);
        true
    }

    fn translated(&self, node: &Described) -> Described {
        Described { address: self.config.reachable(&node.address), ..node.clone() }
    }

    fn merge_view(&self, state: &mut State, asked: &Address, view: &[Described], now: Instant) {
        let view = &state.node_addresses.complete(view);
        let node_view = self.node_view(state, asked, view);
        let masters = view.iter().filter(|node| node.is_master && !node.is_out && node.slots.is_empty());
        let masters = masters.map(|node| self.server_at(state, &node.address).id).collect::<Vec<_>>();
        let is_new = |id: &NodeId| state.empty.contains(id) || !state.served.contains(id);
        let empty = masters.into_iter().filter(is_new).collect();
        let has_changed = state.slots.merge(&node_view);
        if has_changed || state.empty != empty {
            state.empty = empty;
            self.follow_slots(state, now);
        }
    }

    fn node_view(&self, state: &mut State, asked: &Address, view: &[Described]) -> NodeView {
        let myself = view.iter().find(|node| node.is_myself).map_or(asked, |node| &node.address);
        let by = self.server_at(state, myself).id;
        let known = view.iter().map(|node| self.server_at(state, &node.address).id).collect();
        // A node that was set up again keeps its address, and the view also has the failed line of its predecessor.
        // That line says nothing about the new node.
        let is_in_use = |at: &Address| view.iter().any(|node| !node.is_failed && node.address == *at);
        let failed = view.iter().filter(|node| node.is_failed && !is_in_use(&node.address));
        let failed = failed.map(|node| (self.server_at(state, &node.address).id, node.epoch)).collect();
        let masters = view.iter().filter(|node| node.is_master && !node.slots.is_empty());
        let claims = masters.map(|node| SlotClaims {
            node: self.server_at(state, &node.address).id,
            epoch: node.epoch,
            slots: node.slots.clone(),
        });
        NodeView { by, known, failed, masters: claims.collect() }
    }

    /// Takes in a redirect by the server `by`, and returns the server that it names. All lanes know that server
    /// when this returns.
    pub(crate) fn handle_redirect(&self, redirect: &Redirect, by: NodeId, now: Instant) -> Arc<Server> {
        let mut state = self.lock();
        let to = self.server_at(&mut state, &self.config.reachable(&redirect.to));
        let moved = redirect.kind == RedirectKind::Moved && state.slots.moved(redirect.slot, by, to.id);
        let is_used = self.routes.borrow().server(to.id).is_some();
        if moved || !is_used {
            state.empty.insert(to.id);
            self.follow_slots(&mut state, now);
        }
        self.request_refresh();
        to
    }

    fn follow_slots(&self, state: &mut State, now: Instant) {
        let ranges = state.slots.ranges();
        let serving: HashSet<NodeId> = ranges.iter().map(|range| range.node).collect();
        // A server that serves slots is removed from the empty ones: it must be added again when it loses its
        // slots.
        state.empty.retain(|id| !serving.contains(id));
        state.served.extend(&serving);
        let in_use = |server: &&Arc<Server>| serving.contains(&server.id) || state.empty.contains(&server.id);
        let mut servers: Vec<_> = state.servers.values().filter(in_use).cloned().collect();
        servers.sort_by_key(|server| server.id);
        self.replace(state, Routes { servers, ranges }, now);
    }

    // The routes are published before old servers are left, so no request is sent to a server that was left.
    fn replace(&self, state: &mut State, routes: Routes, now: Instant) {
        let routes = Arc::new(routes);
        let is_added = |server: &&Arc<Server>| self.routes.borrow().server(server.id).is_none();
        routes.servers.iter().filter(is_added).for_each(|server| server.reinstate());
        let before = self.routes.send_replace(routes.clone());
        let gone = before.servers.iter().filter(|server| routes.server(server.id).is_none());
        gone.for_each(|server| server.retire(now));
        if state.servers.len() > REMEMBERED_MAX {
            state.servers.retain(|_, server| routes.server(server.id).is_some());
            let known: HashSet<NodeId> = state.servers.values().map(|server| server.id).collect();
            state.served.retain(|id| known.contains(id));
        }
    }

    fn server_at(&self, state: &mut State, address: &Address) -> Arc<Server> {
        if let Some(server) = state.servers.get(address) {
            return server.clone();
        }
        let server = Arc::new(Server::new(NodeId(state.next_id), address.clone(), self.config.clone()));
        state.next_id += 1;
        state.servers.insert(address.clone(), server.clone());
        server
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Routes {
    fn of_one(server: Arc<Server>) -> Self {
        let range = SlotRange { first: slot(0), last: slot(SLOTS - 1), node: server.id };
        Self { servers: vec![server], ranges: vec![range] }
    }

    /// Returns the server with this id, if it is in use.
    pub(crate) fn server(&self, id: NodeId) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// Returns the node that serves `slot`.
    pub(crate) fn serving(&self, slot: Slot) -> Option<NodeId> {
        let behind = self.ranges.partition_point(|range| range.first <= slot);
        let range = self.ranges[..behind].last()?;
        (slot <= range.last).then_some(range.node)
    }

    /// Whether the node serves any slot.
    pub(crate) fn serves(&self, id: NodeId) -> bool {
        self.ranges.iter().any(|range| range.node == id)
    }

    /// Whether every slot has a node that serves it.
    pub(crate) fn is_whole(&self) -> bool {
        let served: u32 =
            self.ranges.iter().map(|range| u32::from(range.last.number() - range.first.number()) + 1).sum();
        served == u32::from(SLOTS)
    }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).expect("a constant below 16384")
}

/// More addresses than any deployment has at one time. Beyond this number, addresses that are not in use are
/// forgotten.
const REMEMBERED_MAX: usize = 1_000;

#[cfg(test)]
#[path = "deployment_tests.rs"]
mod tests;
