//! A Unix socket. The kernel says which process has connected.

use std::{io, path::PathBuf, process};

use fred::types::config::ServerConfig;
use tokio::net::UnixListener;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::abstract_name::Name;
#[cfg(target_os = "macos")]
use super::temporary_file::Name;
use super::{Accepted, Credentials};

pub(in super::super) type Stream = tokio::net::UnixStream;

/// A socket that waits for fred.
pub(in super::super) struct Listener {
    listener: UnixListener,
    name: Name,
}

impl Listener {
    /// Listens at a name of its own. The credentials stay as they are.
    pub(in super::super) fn bind(_: &mut Credentials) -> io::Result<Self> {
        let (listener, name) = Name::bind()?;
        Ok(Self { listener: UnixListener::from_std(listener)?, name })
    }

    /// The address of the socket, for fred.
    pub(in super::super) fn address(&self) -> io::Result<ServerConfig> {
        Ok(ServerConfig::Unix { path: self.path() })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.name.path().to_owned()
    }

    /// Returns the first connection by this process. Connections by others are closed.
    pub(in super::super) async fn accept(self) -> io::Result<Accepted> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let pid = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
            if pid == Some(process::id()) {
                return Ok(Accepted { stream, first_bytes: Vec::new() });
            }
        }
    }
}
