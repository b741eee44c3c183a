//! One master and the connection to it: a question, and what it means if there is no answer.

use std::{sync::Arc, time::Duration};

use fred::types::Resp3Frame as Frame;
use leasehold::transport::{ErrorKind, OpenLane, TransportError};

use crate::{
    connection::{
        CommandLink,
        connect::{Login, Target},
        handshake::{Unfit, check},
        link::{Failure, Link},
    },
    discovery::{Server, deployment::Deployment},
    wire::{
        arg::Arg,
        client_list,
        error_reply::{refusal, refused},
        shown::shown,
    },
};

/// A master and the connection to it.
pub(super) struct Master {
    pub(super) server: Arc<Server>,
    link: CommandLink,
}

impl Master {
    /// Connects, and checks that the server is a master of the configured topology.
    pub(super) async fn open(
        server: Arc<Server>,
        deployment: &Deployment,
        lane: OpenLane,
    ) -> Result<Self, TransportError> {
        let (config, step) = (&deployment.config, lane.command_timeout);
        let target = Target { config, address: &server.address, login: Login::Server };
        let link = CommandLink::open(target, lane.clock, step).await?;
        let name = client_list::connection_name("admin", None, None);
        match check(&link, &name, &server.name, config.topology, lane.clock, step).await {
            Ok(_) => Ok(Self { server, link }),
            Err(Unfit::NotMaster(error) | Unfit::Other(error)) => Err(error),
        }
    }

    /// Sends a command that only reads. `None`: the server refused for a reason that concerns only this key.
    pub(super) async fn ask(
        &self,
        command: &'static str,
        args: Vec<Arg>,
        timeout: Duration,
    ) -> Result<Option<Frame>, TransportError> {
        match self.link.request(command, args, timeout).await {
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
            Failure::Lost(error) => (ErrorKind::Unreachable, format!("redis {name}: {}", error)),
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
