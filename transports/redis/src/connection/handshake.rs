//! The handshake of a new connection: the server must be a master, and must report its run id, its uptime and its
//! clock.
//!
//! In a cluster the connection also asks for optional features.
//!
//! A proxy or an ACL rule may hide some of these facts. Without a role, the server is taken for a master. Without a
//! run id, every reconnect counts as a new run. Without an uptime, the uptime stays unknown. The clock is required.

use std::time::Duration;

use fred::types::Resp3Frame as Frame;
use leasehold::{
    clock::Clock,
    transport::{ErrorKind, TransportError},
};

use super::{
    features::Features,
    identity::Findings,
    link::{Failure, Link},
    lost::Lost,
    offset::Sample,
};
use crate::{
    config::RedisTopology,
    wire::{
        arg::Arg,
        error_reply::{refusal, refused},
        reply,
        shown::shown,
    },
};

/// The result of a handshake: a connection that may be used.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) findings: Findings,
    pub(crate) sample: Sample,
    pub(crate) features: Features,
}

/// Why a connection may not be used.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The server has another role.
    NotMaster(TransportError),
    /// The server does not answer, refuses, or does not match the configuration.
    Other(TransportError),
}

/// Sends all questions at once. It takes one round trip, at most `step`.
///
/// # Errors
/// [`Unfit::NotMaster`] if the server reports another role, [`Unfit::Other`] for everything else.
pub(crate) async fn check(
    link: &impl Link,
    name: &str,
    address: &str,
    topology: RedisTopology,
    clock: Clock,
    step: Duration,
) -> Result<Checked, Unfit> {
    let ask = |command, args: &[&str]| {
        let args = args.iter().map(|arg| Arg::Text((*arg).into())).collect();
        async move { optional(link.request(command, args, step).await) }
    };
    let (named, role, replication, info, features, sample) = tokio::join!(
        ask("CLIENT", &["SETNAME", name]),
        ask("ROLE", &[]),
        ask("INFO", &["replication"]),
        ask("INFO", &["server"]),
        features(link, topology, step),
        time(link, clock, step),
    );
    let at = |failure| Unfit::Other(explain(address, failure, step));
    // A refused name has no consequence, except that `CLIENT LIST` does not show it.
    named.map_err(at)?;
    must_be_master(address, role.map_err(at)?.as_ref(), replication.map_err(at)?.as_ref())?;
    let info = info.map_err(at)?;
    must_fit(address, topology, info.as_ref())?;
    let findings = findings(info.as_ref());
    Ok(Checked { findings, sample: sample.map_err(at)?, features: features.map_err(at)? })
}

async fn features(link: &impl Link, topology: RedisTopology, step: Duration) -> Result<Features, Failure> {
    match topology {
        RedisTopology::Cluster => Features::probe(link, step).await,
        RedisTopology::Single | RedisTopology::Sentinel => Ok(Features::default()),
    }
}

/// Reads the server's clock.
///
/// # Errors
/// The server does not answer, refuses, or answers in an unexpected format.
pub(crate) async fn time(link: &impl Link, clock: Clock, timeout: Duration) -> Result<Sample, Failure> {
    let sent = clock.now();
    let frame = link.request("TIME", Vec::new(), timeout).await?;
    let received = clock.now();
    let server_micros = reply::server_micros(&frame).ok_or_else(|| misread("TIME"))?;
    Ok(Sample { sent, received, server_micros })
}

/// Turns a refusal into `None`: the fact is hidden, and the connection is usable.
fn optional(reply: Result<Frame, Failure>) -> Result<Option<Frame>, Failure> {
    match reply {
        Ok(frame) => Ok(Some(frame)),
        Err(Failure::Refused(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn must_be_master(address: &str, role: Option<&Frame>, replication: Option<&Frame>) -> Result<(), Unfit> {
    let by_role = role.and_then(reply::role);
    let by_info = || replication.and_then(|info| reply::info_field(info, "role"));
    match by_role.or_else(by_info) {
        None | Some("master") => Ok(()),
        Some("sentinel") => Err(Unfit::Other(TransportError::without_effect(
            ErrorKind::Misconfigured,
            None,
            format!("redis {address} is a sentinel, not a server; point `addresses` at the master"),
        ))),
        Some(role) => Err(Unfit::NotMaster(TransportError::without_effect(
            ErrorKind::NotReady,
            None,
            format!("redis {address} is no master (role {role}); point `addresses` at the master"),
        ))),
    }
}

/// A cluster node serves only its own slots. Used as a single server, it would refuse the locks of all other slots.
fn must_fit(address: &str, topology: RedisTopology, info: Option<&Frame>) -> Result<(), Unfit> {
    // Valkey has another name for this field.
    let mode =
        |info| reply::info_field(info, "redis_mode").or_else(|| reply::info_field(info, "server_mode"));
    let is_node = info.and_then(mode) == Some("cluster");
    let topology = match topology {
        RedisTopology::Single if is_node => "single",
        RedisTopology::Sentinel if is_node => "sentinel",
        RedisTopology::Single | RedisTopology::Sentinel | RedisTopology::Cluster => return Ok(()),
    };
    Err(Unfit::Other(without_effect(
        ErrorKind::Misconfigured,
        format!(
            "redis {address} is a node of a cluster, but `topology` is \"{topology}\": set topology = \"cluster\", or \
             write redis-cluster:// in the URL"
        ),
    )))
}

fn findings(info: Option<&Frame>) -> Findings {
    let field = |name| info.and_then(|info| reply::info_field(info, name));
    let seconds = field("uptime_in_seconds").and_then(|text| text.parse().ok());
    Findings { run_id: field("run_id").map(str::to_owned), uptime: seconds.map(Duration::from_secs) }
}

fn explain(address: &str, failure: Failure, step: Duration) -> TransportError {
    match failure {
        Failure::Refused(text) => match refusal(&text) {
            Some(refusal) => refused(address, refusal, &text),
            None => without_effect(
                ErrorKind::NotReady,
                format!("redis {address} refused the handshake: {}", shown(&text)),
            ),
        },
        Failure::TimedOut => without_effect(
            ErrorKind::TimedOut,
            format!("redis {address}: no answer to the handshake within {} ms", step.as_millis()),
        ),
        Failure::Lost(error) => {
            let detail = format!(
                "redis {address}: lost during the handshake: {}; a proxy that closes connections at commands it does not \
                 know cannot be used (twemproxy): name the server behind it",
                error
            );
            without_effect(ErrorKind::Unreachable, detail)
        }
    }
}

fn without_effect(kind: ErrorKind, detail: String) -> TransportError {
    TransportError::without_effect(kind, None, detail)
}

fn misread(command: &str) -> Failure {
    let text = format!("{command} was answered in another shape than Redis's");
    Failure::Lost(Lost::of_details(text))
}
