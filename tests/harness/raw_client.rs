//! A blocking client without a library behind it: what it reads is what the server sent.
//!
//! It never reconnects, never sends again and never follows a redirect.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::frames::FrameReader;
use crate::harness::resp::{self, Value};

/// One RESP2 connection to a server of this machine.
#[derive(Debug)]
pub struct RawClient {
    stream: Stream,
    frames: FrameReader,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where a server is reached without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// A loopback port.
    Port(u16),
    /// A socket file, for one of a server whose ports want TLS.
    Socket(PathBuf),
}

impl RawClient {
    /// Connects to a loopback port; replies are waited for 5 s.
    ///
    /// # Errors
    /// When nobody accepts within that time.
    pub fn connect(port: u16) -> io::Result<Self> {
        Self::connect_within(port, PATIENCE)
    }

    /// Connects to a loopback port; the connection and each reply are waited for so long.
    ///
    /// # Errors
    /// When nobody accepts within that time.
    pub fn connect_within(port: u16, patience: Duration) -> io::Result<Self> {
        Self::connect_to(&Door::Port(port), patience)
    }

    /// Connects to a port or a socket file; the connection and each reply are waited for so long.
    ///
    /// # Errors
    /// When nobody accepts within that time.
    pub fn connect_to(door: &Door, patience: Duration) -> io::Result<Self> {
        let stream = match door {
            Door::Port(port) => Stream::Tcp(connected(*port, patience)?),
            Door::Socket(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        stream.set_timeouts(Some(patience))?;
        Ok(Self { stream, frames: FrameReader::of_replies() })
    }

    /// Changes how long the next replies are waited for. `None` waits for ever.
    ///
    /// # Errors
    /// When the socket refuses the value (zero, for one).
    pub fn wait_for_replies(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)
    }

    /// Sends one request and reads one reply. An error of the server is a [`Value::Error`].
    ///
    /// # Errors
    /// When the connection fails or the reply does not come in time. A late reply stays in the stream.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Value> {
        self.send(arguments)?;
        self.read()
    }

    /// Sends all requests at once and reads as many replies.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> io::Result<Vec<Value>> {
        let bytes: Vec<u8> = requests.iter().flat_map(|arguments| resp::request(arguments)).collect();
        self.send_bytes(&bytes)?;
        requests.iter().map(|_| self.read()).collect()
    }

    /// Sends one request and reads nothing.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<()> {
        self.send_bytes(&resp::request(arguments))
    }

    /// Sends bytes as they are: half a request, or no request at all.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Reads the next reply, or the next message of a subscribed connection.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other side closed, `WouldBlock` or `TimedOut` when nothing came in time,
    /// `InvalidData` when what came is no RESP.
    pub fn read(&mut self) -> io::Result<Value> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(invalid)? {
                return Value::parse(&frame.bytes).ok_or_else(|| invalid("a frame that is no value"));
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.frames.feed(&piece[..length]),
                // The kernel does not restart a read with a timeout after any signal; nothing was read.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Stream {
    fn set_timeouts(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience)?;
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(patience),
            Self::Unix(stream) => stream.set_write_timeout(patience),
        }
    }

    fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(patience),
            Self::Unix(stream) => stream.set_read_timeout(patience),
        }
    }

    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(piece),
            Self::Unix(stream) => stream.read(piece),
        }
    }
}

fn connected(port: u16, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Far above any answer of a loopback server, so only a fault reaches it.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::redis_server::RedisServer;

    #[test]
    fn commands_pipelines_and_messages() {
        let server = RedisServer::start().expect("a server");
        let mut client = RawClient::connect(server.port()).expect("a connection");
        assert!(client.command(&["SET", "k", "v"]).expect("a reply").is_ok());
        let replies = client.pipeline(&[vec!["GET", "k"], vec!["INCR", "k"]]).expect("two replies");
        assert_eq!(replies[0].text().as_deref(), Some("v"));
        assert!(replies[1].error().is_some_and(|message| message.starts_with("ERR")));
        let mut listener = RawClient::connect(server.port()).expect("a connection");
        assert_eq!(listener.command(&["SUBSCRIBE", "c"]).expect("a reply").texts(), ["subscribe", "c"]);
        client.command(&["PUBLISH", "c", "0"]).expect("a reply");
        assert_eq!(listener.read().expect("a message").texts(), ["message", "c", "0"]);
    }

    #[test]
    fn a_silent_server_is_a_timeout_and_a_dead_one_the_end() {
        let mut server = RedisServer::start().expect("a server");
        let mut client = RawClient::connect(server.port()).expect("a connection");
        client.wait_for_replies(Some(Duration::from_millis(50))).expect("a timeout");
        server.stop().expect("stopped");
        let error = client.command(&["PING"]).expect_err("no reply");
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
        server.kill().expect("killed");
        assert!(client.read().is_err());
    }
}
