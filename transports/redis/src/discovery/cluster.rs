//! Keeps the routes of a cluster up to date: asks its nodes for their views, one node after the other.
//!
//! A node is asked every few seconds, soon after any contradiction (a redirect, a lost connection), and several
//! times a second while a node that serves slots is not connected. After a failover one view is enough, from any
//! node that knows about the failover.

use std::{sync::Arc, time::Duration};

use leasehold::{
    log,
    transport::{ErrorKind, OpenLane, TransportError},
};
use tokio::sync::watch;
use tracing::Level;

use super::{
    deployment::Deployment,
    errors::most_helpful,
    poll_interval::{PAUSE_BROKEN, PollInterval},
};
use crate::{
    config::Address,
    connection::{
        CommandLink,
        connect::{Login, Target},
        link::{Failure, Link},
    },
    lane::Nodes,
    wire::{
        arg::Arg,
        cluster_nodes::{self, Described},
        error_reply::{refusal, refused},
        shown::shown,
    },
};

/// Asks the configured nodes in order, and takes the first view of a cluster.
///
/// # Errors
/// None of the nodes has returned such a view. The error is that of [`most_helpful`], or `Misconfigured` if
/// `addresses` is empty.
pub(crate) async fn find_cluster(deployment: &Deployment, lane: OpenLane) -> Result<(), TransportError> {
    let mut errors = Vec::new();
    for address in &deployment.config.addresses {
        match ask_seed(deployment, address, lane).await {
            Ok(()) => {
                warn_about(&errors);
                return Ok(());
            }
            Err(error) => errors.push(error),
        }
    }
    Err(most_helpful(errors).unwrap_or_else(|| {
        without_effect(ErrorKind::Misconfigured, "`addresses` is empty: give one at least".to_owned())
    }))
}

/// Logs the nodes that refuse us. They stay unused until an operator has changed something.
fn warn_about(errors: &[TransportError]) {
    for error in errors.iter().filter(|error| error.kind.is_final()) {
        let error = error.clone();
        log::line(Level::WARN, move || {
            tracing::warn!(%error, "a node of the cluster refuses; the others are used");
        });
    }
}

async fn ask_seed(deployment: &Deployment, address: &Address, lane: OpenLane) -> Result<(), TransportError> {
    let target = Target { config: &deployment.config, address, login: Login::Server };
    let link = CommandLink::open(target, lane.clock, lane.command_timeout).await?;
    let view = fetch_view(&link, address, lane.command_timeout).await?;
    if !deployment.handle_view(address, &view, lane.clock.now()) {
        let detail = format!("redis {address} belongs to another cluster; take it out of `addresses`");
        return Err(without_effect(ErrorKind::NotReady, detail));
    }
    if deployment.routes().ranges.is_empty() {
        let detail = format!("redis {address}: no slot of the cluster is served; see CLUSTER INFO");
        return Err(without_effect(ErrorKind::NotReady, detail));
    }
    Ok(())
}

/// Asks one node for its view of the cluster.
///
/// # Errors
/// The node does not answer, refuses, or answers in an unexpected format.
pub(crate) async fn fetch_view(
    link: &CommandLink,
    address: &Address,
    step: Duration,
) -> Result<Vec<Described>, TransportError> {
    let ask = |what| link.request("CLUSTER", vec![Arg::word(what)], step);
    let (nodes, slots) = tokio::join!(ask("NODES"), ask("SLOTS"));
    let nodes = nodes.map_err(|failure| explain(address, failure))?;
    // If `CLUSTER SLOTS` is refused, the addresses of `CLUSTER NODES` are used. If its reply is only late, this
    // view is dropped: with other addresses for one view, every server would become another one.
    let slots = match slots {
        Ok(slots) => Some(slots),
        Err(Failure::Refused(_)) => None,
        Err(failure) => return Err(explain(address, failure)),
    };
    let view = cluster_nodes::read(&nodes, slots.as_ref(), address);
    view.ok_or_else(|| {
        let detail = format!("redis {address} answered CLUSTER NODES in an unexpected format");
        TransportError::without_effect(ErrorKind::Protocol, None, detail)
    })
}

fn explain(address: &Address, failure: Failure) -> TransportError {
    let name = address.to_string();
    match failure {
        Failure::Refused(text) => match refusal(&text) {
            Some(refusal) => refused(&name, refusal, &text),
            None => without_effect(
                ErrorKind::NotReady,
                format!("redis {name} refused CLUSTER NODES: {}", shown(&text)),
            ),
        },
        Failure::TimedOut => {
            without_effect(ErrorKind::TimedOut, format!("redis {name}: no answer to CLUSTER NODES in time"))
        }
        Failure::Lost(error) => without_effect(ErrorKind::Unreachable, format!("redis {name}: {}", error)),
    }
}

fn without_effect(kind: ErrorKind, detail: String) -> TransportError {
    TransportError::without_effect(kind, None, detail)
}

/// Polls the cluster. It never returns.
pub(crate) async fn poll_cluster(deployment: Arc<Deployment>, lane: OpenLane, nodes: Arc<Nodes>) {
    let (mut refresh_requests, mut interval) =
        (deployment.refresh_requests(), PollInterval::of_cluster_nodes());
    for turn in 0.. {
        let is_whole = nodes.is_whole();
        let least = if is_whole { Duration::ZERO } else { PAUSE_BROKEN };
        wait(&mut refresh_requests, least, interval.next_pause(is_whole, lane.clock.now())).await;
        if let Err(error) = poll_once(&deployment, lane, &nodes, turn).await {
            log::line(Level::DEBUG, move || {
                tracing::debug!(%error, "cannot ask the cluster about its nodes");
            });
        }
    }
}

// Waits for a refresh request or the end of `pause`, and never less than `least`, however many requests there are.
async fn wait(refresh_requests: &mut watch::Receiver<u64>, least: Duration, pause: Duration) {
    tokio::time::sleep(least).await;
    // A refresh request that arrived during the sleep counts at once.
    if !refresh_requests.has_changed().unwrap_or(false) {
        let _ = tokio::time::timeout(pause.saturating_sub(least), refresh_requests.changed()).await;
    }
    refresh_requests.mark_unchanged();
}

async fn poll_once(
    deployment: &Deployment,
    lane: OpenLane,
    nodes: &Nodes,
    turn: usize,
) -> Result<(), TransportError> {
    let Some(connection) = nodes.any(turn) else { return find_cluster(deployment, lane).await };
    let view = fetch_view(connection.link(), connection.address(), POLL_TIMEOUT).await?;
    deployment.handle_view(connection.address(), &view, lane.clock.now());
    // The view answers all earlier refresh requests. A new request may follow after this pause.
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

const PAUSE: Duration = Duration::from_millis(100);
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
