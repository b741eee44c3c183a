//! The link for subscriptions: a fred client that connects once, is used until its first failure, and is never
//! reconnected.
//!
//! By itself fred would reconnect, and write requests that were queued in between to a connection without our
//! handshake. Without a reconnect policy its router task ends with the connection. After that, a request to the
//! client would wait for its timeout. So a link has its own end signal, which ends every outstanding request at
//! once. Aborting the router task closes the socket, even if it cannot be written to.

use std::{pin::Pin, sync::Arc, time::Duration};

use fred::{
    bytes_utils::Str,
    clients::{Client, WithOptions},
    error::{Error as FredError, ErrorKind as FredKind},
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{ClusterHash, CustomCommand, Message, Resp3Frame as Frame, config::Options},
};
use futures_util::future::join_all;
use leasehold::{clock::Clock, transport::TransportError};
use tokio::{
    sync::{broadcast, watch},
    task::AbortHandle,
};

use super::{
    connect::{Router, Target, dial},
    link::{Failure, Kill, Link, LinkKind, classify, is_redirect},
    lost::Lost,
    relay::Cause,
    traffic::Traffic,
};
use crate::wire::arg::Arg;

/// A connection for subscriptions.
pub(crate) struct NoticeLink {
    client: Client,
    ends: [AbortHandle; 2],
    dead: watch::Sender<bool>,
    traffic: Arc<Traffic>,
    cause: Cause,
}

impl Link for NoticeLink {
    const KIND: LinkKind = LinkKind::Notices;

    async fn open(target: Target<'_>, clock: Clock, step: Duration) -> Result<Self, TransportError> {
        let traffic = Traffic::new(clock);
        let (client, router) = dial(&target, step, traffic.clone()).await?;
        Ok(Self::watched(client, router, traffic))
    }

    async fn request(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let sent = self.traffic.now();
        let reply = self.request_untimed(command, args, timeout).await;
        if matches!(reply, Ok(_) | Err(Failure::Refused(_))) {
            self.traffic.handle_reply(sent);
        }
        reply
    }

    async fn ended(&self) {
        // `self` owns the sender, so this wait cannot fail.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    fn ended_by(&self) -> Lost {
        self.lost(FredError::new(FredKind::Canceled, "connection lost"))
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl NoticeLink {
    fn watched(client: Client, router: Router, traffic: Arc<Traffic>) -> Self {
        let (dead, ends, cause) = (watch::Sender::new(false), router.abort_handles(), router.cause());
        tokio::spawn(signal_end(router, dead.clone()));
        Self { client, ends, dead, traffic, cause }
    }

    /// As [`request`](Link::request), but the time it takes does not count as a round trip. The reply may be that of
    /// another request.
    ///
    /// # Errors
    /// As [`request`](Link::request).
    ///
    /// # Cancel safety
    /// As [`request`](Link::request).
    pub(crate) async fn request_untimed(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let _outstanding = self.traffic.one_more();
        let mut dead = self.dead.subscribe();
        let reply = tokio::select! {
            biased;
            reply = self.call(command, args, timeout) => reply,
            _ = dead.wait_for(|dead| *dead) => Err(FredError::new(FredKind::Canceled, "connection lost")),
        };
        classify(reply.map_err(|error| self.failure(error))?)
    }

    // fred queues a command when its future is polled for the first time. The future has 5 KB. Boxed here, it is
    // moved once, not at every level of callers.
    fn call(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> Pin<Box<impl Future<Output = Result<Frame, FredError>> + use<>>> {
        let client = self.limited(timeout);
        let command = CustomCommand::new_static(command, ClusterHash::Custom(0), false);
        let args: Vec<fred::types::Value> = args.into_iter().map(Into::into).collect();
        Box::pin(async move { client.custom_raw(command, args).await })
    }

    /// Subscribes to sharded channels. Returns once the server has confirmed, with the channels that another node
    /// serves.
    pub(crate) async fn subscribe_sharded(
        &self,
        channels: Vec<Str>,
        timeout: Duration,
    ) -> Result<Vec<Str>, Failure> {
        // One command per channel, because fred expects one reply per command. All commands at once, because the
        // server may be remote.
        let asked = channels.into_iter().map(|channel| self.subscribe_sharded_one(channel, timeout));
        let replies: Result<Vec<_>, _> = join_all(asked).await.into_iter().collect();
        Ok(replies?.into_iter().flatten().collect())
    }

    async fn subscribe_sharded_one(&self, channel: Str, timeout: Duration) -> Result<Option<Str>, Failure> {
        match self.request("SSUBSCRIBE", vec![Arg::Text(channel.clone())], timeout).await {
            Ok(_) => Ok(None),
            Err(Failure::Refused(text)) if is_redirect(&text) => Ok(Some(channel)),
            Err(failure) => Err(failure),
        }
    }

    /// Ends subscriptions to sharded channels.
    pub(crate) async fn unsubscribe_sharded(
        &self,
        channels: Vec<Str>,
        timeout: Duration,
    ) -> Result<(), Failure> {
        for channel in channels {
            self.limited(timeout).sunsubscribe(channel).await.map_err(|error| self.failure(error))?;
        }
        Ok(())
    }

    /// Subscribes to channels. Returns once the command is written, not once the server has executed it. A ping
    /// sent after it shows that.
    pub(crate) async fn subscribe(&self, channels: Vec<Str>, timeout: Duration) -> Result<(), Failure> {
        self.limited(timeout).subscribe(channels).await.map_err(|error| self.failure(error))
    }

    /// Ends subscriptions. `channels` must not be empty, because an `UNSUBSCRIBE` without channels ends all of
    /// them.
    pub(crate) async fn unsubscribe(&self, channels: Vec<Str>, timeout: Duration) -> Result<(), Failure> {
        assert!(!channels.is_empty(), "UNSUBSCRIBE without a channel ends every subscription");
        self.limited(timeout).unsubscribe(channels).await.map_err(|error| self.failure(error))
    }

    /// Receives the messages of the subscribed channels, from now on.
    pub(crate) fn messages(&self) -> broadcast::Receiver<Message> {
        self.client.message_rx()
    }

    fn limited(&self, timeout: Duration) -> WithOptions<Client> {
        // fred reads a timeout of zero as "no limit".
        let timeout = Some(timeout.max(Duration::from_micros(1)));
        let options =
            Options { timeout, max_attempts: Some(1), max_redirections: Some(0), ..Options::default() };
        self.client.with_options(&options)
    }

    fn failure(&self, error: FredError) -> Failure {
        match error.kind() {
            FredKind::Timeout => Failure::TimedOut,
            _ => Failure::Lost(self.lost(error)),
        }
    }

    fn lost(&self, error: FredError) -> Lost {
        Lost::of_details(self.cause.or(error).details().to_owned())
    }
}

impl Kill for NoticeLink {
    fn kill(&self) {
        self.dead.send_replace(true);
        self.ends.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for NoticeLink {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn signal_end(mut router: Router, dead: watch::Sender<bool>) {
    let _ = (&mut router.task).await;
    dead.send_replace(true);
}
