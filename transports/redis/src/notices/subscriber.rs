//! The subscriber connection of the calls lane: subscribes what is wanted, confirms it by a ping behind it, and hands
//! messages to the watches.
//!
//! fred drops the server's confirmations, and an error reply to SUBSCRIBE (no right to the channel) would be taken for
//! the reply to whatever waits next. So every ping carries a number of its own, and a connection that answers with
//! another one is given up.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{bytes_utils::Str, types::Message, types::Value};
use leasehold::{
    clock::Clock,
    key::LockKey,
    transport::{OpenLane, TransportError, Watch},
};
use tokio::sync::{Notify, broadcast};

use crate::{
    connection::backoff::Backoff,
    connection::link::{Failure, Link, LinkKind},
    connection::watchdog::{PROBE_TIMEOUT, Probe, watch_over},
    node::Server,
    notices::table::Notices,
    wire::names::lock_channel,
    wire::reply,
};

/// The watches of one lane and the connection that serves them.
pub(crate) struct Subscriber {
    server: Arc<Server>,
    lane: OpenLane,
    notices: Mutex<Notices>,
    changed: Notify,
}

/// A subscriber connection that was checked.
pub(crate) struct Subscribed {
    link: Link,
    epoch: u32,
    pings: AtomicU64,
}

/// Why a subscriber connection is given up.
#[derive(Debug)]
enum End {
    /// It is dead, or not in step.
    Lost,
    /// The server refuses, for example the right to the channels.
    Refused(Str),
}

impl Subscriber {
    pub(crate) fn new(server: Arc<Server>, lane: OpenLane) -> Self {
        let notices = Notices::new(server.config.notices_warm(), server.config.notices_warm_max);
        Self { server, lane, notices: Mutex::new(notices), changed: Notify::new() }
    }

    /// Watches a lock's channel.
    pub(crate) fn watch(self: &Arc<Self>, key: &LockKey) -> Watch {
        let channel = Str::from(lock_channel(key.on_server()));
        let (state, is_wanted) = {
            let mut notices = self.lock();
            (notices.watch(&channel), notices.has_wanted())
        };
        if is_wanted {
            self.changed.notify_one();
        }
        Watch::new(state, Interest { subscriber: self.clone(), channel })
    }

    /// Connects and checks.
    pub(crate) async fn connect(&self) -> Result<Subscribed, TransportError> {
        let (link, run, _) = self.server.connect(LinkKind::Notices, self.lane).await?;
        Ok(Subscribed { link, epoch: run.epoch, pings: AtomicU64::new(0) })
    }

    /// Serves the watches for ever, over one connection after the other.
    pub(crate) async fn keep_subscribed(self: Arc<Self>, mut subscribed: Subscribed) {
        loop {
            let since = self.clock().now();
            let end = self.serve(&subscribed).await;
            subscribed.link.kill();
            self.lock().lose();
            let backoff = self.pause_after(end, self.clock().now() - since);
            subscribed = self.reconnect(backoff).await;
        }
    }

    fn pause_after(&self, end: End, stood: Duration) -> Backoff {
        let server = &self.server.address;
        match end {
            End::Lost => {
                tracing::warn!(%server, "lost the connection for notices to redis");
                Backoff::after(stood)
            }
            End::Refused(text) => {
                let remedy = "grant +subscribe, +unsubscribe, +ping and &redisson_lock__channel:*; until then callers poll";
                tracing::error!(%server, %text, remedy, "redis refuses subscriptions");
                Backoff::slow()
            }
        }
    }

    async fn reconnect(&self, mut backoff: Backoff) -> Subscribed {
        loop {
            tokio::time::sleep(backoff.next_delay(self.clock().now())).await;
            match self.connect().await {
                Ok(subscribed) => return subscribed,
                Err(error) => tracing::debug!(%error, "cannot connect to redis for notices"),
            }
        }
    }

