//! Lets the thread of a caller write its own request, so that no other thread has to be woken for it.
//!
//! A write that does not block takes about 2 µs; to wake a thread that sleeps takes many times as long. The replies are read by
//! the task of the link in any case.
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
        Self { half: Arc::downgrade(&writer.0), process: std::process::id() }
    }

    /// The same in a child that was forked from the process.
    #[cfg(test)]
    pub(super) fn in_child(self) -> Self {
        Self { process: self.process + 1, ..self }
    }

    /// Writes as many of the bytes as the socket takes now, and returns how many it took. The task of the link writes the
    /// others, and meets the error if there is one.
    pub(super) fn write(&self, bytes: &[u8]) -> usize {
        if std::process::id() != self.process {
            return 0;
        }
        self.half.upgrade().and_then(|half| half.try_write(bytes).ok()).unwrap_or(0)
    }
}

/// The writing half of a socket, for the task of the link.
pub(super) struct TaskWriter(Arc<OwnedWriteHalf>);

impl TaskWriter {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self(Arc::new(half))
    }
}

impl AsyncWrite for TaskWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket: &TcpStream = (*self.0).as_ref();
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
        Poll::Ready(Ok(())) // the drop of the half shuts the socket down
    }
}
