//! One connection through the proxy: four pumps around two queues.
//!
//! The side towards the server outlives the client: what a client sent before it closed still arrives, as it does in
//! a network. The side towards the client ends with either end.

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use super::held::HeldRequest;
use super::listener::Shared;
use super::pairing::{Paired, Pairing};
use super::queue::{Answer, Incoming, Outgoing, Pace, Request, Tag, until_passable};
use super::rule::Fault;
use super::rulebook::RuleRecord;
use super::switches::{Direction, Way};
use crate::harness::frames::{Frame, FrameReader};

/// Serves one client until both sides are done, or all connections are cut.
pub(super) async fn serve(connection: u64, client: TcpStream, shared: Arc<Shared>) {
    let cuts = shared.switches.cuts();
    let link = Link::new(connection, &shared);
    tokio::select! {
        () = link.cut(cuts) => {}
        // A failed connect needs no word: the client sees its connection close.
        _ = link.forward(client) => {}
    }
}

struct Link<'a> {
    connection: u64,
    shared: &'a Shared,
    pairing: Mutex<Pairing<Tag>>,
    client_gone: watch::Sender<bool>,
    server_gone: watch::Sender<bool>,
    /// Set before the request that asks for replication is passed on, so no byte of the stream is taken for a frame.
    replicates: AtomicBool,
}

impl<'a> Link<'a> {
    fn new(connection: u64, shared: &'a Shared) -> Self {
        let (client_gone, server_gone) = (watch::Sender::new(false), watch::Sender::new(false));
        let (pairing, replicates) = (Mutex::new(Pairing::new()), AtomicBool::new(false));
        Self { connection, shared, pairing, client_gone, server_gone, replicates }
    }

    /// Returns at a cut that strikes this connection.
    async fn cut(&self, mut cuts: watch::Receiver<u64>) {
        loop {
            // The proxy outlives its connections; if it did not, that would be a cut, too.
            let gone = cuts.changed().await.is_err();
            if gone || !self.replicates() {
                return;
            }
        }
    }

    async fn forward(&self, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", self.shared.target_port)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (client_in, client_out) = client.into_split();
        let (server_in, server_out) = server.into_split();
        // Bounded, so that a side that stops reading is felt at the other end, as without a proxy.
        let (to_server, server_queue) = mpsc::channel(QUEUE_MAX);
        let (to_client, client_queue) = mpsc::channel(QUEUE_MAX);
        tokio::join!(
            unless(&self.client_gone, self.read_requests(client_in, to_server)),
            unless(&self.server_gone, self.write_requests(server_queue, server_out)),
            self.read_replies_to_the_end(server_in, to_client),
            self.write_replies_to_the_end(client_queue, client_out),
        );
        Ok(())
    }

    async fn read_requests(
        &self,
        mut client: OwnedReadHalf,
        to_server: mpsc::Sender<Outgoing>,
    ) -> io::Result<()> {
        let mut requests = FrameReader::of_requests();
        let mut entrance = Entrance { queue: to_server, pace: Pace::new() };
        while read_into(&mut requests, &mut client).await? {
            while let Some(frame) = next_frame(&mut requests)? {
                if self.take_request(frame, &mut entrance).await?.is_break() {
                    return Ok(());
                }
            }
            if self.replicates() {
                return self.pass_requests(client, entrance.queue).await;
            }
        }
        Ok(())
    }

