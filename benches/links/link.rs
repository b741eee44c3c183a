//! A long link on one machine: a TCP proxy that delays what each side sends by half of the round trip.
//!
//! It waits on threads of its own. The proxy of the tests uses the timers of tokio, which count in whole milliseconds and
//! round up: it made 3.5 ms of a round trip of 1 ms, and 13 ms of one of 10 ms.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A link to one port of this machine. Dropping it accepts no connection any more; those that are open go on.
pub(crate) struct Link {
    port: u16,
    closed: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// Bytes on their way, and when they arrive.
struct Piece {
    due: Instant,
    bytes: Vec<u8>,
}

impl Link {
    pub(crate) fn start(target_port: u16, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, closed) = (listener.local_addr()?.port(), Arc::<AtomicBool>::default());
        let accepting = thread::spawn({
            let closed = closed.clone();
            move || accept_all(&listener, target_port, round_trip / 2, &closed)
        });
        Ok(Self { port, closed, accepting: Some(accepting) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // The accepting thread looks at `closed` once it has this connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

fn accept_all(listener: &TcpListener, target_port: u16, delay: Duration, closed: &AtomicBool) {
    for client in listener.incoming() {
        if closed.load(Ordering::SeqCst) {
            return;
        }
        client.and_then(|client| forward(client, target_port, delay)).expect("a connection to the server");
    }
}

fn forward(client: TcpStream, target_port: u16, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    carry(client.try_clone()?, server.try_clone()?, delay);
    carry(server, client, delay);
    Ok(())
}

/// One direction of one connection. A piece does not wait for those before it to arrive, as on a real link.
fn carry(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, under_way) = mpsc::channel();
    thread::spawn(move || send(from, &sender, delay));
    thread::spawn(move || deliver(&under_way, to));
}

fn send(mut from: TcpStream, sender: &Sender<Piece>, delay: Duration) {
    let mut buffer = vec![0; PIECE_BYTES];
    // The end of the stream and a broken connection are the same here: nothing comes any more.
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let piece = Piece { due: Instant::now() + delay, bytes: buffer[..length].to_vec() };
        if sender.send(piece).is_err() {
            return;
        }
    }
}

fn deliver(under_way: &Receiver<Piece>, mut to: TcpStream) {
    for piece in under_way {
        thread::sleep(piece.due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece.bytes).is_err() {
            break;
        }
    }
    // An error means that the other side is gone already.
    let _ = to.shutdown(Shutdown::Write);
}

const PIECE_BYTES: usize = 64 * 1024;
