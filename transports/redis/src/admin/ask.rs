//! One question to one master, and what it means if there is no answer.

use std::time::Duration;

use fred::types::{Resp3Frame as Frame, Value};
use leasehold::transport::{ErrorKind, TransportError};

use super::Master;
use crate::{
    connection::{link::Failure, plain_error},
    wire::{
        error_reply::{refusal, refused},
        shown::shown,
    },
};

impl Master {
    /// Sends a command that only reads. `None`: the server refused for a reason that concerns only this key.
    pub(super) async fn ask(
        &self,
        command: &'static str,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Option<Frame>, TransportError> {
        match self.link.request(command, 0, args, timeout).await {
            Ok(frame) => Ok(Some(frame)),
            Err(Failure::Refused(text)) if is_about_the_key(&text) => Ok(None),
            Err(failure) => Err(self.explain(command, failure)),
        }
    }

    fn explain(&self, command: &str, failure: Failure) -> TransportError {
        let name = &*self.server.name;
        let (kind, detail) = match failure {
            Failure::Refused(text) => match refusal(&text) {
                Some(refusal) => return refused(name, refusal, &text),
                None => (ErrorKind::NotReady, format!("redis {name} refused {command}: {}", shown(&text))),
            },
            Failure::TimedOut => {
                (ErrorKind::TimedOut, format!("redis {name}: no answer to {command} in time"))
            }
            Failure::Lost(error) => {
                (ErrorKind::Unreachable, format!("redis {name}: {}", plain_error::shown(&error)))
            }
        };
        TransportError::without_effect(kind, None, detail)
    }

    /// The error for an answer that makes no sense.
    pub(super) fn misread(&self, command: &str) -> TransportError {
        let detail = format!("redis {} answered {command} in an unexpected format", self.server.name);
        TransportError::without_effect(ErrorKind::Protocol, None, detail)
    }
}

// The key has another type by now, or has moved to another node.
fn is_about_the_key(text: &str) -> bool {
    ["WRONGTYPE", "MOVED ", "ASK ", "TRYAGAIN"].iter().any(|code| text.starts_with(code))
}
