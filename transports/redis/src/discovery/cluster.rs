//! Keeps the map of a cluster up to date: asks one node after the other what it knows.
//!
//! Asked every few seconds anyway, soon after anything that does not fit (a redirect, a lost connection), and several
//! times a second while a node that serves slots cannot be reached: after a failover the first answer of any node that
//! has heard of it is enough.

use std::{sync::Arc, time::Duration};

use fred::types::Value;
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
        connect::{LinkKind, Login, Target},
        link::{Failure, Link},
        plain_error,
    },
    lane::Nodes,
    wire::{
        cluster_nodes::{self, Described},
        error_reply::{refusal, refused},
        shown::shown,
    },
};

/// Asks the configured nodes, the first that answers counts.
///
/// # Errors
/// Not one has described a cluster.
pub(crate) async fn find_cluster(deployment: &Deployment, lane: OpenLane) -> Result<(), TransportError> {
    let mut errors = Vec::new();
    for address in &deployment.config.addresses {
        match ask_seed(deployment, address, lane).await {
            Ok(()) => {
                warn_of(&errors);
                return Ok(());
            }
            Err(error) => errors.push(error),
        }
    }
    Err(most_helpful(errors).unwrap_or_else(|| {
        without_effect(ErrorKind::Misconfigured, "`addresses` is empty: give one at least".to_owned())
    }))
}

/// Nodes that refuse for good stay unused until an operator has changed something.
fn warn_of(errors: &[TransportError]) {
    for error in errors.iter().filter(|error| error.kind.is_final()) {
        let error = error.clone();
        log::line(Level::WARN, move || {
            tracing::warn!(%error, "a node of the cluster refuses; the others are used");
        });
    }
}

async fn ask_seed(deployment: &Deployment, address: &Address, lane: OpenLane) -> Result<(), TransportError> {
    let target = Target { config: &deployment.config, address, login: Login::Server };
    let link = Link::open(target, LinkKind::Commands, lane.clock, lane.command_timeout).await?;
    let view = survey(&link, address, lane.command_timeout).await?;
    if !deployment.handle_view(address, &view, lane.clock.now()) {
        let detail = format!("redis {address} belongs to another cluster; take it out of `addresses`");
        return Err(without_effect(ErrorKind::NotReady, detail));
    }
    if deployment.map().ranges.is_empty() {
        let detail = format!("redis {address}: no slot of the cluster is served; see CLUSTER INFO");
        return Err(without_effect(ErrorKind::NotReady, detail));
    }
    Ok(())
}

/// Asks one node what it knows of all.
pub(crate) async fn survey(
    link: &Link,
    address: &Address,
    step: Duration,
) -> Result<Vec<Described>, TransportError> {
    let ask = |what| link.request("CLUSTER", 0, vec![Value::from_static_str(what)], step);
    let (nodes, slots) = tokio::join!(ask("NODES"), ask("SLOTS"));
    let nodes = nodes.map_err(|failure| explain(address, failure))?;
    // Refused, the addresses are those of CLUSTER NODES. Only late, they must not change for one view: every server would
    // be another one.
    let slots = match slots {
        Ok(slots) => Some(slots),
        Err(Failure::Refused(_)) => None,
        Err(failure) => return Err(explain(address, failure)),
    };
    let view = cluster_nodes::read(&nodes, slots.as_ref(), address);
    view.ok_or_else(|| {
        let detail = format!("redis {address} answered CLUSTER NODES in a shape that makes no sense");
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
        Failure::Lost(error) => {
            without_effect(ErrorKind::Unreachable, format!("redis {name}: {}", plain_error::shown(&error)))
        }
    }
}

fn without_effect(kind: ErrorKind, detail: String) -> TransportError {
    TransportError::without_effect(kind, None, detail)
}

/// Looks again, for ever.
pub(crate) async fn keep_surveyed(deployment: Arc<Deployment>, lane: OpenLane, nodes: Arc<Nodes>) {
    let (mut refresh_requests, mut pace) = (deployment.refresh_requests(), PollInterval::of_cluster_nodes());
    for turn in 0.. {
        let is_whole = nodes.is_whole();
        let least = if is_whole { Duration::ZERO } else { PAUSE_BROKEN };
        wait(&mut refresh_requests, least, pace.next_pause(is_whole, lane.clock.now())).await;
        if let Err(error) = look(&deployment, lane, &nodes, turn).await {
            log::line(Level::DEBUG, move || {
                tracing::debug!(%error, "cannot ask the cluster about its nodes");
            });
        }
    }
}

// At most one question in each `least`, however many doubts there are.
async fn wait(refresh_requests: &mut watch::Receiver<u64>, least: Duration, pause: Duration) {
    tokio::time::sleep(least).await;
    // A doubt that came while nobody looked for one counts at once.
    if !refresh_requests.has_changed().unwrap_or(false) {
        let _ = tokio::time::timeout(pause.saturating_sub(least), refresh_requests.changed()).await;
    }
    refresh_requests.mark_unchanged();
}

async fn look(
    deployment: &Deployment,
    lane: OpenLane,
    nodes: &Nodes,
    turn: usize,
) -> Result<(), TransportError> {
    let Some(connection) = nodes.any(turn) else { return find_cluster(deployment, lane).await };
    let view = survey(connection.link(), connection.address(), QUESTION_TIMEOUT).await?;
    deployment.handle_view(connection.address(), &view, lane.clock.now());
    // What was in doubt is answered; a new doubt may follow at once.
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

const PAUSE: Duration = Duration::from_millis(100);
const QUESTION_TIMEOUT: Duration = Duration::from_millis(500);
