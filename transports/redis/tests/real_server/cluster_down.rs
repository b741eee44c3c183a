//! A cluster that is down.

use std::time::Duration;

use crate::{clusters::knows, server::*};
use leasehold::{Engine, routing::slot::Slot};
use leasehold_redis::{Address, RedisConfig, RedisTransport};

/// Masters that share the slots evenly and know each other.
async fn cluster(masters: usize, args: &[&str]) -> Vec<Server> {
    let all = [&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"], args].concat();
    let nodes: Vec<Server> = (0..masters).map(|_| Server::start_with(&all)).collect();
    for (n, node) in nodes.iter().enumerate() {
        let (first, last) = (16_384 * n / masters, 16_384 * (n + 1) / masters - 1);
        node.cli(&["cluster", "addslotsrange", &first.to_string(), &last.to_string()]);
        node.cli(&["cluster", "set-config-epoch", &(n + 1).to_string()]);
    }
    for node in &nodes[1..] {
        nodes[0].cli(&["cluster", "meet", "127.0.0.1", &node.port.to_string()]);
    }
    for node in &nodes {
        until(async || {
            let is_up = node.cli(&["cluster", "info"]).contains("cluster_state:ok");
            (knows(node, &nodes) && is_up).then_some(())
        })
        .await;
    }
    nodes
}

/// Names in the slots up to `last`.
fn names_below(last: u16) -> impl Iterator<Item = String> {
    (0..).map(|n| format!("n{n}")).filter(move |name| Slot::of(name.as_bytes()).number() <= last)
}

/// The sum of the numbers behind `field` in the lines of `section` that begin with `line`.
fn count(node: &Server, section: &str, line: &str, field: &str) -> u64 {
    let info = node.cli(&["info", section]);
    let fields = info.lines().filter(|text| text.starts_with(line)).filter_map(|text| text.split_once(field));
    fields.filter_map(|(_, rest)| rest.split([',', '\r']).next()?.parse::<u64>().ok()).sum()
}

/// 50 callers of one engine, who ask again 10 ms after each refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_a_cluster_that_is_down_is_not_stormed_and_serves_again_when_it_is_up() {
    let mut nodes = cluster(3, &["--cluster-require-full-coverage", "yes"]).await;
    let config = RedisConfig::cluster(nodes.iter().map(|node| Address::new("127.0.0.1", node.port)));
    let engine = Engine::builder(RedisTransport::new(config)).build().await.unwrap();
    nodes[2].kill();
    until(async || nodes[0].cli(&["cluster", "info"]).contains("cluster_state:fail").then_some(())).await;
    let callers: Vec<_> = names_below(5_000)
        .take(50)
        .map(|name| {
            let lock = engine.lock(name);
            tokio::spawn(async move {
                loop {
                    let _ = lock.acquire().await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
        .collect();
    until(async || (count(&nodes[0], "errorstats", "errorstat_CLUSTERDOWN", "count=") > 0).then_some(()))
        .await;
    nodes[0].cli(&["config", "resetstat"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let connections = count(&nodes[0], "stats", "total_connections_received", ":");
    let refused = count(&nodes[0], "errorstats", "errorstat_CLUSTERDOWN", "count=");
    let commands = count(&nodes[0], "stats", "total_commands_processed", ":");
    println!("in 10 s: {connections} connections, {refused} refused scripts, {commands} commands");
    assert!(connections <= 12, "{connections} connections in 10 s");
    assert!(refused <= 100, "{refused} refused scripts in 10 s");
    assert!(commands <= 500, "{commands} commands in 10 s");
    callers.iter().for_each(|caller| caller.abort());
    nodes[2].launch();
    until(async || nodes[0].cli(&["cluster", "info"]).contains("cluster_state:ok").then_some(())).await;
    let name = names_below(5_000).nth(60).unwrap();
    drop(engine.lock(name).wait(Duration::from_secs(9)).acquire().await.unwrap());
}
