//! A name of the abstract namespace, which leaves no file to clean up.

use std::{
    io,
    os::{linux::net::SocketAddrExt, unix::net::UnixListener},
    path::{Path, PathBuf},
};

use socket2::{Domain, SockAddr, Socket, Type};

/// A name that the kernel chose. A name with our process id could be in use: containers that share a network share
/// these names, and each of them has a process 1.
pub(super) struct Name(PathBuf);

impl Name {
    pub(super) fn bind() -> io::Result<(UnixListener, Self)> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix("")?)?;
        socket.listen(1)?;
        socket.set_nonblocking(true)?;
        let listener = UnixListener::from(socket);
        let name = Self::of(&listener)?;
        Ok((listener, name))
    }

    fn of(listener: &UnixListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let name = address.as_abstract_name().and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| io::Error::other("the kernel gave a local socket no name"))?;
        Ok(Self(format!("\0{name}").into()))
    }

    /// Returns the path as fred needs it: a zero byte, then the name.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{SocketAddr, UnixListener as StdListener};

    use tokio::net::UnixStream;

    use super::{super::unix::Listener, *};

    /// Containers of one pod share a network and its names, and each of them has a process 1.
    #[tokio::test]
    async fn names_that_another_process_with_our_id_has_taken_are_no_obstacle() {
        let name = |count| format!("leasehold-{}-{count}", std::process::id());
        let taken = |count| StdListener::bind_addr(&SocketAddr::from_abstract_name(name(count))?);
        let _taken: Vec<_> = (0..100).map(taken).collect();
        let listener = Listener::bind(&mut Default::default()).expect("a name of its own");
        UnixStream::connect(listener.path()).await.expect("it listens there");
    }
}
