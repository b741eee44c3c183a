//! One address, as all lanes of a transport know it: its number, which run of the server is the present one, and the
//! connections that stand.

use std::{
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
        connect::{LinkKind, Login, Target},
        handshake::{Checked, Unfit, check},
        identity::{Identity, Run},
        link::Link,
    },
};

/// A server that is, was or may become a master.
pub(crate) struct Server {
    pub(crate) id: NodeId,
    pub(crate) address: Address,
    /// The same as text.
    pub(crate) name: Arc<str>,
    /// What its answers have shown about batches of renewals.
    pub(crate) batch_limit: Arc<BatchLimit>,
    config: Arc<RedisConfig>,
    identity: Mutex<Identity>,
    epoch: watch::Sender<u32>,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    standing: Vec<Weak<Link>>,
    /// How often the server was left.
    left: u64,
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

    /// Connects and checks; the run that it found is the server's present one from then on.
    pub(crate) async fn connect(
        &self,
        kind: LinkKind,
        lane: OpenLane,
    ) -> Result<(Arc<Link>, Run, Checked), TransportError> {
        self.connect_and_check(kind, lane)
            .await
            .map_err(|error| TransportError { node: Some(self.id), ..error })
    }

    async fn connect_and_check(
        &self,
        kind: LinkKind,
        lane: OpenLane,
    ) -> Result<(Arc<Link>, Run, Checked), TransportError> {
        let (clock, step) = (lane.clock, lane.command_timeout);
        self.doubt_over(clock).await;
        let link = self.open(kind, clock, step).await?;
        let name = connection_name(kind, lane.purpose);
        match check(&link, name, &self.name, self.config.topology, clock, step).await {
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

    async fn open(&self, kind: LinkKind, clock: Clock, step: Duration) -> Result<Arc<Link>, TransportError> {
        let target = Target { config: &self.config, address: &self.address, login: Login::Server };
        let left_before = self.links().left;
        let link = Arc::new(Link::open(target, kind, clock, step).await?);
        let mut links = self.links();
        if links.left != left_before {
            let why = format!("redis {} was left while it was connected to", self.name);
            return Err(TransportError::without_effect(ErrorKind::NotReady, None, why));
        }
        links.standing.retain(|link| link.strong_count() > 0);
        links.standing.push(Arc::downgrade(&link));
        drop(links);
        Ok(link)
    }

    async fn doubt_over(&self, clock: Clock) {
        while let Some(until) = self.doubted_until().filter(|until| *until > clock.now()) {
            tokio::time::sleep(until - clock.now()).await;
        }
    }

    // One server alone has nobody to follow it: whether it is master again only it can tell.
    fn doubted_until(&self) -> Option<Instant> {
        self.identity().doubted_until().filter(|_| !self.is_alone())
    }

    fn is_alone(&self) -> bool {
        self.config.topology == RedisTopology::Single
    }

    /// It is no master any more: from this moment on nothing is written to it.
    pub(crate) fn leave(&self, now: Instant) {
        self.demoted(now);
        let mut links = self.links();
        links.left += 1;
        let standing = std::mem::take(&mut links.standing);
        drop(links);
        standing.iter().filter_map(Weak::upgrade).for_each(|link| link.kill());
    }

    /// It said on one connection that it is no master any more. A server alone has nobody to follow it: the other
    /// connections hear its refusals for themselves.
    pub(crate) fn handle_lost_role(&self, now: Instant) {
        if !self.is_alone() {
            self.leave(now);
        }
    }

    /// It is named as a master again: nobody needs to wait any more before asking it.
    pub(crate) fn trust(&self) {
        self.identity().trusted();
    }

    /// A connection of this epoch was lost.
    pub(crate) fn lost(&self, epoch: u32, now: Instant) {
        self.change(|identity| identity.lost(epoch, now));
    }

    fn demoted(&self, now: Instant) {
        self.change(|identity| identity.demoted(now));
    }

    /// The present epoch.
    pub(crate) fn epoch(&self) -> u32 {
        *self.epoch.borrow()
    }

    /// Waits until `epoch` is not the server's any more.
    pub(crate) async fn outdated(&self, epoch: u32) {
        // The sender is ours, so waiting cannot fail.
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

/// As `CLIENT LIST` shows it.
fn connection_name(kind: LinkKind, purpose: LanePurpose) -> &'static str {
    match (kind, purpose) {
        (LinkKind::Notices, _) => "leasehold-notices",
        (LinkKind::Commands, LanePurpose::Calls) => "leasehold-calls",
        (LinkKind::Commands, LanePurpose::Renewals) => "leasehold-renewals",
    }
}
