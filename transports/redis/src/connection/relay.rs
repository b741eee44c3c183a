//! A relay between fred and the server's socket, for the connections that take subscriptions. It checks replies before
//! fred decodes them, and notes when bytes arrive.
//!
//! fred keeps a reply until it is whole, however long it is, and decodes it by recursion without a limit. It also connects by
//! itself, and neither its codec nor its socket can be replaced from outside. So fred connects to a local socket, whose other
//! end is the relay. A reply above a limit ends the connection. Without the relay it would exhaust the memory or the stack of
//! the process, even as the first reply.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use fred::{
    error::{Error as FredError, ErrorKind as FredKind},
    types::config::ServerConfig,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::{AbortHandle, JoinHandle},
};

use super::{
    command_link::invalid,
    local_socket::{Accepted, Credentials, Listener},
    traffic::Traffic,
};
use crate::wire::reply_check::{Limits, ReplyCheck};

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
    address: ServerConfig,
    cause: Arc<OnceLock<io::Error>>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Waits for fred at a local socket, then passes bytes in both directions. fred must log in with the credentials,
    /// which the local socket may add a secret to.
    pub(super) fn start<S>(
        server: S,
        credentials: &mut Credentials,
        traffic: Arc<Traffic>,
    ) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let listener = Listener::bind(credentials)?;
        let address = listener.address()?;
        let cause = Arc::new(OnceLock::new());
        let set_cause = cause.clone();
        let task = tokio::spawn(async move {
            match listener.accept().await {
                Ok(fred) => pass(server, fred, &traffic, &set_cause).await,
                Err(error) => drop(set_cause.set(error)),
            }
        });
        Ok(Self { address, cause, task })
    }

    /// The address of the local socket, for fred.
    pub(super) fn address(&self) -> ServerConfig {
        self.address.clone()
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

/// Passes bytes until either side has closed. The cause is set before the sockets close, because fred's end is the
/// signal to look for it.
async fn pass<S: AsyncRead + AsyncWrite>(
    server: S,
    fred: Accepted,
    traffic: &Traffic,
    cause: &OnceLock<io::Error>,
) {
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_fred, mut to_fred) = fred.stream.into_split();
    let passed = tokio::select! {
        passed = pass_replies(&mut from_server, &mut to_fred, traffic) => passed,
        passed = pass_requests(fred.first_bytes, &mut from_fred, &mut to_server) => passed,
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
    let (mut check, mut bytes) = (ReplyCheck::new(Limits::NOTICES), vec![0; BUFFER_BYTES]);
    loop {
        let count = server.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        let whole = check.take(&bytes[..count]).map_err(invalid)?;
        traffic.handle_received(whole > 0);
        if fred.write_all(&bytes[..count]).await.is_err() {
            return Ok(()); // fred has closed its end, and knows the reason
        }
    }
}

async fn pass_requests(
    first_bytes: Vec<u8>,
    fred: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    server.write_all(&first_bytes).await?;
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

const BUFFER_BYTES: usize = 16 * 1024;
