//! Asks sentinels for the master: when a lane is opened, and for the audit.
//! [`sentinel_monitor`](super::sentinel_monitor) continues from there.

use std::{pin::pin, time::Duration};

use fred::types::Resp3Frame as Frame;
use futures_util::{
    future::{join, join_all},
    stream::{FuturesUnordered, StreamExt},
};
use leasehold::{
    log,
    transport::{ErrorKind, OpenLane, TransportError},
};
use tracing::Level;

use super::{
    deployment::Deployment,
    sentinel_link::{SentinelLink, explain, query, service},
    sentinel_messages::{SentinelConnection, SubscribeError},
    start_vote::{SentinelReply, StartVote, Verdict},
};
use crate::{
    config::Address,
    connection::{
        CommandLink,
        link::{Failure, Link},
    },
    wire::{arg::Arg, sentinel::MasterReport},
};

/// Asks all configured sentinels concurrently. Once a majority has named a master, the master with the highest
/// epoch is taken; see [`StartVote`].
///
/// # Errors
/// No sentinel names a master. The error is that of [`most_helpful`](super::most_helpful), or `Misconfigured` if
/// `addresses` is empty.
pub(crate) async fn find_master(deployment: &Deployment, lane: OpenLane) -> Result<(), TransportError> {
    let sentinels = &deployment.config.addresses;
    let start_vote = ask_all(deployment, sentinels, lane).await;
    if start_vote.verdict(true) == Verdict::Failed {
        return Err(start_vote.into_error().unwrap_or_else(no_address));
    }
    if start_vote.verdict(false) != Verdict::Decided {
        let (silent, configured) = (start_vote.silent(), sentinels.len());
        log::line(Level::WARN, move || {
            tracing::warn!(
                silent,
                configured,
                "only a minority of the configured sentinels names the master, and its answer may be old: check the others"
            );
        });
    }
    for reply in start_vote.into_replies() {
        deployment.handle_report(&reply.id, reply.report, sentinels.len(), reply.moments);
    }
    Ok(())
}

async fn ask_all(deployment: &Deployment, sentinels: &[Address], lane: OpenLane) -> StartVote {
    let mut start_vote = StartVote::of(sentinels.len());
    let ask = |sentinel, pause| ask_after(pause, deployment, sentinel, lane);
    let mut answers: FuturesUnordered<_> =
        sentinels.iter().map(|sentinel| ask(sentinel, Duration::ZERO)).collect();
    let mut time_limit = pin!(tokio::time::sleep(lane.command_timeout));
    let mut is_over = false;
    while start_vote.verdict(is_over) == Verdict::Open {
        tokio::select! {
            Some((sentinel, answer)) = answers.next() => {
                if record(&mut start_vote, sentinel, answer) {
                    answers.push(ask(sentinel, PAUSE_REFUSED));
                }
            }
            () = &mut time_limit, if !is_over => is_over = true,
        }
    }
    start_vote
}

/// Records one sentinel's answer. Returns whether to ask that sentinel again.
fn record(
    start_vote: &mut StartVote,
    sentinel: &Address,
    answer: Result<SentinelReply, TransportError>,
) -> bool {
    match answer {
        Ok(reply) => {
            start_vote.record(reply);
            false
        }
        Err(error) => start_vote.fail(sentinel, error),
    }
}

async fn ask_after<'a>(
    pause: Duration,
    deployment: &Deployment,
    sentinel: &'a Address,
    lane: OpenLane,
) -> (&'a Address, Result<SentinelReply, TransportError>) {
    tokio::time::sleep(pause).await;
    let answer = async {
        let link = SentinelLink::open(deployment, sentinel, lane).await?;
        ask(deployment, sentinel, &link, lane).await
    };
    (sentinel, answer.await)
}

fn no_address() -> TransportError {
    let detail = "`addresses` is empty: give one at least";
    TransportError::without_effect(ErrorKind::Misconfigured, None, detail)
}

/// Asks one sentinel for the master.
///
/// # Errors
/// The sentinel does not answer, refuses, does not know the service, or answers in an unexpected format.
pub(super) async fn ask(
    deployment: &Deployment,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
    lane: OpenLane,
) -> Result<SentinelReply, TransportError> {
    let (service, asked, link) = (service(deployment), lane.clock.now(), &commands.link);
    // The order matters: an address read before the epoch could be that of the old master with the epoch of the new
    // one.
    let (master, address) = join(
        query(link, "MASTER", service, lane.command_timeout),
        query(link, "GET-MASTER-ADDR-BY-NAME", service, lane.command_timeout),
    )
    .await;
    let checked =
        |answer: Result<Frame, Failure>| answer.map_err(|failure| explain(sentinel, service, failure));
    let mut report = MasterReport::read(&checked(master)?, &checked(address)?).ok_or_else(|| {
        let detail = format!(
            "sentinel {sentinel} answered SENTINEL MASTER or GET-MASTER-ADDR-BY-NAME in an unexpected format"
        );
        TransportError::without_effect(ErrorKind::Protocol, None, detail)
    })?;
    report.address = deployment.config.reachable(&report.address);
    let (by, id) = (sentinel.clone(), commands.id.clone());
    Ok(SentinelReply { by, id, report, moments: (asked, lane.clock.now()) })
}

/// Returns the reply to `SENTINEL MASTER` of the first configured sentinel that answers.
pub(crate) async fn ask_sentinels(deployment: &Deployment, lane: OpenLane) -> Option<Frame> {
    for sentinel in &deployment.config.addresses {
        if let Ok(asked) = SentinelLink::open(deployment, sentinel, lane).await {
            if let Ok(frame) = query(&asked.link, "MASTER", service(deployment), lane.command_timeout).await {
                return Some(frame);
            }
        }
    }
    None
}

/// Tries every command that this transport sends to sentinels, at each configured sentinel. Returns the error of
/// each sentinel that does not support all of them.
pub(crate) async fn try_sentinels(deployment: &Deployment, lane: OpenLane) -> Vec<(Address, TransportError)> {
    let tries = deployment.config.addresses.iter().map(|sentinel| async move {
        let last_error = try_sentinel(deployment, sentinel, lane).await.err();
        last_error.map(|last_error| (sentinel.clone(), last_error))
    });
    join_all(tries).await.into_iter().flatten().collect()
}

async fn try_sentinel(
    deployment: &Deployment,
    sentinel: &Address,
    lane: OpenLane,
) -> Result<(), TransportError> {
    let asked = SentinelLink::open(deployment, sentinel, lane).await?;
    let (link, step) = (&asked.link, lane.command_timeout);
    let checked = |answer: Result<Frame, Failure>| {
        answer.map_err(|failure| explain(sentinel, service(deployment), failure))
    };
    for what in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS"] {
        checked(query(link, what, service(deployment), step).await)?;
    }
    // fred sends these when it connects. Without the rights to them a connection works, but the sentinel logs each
    // command as denied.
    for (command, arg) in [("CLIENT", "ID"), ("INFO", "server")] {
        checked(link.request(command, vec![Arg::word(arg)], step).await)?;
    }
    // If several sentinels share an address, this connection may reach another sentinel than the first one.
    let messages = SentinelLink::open(deployment, sentinel, lane).await?;
    SentinelConnection::on(messages, deployment, lane, sentinel)
        .await
        .map(drop)
        .map_err(SubscribeError::into_error)
}

/// While a lane is opened, a sentinel that could not be reached is asked again after this pause.
const PAUSE_REFUSED: Duration = Duration::from_millis(100);
