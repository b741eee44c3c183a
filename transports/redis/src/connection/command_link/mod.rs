//! The connection for commands: one task for one socket, which writes all waiting requests at once. The task may be on the
//! runtime of the callers (`follow`, `stage`).
//!
//! It replaces a fred client for this one purpose. fred writes each script to the socket by itself, keeps 5 KB for each
//! unanswered command, ends the connection when a cluster is down, and decodes nested replies without a limit, so that a
//! local socket with a check had to stand between fred and the server. `benches/README.md` has the figures.

mod direct;
#[cfg(test)]
mod direct_tests;
mod exchange;
mod follow;
#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod hostile_tests;
mod login;
mod replies;
mod reply_to;
mod requests;
mod stage;
#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use fred::types::Resp3Frame as Frame;
use leasehold::{
    clock::{Clock, Instant},
    transport::TransportError,
};
#[cfg(any(test, feature = "tls"))]
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::{net::TcpStream, sync::oneshot, task::AbortHandle};

pub(super) use self::replies::invalid;
use self::{direct::Direct, exchange::Exchange, follow::Follow, reply_to::ReplyTo};
use super::{
    connect::{Socket, Target, cannot_connect, connect, read_password},
    link::{Failure, Kill, Link, LinkKind, classify, is_redirect},
    lost::Lost,
    traffic::Traffic,
};
use crate::wire::{arg::Arg, encode::Bulk};

/// A connection for commands.
pub(crate) struct CommandLink {
    exchange: Arc<Exchange>,
    task: AbortHandle,
    /// `None`: only the task of the link reads.
    follow: Option<Arc<Follow>>,
}

impl Link for CommandLink {
    const KIND: LinkKind = LinkKind::Commands;

    async fn open(target: Target<'_>, clock: Clock, step: Duration) -> Result<Self, TransportError> {
        let password = read_password(&target, step).await?;
        let socket = connect(&target, step).await?;
        let link = match socket {
            Socket::Plain(socket) => {
                Self::over_tcp(socket, clock).map_err(|error| cannot_connect(&target, &error.into(), step))?
            }
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => Self::over(socket, clock),
        };
        match link.log_in(&target, password, 2 * step).await {
            Ok(()) => Ok(link),
            Err(error) => Err(cannot_connect(&target, &error, step)),
        }
    }

    async fn request(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        self.ask(command, &args, timeout).await
    }

    async fn ended(&self) {
        self.exchange.ended().await;
    }

    fn ended_by(&self) -> Lost {
        self.exchange.ended_by()
    }

    fn traffic(&self) -> &Traffic {
        &self.exchange.traffic
    }
}

impl CommandLink {
    /// Only the task of the link reads and writes.
    #[cfg(any(test, feature = "tls"))]
    fn over(socket: impl AsyncRead + AsyncWrite + Send + 'static, clock: Clock) -> Self {
        let exchange = Arc::new(Exchange::new(Traffic::new(clock), None));
        let (reader, writer) = tokio::io::split(socket);
        let service = |exchange: Arc<Exchange>| async move { exchange.read_and_write(reader, writer).await };
        let task = tokio::spawn(exchange.clone().run((), service)).abort_handle();
        Self { exchange, task, follow: None }
    }

    /// Callers write too, and a task on their runtime may read; see [`follow_callers`](Self::follow_callers).
    fn over_tcp(socket: TcpStream, clock: Clock) -> io::Result<Self> {
        let (socket, follow) = (Arc::new(socket.into_std()?), Follow::new());
        let exchange = Arc::new(Exchange::new(Traffic::new(clock), Some(Direct::of(&socket))));
        let (served, kept) = (follow.clone(), socket.clone());
        let service = |exchange| follow::serve(exchange, socket, served);
        let task = tokio::spawn(exchange.clone().run(kept, service)).abort_handle();
        Ok(Self { exchange, task, follow: Some(follow) })
    }

    /// From now on the connection follows the callers of [`begin`](Self::begin) to their runtime, if it is a plain TCP
    /// connection.
    pub(crate) fn follow_callers(&self) {
        self.follow.iter().for_each(|follow| follow.allow());
    }

