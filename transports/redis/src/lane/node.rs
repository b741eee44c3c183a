//! One node of one lane: keeps a checked command connection, and publishes its state in the lane's topology.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        Connection, Terms, backoff::Backoff, batching::Inquiry, identity::Run, warn_interval::WarnInterval,
    },
    discovery::{Server, deployment::Deployment},
};

/// One lane's command connection to one server.
pub(crate) struct Node {
    server: Arc<Server>,
    lane: OpenLane,
    deployment: Arc<Deployment>,
    topology_publisher: Arc<TopologyPublisher>,
    state: Mutex<ConnectionState>,
    connections: watch::Sender<u64>,
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
        let connections = watch::Sender::default();
        Self { server, lane, deployment, topology_publisher, state, connections }
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
            connection = self.reconnect(Backoff::after(self.now() - since)).await;
        }
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
        let (server, lane) = (self.server.name.clone(), self.lane.purpose);
        log::line(Level::WARN, move || tracing::warn!(%server, ?lane, "lost the connection to redis"));
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
            tokio::time::sleep(backoff.next_delay(self.now())).await;
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

    pub(crate) async fn connect(&self) -> Result<Arc<Connection>, TransportError> {
        let (link, run, checked) = self.server.connect(self.lane).await?;
        let config = self.server.config();
        let is_open = checked.features.is_to_be_asked_again(config);
        let terms = Terms {
            address: self.server.address.clone(),
            name: self.server.name.clone(),
            clock: self.lane.clock,
            clock_id: ClockId { node: self.server.id, epoch: run.epoch },
            command_timeout: self.lane.command_timeout,
            in_flight_max: config.in_flight_max,
            in_cluster: config.topology == RedisTopology::Cluster,
            kinds: checked.features.kinds(config),
            batches: checked.features.batches(config),
            batch_limit: self.server.batch_limit.clone(),
            inquiry: if is_open { Inquiry::open(self.now()) } else { Inquiry::default() },
        };
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
