//! A relay between fred and the server's socket, for the connections that take subscriptions. It checks replies before
//! fred decodes them, and notes when bytes arrive.
//!
//! fred decodes a reply by recursion without a limit. It also connects by itself, and neither its codec nor its
//! socket can be replaced from outside. So fred connects to a local socket, whose other end is the relay. A reply
//! that is nested too deep ends the connection. Without the relay it would overflow the stack and end the process,
//! even as the first reply.

use std::{
    io,
    os::{linux::net::SocketAddrExt, unix::net::UnixListener as StdListener},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use fred::error::{Error as FredError, ErrorKind as FredKind};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::{AbortHandle, JoinHandle},
};

use super::traffic::Traffic;
use crate::wire::depth::{Depth, Unreadable};

/// The error that has ended a relay, if there was one. fred sees only that its local socket was closed.
#[derive(Clone, Debug)]
pub(super) struct Cause(Arc<OnceLock<io::Error>>);

impl Cause {
    /// Returns the cause, or fred's own error if there is none.
    pub(super) fn or(&self, error: FredError) -> FredError {
        match self.0.get() {
            Some(cause) => FredError::new(FredKind::IO, format!("{cause:?}")),
            None => error,
        }
    }
}

/// The relay task. Dropping it ends the task and closes both sockets.
pub(super) struct Relay {
    path: PathBuf,
    cause: Arc<OnceLock<io::Error>>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Waits for fred at a local socket, then passes bytes in both directions.
    pub(super) fn start<S>(server: S, traffic: Arc<Traffic>) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (listener, path) = listen()?;
        let cause = Arc::new(OnceLock::new());
        let set_cause = cause.clone();
        let task = tokio::spawn(async move {
            match ours(listener).await {
                Ok(fred) => pass(server, fred, &traffic, &set_cause).await,
                Err(error) => drop(set_cause.set(error)),
            }
        });
        Ok(Self { path, cause, task })
    }

    /// The path of the local socket, for fred.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The error that has ended the relay, if there was one.
    pub(super) fn cause(&self) -> Cause {
        Cause(self.cause.clone())
    }

    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens at a name of the abstract namespace, which leaves no file to clean up. The kernel chooses the name. A
/// name with our process id could be in use: containers that share a network share these names, and each of them
/// has a process 1.
fn listen() -> io::Result<(UnixListener, PathBuf)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix("")?)?;
    socket.listen(1)?;
    socket.set_nonblocking(true)?;
    let listener = StdListener::from(socket);
    let path = abstract_path(&listener)?;
    Ok((UnixListener::from_std(listener)?, path))
}

/// Returns the path as fred needs it: a zero byte, then the name.
fn abstract_path(listener: &StdListener) -> io::Result<PathBuf> {
    let address = listener.local_addr()?;
    let name = address.as_abstract_name().and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| io::Error::other("the kernel gave a local socket no name"))?;
    Ok(format!("\0{name}").into())
}

/// Returns the first connection by this process. Connections by others are closed.
async fn ours(listener: UnixListener) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        let pid = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        if pid == Some(std::process::id()) {
            return Ok(stream);
        }
    }
}

/// Passes bytes until either side has closed. The cause is set before the sockets close, because fred's end is the
/// signal to look for it.
async fn pass<S: AsyncRead + AsyncWrite>(
    server: S,
    fred: UnixStream,
    traffic: &Traffic,
    cause: &OnceLock<io::Error>,
) {
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_fred, mut to_fred) = fred.into_split();
    let passed = tokio::select! {
        passed = pass_replies(&mut from_server, &mut to_fred, traffic) => passed,
        passed = pass_requests(&mut from_fred, &mut to_server) => passed,
    };
    if let Err(error) = passed {
        let _ = cause.set(error);
    }
}

async fn pass_replies(
    server: &mut (impl AsyncRead + Unpin),
    fred: &mut (impl AsyncWrite + Unpin),
    traffic: &Traffic,
) -> io::Result<()> {
    let (mut depth, mut bytes) = (Depth::default(), vec![0; BUFFER_BYTES]);
    loop {
        let count = server.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        traffic.handle_received();
        depth.take(&bytes[..count]).map_err(unreadable)?;
        if fred.write_all(&bytes[..count]).await.is_err() {
            return Ok(()); // fred has closed its end, and knows the reason
        }
    }
}

async fn pass_requests(
    fred: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        let count = fred.read(&mut bytes).await.unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        server.write_all(&bytes[..count]).await?;
        server.flush().await?;
    }
}

fn unreadable(why: Unreadable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.text())
}

const BUFFER_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::net::SocketAddr;

    use leasehold::clock::Clock;

    use super::*;

    /// Containers of one pod share a network and its names, and each of them has a process 1.
    #[tokio::test]
    async fn names_that_another_process_with_our_id_has_taken_are_no_obstacle() {
        let name = |count| format!("leasehold-{}-{count}", std::process::id());
        let taken = |count| StdListener::bind_addr(&SocketAddr::from_abstract_name(name(count))?);
        let _taken: Vec<_> = (0..100).map(taken).collect();
        let (server, _) = tokio::io::duplex(64);
        let relay = Relay::start(server, Traffic::new(Clock::Boot)).expect("a name of its own");
        UnixStream::connect(relay.path()).await.expect("it listens there");
    }
}
