//! The subscriber connections of the calls lane, one for each node. Each connection subscribes to the wanted
//! channels, confirms that with a ping, and passes messages to the watches.
//!
//! fred 10 does not show either that a server has ended sharded subscriptions itself, as it does when their slot
//! moves away: it drops the server's `sunsubscribe` like a confirmation (`check_pubsub_message`), and has no event
//! for it. The routes show the move (`Notices::follow_routes`). If a slot moves away and back before the routes change,
//! its watches stay in force although no message will come. Until their channel is subscribed again, only the
//! engine's safety poll finds the lock free.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::{bytes_utils::Str, types::Message};
use leasehold::{
    clock::Clock,
    key::LockKey,
    log,
    owner::Owner,
    routing::topology::NodeId,
    transport::{Counter, OpenLane, TransportError, Watch, WatchState},
};
use tokio::sync::{Notify, broadcast, watch};
use tracing::Level;

use super::{
    subscribed::Subscribed,
    table::{Changes, Notices},
};
use crate::{
    connection::{
        backoff::Backoff,
        counter_channel,
        link::{Failure, Kill, Link},
        lost::Lost,
        watchdog::watch_over,
    },
    discovery::{
        Server,
        deployment::{Deployment, Routes},
    },
    wire::{
        names::{channel_of, turn_channel},
        shown::shown,
    },
};

/// The watches of one lane, and the connections that serve them, one for each node.
pub(crate) struct Subscriber {
    lane: OpenLane,
    deployment: Arc<Deployment>,
    notices: Mutex<Notices>,
    wakers: Mutex<HashMap<NodeId, Arc<Notify>>>,
}

/// Why a subscriber connection is closed.
#[derive(Debug)]
enum End {
    /// The connection is dead, or its replies do not match its requests.
    Lost,
    /// The server refuses, for example because the right to the channels is missing.
    Refused(Str),
}

impl Subscriber {
    pub(crate) fn new(lane: OpenLane, deployment: Arc<Deployment>) -> Self {
        let notices = Notices::new(deployment.config.notices_warm(), deployment.config.notices_warm_max);
        Self { lane, deployment, notices: Mutex::new(notices), wakers: Mutex::default() }
    }

    /// Watches a lock's channel.
    pub(crate) fn watch(self: &Arc<Self>, key: &LockKey) -> Watch {
        self.watch_channel(channel_of(key), key)
    }

    /// Watches a counter's channel.
    pub(crate) fn watch_counter(self: &Arc<Self>, key: &LockKey, counter: Counter) -> Watch {
        self.watch_channel(counter_channel(key.on_server(), counter), key)
    }

    /// Watches the channel of one place in the line of a fair lock.
    pub(crate) fn watch_turn(self: &Arc<Self>, key: &LockKey, owner: Owner) -> Watch {
        self.watch_channel(turn_channel(key.on_server(), owner), key)
    }

    fn watch_channel(self: &Arc<Self>, channel: String, key: &LockKey) -> Watch {
        let channel = Str::from(channel);
        let (state, is_new, node) = self.watch_in_table(&channel, key);
        if let (true, Some(node)) = (is_new, node) {
            self.waker(node).notify_one();
        }
        Watch::new(state, Interest { subscriber: self.clone(), channel })
    }

    fn watch_in_table(
        &self,
        channel: &Str,
        key: &LockKey,
    ) -> (watch::Receiver<WatchState>, bool, Option<NodeId>) {
        let mut notices = self.lock();
        // Read under the lock. A concurrent change of the routes has either been followed before, and then these
        // routes are as new, or will move this channel too. A node that was read before locking could be one that
        // was left.
        let node = self.deployment.routes().serving(key.slot());
        let (state, is_new) = notices.watch(channel, key.slot(), node);
        (state, is_new, node)
    }

    /// Connects to a server, and runs the handshake.
    pub(crate) async fn connect(&self, server: &Server) -> Result<Subscribed, TransportError> {
        let (link, run, checked) = server.connect(self.lane).await?;
        Ok(Subscribed::new(link, (server.id, run.epoch), checked.features.kinds(server.config())))
    }

    /// Follows changed routes: a channel belongs to the node that serves its slot.
    pub(crate) fn follow(&self, routes: &Routes) {
        let mut notices = self.lock();
        notices.follow_routes(|slot| routes.serving(slot));
        let is_in_use = |node| routes.server(node).is_some();
        notices.retain_nodes(is_in_use);
        let mut wakers = self.wakers();
        wakers.retain(|node, _| is_in_use(*node));
        wakers.values().for_each(|waker| waker.notify_one());
    }

