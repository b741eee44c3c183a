//! The nodes of one lane: exactly one for each server of the routes. A server that stays in the routes keeps its
//! connections, whatever else changes.

use std::{
    collections::HashMap,
    panic::resume_unwind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold::{
    clock::Instant,
    log,
    routing::{slot::Slot, topology::NodeId},
    transport::{ErrorKind, LaneStats, OpenLane, TransportError},
};
use tokio::{runtime::Handle, sync::watch, task::JoinError};
use tracing::Level;

use super::{node::Node, task::Task, topology_publisher::TopologyPublisher};
use crate::{
    config::RedisTopology,
    connection::Connection,
    discovery::{
        Server,
        deployment::{Deployment, Routes},
        most_helpful,
    },
    notices::Subscriber,
    wire::redirect::RedirectKind,
};

/// All nodes of one lane.
pub(crate) struct Nodes {
    lane: OpenLane,
    deployment: Arc<Deployment>,
    topology_publisher: Arc<TopologyPublisher>,
    subscriber: Option<Arc<Subscriber>>,
    runtime: Handle,
    handles: Mutex<HashMap<NodeId, NodeHandle>>,
    redirects: RedirectCounts,
}

/// How many requests followed a redirect to another node.
#[derive(Default)]
struct RedirectCounts {
    moved: AtomicU64,
    asked: AtomicU64,
}

struct NodeHandle {
    node: Arc<Node>,
    _tasks: Vec<Task>,
}

/// A panic of the attempt goes on. The attempt may also have been dropped with its runtime.
fn not_tried(failed: JoinError) -> TransportError {
    match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => TransportError::without_effect(ErrorKind::Unreachable, None, "the runtime was shut down"),
    }
}

impl Nodes {
    /// Starts without nodes. The tasks of its nodes will run on the current runtime.
    pub(crate) fn new(
        lane: OpenLane,
        deployment: Arc<Deployment>,
        subscriber: Option<Arc<Subscriber>>,
    ) -> Self {
        let (topology_publisher, handles, redirects) =
            (Arc::default(), Mutex::default(), RedirectCounts::default());
        Self {
            lane,
            deployment,
            topology_publisher,
            subscriber,
            runtime: Handle::current(),
            handles,
            redirects,
        }
    }

    /// The deadline of requests that carry no `execute_by` of their own.
    pub(crate) fn until(&self) -> Instant {
        self.lane.clock.now() + self.lane.command_timeout
    }

    pub(crate) fn topology_publisher(&self) -> &TopologyPublisher {
        &self.topology_publisher
    }

    pub(crate) fn subscriber(&self) -> Option<&Arc<Subscriber>> {
        self.subscriber.as_ref()
    }

    /// The runtime of the nodes' tasks.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// Connects to all servers of the routes concurrently. A server that cannot be used is tried again in the
    /// background.
    ///
    /// # Errors
    /// None of the servers that serve slots can be used. The error is that of [`most_helpful`].
    pub(crate) async fn open(&self) -> Result<(), TransportError> {
        let routes = self.deployment.routes();
        self.topology_publisher.set_routes(&routes);
        let mut attempts = tokio::task::JoinSet::new();
        for server in &routes.servers {
            attempts.spawn(self.handle(server.clone()));
        }
        let mut reached = Vec::new();
        let mut errors = Vec::new();
        while let Some(attempt) = attempts.join_next().await {
            match attempt.unwrap_or_else(|failed| Err(not_tried(failed))) {
                Ok(opened) => reached.push(opened),
                Err(error) => errors.push(error),
            }
        }
        let is_usable = reached.iter().any(|(id, _)| routes.serves(*id));
        for error in errors.iter().filter(|error| is_usable && error.kind.is_final()) {
            let error = error.clone();
            log::line(Level::WARN, move || {
                tracing::warn!(%error, "a server refuses; it is tried again, and the others are used");
            });
        }
        if let (false, Some(error)) = (is_usable, most_helpful(errors)) {
            return Err(error);
        }
        let mut handles = self.lock();
        for (id, handle) in reached {
            handles.insert(id, handle);
        }
        drop(handles);
        self.follow();
        Ok(())
    }

    // Opens the command connection and the connection for notices, each once.
    fn handle(
        &self,
        server: Arc<Server>,
    ) -> impl Future<Output = Result<(NodeId, NodeHandle), TransportError>> + Send + use<> {
        let node = self.node(server.clone());
        let subscriber = self.subscriber.clone();
        async move {
            let subscribe = async {
                match &subscriber {
                    Some(subscriber) => subscriber.connect(&server).await.map(Some),
                    None => Ok(None),
                }
            };
            let both = tokio::try_join!(node.connect(), subscribe);
            // The topology may already show the command connection. No task would take that back, so it is done
            // here.
            let (connection, subscribed) = both.inspect_err(|_| node.disconnect())?;
            let mut tasks = vec![Task::spawn(node.clone().keep_connected(Some(connection)))];
            tasks.extend(
                subscriber
                    .map(|subscriber| Task::spawn(subscriber.keep_subscribed(server.clone(), subscribed))),
            );
            Ok((server.id, NodeHandle { node, _tasks: tasks }))
        }
    }

    fn node(&self, server: Arc<Server>) -> Arc<Node> {
        Arc::new(Node::new(server, self.lane, self.deployment.clone(), self.topology_publisher.clone()))
    }

