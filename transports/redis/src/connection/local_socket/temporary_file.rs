//! A file in the folder for temporary files, which is removed when the listener ends.

use std::{io, os::unix::net::UnixListener, path::Path};

use tempfile::{Builder, TempPath};

/// The path of a socket at a random name.
pub(super) struct Name(TempPath);

impl Name {
    pub(super) fn bind() -> io::Result<(UnixListener, Self)> {
        let (listener, path) =
            Builder::new().prefix("leasehold-").make(|path| UnixListener::bind(path))?.into_parts();
        listener.set_nonblocking(true)?;
        Ok((listener, Self(path)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}
