//! How many commands are sent, counted on the wire.

use leasehold::Engine;
use leasehold_tests::harness::proxy::Proxy;

use crate::{
    commands::Kind,
    contest::Contest,
    ground::{Ground, builder, until},
};

fn scripts_sent(proxy: &Proxy) -> u64 {
    let seen = proxy.commands_seen();
    ["EVAL", "EVALSHA"].into_iter().filter_map(|name| seen.get(name)).sum()
}

#[tokio::test]
async fn p5_an_uncontended_acquire_and_its_release_are_one_command_each() {
    let ground = Ground::new();
    let engine = ground.builder().build().await.expect("an engine");
    // From the first on: a server that has never seen our scripts makes no difference.
    for pairs in 1..=100 {
        let lease = engine.lock(format!("k{}", pairs % 7)).acquire().await.expect("a lease");
        lease.release().await.expect("released");
        assert_eq!(Kind::Acquire.seen(&ground.proxy).len(), pairs);
        assert_eq!(Kind::Release.seen(&ground.proxy).len(), pairs);
        assert_eq!(scripts_sent(&ground.proxy), 2 * pairs as u64);
    }
    assert!(!ground.proxy.commands_seen().contains_key("SUBSCRIBE"));
    assert_eq!(engine.snapshot().asks, 100);
}

#[tokio::test]
async fn p5_a_lock_known_to_be_held_costs_no_command() {
    let ground = Ground::new();
    let engine = ground.builder().build().await.expect("an engine");
    let _lease = engine.lock("k").acquire().await.expect("a lease");
    for _ in 0..10 {
        assert!(engine.lock("k").try_acquire().await.expect("an answer").is_none());
    }
    assert_eq!(scripts_sent(&ground.proxy), 1);
}

/// Each process asks once per notice, and once behind its own release.
#[tokio::test]
async fn p10_a_grant_among_n_waiting_processes_costs_at_most_n_plus_two_commands() {
    let ground = Ground::new();
    let proxies: Vec<_> =
        (0..PROCESSES).map(|_| Proxy::start(ground.server.port()).expect("a proxy")).collect();
    let mut engines: Vec<Engine> = Vec::new();
    for proxy in &proxies {
        engines.push(builder(&proxy.url()).build().await.expect("an engine"));
    }
    let contest = Contest::start(&engines, "k");
    until("enough grants", || contest.grants() >= 400).await;
    let grants = contest.end().await;
    let commands: u64 = proxies.iter().map(scripts_sent).sum();
    println!("{commands} commands for {grants} grants among {PROCESSES} processes");
    assert!(commands <= grants * (PROCESSES as u64 + 2), "{commands} for {grants}");
}

const PROCESSES: usize = 4;