    /// Makes the nodes match the current routes: opens those that are missing, and drops those that are not in use
    /// any more.
    pub(crate) fn follow(&self) {
        let mut handles = self.lock();
        // Read under the lock: a concurrent call that comes second must not go back to older routes.
        let routes = self.deployment.routes();
        let left: Vec<NodeId> = handles.keys().copied().filter(|id| routes.server(*id).is_none()).collect();
        let gone: Vec<Option<NodeHandle>> = left.iter().map(|id| handles.remove(id)).collect();
        self.topology_publisher.set_routes(&routes);
        for server in &routes.servers {
            handles.entry(server.id).or_insert_with(|| self.open_in_background(server.clone()));
        }
        if let Some(subscriber) = &self.subscriber {
            subscriber.follow(&routes);
        }
        drop(handles);
        drop(gone);
    }

    fn open_in_background(&self, server: Arc<Server>) -> NodeHandle {
        let node = self.node(server.clone());
        let mut tasks = vec![Task::spawn_on(&self.runtime, node.clone().keep_connected(None))];
        tasks.extend(
            self.subscriber
                .clone()
                .map(|subscriber| Task::spawn_on(&self.runtime, subscriber.keep_subscribed(server, None))),
        );
        NodeHandle { node, _tasks: tasks }
    }

    /// Follows every change of the routes. It never returns while the deployment lives, which the nodes keep alive.
    pub(crate) async fn keep_following(self: Arc<Self>, mut changes: watch::Receiver<Arc<Routes>>) {
        loop {
            changes.mark_unchanged();
            self.follow();
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the connection to the node that serves `slot`.
    ///
    /// # Errors
    /// `NotReady` if no node serves the slot, `Unreachable` if its node is not connected.
    pub(crate) fn serving(&self, slot: Slot) -> Result<Arc<Connection>, TransportError> {
        match self.deployment.routes().serving(slot) {
            Some(id) => self.node_with(id)?.connection(),
            None => Err(self.no_server(slot)),
        }
    }

    /// Returns the connection to one node.
    ///
    /// # Errors
    /// `Unreachable` if the node is not connected, or not in use any more.
    pub(crate) fn connection(&self, id: NodeId) -> Result<Arc<Connection>, TransportError> {
        self.node_with(id)?.connection()
    }

    /// Returns the connection to a node that a redirect has named. The node may be new, so this waits for its
    /// connection until `until`.
    pub(crate) async fn connection_to(
        &self,
        server: &Server,
        until: Instant,
    ) -> Result<Arc<Connection>, TransportError> {
        let existing = self.lock().get(&server.id).map(|handle| handle.node.clone());
        let node = match existing {
            Some(node) => node,
            None => {
                self.follow();
                self.node_with(server.id)?
            }
        };
        node.connection_within(until).await
    }

    /// Returns an open connection, if there is one. Calls with rising `turn` get the nodes in rotation.
    pub(crate) fn any(&self, turn: usize) -> Option<Arc<Connection>> {
        let mut connected: Vec<_> = self.nodes().iter().filter_map(|node| node.connection().ok()).collect();
        connected.sort_by_key(|connection| connection.clock_id().node);
        let count = connected.len().max(1);
        (!connected.is_empty()).then(|| connected.swap_remove(turn % count))
    }

    /// Whether every slot has a server, and every server that serves slots has a connection.
    pub(crate) fn is_whole(&self) -> bool {
        let routes = self.deployment.routes();
        let is_connected = |server: &Arc<Server>| self.connection(server.id).is_ok();
        routes.is_whole() && routes.servers.iter().filter(|server| routes.serves(server.id)).all(is_connected)
    }

    /// Counts a request that followed a redirect of this kind.
    pub(crate) fn count_redirect(&self, kind: RedirectKind) {
        let count = match kind {
            RedirectKind::Moved => &self.redirects.moved,
            RedirectKind::Ask => &self.redirects.asked,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the redirects that this lane has followed, and the clock readings of its connected servers.
    pub(crate) fn stats(&self) -> LaneStats {
        let connected = self.nodes().into_iter().filter_map(|node| node.connection().ok());
        let mut stats = LaneStats::default();
        stats.moved = self.redirects.moved.load(Ordering::Relaxed);
        stats.asked = self.redirects.asked.load(Ordering::Relaxed);
        stats.clocks = connected.filter_map(|connection| connection.clock_reading()).collect();
        stats.clocks.sort_by_key(|clock| clock.node);
        stats
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.lock().values().map(|handle| handle.node.clone()).collect()
    }

    // Another lane may have left the server a moment ago, so the routes decide, not this lane's handles.
    fn node_with(&self, id: NodeId) -> Result<Arc<Node>, TransportError> {
        let is_in_use = self.deployment.routes().server(id).is_some();
        let node = self.lock().get(&id).filter(|_| is_in_use).map(|handle| handle.node.clone());
        node.ok_or_else(|| {
            let detail = "redis: this server is not in use any more";
            TransportError::without_effect(ErrorKind::Unreachable, Some(id), detail)
        })
    }

    fn no_server(&self, slot: Slot) -> TransportError {
        let detail = match self.deployment.config.topology {
            RedisTopology::Cluster => {
                format!("redis: no node serves slot {} at the moment; see CLUSTER INFO", slot.number())
            }
            RedisTopology::Single | RedisTopology::Sentinel => {
                "redis: there is no master at the moment; see SENTINEL MASTERS".to_owned()
            }
        };
        TransportError::without_effect(ErrorKind::NotReady, None, detail)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, NodeHandle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
