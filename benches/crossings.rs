//! What it costs one caller that another thread reads the replies, or also writes the requests: pairs of one lock on blocking
//! sockets, with nothing of an engine.

use std::{
    fmt,
    io::Write,
    net::{Shutdown, TcpStream},
    sync::mpsc,
    thread,
    time::Instant,
};

use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};

use crate::{
    processors::Processors,
    raw::{Connection, Pair},
    rounds::Spread,
    size::Size,
    table::Table,
};

/// Which thread does what for the caller.
#[derive(Clone, Copy, Debug)]
enum Threads {
    /// The caller writes and reads.
    One,
    /// The caller writes, another thread reads the reply and wakes the caller.
    ReplyCrosses,
    /// Another thread writes and reads.
    BothCross,
}

impl Threads {
    const ALL: [Self; 3] = [Self::One, Self::ReplyCrosses, Self::BothCross];
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "on the caller's thread",
            Self::ReplyCrosses => "another thread reads",
            Self::BothCross => "another thread writes and reads",
        })
    }
}

pub(crate) fn measure(table: &mut Table, size: Size) {
    for processors in Processors::BOTH {
        let _awake = processors.arrange();
        measure_with(table, size, processors);
    }
}

fn measure_with(table: &mut Table, size: Size, processors: Processors) {
    let server = RedisServer::start().expect("a redis-server");
    let times = size.pairs / 4;
    let rounds: Vec<_> = (0..size.rounds)
        .map(|_| Threads::ALL.map(|threads| pair_micros(server.port(), threads, times)))
        .collect();
    let of = |place: usize| rounds.iter().map(|round| round[place]).collect::<Vec<_>>();
    for (place, threads) in Threads::ALL.into_iter().enumerate() {
        table.add("", format!("pair, 1 caller, {threads}, {processors}, p50"), Spread::of(of(place)), "us");
    }
    for (place, threads) in Threads::ALL.into_iter().enumerate().skip(1) {
        let ratio = Spread::of_ratios(&of(place), &of(0));
        table.add("", format!("pair, 1 caller, {threads} / {}, {processors}", Threads::One), ratio, "x");
    }
}

/// The median of `times` pairs.
fn pair_micros(port: u16, threads: Threads, times: usize) -> f64 {
    let pair = Pair::of(&mut RawClient::connect(port).expect("a connection"), "crossings");
    let mut exchange = exchange(port, threads);
    let mut micros: Vec<f64> = (0..times)
        .map(|_| {
            let begin = Instant::now();
            exchange(&pair.acquire);
            exchange(&pair.release);
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}

/// Sends a request, and returns after its reply.
type Exchange = Box<dyn FnMut(&[u8])>;

fn exchange(port: u16, threads: Threads) -> Exchange {
    let mut connection = Connection::to(port);
    match threads {
        Threads::One => Box::new(move |request| {
            connection.send(request);
            connection.wait_for_replies();
        }),
        Threads::ReplyCrosses => read_elsewhere(connection),
        Threads::BothCross => send_elsewhere(connection),
    }
}

/// The other thread always reads, and ends with the connection.
fn read_elsewhere(mut connection: Connection) -> Exchange {
    let mut writes = Writes(connection.stream());
    let (replies, reply) = mpsc::channel();
    thread::spawn(move || while connection.read_replies() > 0 && replies.send(()).is_ok() {});
    Box::new(move |request| {
        writes.0.write_all(request).expect("it is sent");
        reply.recv().expect("the other thread reads");
    })
}

/// The other thread waits for a request.
fn send_elsewhere(mut connection: Connection) -> Exchange {
    let (requests, to_send) = mpsc::channel::<Vec<u8>>();
    let (replies, reply) = mpsc::channel();
    thread::spawn(move || {
        for request in to_send {
            connection.send(&request);
            connection.wait_for_replies();
            replies.send(()).expect("the caller waits");
        }
    });
    Box::new(move |request| {
        requests.send(request.to_vec()).expect("the other thread is there");
        reply.recv().expect("the other thread reads");
    })
}

/// A second handle of a socket. Dropping it ends the connection.
struct Writes(TcpStream);

impl Drop for Writes {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both); // it may have ended by itself
    }
}
