//! One subscriber connection: starts and ends subscriptions, and checks that replies match their requests.
//!
//! fred drops the server's confirmations. It would also take an error reply to `SUBSCRIBE` (no right to the
//! channel) for the reply to the next waiting request. So every ping carries its own number, and a connection that
//! answers with another number is closed.
//!
//! `SUNSUBSCRIBE` is the exception. Its confirmation is dropped too, but if the slot of the channel has moved, it is
//! answered with `MOVED`, and fred gives that reply to the next waiting request. From then on there is one reply more
//! than there are requests, and every request gets the reply of the one before it. fred drops the surplus reply if it
//! arrives while no request waits. So after a `SUNSUBSCRIBE` pings are sent, with growing pauses, until one gets its
//! own number. Then no surplus reply is left. Until then the number of a ping says nothing about the connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::bytes_utils::Str;
use leasehold::routing::topology::NodeId;

use super::table::Changes;
use crate::{
    connection::{
        NoticeLink, Traffic,
        features::Kinds,
        link::{Failure, Kill, Link, is_redirect},
        watchdog::Probe,
    },
    wire::{arg::Arg, reply},
};

/// A subscriber connection after its handshake.
pub(crate) struct Subscribed {
    pub(super) link: Arc<NoticeLink>,
    pub(super) node: NodeId,
    pub(super) epoch: u32,
    kinds: Kinds,
    pings: AtomicU64,
    /// Whether replies may belong to other requests: set while subscriptions are ended.
    is_realigning: AtomicBool,
}

/// Whether a ping got its own reply, or that of another request.
#[derive(Debug, PartialEq, Eq)]
enum Pong {
    Own,
    Other,
}

impl Subscribed {
    pub(super) fn new(link: Arc<NoticeLink>, (node, epoch): (NodeId, u32), kinds: Kinds) -> Self {
        Self { link, node, epoch, kinds, pings: AtomicU64::new(0), is_realigning: AtomicBool::new(false) }
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
        self.is_realigning.store(!sharded.is_empty(), Ordering::Relaxed);
        self.link.unsubscribe_sharded(sharded, step).await?;
        if !classic.is_empty() {
            self.link.unsubscribe(classic, step).await?;
        }
        self.realign(step).await?;
        self.is_realigning.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Sends pings until one gets its own reply. Each pause is at least a round trip, so that the replies that are on
    /// their way arrive meanwhile.
    async fn realign(&self, step: Duration) -> Result<(), Failure> {
        let mut pause = self.link.traffic().round_trip().unwrap_or_default().max(REALIGN_PAUSE);
        let realigned = async {
            while self.realigning_ping(step).await? == Pong::Other {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Ok(())
        };
        tokio::time::timeout(step * REALIGN_STEPS, realigned).await.unwrap_or(Err(Failure::TimedOut))
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
        let (number, args) = self.next_ping();
        let frame = self.link.request("PING", args, timeout).await?;
        if reply::pong(&frame) != Some(&number) {
            self.link.kill();
        }
        Ok(())
    }

    /// A ping while replies may belong to other requests. How long such a reply took is no round trip.
    async fn realigning_ping(&self, timeout: Duration) -> Result<Pong, Failure> {
        let (number, args) = self.next_ping();
        match self.link.request_untimed("PING", args, timeout).await {
            Ok(frame) if reply::pong(&frame) == Some(&number) => Ok(Pong::Own),
            Ok(_) => Ok(Pong::Other),
            Err(Failure::Refused(text)) if is_redirect(&text) => Ok(Pong::Other),
            Err(failure) => Err(failure),
        }
    }

    fn next_ping(&self) -> (String, Vec<Arg>) {
        let number = self.pings.fetch_add(1, Ordering::Relaxed).to_string();
        let args = vec![Arg::Text(number.clone().into())];
        (number, args)
    }
}

impl Probe for Subscribed {
    fn traffic(&self) -> &Traffic {
        self.link.traffic()
    }

    // The probe runs in the same task as `end`, so nothing comes between this look and the request. Any reply shows
    // that the server is alive.
    async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
        if self.is_realigning.load(Ordering::Relaxed) {
            return self.realigning_ping(timeout).await.map(drop);
        }
        self.ping(timeout).await
    }
}

/// How many time limits of one ping realigning may take. On a far link a single ping takes much of its limit.
const REALIGN_STEPS: u32 = 4;
/// The shortest pause between two pings while replies may belong to other requests.
const REALIGN_PAUSE: Duration = Duration::from_millis(1);
