//! One node of one lane: keeps a checked command connection, and publishes its state in the lane's topology.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{
    clock::Instant,
    log,
    routing::topology::{Batching, ClockId, Node as NodeState},
    transport::{ErrorKind, OpenLane, TransportError},
};
use tokio::sync::watch;
use tracing::Level;

use super::topology_publisher::TopologyPublisher;
use crate::{
    config::RedisTopology,
    connection::{
        CommandLink, Connection, Terms,
        backoff::{Backoff, downs_in_a_row},
        batching::Inquiry,
        identity::Run,
        link::{Failure, Link},
        warn_interval::WarnInterval,
    },
    discovery::{Server, deployment::Deployment},
    wire::arg::Arg,
};

/// One lane's command connection to one server.
pub(crate) struct Node {
    server: Arc<Server>,
    lane: OpenLane,
    deployment: Arc<Deployment>,
    topology_publisher: Arc<TopologyPublisher>,
    state: Mutex<ConnectionState>,
    connections: watch::Sender<u64>,
    /// How many connections in a row ended because the cluster is down.
    downs: AtomicU32,
}

/// The current connection, or why there is none.
enum ConnectionState {
    Connected(Arc<Connection>),
    Disconnected(Arc<str>),
}

impl Node {
    pub(crate) fn new(
        server: Arc<Server>,
        lane: OpenLane,
        deployment: Arc<Deployment>,
        topology_publisher: Arc<TopologyPublisher>,
    ) -> Self {
        let state = Mutex::new(ConnectionState::Disconnected("not connected yet".into()));
        let (connections, downs) = (watch::Sender::default(), AtomicU32::default());
        Self { server, lane, deployment, topology_publisher, state, connections, downs }
    }

    /// Connects, and reconnects whenever the connection ends. It never returns.
    pub(crate) async fn keep_connected(self: Arc<Self>, first: Option<Arc<Connection>>) {
        let mut connection = match first {
            Some(connection) => connection,
            None => self.reconnect(Backoff::at_once()).await,
        };
        loop {
            let since = self.now();
            self.serve(&connection).await;
            self.handle_loss(&connection);
            connection = self.reconnect(self.backoff_after(&connection, self.now() - since)).await;
        }
    }

    // While the cluster is down, each caller's request would be refused, so the first refusal ends the connection. The backoff grows, so the node does not
    // reconnect once per caller.
    fn backoff_after(&self, connection: &Connection, lasted: Duration) -> Backoff {
        if !connection.has_met_cluster_down() {
            self.downs.store(0, Ordering::Relaxed);
            return Backoff::after(lasted);
        }
        let downs = downs_in_a_row(self.downs.load(Ordering::Relaxed), lasted);
        self.downs.store(downs, Ordering::Relaxed);
        Backoff::cluster_down(downs)
    }

