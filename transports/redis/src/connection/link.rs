//! One connection to a server: a fred client that connects once, is used until its first failure, and is never
//! reconnected.
//!
//! By itself fred would reconnect, and write requests that were queued in between to a connection without our
//! handshake. Without a reconnect policy its router task ends with the connection. After that, a request to the
//! client would wait for its timeout. So a link has its own end signal, which ends every outstanding request at
//! once. Aborting the router task closes the socket, even if it cannot be written to.

use std::{
    pin::Pin,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    bytes_utils::Str,
    clients::{Client, WithOptions},
    error::{Error as FredError, ErrorKind as FredKind},
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{
        ClusterHash, CustomCommand, Message, Resp3Frame as Frame, Value,
        config::{Options, Server},
    },
};
use futures_util::{FutureExt, future::join_all};
use leasehold::{
    clock::{Clock, Instant},
    transport::TransportError,
};
use tokio::{
    sync::{broadcast, watch},
    task::AbortHandle,
};

use super::{
    connect::{LinkKind, Router, Target, dial},
    relay::{Cause, LastReceived},
};

/// One connection.
pub(crate) struct Link {
    client: Client,
    clock: Clock,
    ends: [AbortHandle; 2],
    dead: watch::Sender<bool>,
    last_received: LastReceived,
    /// The shortest round trip so far. `u64::MAX` before the first reply.
    round_trip_nanos: AtomicU64,
    outstanding: AtomicUsize,
    /// Each request locks it for reading while it is queued. A pair of commands that must stay together locks it
    /// for writing.
    queueing: RwLock<()>,
    cluster_down: Arc<AtomicBool>,
    cause: Cause,
}

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server's error reply to this request.
    Refused(Str),
    /// No reply in time.
    TimedOut,
    /// The connection ended, or fred could not use it.
    Lost(FredError),
}