    /// What a replica says once it replicates: acknowledgements that nobody answers.
    async fn pass_requests(
        &self,
        mut client: OwnedReadHalf,
        to_server: mpsc::Sender<Outgoing>,
    ) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            let length = client.read(&mut piece).await?;
            if length == 0 {
                return Ok(());
            }
            let request = Request { bytes: piece[..length].to_vec(), arguments: Vec::new() };
            let tag = Tag::of_nobody(Answer::Pass);
            let outgoing = Outgoing { due: None, request, tag, cuts_client: false };
            to_server.send(outgoing).await.map_err(|_| io::ErrorKind::ConnectionReset)?;
        }
    }

    /// Breaks if nothing more of this client is to be read.
    async fn take_request(&self, frame: Frame, entrance: &mut Entrance) -> io::Result<ControlFlow<()>> {
        let request = Request { arguments: frame.arguments(), bytes: frame.bytes };
        self.shared.traffic.note(self.connection, &request.arguments);
        if asks_for_replication(&request.arguments) {
            self.replicates.store(true, Ordering::Release);
            let tag = Tag::of_nobody(Answer::Pass);
            return entrance.send(self.to_server(), request, tag).await;
        }
        match self.shared.rulebook.striking(&request.arguments) {
            Some(rule) => self.strike(rule, request, entrance).await,
            None => entrance.send(self.to_server(), request, Tag::of_nobody(Answer::Pass)).await,
        }
    }

    async fn strike(
        &self,
        rule: Arc<RuleRecord>,
        request: Request,
        entrance: &mut Entrance,
    ) -> io::Result<ControlFlow<()>> {
        let way = self.to_server();
        match rule.fault() {
            Fault::LoseReply => entrance.send(way, request, Tag::of(rule, Answer::Swallow)).await,
            Fault::DelayReply(by) => entrance.send(way, request, Tag::of(rule, Answer::Delay(by))).await,
            Fault::RepeatReply => entrance.send(way, request, Tag::of(rule, Answer::Twice)).await,
            Fault::RepeatRequest => {
                entrance.put(way, request.clone(), Tag::of_nobody(Answer::Pass), false).await?;
                entrance.send(way, request, Tag::of(rule, Answer::Swallow)).await
            }
            Fault::CutAfter => entrance.send_and_cut(way, request, Tag::of(rule, Answer::Swallow)).await,
            Fault::DelayRequest(by) => {
                rule.count_firing();
                entrance.pace.hold_up(way, by);
                entrance.send(way, request, Tag::of_nobody(Answer::Pass)).await
            }
            Fault::HoldRequest => {
                rule.hold(HeldRequest { request, queue: entrance.queue.clone() });
                Ok(ControlFlow::Continue(()))
            }
            Fault::LoseRequest => {
                rule.count_firing();
                Ok(ControlFlow::Continue(()))
            }
            Fault::CutBefore => {
                self.client_gone.send_replace(true);
                rule.count_firing();
                Ok(ControlFlow::Break(()))
            }
        }
    }

    async fn write_requests(
        &self,
        mut queue: mpsc::Receiver<Outgoing>,
        mut server: OwnedWriteHalf,
    ) -> io::Result<()> {
        while let Some(outgoing) = queue.recv().await {
            if self.replicates() {
                server.write_all(&outgoing.request.bytes).await?;
                continue;
            }
            until_passable(outgoing.due, self.to_server()).await;
            // Before the bytes: the reply may be here before this pump runs again.
            self.expect(&outgoing.request, outgoing.tag);
            server.write_all(&outgoing.request.bytes).await?;
            if outgoing.cuts_client {
                self.client_gone.send_replace(true);
            }
        }
        // Nobody can send any more, not even a held request: the server may close.
        server.shutdown().await
    }

    async fn read_replies_to_the_end(&self, server: OwnedReadHalf, to_client: mpsc::Sender<Incoming>) {
        // However it ends, the server will say nothing more.
        let _ = self.read_replies(server, to_client).await;
        self.server_gone.send_replace(true);
    }

    async fn read_replies(
        &self,
        mut server: OwnedReadHalf,
        to_client: mpsc::Sender<Incoming>,
    ) -> io::Result<()> {
        let mut replies = FrameReader::of_replies();
        let mut exit = Exit { queue: to_client, pace: Pace::new() };
        let mut piece = [0; PIECE_BYTES];
        loop {
            let length = server.read(&mut piece).await?;
            if length == 0 {
                return Ok(());
            }
            // A replica waits for every reply before it asks for replication: none is under way when the stream begins.
            if self.replicates() {
                exit.send(self.to_client(), piece[..length].to_vec()).await;
                continue;
            }
            replies.feed(&piece[..length]);
            while let Some(frame) = next_frame(&mut replies)? {
                self.take_reply(frame, &mut exit).await;
            }
        }
    }

    async fn take_reply(&self, frame: Frame, exit: &mut Exit) {
        let way = self.to_client();
        let Some(paired) = self.pair(&frame) else { return exit.send(way, frame.bytes).await };
        match paired.tag.answer {
            Answer::Pass => exit.send(way, frame.bytes).await,
            Answer::Swallow => {}
            Answer::Delay(by) => {
                if paired.first {
                    exit.pace.hold_up(way, by);
                }
                exit.send(way, frame.bytes).await;
            }
            Answer::Twice => {
                exit.send(way, frame.bytes.clone()).await;
                exit.send(way, frame.bytes).await;
            }
            // A test that no longer listens has had its timeout.
            Answer::Report(report) => drop(report.send(frame.bytes)),
        }
        if let Some(rule) = paired.tag.rule.filter(|_| paired.last) {
            rule.count_firing();
        }
    }

    async fn write_replies_to_the_end(&self, queue: mpsc::Receiver<Incoming>, client: OwnedWriteHalf) {
        unless(&self.client_gone, self.write_replies(queue, client)).await;
        self.client_gone.send_replace(true);
    }

    async fn write_replies(
        &self,
        mut queue: mpsc::Receiver<Incoming>,
        mut client: OwnedWriteHalf,
    ) -> io::Result<()> {
        while let Some(incoming) = queue.recv().await {
            if !self.replicates() {
                until_passable(Some(incoming.due), self.to_client()).await;
            }
            client.write_all(&incoming.bytes).await?;
        }
        Ok(())
    }

    fn replicates(&self) -> bool {
        self.replicates.load(Ordering::Acquire)
    }

    fn expect(&self, request: &Request, tag: Tag) {
        self.pairing.lock().unwrap_or_else(PoisonError::into_inner).expect(&request.arguments, tag);
    }

    fn pair(&self, frame: &Frame) -> Option<Paired<Tag>> {
        self.pairing.lock().unwrap_or_else(PoisonError::into_inner).pair(frame)
    }

    fn to_server(&self) -> &Way {
        self.shared.switches.way(Direction::ToServer)
    }

    fn to_client(&self) -> &Way {
        self.shared.switches.way(Direction::ToClient)
    }
}

