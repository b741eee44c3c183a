//! Lets the thread of a caller write its own request, so that no other thread has to be woken for it.
//!
//! The write does not block. A task reads the replies in any case.
//!
//! A thread that is stopped in the middle of its write keeps the others of this connection from writing until it goes on, or until
//! the watchdog ends the connection. Renewals have a connection of their own.
//!
//! Only a plain TCP connection is written so: TLS has one state for both directions, so a caller that is preempted while it writes
//! would keep the task from reading. And only the process that opened the connection writes: a child that was forked
//! shares the socket, and the replies to what it writes would go to requests of its parent.

use std::{
    io::{self, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Weak},
};

/// The socket, for callers. The task of the link owns it: once the task has ended, nothing is written.
pub(super) struct Direct {
    socket: Weak<TcpStream>,
    process: u32,
}

impl Direct {
    /// Of a socket that does not block.
    pub(super) fn of(socket: &Arc<TcpStream>) -> Self {
        Self { socket: Arc::downgrade(socket), process: std::process::id() }
    }

    /// The same in a child that was forked from the process.
    #[cfg(test)]
    pub(super) fn in_child(self) -> Self {
        Self { process: self.process + 1, ..self }
    }

    /// Writes as many of the bytes as the socket takes now, and returns how many it took. A task writes the others.
    ///
    /// # Errors
    /// The connection is broken. The system tells this error once, so a task may not see it.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(socket) = self.socket() else { return Ok(0) };
        match (&*socket).write(bytes) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(0)
            }
            written => written,
        }
    }

    /// A second descriptor of the socket. `None`: the task has ended, this is a child, or the process has too many
    /// descriptors.
    pub(super) fn second(&self) -> Option<TcpStream> {
        self.socket()?.try_clone().ok()
    }

    /// Ends the connection for every descriptor of this process.
    pub(super) fn shut_down(&self) {
        if let Some(socket) = self.socket() {
            let _ = socket.shutdown(Shutdown::Both); // it may have ended by itself
        }
    }

    // The drop of a socket only closes this descriptor. A shutdown would end the connection of a parent, too.
    fn socket(&self) -> Option<Arc<TcpStream>> {
        self.socket.upgrade().filter(|_| std::process::id() == self.process)
    }
}
