//! Stands between fred and the server's socket: looks at replies before fred decodes them, and sees each byte that comes.
//!
//! fred decodes a reply by recursion without a limit, and connects by itself: neither its codec nor its socket can be
//! replaced from outside. So it is given a local socket, of which the other end is here. A reply that is nested too deep
//! ends the connection; without this it would end the process, already as the first reply.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold::clock::{Clock, Instant};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::{AbortHandle, JoinHandle},
};

use crate::wire::depth::{Depth, Unreadable};

/// When something was last received on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    clock: Clock,
    nanos: Arc<AtomicU64>,
}

impl Heard {
    /// Now.
    pub(crate) fn now(clock: Clock) -> Self {
        Self { clock, nanos: Arc::new(AtomicU64::new(clock.now().as_nanos())) }
    }

    pub(crate) fn note(&self) {
        self.nanos.store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn at(&self) -> Instant {
        Instant::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// The task between; dropping this ends it and closes both sockets.
pub(super) struct Relay {
    path: PathBuf,
    cause: Arc<OnceLock<io::Error>>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Waits for fred at a local socket, and then passes on what comes from either side.
    pub(super) fn start<S>(server: S, heard: Heard) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let path = unused_name();
        let listener = UnixListener::bind(&path)?;
        let cause = Arc::new(OnceLock::new());
        let told = cause.clone();
        let task = tokio::spawn(async move {
            let passed = async { pass(server, ours(listener).await?, &heard).await };
            if let Err(error) = passed.await {
                let _ = told.set(error);
            }
        });
        Ok(Self { path, cause, task })
    }

    /// Where fred finds it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What has ended it, if that was an error.
    pub(super) fn cause(&self) -> Option<&io::Error> {
        self.cause.get()
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

/// In the abstract namespace: there is no file to clean up. It is used for one connection.
fn unused_name() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("\0leasehold-{process}-{count}").into()
}

/// The first connection that is of this process; others are closed.
async fn ours(listener: UnixListener) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        let pid = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        if pid == Some(std::process::id()) {
            return Ok(stream);
        }
    }
}

/// Until either side has closed.
async fn pass<S: AsyncRead + AsyncWrite>(server: S, fred: UnixStream, heard: &Heard) -> io::Result<()> {
    let (from_server, to_server) = tokio::io::split(server);
    let (from_fred, to_fred) = fred.into_split();
    tokio::select! {
        passed = pass_replies(from_server, to_fred, heard) => passed,
        passed = pass_requests(from_fred, to_server) => passed,
    }
}

async fn pass_replies(
    mut server: impl AsyncRead + Unpin,
    mut fred: impl AsyncWrite + Unpin,
    heard: &Heard,
) -> io::Result<()> {
    let (mut depth, mut bytes) = (Depth::default(), vec![0; ROOM_BYTES]);
    loop {
        let count = server.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        heard.note();
        depth.take(&bytes[..count]).map_err(unreadable)?;
        fred.write_all(&bytes[..count]).await?;
    }
}

async fn pass_requests(
    mut fred: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut bytes = vec![0; ROOM_BYTES];
    loop {
        let count = fred.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        server.write_all(&bytes[..count]).await?;
        server.flush().await?;
    }
}

fn unreadable(why: Unreadable) -> io::Error {
    let text = match why {
        Unreadable::TooDeep => "a reply is nested deeper than any of Redis's; the connection was closed",
        Unreadable::Strange => "a reply is no RESP2, which Redis and Valkey speak; is it the right port?",
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

const ROOM_BYTES: usize = 16 * 1024;
