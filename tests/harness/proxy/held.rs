//! A request that is kept back, and its way to the server when the test lets it go.

use std::io;
use std::sync::mpsc as answers;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::queue::{Answer, Outgoing, Request, Tag};
use crate::harness::raw_client::RawClient;
use crate::harness::resp::Value;

/// As long as it exists, the connection it came on stays open towards the server.
#[derive(Debug)]
pub(super) struct HeldRequest {
    pub(super) request: Request,
    pub(super) queue: mpsc::Sender<Outgoing>,
}

/// A held request that has been let go.
#[derive(Debug)]
pub(super) enum Delivered {
    OnItsConnection(answers::Receiver<Vec<u8>>),
    OnANewOne(RawClient),
}

impl HeldRequest {
    pub(super) fn send(self, target_port: u16) -> io::Result<Delivered> {
        let (report, answer) = answers::channel();
        let tag = Tag::of_nobody(Answer::Report(report));
        let outgoing = Outgoing { due: None, request: self.request, tag, cuts_client: false };
        match self.queue.try_send(outgoing) {
            Ok(()) => Ok(Delivered::OnItsConnection(answer)),
            Err(mpsc::error::TrySendError::Closed(outgoing)) => {
                on_a_new_connection(target_port, &outgoing.request)
            }
            Err(error @ mpsc::error::TrySendError::Full(_)) => Err(io::Error::other(error.to_string())),
        }
    }
}

impl Delivered {
    /// The server's answer, if it comes before the deadline.
    pub(super) fn before(self, deadline: Instant) -> io::Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now()).max(SHORTEST_WAIT);
        match self {
            Self::OnItsConnection(answer) => {
                let bytes = answer.recv_timeout(left).map_err(unanswered)?;
                Value::parse(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            Self::OnANewOne(mut client) => {
                client.wait_for_replies(Some(left))?;
                client.read()
            }
        }
    }
}

fn on_a_new_connection(target_port: u16, request: &Request) -> io::Result<Delivered> {
    let mut client = RawClient::connect(target_port)?;
    client.send_bytes(&request.bytes)?;
    Ok(Delivered::OnANewOne(client))
}

fn unanswered(error: answers::RecvTimeoutError) -> io::Error {
    match error {
        answers::RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
        answers::RecvTimeoutError::Disconnected => io::ErrorKind::ConnectionReset.into(),
    }
}

/// A socket takes no timeout of zero.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
