//! A proxy in front of servers that know nothing of each other, as meshes and clouds run them: it routes a script by its
//! first key, answers some commands itself, and refuses others in words of its own.
//!
//! It runs on threads of its own. They end with their connections, the one that accepts ends with the process.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::harness::frames::FrameReader;
use crate::harness::resp;

/// What a proxy does differently from a server.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    /// `TIME` is answered by the proxy, whose clock is this far ahead. `None`: by a server.
    pub own_clock_ahead: Option<Duration>,
    /// `PING text` is answered `PONG`, without the text.
    pub bare_pong: bool,
    /// Commands that the proxy does not know, in capitals.
    pub unknown: &'static [&'static str],
    /// What it does with these.
    pub refusal: Refusal,
    /// What it says, if anything, to a script with this many keys instead of passing it on.
    pub refused_keys: Option<fn(usize) -> Option<&'static str>>,
    /// It says that it is one node of a cluster and serves all slots.
    pub is_cluster: bool,
    /// Of a key with a hash tag, the tag alone says which server has it.
    pub hash_tags: bool,
}

/// One that passes everything on.
pub const PLAIN: Habits = Habits {
    own_clock_ahead: None,
    bare_pong: false,
    unknown: &[],
    refusal: Refusal::UnknownCommand,
    refused_keys: None,
    is_cluster: false,
    hash_tags: false,
};

/// How a proxy refuses a command.
#[derive(Clone, Copy, Debug, Default)]
pub enum Refusal {
    /// `-ERR unknown command`.
    #[default]
    UnknownCommand,
    /// The connection is closed.
    Close,
}

/// A running proxy.
#[derive(Clone, Debug)]
pub struct Gateway {
    port: u16,
    front: Arc<Front>,
}

#[derive(Debug)]
struct Front {
    port: u16,
    shards: Vec<u16>,
    /// The places of those that it routes to.
    routed: Mutex<Vec<usize>>,
    habits: Habits,
    seen: Mutex<Vec<Request>>,
}

/// The words of a request.
pub type Request = Vec<Vec<u8>>;

impl Gateway {
    /// In front of the servers at these ports. A command without a key goes to the first that it routes to.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(shards: &[u16], habits: Habits) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let routed = Mutex::new((0..shards.len()).collect());
        let front = Arc::new(Front { port, shards: shards.to_vec(), routed, habits, seen: Mutex::default() });
        let accepting = front.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let front = accepting.clone();
                // A connection that fails is closed, which its client sees.
                thread::spawn(move || front.serve(client));
            }
        });
        Ok(Self { port, front })
    }

    /// Where clients connect to, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on it routes to the servers at these places alone. Connections stay. All of them at first.
    pub fn route_to(&self, places: &[usize]) {
        *self.front.routed.lock().unwrap_or_else(PoisonError::into_inner) = places.to_vec();
    }

    /// The requests that came so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.front.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many scripts came so far that work on keys, or could: those with an argument behind the number of keys.
    pub fn scripts(&self) -> usize {
        self.requests().iter().filter(|request| is_script(request) && request.len() > 3).count()
    }
}

