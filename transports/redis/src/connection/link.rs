//! A link: one connection to a server, used until its first failure and never reconnected.
//!
//! There are two. A [`CommandLink`](super::command_link::CommandLink) takes requests and nothing else. A
//! [`NoticeLink`](super::notice_link::NoticeLink) is a fred client, which also takes subscriptions.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use leasehold::{clock::Clock, transport::TransportError};

use super::{connect::Target, lost::Lost, traffic::Traffic};
use crate::wire::arg::Arg;

/// One connection.
pub(crate) trait Link: Kill + Sized + 'static {
    /// What the link is for.
    const KIND: LinkKind;

    /// Connects and authenticates. Connecting takes at most `step`, the TLS handshake and the login at most twice
    /// `step` each.
    ///
    /// # Errors
    /// An error without effect, whose text says what to do.
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    fn open(
        target: Target<'_>,
        clock: Clock,
        step: Duration,
    ) -> impl Future<Output = Result<Self, TransportError>> + Send;

    /// Sends a command and waits for its reply, at most `timeout`, which is more than zero.
    ///
    /// # Errors
    /// [`Failure::Refused`] is the server's error reply. After any other failure the command may have been
    /// executed, or may still be.
    ///
    /// # Cancel safety
    /// After the future was polled, the command may be executed even if the future is dropped.
    fn request(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Frame, Failure>> + Send;

    /// Waits for the end of the connection.
    fn ended(&self) -> impl Future<Output = ()> + Send;

    /// Why the connection has ended.
    fn ended_by(&self) -> Lost;

    fn traffic(&self) -> &Traffic;
}

/// What ends a link.
pub(crate) trait Kill: Send + Sync {
    /// Ends the connection and every outstanding request.
    fn kill(&self);
}

/// The purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Requests and their replies.
    Commands,
    /// Subscriptions.
    Notices,
}

/// Why a request has no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server's error reply to this request.
    Refused(Str),
    /// No reply in time.
    TimedOut,
    /// The connection ended, or could not be used.
    Lost(Lost),
}

/// Tells an error reply from any other reply.
pub(super) fn classify(reply: Frame) -> Result<Frame, Failure> {
    match reply {
        Frame::SimpleError { data, .. } => Err(Failure::Refused(data)),
        Frame::BlobError { data, .. } => {
            Err(Failure::Refused(String::from_utf8_lossy(&data).into_owned().into()))
        }
        reply => Ok(reply),
    }
}

pub(crate) fn is_redirect(text: &str) -> bool {
    ["MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"].iter().any(|code| text.starts_with(code))
}