    async fn serve(&self, subscribed: &Subscribed) -> End {
        tokio::select! {
            _ = subscribed.link.ended() => End::Lost,
            _ = watch_over(subscribed, self.clock()) => End::Lost,
            _ = self.server.outdated(subscribed.epoch) => End::Lost,
            end = self.subscribe_wanted(subscribed) => end,
            _ = self.hand_out(subscribed) => End::Lost,
        }
    }

    /// Keeps the server's subscriptions equal to the wanted ones.
    async fn subscribe_wanted(&self, subscribed: &Subscribed) -> End {
        let step = self.lane.command_timeout;
        loop {
            let (ended, wanted) = self.take_changes();
            if ended.is_empty() && wanted.is_empty() {
                self.wait_for_changes().await;
                continue;
            }
            match subscribed.change(ended, wanted.clone(), step).await {
                Ok(()) => self.lock().confirm(&wanted),
                Err(Failure::Refused(text)) => return End::Refused(text),
                Err(Failure::TimedOut | Failure::Lost(_)) => return End::Lost,
            }
        }
    }

    fn take_changes(&self) -> (Vec<Str>, Vec<Str>) {
        let now = self.clock().now();
        let mut notices = self.lock();
        (notices.take_expired(now), notices.take_wanted(BATCH_MAX))
    }

    async fn wait_for_changes(&self) {
        let next_expiry = self.lock().next_expiry();
        let expiry = async {
            match next_expiry {
                Some(moment) => self.clock().sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.changed.notified() => {}
            _ = expiry => {}
        }
    }

    /// Hands messages to the watches until there can be no more.
    async fn hand_out(&self, subscribed: &Subscribed) {
        let mut messages = subscribed.link.messages();
        loop {
            match messages.recv().await {
                Ok(message) => self.hand_out_all(message, &mut messages),
                Err(broadcast::error::RecvError::Lagged(_)) => self.lock().gap(),
                Err(broadcast::error::RecvError::Closed) => return,
            }
            subscribed.link.hear();
        }
    }

    fn hand_out_all(&self, first: Message, messages: &mut broadcast::Receiver<Message>) {
        let notices = self.lock();
        notices.notice(&first.channel);
        // A gap ends this round too; `recv` does not tell it twice, so it is told here.
        for _ in 0..ROUND_MAX {
            match messages.try_recv() {
                Ok(message) => notices.notice(&message.channel),
                Err(broadcast::error::TryRecvError::Lagged(_)) => notices.gap(),
                Err(_) => return,
            }
        }
    }

    fn clock(&self) -> Clock {
        self.lane.clock
    }

    fn lock(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribed {
    /// Ends some subscriptions, begins others, and waits until the server has done all of it.
    async fn change(&self, ended: Vec<Str>, wanted: Vec<Str>, step: Duration) -> Result<(), Failure> {
        if !ended.is_empty() {
            self.link.unsubscribe(ended, step).await?;
        }
        if !wanted.is_empty() {
            self.link.subscribe(wanted, step).await?;
        }
        self.ping(step).await
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

    async fn probe(&self) -> Result<(), Failure> {
        self.ping(PROBE_TIMEOUT).await
    }
}

/// Ends a watch's interest.
struct Interest {
    subscriber: Arc<Subscriber>,
    channel: Str,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let now = self.subscriber.clock().now();
        let must_look = self.subscriber.lock().unwatch(&self.channel, now);
        if must_look {
            self.subscriber.changed.notify_one();
        }
    }
}

/// A watch of a lane without notices: never in force.
pub(crate) fn no_watch() -> Watch {
    let sender = tokio::sync::watch::Sender::default();
    let interest: Box<dyn Any + Send + Sync> = Box::new(sender.clone());
    Watch::new(sender.subscribe(), interest)
}

// About 1 ms of the server's time.
const BATCH_MAX: usize = 1_000;
const ROUND_MAX: usize = 256;
