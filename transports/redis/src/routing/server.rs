//! One address, as all lanes of a transport know it: its number, which run of the server is the present one, and the
//! connections that stand.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    routing::topology::NodeId,
    transport::{LanePurpose, OpenLane, TransportError},
};
use tokio::sync::watch;

use crate::{
    config::{Address, RedisConfig},
    connection::{
        check::{Checked, Unfit, check},
        dialling::{LinkKind, Login, Target},
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
    config: Arc<RedisConfig>,
    identity: Mutex<Identity>,
    epoch: watch::Sender<u32>,
    links: Mutex<Vec<Weak<Link>>>,
}

impl Server {
    pub(crate) fn new(id: NodeId, address: Address, config: Arc<RedisConfig>) -> Self {
        Self {
            id,
            name: address.to_string().into(),
            address,
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
        let link = Arc::new(Link::open(target, kind, clock, step).await?);
        let mut links = self.links();
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&link));
        drop(links);
        Ok(link)
    }

    /// It is no master any more: from this moment on nothing is written to it.
    pub(crate) fn leave(&self, now: Instant) {
        self.demoted(now);
        let links = std::mem::take(&mut *self.links());
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.kill());
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
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut identity);
        let epoch = identity.epoch();
        self.epoch.send_if_modified(|present| std::mem::replace(present, epoch) != epoch);
        result
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Link>>> {
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
