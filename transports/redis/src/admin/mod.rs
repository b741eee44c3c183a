//! Questions of an operator to all servers of a deployment: which locks are there, and which connections are open. It
//! only reads.

mod clients;
mod listeners;
mod master;
mod scan;

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{
    clock::Clock,
    transport::{LanePurpose, OpenLane, TransportError},
};

use self::master::Master;
pub use self::{
    clients::ClientConnection,
    scan::{FoundLock, LockScan},
};
use crate::{
    RedisTransport,
    config::RedisTopology,
    discovery::{deployment::Deployment, find_cluster, find_master, most_helpful},
};

/// Connections of an operator to all masters of a deployment, beside those of engines. It reads, and never writes. serde
/// writes what it returns: [`FoundLock`], [`ClientConnection`], and the errors of [`unreachable`](Self::unreachable).
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use leasehold_redis::{RedisAdmin, RedisTransport};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = RedisTransport::from_url("redis-cluster://10.0.0.1")?;
/// let admin = RedisAdmin::connect(&transport, Duration::from_secs(1)).await?;
/// let mut scan = admin.locks("orders:*");
/// while let Some(lock) = scan.next().await? {
///     println!("{} is held by {} owners", lock.name, lock.holds.len());
/// }
/// # Ok(()) }
/// ```
pub struct RedisAdmin {
    masters: Vec<Master>,
    unreachable: Vec<TransportError>,
    unserved_slots: bool,
    timeout: Duration,
}

impl RedisAdmin {
    /// Finds the masters as an engine does, and connects to each. A step of connecting, and each later request, may
    /// take `timeout`, for example 1 s.
    ///
    /// # Errors
    /// No master can be used. The text names the server and the remedy, and holds no password.
    ///
    /// # Cancel safety
    /// Dropping the future closes its connections.
    pub async fn connect(transport: &RedisTransport, timeout: Duration) -> Result<Self, TransportError> {
        let lane = OpenLane::new(LanePurpose::Calls, Clock::Boot, timeout);
        let deployment = transport.deployment();
        find(deployment, lane).await?;
        let routes = deployment.routes();
        let opened = routes.servers.iter().map(|server| Master::open(server.clone(), deployment, lane));
        let (mut masters, mut unreachable) = (Vec::new(), Vec::new());
        for opened in join_all(opened).await {
            match opened {
                Ok(master) => masters.push(master),
                Err(error) => unreachable.push(error),
            }
        }
        if masters.is_empty() {
            most_helpful(unreachable.iter().cloned()).map_or(Ok(()), Err)?;
        }
        let is_cluster = deployment.config.topology == RedisTopology::Cluster;
        Ok(Self { masters, unreachable, unserved_slots: is_cluster && !routes.is_whole(), timeout })
    }

    /// Why masters could not be asked, one error for each. Empty: every master that is known was reached.
    pub fn unreachable(&self) -> &[TransportError] {
        &self.unreachable
    }

    /// Whether slots of the cluster had no master when this connected. Their locks cannot be seen.
    pub fn has_unserved_slots(&self) -> bool {
        self.unserved_slots
    }

    /// Begins to look for locks, those of one master after the other. `pattern` is a pattern of the command `SCAN`
    /// for the names on the server, the `name_prefix` of engines included. The scan sends nothing until its
    /// [`next`](LockScan::next) is called.
    pub fn locks(&self, pattern: impl Into<String>) -> LockScan<'_> {
        LockScan::new(&self.masters, self.timeout, pattern.into())
    }

    /// How many connections listen to the channel of each lock, in the order of `locks`, by `PUBSUB NUMSUB` and
    /// `PUBSUB SHARDNUMSUB` at each master.
    ///
    /// A process whose callers wait for a lock listens with one connection, however many callers wait. An engine keeps
    /// the subscription for `notices_warm_ms` after its last wait. Callers of a spin lock do not listen, nor does a
    /// client of Redisson that only tries.
    ///
    /// # Errors
    /// A master does not answer, or refuses. The user needs the right to `PUBSUB NUMSUB` and `PUBSUB SHARDNUMSUB`.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer.
    pub async fn listeners(&self, locks: &[FoundLock]) -> Result<Vec<u64>, TransportError> {
        listeners::of(&self.masters, locks, self.timeout).await
    }

    /// The connections that are open at each master, by `CLIENT LIST`.
    ///
    /// # Errors
    /// A master does not answer, or refuses. The user needs the right to `CLIENT LIST`.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer.
    pub async fn clients(&self) -> Result<Vec<ClientConnection>, TransportError> {
        let lists = join_all(self.masters.iter().map(|master| clients::of(master, self.timeout))).await;
        let lists: Result<Vec<_>, _> = lists.into_iter().collect();
        Ok(lists?.into_iter().flatten().collect())
    }
}

async fn find(deployment: &Deployment, lane: OpenLane) -> Result<(), TransportError> {
    match deployment.config.topology {
        RedisTopology::Single => Ok(()),
        RedisTopology::Sentinel => find_master(deployment, lane).await,
        RedisTopology::Cluster => find_cluster(deployment, lane).await,
    }
}
