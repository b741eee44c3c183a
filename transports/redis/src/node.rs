//! One node of one lane: keeps a checked command connection, and says so in the topology.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold::{
    clock::Instant,
    routing::topology::{Batching, ClockId, Node as NodeState, NodeId, Topology},
    transport::{ErrorKind, LanePurpose, OpenLane, TransportError},
};
use tokio::sync::watch;

use crate::{
    config::{Address, RedisConfig},
    connection::backoff::Backoff,
    connection::check::{Checked, Unfit, check},
    connection::identity::{Identity, Run},
    connection::link::{Link, LinkKind, Login, Target},
    connection::{Connection, Terms},
};

/// What all lanes of one transport know of its node.
pub(crate) struct Server {
    pub(crate) config: RedisConfig,
    pub(crate) address: Arc<str>,
    identity: Mutex<Identity>,
    epoch: watch::Sender<u32>,
}

impl Server {
    pub(crate) fn new(config: RedisConfig) -> Self {
        let address = config.addresses.first().map_or_else(String::new, Address::to_string).into();
        Self { config, address, identity: Mutex::default(), epoch: watch::Sender::new(0) }
    }

    /// Connects and checks; the run that it found is the node's present one from then on.
    pub(crate) async fn connect(
        &self,
        kind: LinkKind,
        lane: OpenLane,
    ) -> Result<(Link, Run, Checked), TransportError> {
        let (clock, step) = (lane.clock, lane.command_timeout);
        let link = Link::open(self.target(), kind, clock, step).await?;
        match check(&link, connection_name(kind, lane.purpose), &self.address, clock, step).await {
            Ok(checked) => {
                let run = self.change(|identity| identity.adopt(checked.findings.clone(), clock.now()));
                Ok((link, run, checked))
            }
            Err(Unfit::NotMaster(error)) => {
                self.change(|identity| identity.demoted(clock.now()));
                Err(error)
            }
            Err(Unfit::Other(error)) => Err(error),
        }
    }

    fn target(&self) -> Target<'_> {
        Target { config: &self.config, address: &self.config.addresses[0], login: Login::Server }
    }

    /// Waits until `epoch` is not the node's any more.
    pub(crate) async fn outdated(&self, epoch: u32) {
        // The sender is ours, so waiting cannot fail.
        let _ = self.epoch.subscribe().wait_for(|present| *present != epoch).await;
    }

    fn change<T>(&self, work: impl FnOnce(&mut Identity) -> T) -> T {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut identity);
        let epoch = identity.epoch();
        self.epoch.send_if_modified(|present| std::mem::replace(present, epoch) != epoch);
        result
    }
}

/// One lane's view of the node.
pub(crate) struct Node {
    server: Arc<Server>,
    lane: OpenLane,
    present: Mutex<Present>,
    topology: watch::Sender<Arc<Topology>>,
}

/// The connection of the moment, or why there is none.
enum Present {
    Connected(Arc<Connection>),
    Broken(Arc<str>),
}

impl Node {
    /// Connects for the first time.
    pub(crate) async fn open(
        server: Arc<Server>,
        lane: OpenLane,
    ) -> Result<(Arc<Node>, Arc<Connection>), TransportError> {
        let topology = watch::Sender::new(Arc::new(Topology::default()));
        let present = Mutex::new(Present::Broken("not connected yet".into()));
        let node = Arc::new(Node { server, lane, present, topology });
        let connection = node.connect().await?;
        Ok((node, connection))
    }

    /// Replaces the connection whenever it ends, for ever.
    pub(crate) async fn keep_connected(self: Arc<Self>, mut connection: Arc<Connection>) {
        loop {
            let since = self.now();
            self.serve(&connection).await;
            self.lose(&connection);
            connection = self.reconnect(Backoff::after(self.now() - since)).await;
        }
    }

    /// The checked connection of the moment.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>, TransportError> {
        match &*self.lock() {
            Present::Connected(connection) => Ok(connection.clone()),
            Present::Broken(why) => Err(self.unreachable(why)),
        }
    }

    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    async fn serve(&self, connection: &Connection) {
        tokio::select! {
            _ = connection.ended() => {}
            _ = self.server.outdated(connection.clock_id().epoch) => {}
        }
    }

    fn lose(&self, connection: &Connection) {
        connection.kill();
        tracing::warn!(server = %self.server.address, lane = ?self.lane.purpose, "lost the connection to redis");
        *self.lock() = Present::Broken("the connection was lost".into());
        self.server.change(|identity| identity.lost(connection.clock_id().epoch, self.now()));
        self.topology.send_modify(|topology| *topology = Arc::new(disconnected(topology)));
    }

    async fn reconnect(&self, mut backoff: Backoff) -> Arc<Connection> {
        loop {
            tokio::time::sleep(backoff.next_delay(self.now())).await;
            match self.connect().await {
                Ok(connection) => {
                    tracing::info!(server = %self.server.address, lane = ?self.lane.purpose, "connected to redis again");
                    return connection;
                }
                Err(error) => {
                    tracing::debug!(server = %self.server.address, %error, "cannot connect to redis");
                    *self.lock() = Present::Broken(error.detail);
                }
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, TransportError> {
        let connected = self.server.connect(LinkKind::Commands, self.lane).await;
        let (link, run, checked) = connected.map_err(|error| TransportError { node: Some(NODE), ..error })?;
        let terms = Terms {
            address: self.server.address.clone(),
            clock: self.lane.clock,
            clock_id: ClockId { node: NODE, epoch: run.epoch },
            command_timeout: self.lane.command_timeout,
            in_flight_max: self.server.config.in_flight_max,
        };
        let connection = Arc::new(Connection::new(link, terms, checked.sample));
        // First the topology, then the connection: nobody may use a run that was not told.
        self.publish(run);
        *self.lock() = Present::Connected(connection.clone());
        Ok(connection)
    }

    fn publish(&self, run: Run) {
        let node = NodeState {
            id: NODE,
            address: self.server.address.to_string(),
            clock: ClockId { node: NODE, epoch: run.epoch },
            up_since: run.up_since,
            connected: true,
            batch_leases_max: self.server.config.batch_leases_max,
            batching: Batching::AcrossSlots,
        };
        self.topology
            .send_modify(|topology| *topology = Arc::new(Topology::single(topology.epoch() + 1, node)));
    }

    fn unreachable(&self, why: &str) -> TransportError {
        let detail = format!("redis {} is not connected: {why}", self.server.address);
        TransportError::without_effect(ErrorKind::Unreachable, Some(NODE), detail)
    }

    fn now(&self) -> Instant {
        self.lane.clock.now()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn disconnected(topology: &Topology) -> Topology {
    match topology.node(NODE) {
        Some(node) => Topology::single(topology.epoch() + 1, NodeState { connected: false, ..node.clone() }),
        None => topology.clone(),
    }
}

/// As `CLIENT LIST` shows it.
fn connection_name(kind: LinkKind, purpose: LanePurpose) -> &'static str {
    match (kind, purpose) {
        (LinkKind::Notices, _) => "leasehold-notices",
        (LinkKind::Commands, LanePurpose::Calls) => "leasehold-calls",
        (LinkKind::Commands, LanePurpose::Renewals) => "leasehold-renewals",
    }
}

/// The one node of a single server.
pub(crate) const NODE: NodeId = NodeId(0);
