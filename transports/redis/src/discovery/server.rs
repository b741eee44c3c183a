//! One server address, with the state that all lanes of a transport share: its node id, its current run, and its
//! open connections.

use std::{
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    routing::topology::NodeId,
    transport::{ErrorKind, LanePurpose, OpenLane, TransportError},
};
use tokio::sync::watch;

use crate::{
    config::{Address, RedisConfig, RedisTopology},
    connection::{
        batching::BatchLimit,
        connect::{Login, Target},
        handshake::{Checked, Unfit, check},
        identity::{Identity, Run},
        link::{Kill, Link, LinkKind},
    },
    wire::client_list,
};

/// A server that is, was or may become a master.
pub(crate) struct Server {
    pub(crate) id: NodeId,
    pub(crate) address: Address,
    /// The address as text.
    pub(crate) name: Arc<str>,
    /// What the server's replies have shown about batches of renewals.
    pub(crate) batch_limit: Arc<BatchLimit>,
    config: Arc<RedisConfig>,
    identity: Mutex<Identity>,
    epoch: watch::Sender<u32>,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    open: Vec<Weak<dyn Kill>>,
    /// How many times the server was left.
    retirements: u64,
}

impl Server {
    pub(crate) fn new(id: NodeId, address: Address, config: Arc<RedisConfig>) -> Self {
        Self {
            id,
            name: address.to_string().into(),
            address,
            batch_limit: Arc::default(),
            config,
            identity: Mutex::default(),
            epoch: watch::Sender::new(0),
            links: Mutex::default(),
        }
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.config
    }

    /// Connects and runs the handshake. The run that the handshake finds becomes the server's current one.
    pub(crate) async fn connect<L: Link>(
        &self,
        lane: OpenLane,
    ) -> Result<(Arc<L>, Run, Checked), TransportError> {
        self.connect_and_check(lane).await.map_err(|error| error.of_node(self.id))
    }

    async fn connect_and_check<L: Link>(
        &self,
        lane: OpenLane,
    ) -> Result<(Arc<L>, Run, Checked), TransportError> {
        let (clock, step) = (lane.clock, lane.command_timeout);
        self.wait_for_pause(clock).await;
        let link = self.open::<L>(clock, step).await?;
        let name = connection_name(L::KIND, lane);
        match check(&*link, &name, &self.name, self.config.topology, clock, step).await {
            Ok(checked) => {
                let run = self.change(|identity| identity.adopt(checked.findings.clone(), clock.now()));
                Ok((link, run, checked))
            }
            Err(Unfit::NotMaster(error)) => {
                self.demoted(clock.now());
                Err(error)
            }
            Err(Unfit::Other(error)) => Err(error),
        }
    }

    async fn open<L: Link>(&self, clock: Clock, step: Duration) -> Result<Arc<L>, TransportError> {
        let target = Target { config: &self.config, address: &self.address, login: Login::Server };
        let retirements_before = self.links().retirements;
        let link = Arc::new(L::open(target, clock, step).await?);
        let mut links = self.links();
        if links.retirements != retirements_before {
            let why = format!("redis {} was taken out of use while connecting; ask again", self.name);
            return Err(TransportError::without_effect(ErrorKind::NotReady, None, why));
        }
        links.open.retain(|link| link.strong_count() > 0);
        let killed: Weak<L> = Arc::downgrade(&link);
        links.open.push(killed);
        drop(links);
        Ok(link)
    }

    async fn wait_for_pause(&self, clock: Clock) {
        while let Some(until) = self.paused_until().filter(|until| *until > clock.now()) {
            tokio::time::sleep(until - clock.now()).await;
        }
    }

    // A single server has no successor, and only the server itself shows whether it is master again. So it is asked
    // without a pause.
    fn paused_until(&self) -> Option<Instant> {
        self.identity().paused_until().filter(|_| !self.is_single())
    }

    fn is_single(&self) -> bool {
        self.config.topology == RedisTopology::Single
    }

    /// Closes all connections to the server, because it is not a master any more. No command is written to it after
    /// this returns.
    pub(crate) fn retire(&self, now: Instant) {
        self.demoted(now);
        let mut links = self.links();
        links.retirements += 1;
        let open = std::mem::take(&mut links.open);
        drop(links);
        open.iter().filter_map(Weak::upgrade).for_each(|link| link.kill());
    }

    /// Handles the loss of the master role that one connection has seen. A single server has no successor, so its
    /// other connections stay open, and each sees the refusals itself.
    pub(crate) fn handle_lost_role(&self, now: Instant) {
        if !self.is_single() {
            self.retire(now);
        }
    }

    /// Ends the pause after a lost role, because the server is named as a master again.
    pub(crate) fn reinstate(&self) {
        self.identity().reinstated();
    }

    /// Handles the loss of a connection of this epoch.
    pub(crate) fn lost(&self, epoch: u32, now: Instant) {
        self.change(|identity| identity.lost(epoch, now));
    }

    fn demoted(&self, now: Instant) {
        self.change(|identity| identity.demoted(now));
    }

    /// Returns the current epoch.
    pub(crate) fn epoch(&self) -> u32 {
        *self.epoch.borrow()
    }

    /// Waits until `epoch` is not the current one any more.
    pub(crate) async fn outdated(&self, epoch: u32) {
        // `self` owns the sender, so this wait cannot fail.
        let _ = self.epoch.subscribe().wait_for(|present| *present != epoch).await;
    }

    fn change<T>(&self, work: impl FnOnce(&mut Identity) -> T) -> T {
        let mut identity = self.identity();
        let result = work(&mut identity);
        let epoch = identity.epoch();
        self.epoch.send_if_modified(|present| std::mem::replace(present, epoch) != epoch);
        result
    }

    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the connection in `CLIENT LIST`.
fn connection_name(kind: LinkKind, lane: OpenLane) -> String {
    let purpose = match (kind, lane.purpose) {
        (LinkKind::Notices, _) => "notices",
        (LinkKind::Commands, LanePurpose::Calls) => "calls",
        (LinkKind::Commands, LanePurpose::Renewals) => "renewals",
    };
    let client = lane.client.as_ref().map(|client| client as &dyn Display);
    client_list::connection_name(purpose, client, lane.label.as_ref().map(|label| label.as_str()))
}
