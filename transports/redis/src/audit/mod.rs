//! The audit: asks each server for the facts that decide which guarantees hold, and judges them.

mod facts;
mod judge;
mod listeners;
mod rights;
mod texts;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use leasehold::{
    clock::Clock,
    transport::{AuditContext, AuditLevel, Finding, OpenLane},
};

use self::{
    facts::{DetectionFacts, Facts, failed},
    judge::{judge_deployment, judge_sentinel, judge_server},
    texts::{literal, texts},
};
use crate::{
    config::{Address, RedisConfig, RedisTopology},
    connection::{
        Batches, CommandLink, Connection,
        connect::{Login, Target},
        handshake::time,
        link::Link,
    },
    discovery::{ask_sentinels, fetch_view, try_sentinels},
    lane::nodes::Nodes,
    wire::{
        reply,
        sentinel::{SentinelSettings, quorum},
    },
};

/// Audits all servers of the routes, concurrently.
pub(crate) async fn audit(nodes: &Nodes, lane: OpenLane, terms: AuditContext) -> Vec<Finding> {
    let (connections, mut findings) = reachable(nodes);
    let config = &nodes.deployment().config;
    let facts = join_all(connections.iter().map(|connection| ask(connection, config, lane, &terms))).await;
    let detection_facts = detection_facts(nodes, &connections, &facts, lane).await;
    findings.extend(facts.iter().flat_map(|facts| judge_server(facts, config, &terms)));
    findings.extend(judge_deployment(&facts, &detection_facts, config, &terms));
    findings.extend(sentinels(nodes, lane).await);
    findings
}

fn reachable(nodes: &Nodes) -> (Vec<Arc<Connection>>, Vec<Finding>) {
    let (mut connections, mut findings) = (Vec::new(), Vec::new());
    for server in &nodes.deployment().routes().servers {
        match nodes.connection(server.id) {
            Ok(connection) => connections.push(connection),
            Err(error) => findings.push(
                Finding::new(
                    AuditLevel::Error,
                    "connection",
                    &*error.detail,
                    "look at the server and the network",
                )
                .of(&*server.name),
            ),
        }
    }
    (connections, findings)
}

async fn ask(connection: &Connection, config: &RedisConfig, lane: OpenLane, terms: &AuditContext) -> Facts {
    let (link, step) = (connection.link(), lane.command_timeout);
    let name = format!("{}leasehold:audit", terms.name_prefix); // no caller uses it
    let (info, settings, rights, of_kinds, unheard, sample) = tokio::join!(
        link.request("INFO", Vec::new(), step),
        settings(link, step),
        rights::missing_of_locks(connection, config, &name, step),
        rights::missing_of_kinds(connection, &name, step),
        listeners::that_hear_nothing(connection, config, &terms.name_prefix, step),
        time(link, lane.clock, step),
    );
    let info = info.ok().and_then(|frame| reply::text(&frame).map(str::to_owned)).unwrap_or_default();
    let mut facts = Facts::new(connection.address().to_string(), info, settings);
    (facts.missing_rights, facts.missing_fenced_rights) = rights;
    facts.missing_rights_of_kinds = of_kinds;
    facts.offset_micros = sample.ok().map(|sample| sample.offset_micros());
    facts.publishes = connection.publishes();
    facts.unheard = unheard;
    facts.batches = match connection.batches() {
        Batches::Declared => "one command for many locks",
        Batches::AcrossSlots => "one command for many locks of a node, across slots",
        Batches::BySlot => "one command for each slot",
        Batches::OneByOne => "one command for each lock",
    };
    facts.is_limited = connection.is_limited();
    facts.replica_offsets = replica_offsets(&facts.replicas(), config, lane).await;
    facts
}

// One request per setting: before Redis 7 a request for several settings is refused.
async fn settings(link: &CommandLink, step: Duration) -> Vec<String> {
    let ask = |name| link.request("CONFIG", vec![literal("GET"), literal(name)], step);
    let answers = join_all(SETTINGS.iter().map(|name| ask(name))).await;
    answers.iter().flatten().flat_map(texts).collect()
}

async fn replica_offsets(
    replicas: &[Address],
    config: &RedisConfig,
    lane: OpenLane,
) -> Vec<(String, Option<i64>)> {
    let asked = replicas
        .iter()
        .map(|address| async move { (address.to_string(), replica_offset(address, config, lane).await) });
    join_all(asked).await
}

async fn replica_offset(address: &Address, config: &RedisConfig, lane: OpenLane) -> Option<i64> {
    let target = Target { config, address: &config.reachable(address), login: Login::Server };
    let link = CommandLink::open(target, lane.clock, lane.command_timeout).await.ok()?;
    clock_offset(&link, lane.clock, lane.command_timeout).await
}

async fn clock_offset(link: &CommandLink, clock: Clock, step: Duration) -> Option<i64> {
    Some(time(link, clock, step).await.ok()?.offset_micros())
}

async fn detection_facts(
    nodes: &Nodes,
    connections: &[Arc<Connection>],
    facts: &[Facts],
    lane: OpenLane,
) -> DetectionFacts {
    match nodes.deployment().config.topology {
        RedisTopology::Single => DetectionFacts::default(),
        RedisTopology::Sentinel => sentinel_detection(nodes, lane).await,
        RedisTopology::Cluster => cluster_detection(nodes, connections, facts, lane).await,
    }
}

async fn sentinel_detection(nodes: &Nodes, lane: OpenLane) -> DetectionFacts {
    let answer = ask_sentinels(nodes.deployment(), lane).await;
    let settings = answer.as_ref().and_then(SentinelSettings::read);
    DetectionFacts {
        detection: settings.as_ref().map(|settings| settings.down_after),
        sentinels: settings.as_ref().map(quorum),
        ..DetectionFacts::default()
    }
}

async fn sentinels(nodes: &Nodes, lane: OpenLane) -> Vec<Finding> {
    match nodes.deployment().config.topology {
        RedisTopology::Sentinel => {
            let failures = try_sentinels(nodes.deployment(), lane).await;
            failures.iter().map(|(sentinel, last_error)| judge_sentinel(sentinel, last_error)).collect()
        }
        RedisTopology::Single | RedisTopology::Cluster => Vec::new(),
    }
}

async fn cluster_detection(
    nodes: &Nodes,
    connections: &[Arc<Connection>],
    facts: &[Facts],
    lane: OpenLane,
) -> DetectionFacts {
    let detection = facts.iter().find_map(|facts| facts.setting("cluster-node-timeout")?.parse().ok());
    let view = match connections.first() {
        Some(connection) => {
            fetch_view(connection.link(), connection.address(), lane.command_timeout).await.ok()
        }
        None => None,
    };
    DetectionFacts {
        detection: detection.map(Duration::from_millis),
        failed: view.as_deref().map(failed).unwrap_or_default(),
        is_whole: nodes.is_whole(),
        ..DetectionFacts::default()
    }
}

const SETTINGS: [&str; 3] = ["appendfsync", "timeout", "cluster-node-timeout"];
