//! The task of one connection: writes the requests, and gives each reply to the request that waits for it.
//!
//! All requests that came since the last write go out in one write. So a busy connection needs few system calls, and an
//! idle one sends at once. If few requests are unanswered, the caller writes its own (`direct`). The task is woken for the
//! first of them, but not while it handles replies: it looks for requests afterwards. Answers of one read are given together.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fred::{bytes::BytesMut, types::Resp3Frame as Frame};
use leasehold::transport::give_together;
use redis_protocol::resp2::decode::decode_bytes_mut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, watch},
};

use super::{
    super::lost::Lost,
    direct::Direct,
    reply_to::ReplyTo,
    requests::{Added, Requests},
};
use crate::{
    connection::{link::Failure, traffic::Traffic},
    wire::depth::Depth,
};

/// What the link and its task share.
pub(super) struct Exchange {
    requests: Mutex<Requests<ReplyTo>>,
    unwritten: Notify,
    /// The moment of the next look at requests that are overdue is earlier now.
    earlier: Notify,
    dead: watch::Sender<bool>,
    /// `None`: only the task writes.
    direct: Option<Direct>,
    pub(super) traffic: Arc<Traffic>,
}

impl Exchange {
    pub(super) fn new(traffic: Arc<Traffic>, direct: Option<Direct>) -> Self {
        let (requests, dead) = (Mutex::default(), watch::Sender::new(false));
        Self { requests, unwritten: Notify::new(), earlier: Notify::new(), dead, direct, traffic }
    }

    /// Adds requests with this function, all behind each other, and has them written.
    ///
    /// # Errors
    /// As the function.
    pub(super) fn put(
        &self,
        put: impl FnOnce(&mut Requests<ReplyTo>) -> Result<Added, (Lost, ReplyTo)>,
    ) -> Result<(), (Lost, ReplyTo)> {
        let mut requests = self.lock();
        let Added { wakes_task, may_write, is_earliest } = put(&mut requests)?;
        match &self.direct {
            Some(direct) if may_write => {
                let bytes = requests.begin_write_by_caller();
                drop(requests); // the task may handle replies meanwhile
                self.write_directly(direct, bytes);
            }
            _ => {
                drop(requests);
                if wakes_task {
                    self.unwritten.notify_one();
                }
            }
        }
        if is_earliest {
            self.earlier.notify_one();
        }
        Ok(())
    }

    fn write_directly(&self, direct: &Direct, bytes: Vec<u8>) {
        let written = direct.write(&bytes);
        let wakes_task = self.lock().end_write_by_caller(bytes, *written.as_ref().unwrap_or(&0));
        match written {
            Err(error) => self.end(Lost::of_io(&error)),
            Ok(_) if wakes_task => self.unwritten.notify_one(),
            Ok(_) => {}
        }
    }

    /// Ends the exchange. Requests that wait for a reply, and all that follow, fail with the first reason.
    pub(super) fn end(&self, why: Lost) {
        let waiting = self.lock().end(why);
        if !waiting.is_empty() {
            // Wakes tasks and runs the code of others, so not under the lock.
            let why = self.ended_by();
            waiting.into_iter().for_each(|reply_to| reply_to.fail(Failure::Lost(why.clone())));
        }
        self.dead.send_replace(true);
    }

    /// Why the exchange has ended.
    pub(super) fn ended_by(&self) -> Lost {
        let ended = self.lock().ended_by().cloned();
        ended.unwrap_or_else(Lost::here)
    }