impl Link {
    /// Connects and authenticates. Connecting takes at most `step`, the TLS handshake and the login at
    /// most twice `step` each.
    ///
    /// # Errors
    /// An error without effect, whose text says what to do.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    pub(crate) async fn open(
        target: Target<'_>,
        kind: LinkKind,
        clock: Clock,
        step: Duration,
    ) -> Result<Link, TransportError> {
        let last_received = LastReceived::now(clock);
        let (client, router) = dial(&target, kind, step, last_received.clone()).await?;
        Ok(Self::watched(client, clock, router, last_received))
    }

    fn watched(client: Client, clock: Clock, router: Router, last_received: LastReceived) -> Self {
        let (dead, ends, cause) = (watch::Sender::new(false), router.abort_handles(), router.cause());
        let cluster_down = Arc::new(AtomicBool::default());
        let end = End { errors: client.error_rx(), cluster_down: cluster_down.clone(), dead: dead.clone() };
        tokio::spawn(end.signal(router));
        let (round_trip_nanos, outstanding) = (AtomicU64::new(u64::MAX), AtomicUsize::new(0));
        let queueing = RwLock::default();
        Self {
            client,
            clock,
            ends,
            dead,
            last_received,
            round_trip_nanos,
            outstanding,
            queueing,
            cluster_down,
            cause,
        }
    }

    /// Sends a command and waits for its reply, at most `timeout`, which is more than zero.
    ///
    /// # Errors
    /// [`Failure::Refused`] is the server's error reply. After any other failure the command may have been
    /// executed, or may still be.
    ///
    /// # Cancel safety
    /// After the future was polled, the command may be executed even if the future is dropped.
    pub(crate) async fn request(
        &self,
        command: &'static str,
        slot: u16,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let sent = self.clock.now();
        let reply = self.request_untimed(command, slot, args, timeout).await;
        self.measure(sent, &reply);
        reply
    }

    /// As [`request`](Self::request), but the time it takes does not count as a round trip. The reply may be that of
    /// another request.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    ///
    /// # Cancel safety
    /// As [`request`](Self::request).
    pub(crate) async fn request_untimed(
        &self,
        command: &'static str,
        slot: u16,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let mut call = self.call(command, slot, args, timeout);
        let queued = {
            let _turn = self.queueing.read().unwrap_or_else(PoisonError::into_inner);
            call.as_mut().now_or_never()
        };
        self.reply(call, queued).await
    }

    /// As [`request`](Self::request), directly behind an `ASKING`. The server then answers for a slot that it is
    /// still importing.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    ///
    /// # Cancel safety
    /// As [`request`](Self::request).
    pub(crate) async fn request_asking(
        &self,
        command: &'static str,
        slot: u16,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let mut asking = self.call("ASKING", slot, Vec::new(), timeout);
        let mut call = self.call(command, slot, args, timeout);
        // `ASKING` applies to the next command on the connection, so no other command may be queued between the
        // two.
        let (asked, queued) = {
            let _alone = self.queueing.write().unwrap_or_else(PoisonError::into_inner);
            (asking.as_mut().now_or_never(), call.as_mut().now_or_never())
        };
        let sent = self.clock.now();
        let reply = self.reply(call, queued).await;
        self.measure(sent, &reply);
        match reply {
            // The command was not executed. If `ASKING` was refused, its refusal is the reason.
            Err(Failure::Refused(text)) if is_redirect(&text) => {
                self.reply(asking, asked).await?;
                Err(Failure::Refused(text))
            }
            // The command's own reply counts, whatever the reply to `ASKING` was.
            reply => reply,
        }
    }

    // fred queues a command when its future is polled for the first time. The future has 5 KB. Boxed here, it is
    // moved once, not at every level of callers.
    fn call(
        &self,
        command: &'static str,
        slot: u16,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Pin<Box<impl Future<Output = Result<Frame, FredError>> + use<>>> {
        let client = self.limited(timeout);
        let command = CustomCommand::new_static(command, ClusterHash::Custom(slot), false);
        Box::pin(async move { client.custom_raw(command, args).await })
    }

    async fn reply(
        &self,
        call: Pin<Box<impl Future<Output = Result<Frame, FredError>>>>,
        at_once: Option<Result<Frame, FredError>>,
    ) -> Result<Frame, Failure> {
        let _outstanding = Outstanding::one_more(&self.outstanding);
        let mut dead = self.dead.subscribe();
        let reply = match at_once {
            Some(reply) => reply,
            None => tokio::select! {
                biased;
                reply = call => reply,
                _ = dead.wait_for(|dead| *dead) => Err(FredError::new(FredKind::Canceled, "connection lost")),
            },
        };
        self.classify(reply)
    }

    fn measure(&self, sent: Instant, reply: &Result<Frame, Failure>) {
        if matches!(reply, Ok(_) | Err(Failure::Refused(_))) {
            let took_nanos = u64::try_from((self.clock.now() - sent).as_nanos()).unwrap_or(u64::MAX);
            self.round_trip_nanos.fetch_min(took_nanos, Ordering::Relaxed);
        }
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
        match self.request("SSUBSCRIBE", 0, vec![Value::String(channel.clone())], timeout).await {
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

    /// Ends the connection and every outstanding request.
    pub(crate) fn kill(&self) {
        self.dead.send_replace(true);
        self.ends.iter().for_each(AbortHandle::abort);
    }

    /// Waits for the end of the connection.
    pub(crate) async fn ended(&self) {
        // `self` owns the sender, so this wait cannot fail.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Returns when the last byte was received.
    pub(crate) fn last_received(&self) -> Instant {
        self.last_received.at()
    }

    /// Returns the shortest round trip so far, if there was a reply.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let nanos = self.round_trip_nanos.load(Ordering::Relaxed);
        (nanos != u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// Whether the connection has ended because the cluster is down. Called after a failed request: it waits for
    /// the end of the connection, at most `END_TOLD`.
    pub(crate) async fn has_met_cluster_down(&self) -> bool {
        let is_over = tokio::time::timeout(END_TOLD, self.ended()).await.is_ok();
        is_over && self.has_ended_by_cluster_down()
    }

    /// Whether a connection that has ended did so because the cluster is down.
    pub(crate) fn has_ended_by_cluster_down(&self) -> bool {
        self.cluster_down.load(Ordering::SeqCst)
    }

    /// Whether a request waits for its reply.
    pub(crate) fn is_waiting(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) > 0
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
            _ => Failure::Lost(self.cause.or(error)),
        }
    }

    fn classify(&self, reply: Result<Frame, FredError>) -> Result<Frame, Failure> {
        match reply.map_err(|error| self.failure(error))? {
            Frame::SimpleError { data, .. } => Err(Failure::Refused(data)),
            Frame::BlobError { data, .. } => {
                Err(Failure::Refused(String::from_utf8_lossy(&data).into_owned().into()))
            }
            reply => Ok(reply),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the end of the connection sets.
struct End {
    errors: broadcast::Receiver<(FredError, Option<Server>)>,
    cluster_down: Arc<AtomicBool>,
    dead: watch::Sender<bool>,
}

impl End {
    async fn signal(mut self, mut router: Router) {
        let _ = (&mut router.task).await;
        // fred ends the connection at a `CLUSTERDOWN` reply, and reports the error before its task ends.
        while let Ok((error, _)) = self.errors.try_recv() {
            if error.details().trim_start().starts_with("CLUSTERDOWN") {
                self.cluster_down.store(true, Ordering::SeqCst);
            }
        }
        self.dead.send_replace(true);
    }
}

/// Counts a request while it waits, also if it is dropped.
struct Outstanding<'a>(&'a AtomicUsize);

impl<'a> Outstanding<'a> {
    fn one_more(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn is_redirect(text: &str) -> bool {
    ["MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"].iter().any(|code| text.starts_with(code))
}

/// Between a failed request and the end of fred's task, only the scheduler takes time.
const END_TOLD: Duration = Duration::from_millis(100);