impl Front {
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        let mut requests = Reader::new(client.try_clone()?, FrameReader::of_requests());
        let mut talk = Talk { client, backends: Vec::new() };
        for port in &self.shards {
            let server = TcpStream::connect(("127.0.0.1", *port))?;
            talk.backends.push((Reader::new(server.try_clone()?, FrameReader::of_replies()), server));
        }
        while let Some(bytes) = requests.next()? {
            let request = resp::arguments(&bytes);
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            match self.reply(&request) {
                Reply::Own(text) => talk.client.write_all(text.as_bytes())?,
                Reply::Close => return talk.client.shutdown(Shutdown::Both),
                Reply::OfShard(_) if name(&request).contains("SUBSCRIBE") => {
                    return talk.pipe(&bytes, requests);
                }
                Reply::OfShard(shard) => talk.ask(shard, &bytes)?,
            }
        }
        Ok(())
    }

    fn reply(&self, request: &Request) -> Reply {
        let (habits, name) = (&self.habits, name(request));
        if habits.unknown.contains(&&*name) {
            return match habits.refusal {
                Refusal::UnknownCommand => Reply::Own(format!("-ERR unknown command '{name}'\r\n")),
                Refusal::Close => Reply::Close,
            };
        }
        let own = match &*name {
            "TIME" => habits.own_clock_ahead.map(time),
            "PING" if habits.bare_pong => Some("+PONG\r\n".to_owned()),
            "CLUSTER" if habits.is_cluster => Some(self.one_node(request)),
            _ if is_script(request) => self.refusal_of_keys(request),
            _ => None,
        };
        own.map_or_else(|| Reply::OfShard(self.shard(request)), Reply::Own)
    }

    fn refusal_of_keys(&self, script: &Request) -> Option<String> {
        let words = self.habits.refused_keys?(keys(script))?;
        Some(format!("-{words}\r\n"))
    }

    fn shard(&self, request: &Request) -> usize {
        let key = request.get(3).filter(|_| is_script(request) && keys(request) > 0);
        let hashed = |key| if self.habits.hash_tags { hash_tag(key) } else { key };
        let routed = self.routed.lock().unwrap_or_else(PoisonError::into_inner);
        routed[key.map_or(0, |key| shard_of(hashed(key), routed.len()))]
    }

    fn one_node(&self, request: &Request) -> String {
        let (id, port) = ("a".repeat(40), self.port);
        if request[1].eq_ignore_ascii_case(b"nodes") {
            let bus = port.wrapping_add(1);
            let text = format!("{id} 127.0.0.1:{port}@{bus} myself,master - 0 0 1 connected 0-16383\n");
            return format!("${}\r\n{text}\r\n", text.len());
        }
        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n{id}\r\n")
    }
}

enum Reply {
    Own(String),
    Close,
    OfShard(usize),
}

/// Which of `shards` servers has a key.
pub fn shard_of(key: &[u8], shards: usize) -> usize {
    key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % shards
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let behind = &key[open + 1..];
    behind.iter().position(|byte| *byte == b'}').map_or(key, |close| &behind[..close])
}

/// One client's connection, with one to each server.
struct Talk {
    client: TcpStream,
    backends: Vec<(Reader, TcpStream)>,
}

impl Talk {
    fn ask(&mut self, shard: usize, request: &[u8]) -> io::Result<()> {
        let (replies, server) = &mut self.backends[shard];
        server.write_all(request)?;
        let reply = replies.next()?.ok_or(io::ErrorKind::ConnectionReset)?;
        self.client.write_all(&reply)
    }

    /// From the first subscription on everything goes to the first server, and from there to the client.
    fn pipe(mut self, request: &[u8], requests: Reader) -> io::Result<()> {
        let (replies, mut server) = self.backends.swap_remove(0);
        server.write_all(request)?;
        let (mut client, mut replies) = (self.client, replies.stream);
        thread::spawn(move || io::copy(&mut replies, &mut client));
        let Reader { mut stream, mut frames } = requests;
        while let Ok(Some(frame)) = frames.next_frame() {
            server.write_all(&frame.bytes)?;
        }
        io::copy(&mut stream, &mut server)?;
        server.shutdown(Shutdown::Both)
    }
}

/// Frames from a socket.
struct Reader {
    stream: TcpStream,
    frames: FrameReader,
}

impl Reader {
    fn new(stream: TcpStream, frames: FrameReader) -> Self {
        Self { stream, frames }
    }

    /// The bytes of the next frame; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut piece = [0; 65_536];
        loop {
            let frame = self.frames.next_frame().map_err(|_| io::ErrorKind::InvalidData)?;
            if let Some(frame) = frame {
                return Ok(Some(frame.bytes));
            }
            let length = self.stream.read(&mut piece)?;
            if length == 0 {
                return Ok(None);
            }
            self.frames.feed(&piece[..length]);
        }
    }
}

fn name(request: &Request) -> String {
    request.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
}

fn is_script(request: &Request) -> bool {
    name(request).starts_with("EVAL")
}

fn keys(script: &Request) -> usize {
    let number = script.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    number.unwrap_or(0)
}

fn time(ahead: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead;
    let (seconds, micros) = (now.as_secs().to_string(), now.subsec_micros().to_string());
    format!("*2\r\n${}\r\n{seconds}\r\n${}\r\n{micros}\r\n", seconds.len(), micros.len())
}