    pub(super) async fn ended(&self) {
        // `self` owns the sender, so this wait cannot fail.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Writes and reads until the connection ends. If the future is dropped, also before its first poll, the exchange
    /// ends too.
    pub(super) fn run(
        self: Arc<Self>,
        (reader, writer): (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send),
    ) -> impl Future<Output = ()> + Send {
        let end = EndOnDrop(self);
        async move { end.0.end(end.0.read_and_write(reader, writer).await) }
    }

    async fn read_and_write(&self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) -> Lost {
        // A server that refuses a connection may speak first. Its words are the reply to the first request.
        self.unwritten.notified().await;
        self.unwritten.notify_one();
        tokio::select! {
            biased;
            lost = self.read(reader) => lost,
            lost = self.write(writer) => lost,
            never = self.give_up_overdue() => match never {},
        }
    }

    async fn give_up_overdue(&self) -> Infallible {
        let clock = self.traffic.clock();
        loop {
            let next = self.lock().next_look();
            let due = async {
                match next {
                    Some(next) => clock.sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    let overdue = self.lock().take_overdue(clock.now());
                    overdue.into_iter().for_each(|reply_to| reply_to.fail(Failure::TimedOut));
                }
                () = self.earlier.notified() => {}
            }
        }
    }

    async fn read(&self, mut socket: impl AsyncRead + Unpin) -> Lost {
        let mut replies = Replies::default();
        loop {
            match socket.read_buf(replies.room()).await {
                Ok(0) => return Lost::of_details("Connection closed."),
                Ok(count) => {
                    self.traffic.handle_received();
                    if let Err(error) = self.answer_all(&mut replies, count) {
                        return Lost::of_io(&error);
                    }
                }
                Err(error) => return Lost::of_io(&error),
            }
        }
    }

    fn answer_all(&self, replies: &mut Replies, count: usize) -> io::Result<()> {
        let whole = replies.take(count)?;
        self.lock().begin_answers();
        give_together(|| (0..whole).try_for_each(|_| self.answer(replies.next()?)))?;
        let has_more = self.lock().end_answers();
        if has_more {
            self.unwritten.notify_one();
        }
        Ok(())
    }

    fn answer(&self, frame: Frame) -> io::Result<()> {
        let reply_to = self.lock().next();
        let reply_to = reply_to.ok_or_else(|| invalid("a reply came that no request waits for"))?;
        if let Some(reply_to) = reply_to {
            reply_to.answer(frame);
        }
        Ok(())
    }

    async fn write(&self, mut socket: impl AsyncWrite + Unpin) -> Lost {
        let mut bytes = Vec::new();
        loop {
            self.unwritten.notified().await;
            while self.begin_write(&mut bytes) {
                if let Err(error) = write_all(&mut socket, &bytes).await {
                    return Lost::of_io(&error);
                }
                self.lock().end_write();
            }
        }
    }

    fn begin_write(&self, bytes: &mut Vec<u8>) -> bool {
        self.lock().begin_write(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Requests<ReplyTo>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_all(socket: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes).await?;
    socket.flush().await
}

/// Without it a task that is dropped, with its runtime or by an abort, would leave requests without an answer.
struct EndOnDrop(Arc<Exchange>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Lost::here());
    }
}

/// The replies that were read from the socket and not decoded yet.
#[derive(Default)]
struct Replies {
    bytes: BytesMut,
    depth: Depth,
}

impl Replies {
    /// Where the next bytes are read to.
    fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_BYTES);
        &mut self.bytes
    }

    /// Looks at the last `count` bytes, and returns how many more replies are whole. So a reply in many pieces is decoded
    /// once. The decoder calls itself once per level of nesting, without a limit: a deeper reply is refused here.
    fn take(&mut self, count: usize) -> io::Result<usize> {
        let before = self.bytes.len().saturating_sub(count);
        let piece = self.bytes.get(before..).unwrap_or_default();
        let whole = self.depth.take(piece).map_err(|why| invalid(why.text()))?;
        if whole == 0 && self.bytes.len() > REPLY_BYTES_MAX {
            return Err(invalid("a reply is longer than 64 MiB; the connection was closed"));
        }
        Ok(whole)
    }

    /// The next reply, which is whole.
    fn next(&mut self) -> io::Result<Frame> {
        let decoded = decode_bytes_mut(&mut self.bytes).map_err(|error| invalid(error.details()))?;
        let (frame, ..) = decoded.ok_or_else(|| invalid("a reply ends elsewhere than it says"))?;
        Ok(frame.into_resp3())
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

const READ_BYTES: usize = 16 * 1024;
/// Much more than any reply that a command of this crate gets.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