    /// Serves the channels of one node, over one connection after the other. It never returns.
    pub(crate) async fn keep_subscribed(self: Arc<Self>, server: Arc<Server>, first: Option<Subscribed>) {
        let mut subscribed = match first {
            Some(subscribed) => subscribed,
            None => self.reconnect(&server, Backoff::at_once()).await,
        };
        loop {
            let since = self.clock().now();
            let end = self.serve(&server, &subscribed).await;
            subscribed.link.kill();
            self.lock().connection_lost(server.id);
            let why = subscribed.link.ended_by();
            let backoff = self.pause_after(&server, (end, why), self.clock().now() - since);
            subscribed = self.reconnect(&server, backoff).await;
        }
    }

    fn pause_after(&self, server: &Server, (end, why): (End, Lost), lasted: Duration) -> Backoff {
        let server = server.name.clone();
        match end {
            End::Lost => {
                log::line(Level::WARN, move || {
                    tracing::warn!(%server, %why, "lost the connection for notices to redis");
                });
                Backoff::after(lasted)
            }
            End::Refused(text) => {
                let remedy = "grant +subscribe, +unsubscribe, +ping (on a cluster +ssubscribe, +sunsubscribe) and \
                              the channels of the locks (&redisson_lock__channel:*, &redisson_rwlock:*); until then callers poll";
                let text = shown(&text);
                log::line(Level::ERROR, move || {
                    tracing::error!(%server, text, remedy, "redis refuses subscriptions");
                });
                Backoff::slow()
            }
        }
    }

    async fn reconnect(&self, server: &Server, mut backoff: Backoff) -> Subscribed {
        loop {
            tokio::time::sleep(backoff.next_delay(self.clock().now())).await;
            match self.connect(server).await {
                Ok(subscribed) => return subscribed,
                Err(error) => {
                    if error.kind.is_final() {
                        backoff.refused();
                    }
                    log::line(Level::DEBUG, move || {
                        tracing::debug!(%error, "cannot connect to redis for notices");
                    });
                }
            }
            self.lock().still_disconnected(server.id);
        }
    }

    async fn serve(&self, server: &Server, subscribed: &Subscribed) -> End {
        tokio::select! {
            _ = subscribed.link.ended() => End::Lost,
            _ = watch_over(subscribed, self.clock()) => End::Lost,
            _ = server.outdated(subscribed.epoch) => End::Lost,
            end = self.subscribe_wanted(subscribed) => end,
            _ = self.dispatch(subscribed) => End::Lost,
        }
    }

    /// Keeps the server's subscriptions equal to the wanted ones.
    async fn subscribe_wanted(&self, subscribed: &Subscribed) -> End {
        let (step, waker) = (self.lane.command_timeout, self.waker(subscribed.node));
        loop {
            let changes = self.lock().take_changes(subscribed.node, BATCH_MAX, self.clock().now());
            if changes == Changes::default() {
                self.wait_for_changes(&waker).await;
                continue;
            }
            let wanted = changes.wanted.clone();
            match subscribed.change(changes, step).await {
                Ok(elsewhere) => self.settle(subscribed.node, &wanted, elsewhere).await,
                Err(Failure::Refused(text)) => return End::Refused(text),
                Err(Failure::TimedOut | Failure::Lost(_)) => return End::Lost,
            }
        }
    }

    /// Records the result. The node does not serve the channels in `elsewhere`, so the routes are out of date.
    async fn settle(&self, node: NodeId, wanted: &[Str], elsewhere: Vec<Str>) {
        let is_elsewhere = !elsewhere.is_empty();
        {
            let mut notices = self.lock();
            notices.refuse(node, elsewhere);
            notices.confirm(node, wanted);
        }
        if is_elsewhere {
            self.deployment.request_refresh();
            tokio::time::sleep(ELSEWHERE_PAUSE).await;
        }
    }

