//! One subscriber connection: starts and ends subscriptions, and checks that replies match their requests.
//!
//! fred drops the server's confirmations. It would also take an error reply to `SUBSCRIBE` (no right to the
//! channel) for the reply to the next waiting request. So every ping carries its own number, and a connection that
//! answers with another number is closed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{bytes_utils::Str, types::Value};
use leasehold::routing::topology::NodeId;

use super::table::Changes;
use crate::{
    connection::{
        features::Kinds,
        link::{Failure, Link, is_redirect},
        watchdog::Probe,
    },
    wire::reply,
};

/// A subscriber connection after its handshake.
pub(crate) struct Subscribed {
    pub(super) link: Arc<Link>,
    pub(super) node: NodeId,
    pub(super) epoch: u32,
    kinds: Kinds,
    pings: AtomicU64,
}

impl Subscribed {
    pub(super) fn new(link: Arc<Link>, (node, epoch): (NodeId, u32), kinds: Kinds) -> Self {
        Self { link, node, epoch, kinds, pings: AtomicU64::new(0) }
    }

    /// Ends some subscriptions, starts others, and waits until the server has done both. Returns the channels that
    /// another node serves.
    pub(super) async fn change(&self, changes: Changes, step: Duration) -> Result<Vec<Str>, Failure> {
        let Changes { wanted, ended, moved_away } = changes;
        self.end(ended, moved_away, step).await?;
        self.begin(wanted, step).await
    }

    /// Ends subscriptions. The slots of the channels in `moved_away` have moved: their sharded subscriptions have ended
    /// with that, and the server would answer `MOVED`.
    async fn end(&self, ended: Vec<Str>, moved_away: Vec<Str>, step: Duration) -> Result<(), Failure> {
        let sharded = if self.kinds.sharded { ended.clone() } else { Vec::new() };
        let classic = if self.kinds.classic { [ended, moved_away].concat() } else { Vec::new() };
        if sharded.is_empty() && classic.is_empty() {
            return Ok(());
        }
        let redirects_max = sharded.len();
        self.link.unsubscribe_sharded(sharded, step).await?;
        if !classic.is_empty() {
            self.link.unsubscribe(classic, step).await?;
        }
        self.ping_behind_redirects(redirects_max, step).await
    }

    /// The slot of a channel may have moved before the routes show it. `SUNSUBSCRIBE` is then answered with
    /// `MOVED`. fred does not wait for an answer to it, and gives that answer to the following ping. The number of
    /// a further ping shows whether the replies match the requests again.
    async fn ping_behind_redirects(&self, redirects_max: usize, step: Duration) -> Result<(), Failure> {
        for _ in 0..redirects_max {
            match self.ping(step).await {
                Err(Failure::Refused(text)) if is_redirect(&text) => {}
                answer => return answer,
            }
        }
        self.ping(step).await
    }

    async fn begin(&self, channels: Vec<Str>, step: Duration) -> Result<Vec<Str>, Failure> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        if self.kinds.classic {
            self.link.subscribe(channels.clone(), step).await?;
            self.ping(step).await?;
        }
        if self.kinds.sharded { self.link.subscribe_sharded(channels, step).await } else { Ok(Vec::new()) }
    }

    async fn ping(&self, timeout: Duration) -> Result<(), Failure> {
        let number = self.pings.fetch_add(1, Ordering::Relaxed).to_string();
        let args = vec![Value::String(number.clone().into())];
        let frame = self.link.request("PING", 0, args, timeout).await?;
        if reply::pong(&frame) != Some(&number) {
            self.link.kill();
        }
        Ok(())
    }
}

impl Probe for Subscribed {
    fn link(&self) -> &Link {
        &self.link
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
        self.ping(timeout).await
    }
}
