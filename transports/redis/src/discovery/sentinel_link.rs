//! One connection to one sentinel, and its errors in words for an operator.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use leasehold::transport::{ErrorKind, OpenLane, TransportError};

use super::{deployment::Deployment, master_election::SentinelId};
use crate::{
    config::Address,
    connection::{
        CommandLink,
        connect::{Login, Target},
        link::{Failure, Link},
    },
    wire::{
        arg::Arg,
        error_reply::{refusal, refused},
        reply,
        shown::shown,
    },
};

/// A connection to a sentinel.
pub(super) struct SentinelLink<L> {
    pub(super) link: L,
    /// The sentinel that answers on this connection.
    pub(super) id: SentinelId,
}

impl<L: Link> SentinelLink<L> {
    pub(super) async fn open(
        deployment: &Deployment,
        sentinel: &Address,
        lane: OpenLane,
    ) -> Result<Self, TransportError> {
        let target = Target { config: &deployment.config, address: sentinel, login: Login::Sentinel };
        let link = L::open(target, lane.clock, lane.command_timeout).await?;
        let id = identify(&link, sentinel, lane.command_timeout).await?;
        Ok(Self { link, id })
    }
}

// If the right to `INFO` is missing, the address identifies the sentinel.
async fn identify(
    link: &impl Link,
    sentinel: &Address,
    step: Duration,
) -> Result<SentinelId, TransportError> {
    match link.request("INFO", vec![Arg::word("server")], step).await {
        Ok(info) => {
            Ok(reply::info_field(&info, "run_id").map_or_else(|| sentinel.into(), SentinelId::of_run))
        }
        Err(Failure::Refused(_)) => Ok(sentinel.into()),
        Err(failure) => Err(explain(sentinel, "", failure)),
    }
}

pub(super) async fn query(
    link: &CommandLink,
    what: &'static str,
    service: &str,
    step: Duration,
) -> Result<Frame, Failure> {
    let args = vec![Arg::word(what), Arg::Text(Str::from(service))];
    link.request("SENTINEL", args, step).await
}

pub(super) fn service(deployment: &Deployment) -> &str {
    deployment.config.service_name.as_deref().unwrap_or_default()
}

pub(super) fn explain(sentinel: &Address, service: &str, failure: Failure) -> TransportError {
    let (kind, detail) = match failure {
        Failure::Refused(text) => match refusal(&text) {
            // Only `SENTINEL` is sent here, and servers do not know that command.
            Some(refusal) if refusal.code == "unknown command" => (
                ErrorKind::Misconfigured,
                format!(
                    "redis {sentinel} is a server, no sentinel; name the sentinels in `addresses` (they listen on 26379), \
                     or set topology = \"single\""
                ),
            ),
            Some(refusal) => return refused(&sentinel.to_string(), refusal, &text),
            None if text.contains("No such master") => (
                ErrorKind::Misconfigured,
                format!(
                    "sentinel {sentinel} knows no master `service_name` = {service:?}; write a name that its \
                     SENTINEL MASTERS shows"
                ),
            ),
            None => (
                ErrorKind::NotReady,
                format!("sentinel {sentinel} refused to name the master: {}", shown(&text)),
            ),
        },
        Failure::TimedOut => (ErrorKind::TimedOut, format!("sentinel {sentinel}: no answer in time")),
        Failure::Lost(error) => (ErrorKind::Unreachable, format!("sentinel {sentinel}: {}", error)),
    };
    TransportError::without_effect(kind, None, detail)
}