    async fn wait_for_changes(&self, waker: &Notify) {
        let next_expiry = self.lock().next_expiry();
        let expiry = async {
            match next_expiry {
                Some(moment) => self.clock().sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = waker.notified() => {}
            _ = expiry => {}
        }
    }

    /// Passes messages to the watches until the connection has ended.
    async fn dispatch(&self, subscribed: &Subscribed) {
        let mut messages = subscribed.link.messages();
        loop {
            match messages.recv().await {
                Ok(message) => self.dispatch_all(subscribed.node, message, &mut messages),
                Err(broadcast::error::RecvError::Lagged(_)) => self.lock().gap(subscribed.node),
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn dispatch_all(&self, node: NodeId, first: Message, messages: &mut broadcast::Receiver<Message>) {
        let notices = self.lock();
        notices.notice(&first.channel);
        // A gap ends this round too. `recv` would not report it again, so it is counted here.
        for _ in 0..ROUND_MAX {
            match messages.try_recv() {
                Ok(message) => notices.notice(&message.channel),
                Err(broadcast::error::TryRecvError::Lagged(_)) => notices.gap(node),
                Err(_) => return,
            }
        }
    }

    fn clock(&self) -> Clock {
        self.lane.clock
    }

    /// Notified when there is something to do for a node.
    fn waker(&self, node: NodeId) -> Arc<Notify> {
        self.wakers().entry(node).or_default().clone()
    }

    fn wakers(&self) -> MutexGuard<'_, HashMap<NodeId, Arc<Notify>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the interest of one watch.
struct Interest {
    subscriber: Arc<Subscriber>,
    channel: Str,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let now = self.subscriber.clock().now();
        let must_look = self.subscriber.lock().unwatch(&self.channel, now);
        if must_look {
            self.subscriber.wakers().values().for_each(|waker| waker.notify_one());
        }
    }
}

/// Returns a watch for a lane without notices. It is never in force.
pub(crate) fn no_watch() -> Watch {
    let sender = tokio::sync::watch::Sender::default();
    let interest: Box<dyn Any + Send + Sync> = Box::new(sender.clone());
    Watch::new(sender.subscribe(), interest)
}

// One batch takes about 1 ms of the server's time.
const BATCH_MAX: usize = 1_000;
const ROUND_MAX: usize = 256;
/// The pause in which the routes are refreshed.
const ELSEWHERE_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::Barrier, thread};

    use leasehold::{clock::Instant, transport::LanePurpose};

    use super::*;
    use crate::{
        config::{Address, RedisConfig},
        lane::Task,
        wire::sentinel::MasterReport,
    };

    #[test]
    fn l2_a_watch_that_meets_a_failover_is_wanted_at_the_new_master() {
        let sentinel = Address::new("sentinel", 26_379);
        let deployment = Arc::new(Deployment::new(RedisConfig::sentinel([sentinel.clone()], "m")));
        let lane = OpenLane::new(LanePurpose::Calls, Clock::Boot, Duration::from_secs(1));
        let subscriber = Arc::new(Subscriber::new(lane, deployment.clone()));
        for round in 0..ROUNDS {
            let key = LockKey::new("", &round.to_string()).unwrap();
            let promoted = MasterReport { address: Address::new("m", 1 + round % 2), epoch: round.into() };
            let together = Barrier::new(2);
            let watch = thread::scope(|scope| {
                let failover = scope.spawn(|| {
                    together.wait();
                    deployment.handle_report(&(&sentinel).into(), promoted, 1, Default::default());
                    subscriber.follow(&deployment.routes());
                });
                together.wait();
                let watch = subscriber.watch(&key);
                failover.join().unwrap();
                watch
            });
            let master = deployment.routes().servers[0].id;
            let wanted = subscriber.lock().take_changes(master, BATCH_MAX, Instant::default()).wanted;
            assert_eq!(wanted.len(), 1, "round {round}");
            subscriber.lock().confirm(master, &wanted);
            drop(watch);
            subscriber.lock().take_changes(master, BATCH_MAX, lane.clock.now() + A_DAY);
        }
    }

    #[tokio::test]
    async fn l6_names_that_come_and_go_while_notices_cannot_be_reached_are_forgotten() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let deployment = Arc::new(Deployment::new(RedisConfig::single("127.0.0.1", closed.port())));
        let lane = OpenLane::new(LanePurpose::Calls, Clock::Boot, Duration::from_secs(1));
        let subscriber = Arc::new(Subscriber::new(lane, deployment.clone()));
        for number in 0..1_000 {
            drop(subscriber.watch(&LockKey::new("", &number.to_string()).unwrap()));
        }
        assert!(subscriber.lock().next_expiry().is_some(), "kept warm at first");
        let task =
            Task::spawn(subscriber.clone().keep_subscribed(deployment.routes().servers[0].clone(), None));
        let forgotten = async {
            while subscriber.lock().next_expiry().is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), forgotten)
            .await
            .expect("forgotten by a failed attempt");
        drop(task);
    }

    const ROUNDS: u16 = 12_000;
    const A_DAY: Duration = Duration::from_secs(86_400);
}
