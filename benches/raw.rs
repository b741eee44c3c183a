//! What the server itself can do: the limits that everything is measured against. The work is that of the engine: the same
//! scripts, each release finds its hold and publishes its notice, and names come one after the other.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use leasehold_tests::harness::{frames::FrameReader, raw_client::RawClient, resp};

pub(crate) const ACQUIRE: &str = include_str!("../transports/redis/scripts/acquire.lua");
pub(crate) const RELEASE: &str = include_str!("../transports/redis/scripts/release.lua");
pub(crate) const FAR: &str = "9007199254740991";
const OWNER: &str = "raw:1";

/// The two requests of a pair, as a client sends them.
pub(crate) struct Pair {
    pub(crate) acquire: Vec<u8>,
    pub(crate) release: Vec<u8>,
}

impl Pair {
    /// A pair of the lock `name`, on a server that this client has given the scripts.
    pub(crate) fn of(client: &mut RawClient, name: &str) -> Self {
        let (acquire, release) = (load(client, ACQUIRE), load(client, RELEASE));
        let channel = format!("redisson_lock__channel:{{{name}}}");
        Self {
            acquire: resp::request(&["EVALSHA", &acquire, "1", name, "30000", OWNER, FAR]),
            release: resp::request(&["EVALSHA", &release, "1", name, OWNER, &channel, "publish"]),
        }
    }
}

/// Acquires and releases one after the other over one blocking socket: the median round trip in µs.
pub(crate) fn round_trip_micros(port: u16, times: usize) -> f64 {
    let pair = Pair::of(&mut RawClient::connect(port).expect("a connection"), "raw");
    let mut connection = Connection::to(port);
    let mut micros = Vec::with_capacity(2 * times);
    for _ in 0..times {
        for request in [&pair.acquire, &pair.release] {
            let begin = Instant::now();
            connection.send(request);
            connection.wait_for_replies();
            micros.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}

/// `raw(1, P)` of the performance page: pairs a second of a client that has one connection, with `in_flight` commands
/// unanswered on it. Each of these is of a lock of its own. When it is answered, the other command of the pair follows.
pub(crate) fn pairs_per_second(port: u16, in_flight: usize, pairs: usize) -> f64 {
    let mut client = RawClient::connect(port).expect("a connection");
    let locks: Vec<Pair> =
        (0..in_flight).map(|place| Pair::of(&mut client, &format!("raw:{place}"))).collect();
    let commands = 2 * in_flight * (pairs / in_flight).max(1);
    let (mut connection, begin) = (Connection::to(port), Instant::now());
    let (mut sent, mut answered) = (0, 0);
    while answered < commands {
        let may_send = (answered + in_flight).min(commands);
        let requests: Vec<&[u8]> = (sent..may_send).map(|number| request(&locks, number)).collect();
        connection.send(&requests.concat());
        sent = may_send;
        answered += connection.wait_for_replies();
    }
    commands as f64 / 2.0 / begin.elapsed().as_secs_f64()
}

/// First the acquires of all locks, then the releases of all, and again.
fn request(locks: &[Pair], number: usize) -> &[u8] {
    let lock = &locks[number % locks.len()];
    match (number / locks.len()) % 2 {
        0 => &lock.acquire,
        _ => &lock.release,
    }
}

/// A blocking socket. It looks at each reply, and keeps none.
pub(crate) struct Connection {
    stream: TcpStream,
    replies: FrameReader,
}

impl Connection {
    pub(crate) fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("a socket option");
        Self { stream, replies: FrameReader::of_replies() }
    }

    /// A second handle of the same socket, for another thread.
    pub(crate) fn stream(&self) -> TcpStream {
        self.stream.try_clone().expect("a file descriptor")
    }

    pub(crate) fn send(&mut self, requests: &[u8]) {
        self.stream.write_all(requests).expect("it is sent");
    }

    /// Waits for one reply at least. Returns how many have come.
    pub(crate) fn wait_for_replies(&mut self) -> usize {
        let replies = self.read_replies();
        assert!(replies > 0, "the server has ended the connection");
        replies
    }

    /// The same. Zero: the connection has ended.
    pub(crate) fn read_replies(&mut self) -> usize {
        let mut piece = [0; 16 * 1024];
        loop {
            let length = self.stream.read(&mut piece).unwrap_or(0);
            self.replies.feed(&piece[..length]);
            let whole = self.check_replies();
            if whole > 0 || length == 0 {
                return whole;
            }
        }
    }

    /// Returns how many replies are there. All are "granted" or "released".
    fn check_replies(&mut self) -> usize {
        let mut whole = 0;
        while let Some(reply) = self.replies.next_frame().expect("RESP") {
            assert_eq!(&reply.bytes[4..8], b":1\r\n", "neither granted nor released");
            whole += 1;
        }
        whole
    }
}

pub(crate) fn load(client: &mut RawClient, script: &str) -> String {
    let sha = client.command(&["SCRIPT", "LOAD", script]).expect("a reply");
    sha.text().expect("a digest").to_string()
}
