//! The local socket by which fred connects to its relay. Only this process may use it: what connects speaks to the
//! server behind the relay, over a connection that may carry a client certificate.
//!
//! | system | the socket | what refuses other processes |
//! |---|---|---|
//! | Linux, Android | a Unix socket with a name of the abstract namespace | the kernel says which process connects |
//! | macOS | a Unix socket in the folder for temporary files, removed once fred is connected | the same |
//! | Windows | TCP on the loopback address | fred's first request has the password, or a secret of this connection |
//!
//! The rows for macOS and Windows were compiled there and not run. The tests run that of Windows on Linux.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod abstract_name;
#[cfg(any(windows, test))]
mod loopback;
#[cfg(target_os = "macos")]
mod temporary_file;
#[cfg(unix)]
mod unix;

#[cfg(windows)]
pub(super) use self::loopback::{Listener, Stream};
#[cfg(unix)]
pub(super) use self::unix::{Listener, Stream};

/// The user and the password that fred sends as its first request. It sends none without a password.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

/// A connection of fred, and what was read of it already and goes to the server first.
pub(super) struct Accepted {
    pub(super) stream: Stream,
    pub(super) first_bytes: Vec<u8>,
}
