//! The connection on which one sentinel sends its messages.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fred::bytes_utils::Str;
use leasehold::transport::{ErrorKind, OpenLane, TransportError};

use super::{
    deployment::Deployment,
    master_election::SentinelId,
    sentinel_link::{SentinelLink, explain, service},
};
use crate::{
    config::Address,
    connection::{
        NoticeLink, Traffic,
        link::{Failure, Kill, Link},
        watchdog::Probe,
    },
    wire::{arg::Arg, reply},
};

/// The connection for the messages of one sentinel.
pub(super) struct SentinelConnection {
    pub(super) messages: NoticeLink,
    pings: AtomicU64,
}

/// Why the messages of a sentinel cannot be read.
#[derive(Debug)]
pub(super) enum SubscribeError {
    /// The sentinel cannot be reached, or another sentinel answers at its address.
    Temporary(TransportError),
    /// The sentinel refuses the subscription.
    Refused(TransportError),
}

impl SentinelConnection {
    /// Connects to the sentinel `id` and subscribes. The subscription is confirmed when this returns.
    pub(super) async fn open(
        deployment: &Deployment,
        lane: OpenLane,
        sentinel: &Address,
        id: &SentinelId,
    ) -> Result<Self, SubscribeError> {
        let link = SentinelLink::open(deployment, sentinel, lane).await.map_err(SubscribeError::Temporary)?;
        if link.id != *id {
            return Err(SubscribeError::Temporary(another_sentinel(sentinel)));
        }
        Self::on(link, deployment, lane, sentinel).await
    }

    /// Subscribes on this connection. The subscription is confirmed when this returns.
    pub(super) async fn on(
        link: SentinelLink<NoticeLink>,
        deployment: &Deployment,
        lane: OpenLane,
        sentinel: &Address,
    ) -> Result<Self, SubscribeError> {
        let connection = Self { messages: link.link, pings: AtomicU64::new(0) };
        let subscribed = async {
            connection
                .messages
                .subscribe(vec![Str::from_static("+switch-master")], lane.command_timeout)
                .await?;
            connection.probe(lane.command_timeout).await
        };
        match subscribed.await {
            Ok(()) => Ok(connection),
            Err(failure @ Failure::Refused(_)) => Err(SubscribeError::Refused(with_required_rights(
                explain(sentinel, service(deployment), failure),
            ))),
            Err(failure) => Err(SubscribeError::Temporary(explain(sentinel, service(deployment), failure))),
        }
    }
}

impl SubscribeError {
    pub(super) fn into_error(self) -> TransportError {
        match self {
            SubscribeError::Temporary(error) | SubscribeError::Refused(error) => error,
        }
    }
}

fn another_sentinel(sentinel: &Address) -> TransportError {
    let detail = format!("sentinel {sentinel}: another sentinel than before answers at this address");
    TransportError::without_effect(ErrorKind::NotReady, None, detail)
}

/// Adds the missing rights to the error: the server's refusal does not name the channel.
fn with_required_rights(error: TransportError) -> TransportError {
    let detail =
        format!("{}; for messages about failovers grant +subscribe, +ping, &+switch-master", error.detail);
    error.with_detail(detail)
}

impl Probe for SentinelConnection {
    fn traffic(&self) -> &Traffic {
        self.messages.traffic()
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
        let number = self.pings.fetch_add(1, Ordering::Relaxed).to_string();
        let args = vec![Arg::Text(number.clone().into())];
        let frame = self.messages.request("PING", args, timeout).await?;
        if reply::pong(&frame) != Some(&number) {
            self.messages.kill();
        }
        Ok(())
    }
}