    /// As [`request`](Link::request).
    ///
    /// # Errors
    /// As [`request`](Link::request).
    ///
    /// # Cancel safety
    /// As [`request`](Link::request).
    pub(crate) fn ask(
        &self,
        command: &'static str,
        args: &[Arg],
        timeout: Duration,
    ) -> impl Future<Output = Result<Frame, Failure>> + Send + use<'_> {
        let (reply_to, reply) = oneshot::channel();
        let put = self.exchange.put(|requests| requests.put(command, args, None, ReplyTo::Task(reply_to)));
        self.reply(put.map(|()| reply).map_err(|(lost, _)| lost), timeout)
    }

    /// Sends a command. `done` gets its reply where the reply arrives, or the reason why there is none: at `until`, or when
    /// the connection has ended, which may be before this returns. It must not block.
    pub(crate) fn begin(
        &self,
        command: &'static str,
        args: &[impl Bulk],
        until: Instant,
        done: impl FnOnce(Result<Frame, Failure>) + Send + 'static,
    ) {
        if let Some(follow) = &self.follow {
            follow.note_call(&self.exchange);
        }
        let traffic = self.exchange.traffic.clone();
        let (sent, outstanding) = (traffic.now(), traffic.one_more());
        let reply_to = ReplyTo::Call(Box::new(move |reply| {
            drop(outstanding);
            if reply.is_ok() {
                traffic.handle_reply(sent);
            }
            done(reply.and_then(classify));
        }));
        let put = self.exchange.put(|requests| requests.put(command, args, Some(until), reply_to));
        if let Err((lost, reply_to)) = put {
            reply_to.fail(Failure::Lost(lost));
        }
    }

    /// As [`request`](Link::request), directly behind an `ASKING`. The server then answers for a slot that it is still
    /// importing.
    ///
    /// # Errors
    /// As [`request`](Link::request).
    ///
    /// # Cancel safety
    /// As [`request`](Link::request).
    pub(crate) async fn ask_behind_asking(
        &self,
        command: &'static str,
        args: &[Arg],
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let ((asked_to, asked), (reply_to, reply)) = (oneshot::channel(), oneshot::channel());
        // `ASKING` applies to the next command on the connection, so no other command may be put between the two.
        let put = self.exchange.put(|requests| {
            let added = requests.put("ASKING", &NO_ARGS, None, ReplyTo::Task(asked_to))?;
            requests.put(command, args, None, ReplyTo::Task(reply_to))?;
            Ok(added)
        });
        let reply = self.reply(put.map(|()| reply).map_err(|(lost, _)| lost), timeout).await;
        match reply {
            // The command was not executed. If `ASKING` was refused, its refusal is the reason.
            Err(Failure::Refused(text)) if is_redirect(&text) => {
                self.reply(Ok(asked), timeout).await?;
                Err(Failure::Refused(text))
            }
            // The command's own reply counts, whatever the reply to `ASKING` was.
            reply => reply,
        }
    }

    /// Waits until every request is answered or given up, at most `longest`.
    pub(crate) async fn answered(&self, longest: Duration) {
        let answered = async {
            while self.exchange.traffic.is_waiting() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(longest, answered).await;
    }

    async fn reply(
        &self,
        put: Result<oneshot::Receiver<Frame>, Lost>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let traffic = &self.exchange.traffic;
        let (sent, _outstanding) = (traffic.now(), traffic.one_more());
        match tokio::time::timeout(timeout, put.map_err(Failure::Lost)?).await {
            Ok(Ok(frame)) => {
                traffic.handle_reply(sent);
                classify(frame)
            }
            Ok(Err(_ended)) => Err(Failure::Lost(self.exchange.ended_by())),
            Err(_elapsed) => Err(Failure::TimedOut),
        }
    }
}

const NO_ARGS: [Arg; 0] = [];
/// The pause between two looks whether all requests are answered.
const LOOK: Duration = Duration::from_millis(1);

impl Kill for CommandLink {
    fn kill(&self) {
        self.exchange.end(Lost::here());
        self.task.abort();
    }
}

impl Drop for CommandLink {
    fn drop(&mut self) {
        self.kill();
    }
}
