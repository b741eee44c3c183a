//! What one connection has to do: write the requests, and give each reply to the request that waits for it.
//!
//! All requests that came since the last write go out in one write. So a busy connection needs few system calls, and an
//! idle one sends at once. If few requests are unanswered, the caller writes its own (`direct`). The task that writes is woken
//! for the first of them, but not while it handles replies: it looks for requests afterwards. Answers of one read are given
//! together.
//!
//! The task of the link reads and writes, or a task on a runtime of the callers does (`follow`). Each step locks what it
//! changes, so that either can go on where the other has stopped.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::TcpStream as Socket,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use fred::types::Resp3Frame as Frame;
use leasehold::transport::give_together;
#[cfg(any(test, feature = "tls"))]
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::{TcpStream, tcp::WriteHalf},
    sync::{Notify, watch},
};

use super::{
    super::lost::Lost,
    direct::Direct,
    replies::{Replies, invalid},
    reply_to::ReplyTo,
    requests::{Added, Look, Requests},
};
use crate::connection::{link::Failure, traffic::Traffic};

/// What the link and the tasks that serve it share.
pub(super) struct Exchange {
    requests: Mutex<Requests<ReplyTo>>,
    replies: Mutex<Replies>,
    writer: Writers,
    /// The moment of the next look at requests that are overdue is earlier now.
    earlier: Notify,
    dead: watch::Sender<bool>,
    /// `None`: only a task writes.
    direct: Option<Direct>,
    pub(super) traffic: Arc<Traffic>,
}

/// Wakes the task that writes.
#[derive(Default)]
struct Writers {
    own: Arc<Notify>,
    /// That on a runtime of the callers, while it serves the connection. Locked within the lock of the requests only.
    callers: Mutex<Option<Arc<Notify>>>,
    /// Whether there was one.
    is_shared: AtomicBool,
}

/// The replies that one read has brought, each with the request that waits for it.
struct Came {
    answers: Vec<(ReplyTo, Frame)>,
    end: Option<Lost>,
}