/// Where requests enter the queue to the server.
struct Entrance {
    queue: mpsc::Sender<Outgoing>,
    pace: Pace,
}

impl Entrance {
    async fn send(&mut self, way: &Way, request: Request, tag: Tag) -> io::Result<ControlFlow<()>> {
        self.put(way, request, tag, false).await?;
        Ok(ControlFlow::Continue(()))
    }

    async fn send_and_cut(&mut self, way: &Way, request: Request, tag: Tag) -> io::Result<ControlFlow<()>> {
        self.put(way, request, tag, true).await?;
        Ok(ControlFlow::Break(()))
    }

    async fn put(&mut self, way: &Way, request: Request, tag: Tag, cuts_client: bool) -> io::Result<()> {
        let outgoing = Outgoing { due: Some(self.pace.due(way)), request, tag, cuts_client };
        self.queue.send(outgoing).await.map_err(|_| io::ErrorKind::ConnectionReset.into())
    }
}

/// Where replies enter the queue to the client.
struct Exit {
    queue: mpsc::Sender<Incoming>,
    pace: Pace,
}

impl Exit {
    async fn send(&mut self, way: &Way, bytes: Vec<u8>) {
        // A client that is gone is no reason to stop reading: the requests behind still wait for their replies.
        let _ = self.queue.send(Incoming { due: self.pace.due(way), bytes }).await;
    }
}

/// Drops the work, and with it its half of a socket, as soon as `gone` is set.
async fn unless(gone: &watch::Sender<bool>, work: impl Future<Output = io::Result<()>>) {
    let mut gone = gone.subscribe();
    tokio::select! {
        _ = gone.wait_for(|gone| *gone) => {}
        // A socket that fails is a side that has gone; the other pumps see it, too.
        _ = work => {}
    }
}

/// A replica's request to be sent everything from now on: what follows is a stream without replies.
fn asks_for_replication(arguments: &[Vec<u8>]) -> bool {
    let name = arguments.first();
    name.is_some_and(|name| [b"PSYNC".as_slice(), b"SYNC"].iter().any(|sync| name.eq_ignore_ascii_case(sync)))
}

/// False at the end of the stream.
async fn read_into(frames: &mut FrameReader, socket: &mut OwnedReadHalf) -> io::Result<bool> {
    let mut piece = [0; PIECE_BYTES];
    let length = socket.read(&mut piece).await?;
    frames.feed(&piece[..length]);
    Ok(length > 0)
}

fn next_frame(frames: &mut FrameReader) -> io::Result<Option<Frame>> {
    frames.next_frame().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Frames in one direction of one connection.
const QUEUE_MAX: usize = 1024;
const PIECE_BYTES: usize = 8 * 1024;
