//! Lets the thread of a caller write its own request, so that no other thread has to be woken for it.
//!
//! The write does not block. The task of the link reads the replies in any case.
//!
//! A thread that is stopped in the middle of its write keeps the others of this connection from writing until it goes on, or until
//! the watchdog ends the connection. Renewals have a connection of their own.
//!
//! Only a plain TCP connection is written so: TLS has one state for both directions, so a caller that is preempted while it writes
//! would keep the task from reading. And only the process that opened the connection writes: a child that was forked
//! shares the socket, and the replies to what it writes would go to requests of its parent.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use tokio::{
    io::AsyncWrite,
    net::{TcpStream, tcp::OwnedWriteHalf},
};

/// The writing half of a socket, for callers. The task of the link owns it: once the task has ended, nothing is written.
pub(super) struct Direct {
    half: Weak<OwnedWriteHalf>,
    process: u32,
}

impl Direct {
    pub(super) fn of(writer: &TaskWriter) -> Self {
        let half = writer.0.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Self { half, process: std::process::id() }
    }

    /// The same in a child that was forked from the process.
    #[cfg(test)]
    pub(super) fn in_child(self) -> Self {
        Self { process: self.process + 1, ..self }
    }

    /// Writes as many of the bytes as the socket takes now, and returns how many it took. The task of the link writes the
    /// others.
    ///
    /// # Errors
    /// The connection is broken. The system tells this error once, so the task may not see it.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let half = self.half.upgrade().filter(|_| std::process::id() == self.process);
        let Some(half) = half else { return Ok(0) };
        match half.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }
}

/// The writing half of a socket, for the task of the link. `Some` until it is dropped.
pub(super) struct TaskWriter(Option<Arc<OwnedWriteHalf>>);

impl TaskWriter {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self(Some(Arc::new(half)))
    }
}

impl Drop for TaskWriter {
    // The drop of a half would shut the socket down: in a forked child also that of the parent. It is only closed.
    fn drop(&mut self) {
        if let Some(half) = self.0.take().and_then(Arc::into_inner) {
            half.forget();
        }
    }
}

impl AsyncWrite for TaskWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(half) = &self.0 else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let socket: &TcpStream = half.as_ref().as_ref();
        loop {
            ready!(socket.poll_write_ready(cx))?;
            match socket.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