impl Exchange {
    pub(super) fn new(traffic: Arc<Traffic>, direct: Option<Direct>) -> Self {
        Self {
            requests: Mutex::default(),
            replies: Mutex::default(),
            writer: Writers::default(),
            earlier: Notify::new(),
            dead: watch::Sender::new(false),
            direct,
            traffic,
        }
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
                drop(requests); // replies may be handled meanwhile
                self.write_directly(direct, bytes);
            }
            _ if wakes_task => self.wake_writer(requests),
            _ => drop(requests),
        }
        if is_earliest {
            self.earlier.notify_one();
        }
        Ok(())
    }

    fn write_directly(&self, direct: &Direct, bytes: Vec<u8>) {
        let written = direct.write(&bytes);
        let mut requests = self.lock();
        let wakes_task = requests.end_write_by_caller(bytes, *written.as_ref().unwrap_or(&0));
        match written {
            Err(error) => {
                drop(requests);
                self.end(Lost::of_io(&error));
            }
            Ok(_) if wakes_task => self.wake_writer(requests),
            Ok(_) => {}
        }
    }

    // The lock says which task it is.
    fn wake_writer(&self, requests: MutexGuard<'_, Requests<ReplyTo>>) {
        let callers = self.writer.callers();
        let writer = callers.as_ref().unwrap_or(&self.writer.own).clone();
        drop((requests, callers));
        writer.notify_one();
    }

    /// What wakes the task of the link to write.
    pub(super) fn own_writer(&self) -> Arc<Notify> {
        self.writer.own.clone()
    }

    /// From now on a task on a runtime of the callers serves the connection, which is woken so. `None`: the link's own does. The
    /// other may have stopped in the middle of its answers.
    pub(super) fn hand_over(&self, to: Option<Arc<Notify>>) {
        let mut requests = self.lock();
        *self.writer.callers() = to;
        requests.end_answers();
        self.wake_writer(requests);
    }

    /// Ends the exchange. Requests that wait for a reply, and all that follow, fail with the first reason.
    pub(super) fn end(&self, why: Lost) {
        let waiting = self.lock().end(why);
        if !waiting.is_empty() {
            // Wakes tasks and runs the code of others, so not under the lock.
            let why = self.ended_by();
            waiting.into_iter().for_each(|reply_to| reply_to.fail(Failure::Lost(why.clone())));
        }
        if self.writer.is_shared.load(Ordering::Relaxed) {
            // A task of another runtime may have no turn for long, and has a descriptor.
            self.direct.iter().for_each(Direct::shut_down);
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

    /// A second descriptor of the socket. `None`: see [`Direct::second`].
    pub(super) fn second_socket(&self) -> Option<Socket> {
        self.writer.is_shared.store(true, Ordering::Relaxed);
        self.direct.as_ref()?.second()
    }

    /// How far the requests are.
    pub(super) fn look(&self) -> Look {
        self.lock().look()
    }

    /// Runs this service until the connection ends. If the future is dropped, also before its first poll, the exchange ends
    /// too, and only then `socket` is dropped.
    pub(super) fn run<K, F>(
        self: Arc<Self>,
        socket: K,
        service: impl FnOnce(Arc<Self>) -> F,
    ) -> impl Future<Output = ()>
    where
        F: Future<Output = Lost>,
    {
        let service = service(self.clone());
        let end = EndOnDrop(self, socket);
        async move {
            let end = end; // all of it
            // A server that refuses a connection may speak first. Its words are the reply to the first request.
            end.0.writer.own.notified().await;
            end.0.writer.own.notify_one();
            let lost = tokio::select! {
                biased;
                lost = service => lost,
                never = end.0.give_up_overdue() => match never {},
            };
            end.0.end(lost);
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

    /// Reads and writes until the connection ends. Only one task may.
    #[cfg(any(test, feature = "tls"))]
    pub(super) async fn read_and_write(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) -> Lost {
        tokio::select! {
            biased;
            lost = self.read(reader) => lost,
            lost = self.write(writer) => lost,
        }
    }

    /// The same, as the task that is woken so to write. It can be dropped, and another task goes on.
    pub(super) async fn serve(&self, socket: &mut TcpStream, unwritten: &Arc<Notify>) -> Lost {
        let (reader, writer) = socket.split();
        tokio::select! {
            biased;
            lost = self.read(reader) => lost,
            lost = self.write_pieces(writer, unwritten) => lost,
        }
    }

    async fn read(&self, mut socket: impl AsyncRead + Unpin) -> Lost {
        loop {
            let came = poll_fn(|context| self.poll_read(&mut socket, context)).await;
            if let Some(lost) = self.answer_all(came) {
                return lost;
            }
        }
    }

    fn poll_read(&self, socket: &mut (impl AsyncRead + Unpin), context: &mut Context<'_>) -> Poll<Came> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let count = ready!(pin!(socket.read_buf(replies.room())).poll(context));
        Poll::Ready(self.take_in(&mut replies, count))
    }

    // Under the lock of the replies: their order is that of the requests.
    fn take_in(&self, replies: &mut Replies, count: io::Result<usize>) -> Came {
        let (frames, error) = match count {
            Ok(0) => return Came::end(Lost::of_details("Connection closed.")),
            Ok(count) => replies.take(count),
            Err(error) => return Came::end(Lost::of_io(&error)),
        };
        self.traffic.handle_received(!frames.is_empty());
        let (mut answers, mut error) = (Vec::with_capacity(frames.len()), error);
        let mut requests = self.lock();
        requests.begin_answers();
        for frame in frames {
            match requests.next() {
                Some(Some(reply_to)) => answers.push((reply_to, frame)),
                Some(None) => {} // given up
                None => {
                    error = Some(invalid("a reply came that no request waits for"));
                    break;
                }
            }
        }
        Came { answers, end: error.map(|error| Lost::of_io(&error)) }
    }

    /// Gives the replies. Returns why the connection has ended, if it has.
    fn answer_all(&self, Came { answers, end }: Came) -> Option<Lost> {
        give_together(|| answers.into_iter().for_each(|(reply_to, frame)| self.answer(reply_to, frame)));
        let mut requests = self.lock();
        if requests.end_answers() {
            self.wake_writer(requests);
        }
        end
    }

    // One that cannot read its reply ends the connection: the replies behind it may be those to other requests.
    fn answer(&self, reply_to: ReplyTo, frame: Frame) {
        let has_ended = *self.dead.borrow();
        match has_ended {
            false => reply_to.answer(frame),
            true => reply_to.fail(Failure::Lost(self.ended_by())),
        }
    }

    #[cfg(any(test, feature = "tls"))]
    async fn write(&self, mut socket: impl AsyncWrite + Unpin) -> Lost {
        let mut bytes = Vec::new();
        loop {
            self.writer.own.notified().await;
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

    // What the socket does not take goes back to the requests, where another task finds it.
    async fn write_pieces(&self, socket: WriteHalf<'_>, unwritten: &Arc<Notify>) -> Lost {
        loop {
            unwritten.notified().await;
            loop {
                match self.write_piece(unwritten, |bytes| socket.try_write(bytes)) {
                    Ok(Piece::None) => break,
                    Ok(Piece::Whole) => {}
                    Ok(Piece::Part) => {
                        if let Err(error) = socket.writable().await {
                            return Lost::of_io(&error);
                        }
                    }
                    Err(error) => return Lost::of_io(&error),
                }
            }
        }
    }

    fn write_piece(
        &self,
        unwritten: &Arc<Notify>,
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Piece> {
        let mut bytes = Vec::new();
        if !self.begin_write(&mut bytes) {
            return Ok(Piece::None);
        }
        let written = match write(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        };
        let (length, count) = (bytes.len(), *written.as_ref().unwrap_or(&0));
        let mut requests = self.lock();
        if requests.end_write_by_caller(bytes, count) && !self.writer.is(unwritten) {
            self.wake_writer(requests); // it found this write under way
        }
        written.map(|_| if count < length { Piece::Part } else { Piece::Whole })
    }

    fn lock(&self) -> MutexGuard<'_, Requests<ReplyTo>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writers {
    fn callers(&self) -> MutexGuard<'_, Option<Arc<Notify>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this wakes the task that writes now.
    fn is(&self, unwritten: &Arc<Notify>) -> bool {
        Arc::ptr_eq(self.callers().as_ref().unwrap_or(&self.own), unwritten)
    }
}

impl Came {
    fn end(why: Lost) -> Self {
        Self { answers: Vec::new(), end: Some(why) }
    }
}

/// How much of the bytes the socket has taken.
enum Piece {
    /// There were none.
    None,
    Whole,
    Part,
}

#[cfg(any(test, feature = "tls"))]
async fn write_all(socket: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes).await?;
    socket.flush().await
}

/// Without it a task that is dropped, with its runtime or by an abort, would leave requests without an answer.
struct EndOnDrop<K>(Arc<Exchange>, K);

impl<K> Drop for EndOnDrop<K> {
    fn drop(&mut self) {
        self.0.end(Lost::here());
    }
}