    /// Returns the current checked connection.
    ///
    /// # Errors
    /// `Unreachable` if the node is not connected, with the reason.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>, TransportError> {
        match &*self.lock() {
            ConnectionState::Connected(connection) => Ok(connection.clone()),
            ConnectionState::Disconnected(why) => Err(self.unreachable(why)),
        }
    }

    /// Returns the current checked connection, and waits for one until `until`.
    ///
    /// # Errors
    /// As [`connection`](Self::connection), once `until` has passed.
    pub(crate) async fn connection_within(&self, until: Instant) -> Result<Arc<Connection>, TransportError> {
        let mut connections = self.connections.subscribe();
        loop {
            let now = self.connection();
            let change = connections.changed();
            if now.is_ok() || tokio::time::timeout(until - self.now(), change).await.is_err() {
                return now;
            }
        }
    }

    async fn serve(&self, connection: &Connection) {
        tokio::select! {
            _ = connection.ended() => {}
            _ = self.server.outdated(connection.clock_id().epoch) => {}
        }
    }

    fn handle_loss(&self, connection: &Connection) {
        connection.kill();
        if connection.has_lost_role() {
            self.server.handle_lost_role(self.now()); // before the node is published as not connected
        }
        *self.lock() = ConnectionState::Disconnected("the connection was lost".into());
        self.server.lost(connection.clock_id().epoch, self.now());
        self.topology_publisher.set_disconnected(self.server.id);
        self.deployment.request_refresh();
        let (server, lane, why) = (self.server.name.clone(), self.lane.purpose, connection.link().ended_by());
        log::line(Level::WARN, move || tracing::warn!(%server, ?lane, %why, "lost the connection to redis"));
    }

    /// Closes the current connection, if there is one, because the lane will not use it.
    pub(crate) fn disconnect(&self) {
        if let Ok(connection) = self.connection() {
            self.handle_loss(&connection);
        }
    }

    async fn reconnect(&self, mut backoff: Backoff) -> Arc<Connection> {
        let mut warn_interval = WarnInterval::default();
        loop {
            self.wait(backoff.next_delay(self.now())).await;
            match self.connect().await {
                Ok(connection) => {
                    let (server, lane) = (self.server.name.clone(), self.lane.purpose);
                    log::line(Level::INFO, move || tracing::info!(%server, ?lane, "connected to redis"));
                    return connection;
                }
                Err(error) => {
                    if error.kind.is_final() {
                        backoff.refused();
                    }
                    *self.lock() = ConnectionState::Disconnected(error.detail.clone());
                    self.log_failure(error, warn_interval.is_due(self.now()));
                }
            }
        }
    }

    fn log_failure(&self, error: TransportError, is_due: bool) {
        let (server, lane) = (self.server.name.clone(), self.lane.purpose);
        match is_due {
            true => log::line(Level::WARN, move || {
                tracing::warn!(%server, ?lane, %error, "cannot connect to redis");
            }),
            false => log::line(Level::DEBUG, move || {
                tracing::debug!(%server, ?lane, %error, "cannot connect to redis");
            }),
        }
    }

    // While the cluster is down, changed routes (a replica was promoted) are a reason to try before the delay is
    // over. The wait lasts at least `DOWN_LEAST`.
    async fn wait(&self, delay: Duration) {
        if !self.may_be_down() {
            return tokio::time::sleep(delay).await;
        }
        let mut changes = self.deployment.changes();
        tokio::time::sleep(delay.min(DOWN_LEAST)).await;
        let _ = tokio::time::timeout(delay.saturating_sub(DOWN_LEAST), changes.changed()).await;
    }

    fn may_be_down(&self) -> bool {
        self.downs.load(Ordering::Relaxed) > 0
    }

    // The topology does not show a node as connected before its cluster is up. Otherwise all waiting callers would
    // send their requests, and be refused.
    async fn must_be_up(&self, link: &impl Link) -> Result<(), TransportError> {
        if !self.may_be_down() {
            return Ok(());
        }
        let args = vec![Arg::word(NO_LOCK), Arg::word(NO_LOCK)];
        // Every reply except `CLUSTERDOWN` means that the cluster is up, also a redirect to another node, and a
        // missing right.
        let asked = link.request("HEXISTS", args, self.lane.command_timeout).await;
        if !matches!(asked, Err(Failure::Refused(text)) if text.starts_with("CLUSTERDOWN")) {
            return Ok(());
        }
        let detail = format!("redis {}: the cluster is down; see CLUSTER INFO", self.server.name);
        Err(TransportError::without_effect(ErrorKind::NotReady, Some(self.server.id), detail))
    }

    pub(crate) async fn connect(&self) -> Result<Arc<Connection>, TransportError> {
        let (link, run, checked) = self.server.connect::<CommandLink>(self.lane).await?;
        self.must_be_up(&*link).await?;
        let config = self.server.config();
        let is_open = checked.features.is_to_be_asked_again(config);
        let terms = Terms {
            address: self.server.address.clone(),
            name: self.server.name.clone(),
            clock: self.lane.clock,
            clock_id: ClockId { node: self.server.id, epoch: run.epoch },
            command_timeout: self.lane.command_timeout,
            in_flight_max: config.in_flight_max,
            fair_wait: self.lane.fair_wait,
            in_cluster: config.topology == RedisTopology::Cluster,
            kinds: checked.features.kinds(config),
            batches: checked.features.batches(config),
            batch_limit: self.server.batch_limit.clone(),
            inquiry: if is_open { Inquiry::open(self.now()) } else { Inquiry::default() },
        };
        if self.lane.follows_callers {
            link.follow_callers();
        }
        let run_id = checked.findings.run_id.as_deref();
        let connection = Arc::new(Connection::new(link, terms, checked.sample, run_id));
        let run_id = run_id.map(Arc::from);
        // The topology is published first, the connection second: no caller may use a run that was not published.
        self.topology_publisher.set_connected(self.published(run, run_id, connection.batches().for_engine()));
        *self.lock() = ConnectionState::Connected(connection.clone());
        self.connections.send_modify(|count| *count += 1);
        Ok(connection)
    }

    fn published(&self, run: Run, run_id: Option<Arc<str>>, batching: Batching) -> NodeState {
        let clock = ClockId { node: self.server.id, epoch: run.epoch };
        let leases_max = self.server.config().batch_leases_max;
        let mut node = NodeState::new(clock, self.server.name.to_string(), leases_max);
        node.up_since = run.up_since;
        node.run_id = run_id;
        node.connected = true;
        node.batching = batching;
        node
    }

    fn unreachable(&self, why: &str) -> TransportError {
        let detail = format!("redis {} is not connected: {why}", self.server.name);
        TransportError::without_effect(ErrorKind::Unreachable, Some(self.server.id), detail)
    }

    fn now(&self) -> Instant {
        self.lane.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let ConnectionState::Connected(connection) = &*self.lock() {
            connection.kill();
        }
    }
}

/// After the cluster was found down, the node waits at least this long before it tries again.
const DOWN_LEAST: Duration = Duration::from_millis(500);
/// A key that no lock uses. The reply to a read of it shows whether the cluster is up.
const NO_LOCK: &str = "leasehold";
