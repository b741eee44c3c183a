//! A TCP socket that is written to from two places: by the task of its connection, and directly by whoever adds a
//! request.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// The socket for direct writes.
///
/// Only the process that has opened the connection writes: a request of a forked child would shift the replies of its
/// parent.
pub(super) struct Direct {
    socket: Mutex<Option<Arc<TcpStream>>>,
    process: u32,
}

impl Direct {
    /// No direct writes: everything is written by the task.
    #[cfg(any(feature = "tls", test))]
    pub(super) fn none() -> Self {
        Self { socket: Mutex::default(), process: 0 }
    }

    pub(super) fn to(socket: Arc<TcpStream>) -> Self {
        Self { socket: Mutex::new(Some(socket)), process: std::process::id() }
    }

    /// The socket, if this thread may write to it.
    pub(super) fn socket(&self) -> Option<Arc<TcpStream>> {
        self.lock().as_ref().filter(|_| self.process == std::process::id()).cloned()
    }

    /// Lets the socket go: it is closed as soon as the task has ended.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<TcpStream>>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task's part of a shared socket: one for reading, and one for writing.
pub(super) struct Half(pub(super) Arc<TcpStream>);

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Half {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn socket() -> Arc<TcpStream> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Arc::new(TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens"))
    }

    #[tokio::test]
    async fn a_forked_child_writes_nothing_to_the_connection_of_its_parent() {
        let ours = Direct::to(socket().await);
        assert!(ours.socket().is_some());
        let parents = Direct { process: std::process::id() + 1, ..ours };
        assert!(parents.socket().is_none());
    }

    #[tokio::test]
    async fn a_closed_one_keeps_no_socket() {
        let socket = socket().await;
        let direct = Direct::to(socket.clone());
        direct.close();
        assert!(direct.socket().is_none());
        assert_eq!(Arc::strong_count(&socket), 1);
    }
}
