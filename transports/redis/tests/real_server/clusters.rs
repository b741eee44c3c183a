//! A cluster whose nodes refuse something, move slots or stay away.

use std::time::Duration;

use leasehold::{
    Engine,
    clock::Clock,
    routing::slot::{SLOTS, Slot},
    transport::{Lane, LanePurpose, Watch},
};
use leasehold_redis::{Address, NoticeKind, RedisConfig, RedisTransport};

use crate::server::{Server, key, open, until};

/// Masters without replicas that share the slots.
async fn cluster(masters: u16) -> Vec<Server> {
    cluster_with(masters, |_| Vec::new()).await
}

/// The same, each started with more arguments.
async fn cluster_with(masters: u16, more: impl Fn(u16) -> Vec<String>) -> Vec<Server> {
    let args = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "2000",
        "--cluster-require-full-coverage",
        "no",
    ];
    let nodes: Vec<Server> = (0..masters).map(|n| start(&args, more(n))).collect();
    for (n, node) in (0..).zip(&nodes) {
        let (first, end) =
            (u32::from(SLOTS) * n / u32::from(masters), u32::from(SLOTS) * (n + 1) / u32::from(masters));
        node.cli(&["cluster", "addslotsrange", &first.to_string(), &(end - 1).to_string()]);
        node.cli(&["cluster", "set-config-epoch", &(n + 1).to_string()]);
    }
    nodes[1..].iter().for_each(|node| meet(&nodes[0], node));
    for node in &nodes {
        until(async || (knows(node, &nodes) && is_up(node)).then_some(())).await;
    }
    nodes
}

/// Whether the node knows who has which slot. Where not every slot must be covered, a node is well before it knows that.
fn is_up(node: &Server) -> bool {
    let info = node.cli(&["cluster", "info"]);
    info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384")
}

/// Whether the node knows all of them. On a busy machine a handshake may take longer than the node timeout. Redis gives
/// it up then, on one side or on both, and does not begin it again: so the node is told again of those that it lacks.
pub(crate) fn knows(node: &Server, nodes: &[Server]) -> bool {
    let known = node.cli(&["cluster", "nodes"]);
    let is_listed = |other: &Server| known.contains(&other.cli(&["cluster", "myid"]));
    nodes.iter().filter(|other| !is_listed(other)).for_each(|other| meet(node, other));
    connected_in(&known) == nodes.len()
}

fn start(args: &[&str], more: Vec<String>) -> Server {
    Server::start_with(&args.iter().copied().chain(more.iter().map(String::as_str)).collect::<Vec<_>>())
}

fn meet(node: &Server, other: &Server) {
    node.cli(&["cluster", "meet", "127.0.0.1", &other.port.to_string()]);
}

fn connected_in(view: &str) -> usize {
    view.lines().filter(|line| line.contains(" connected") && !line.contains("handshake")).count()
}

fn config(nodes: &[Server]) -> RedisConfig {
    RedisConfig::cluster(nodes.iter().map(|node| Address::new("127.0.0.1", node.port)))
}

/// Names of locks in the slots of the first of two nodes.
fn names_at_the_first() -> impl Iterator<Item = String> {
    (0..).map(|n: u32| format!("n{n}")).filter(|name| slot(name) < SLOTS / 2)
}

fn slot(name: &str) -> u16 {
    Slot::of(name.as_bytes()).number()
}

/// Gives an empty slot to another node.
fn give(nodes: &[Server], slot: u16, to: &Server) {
    let id = to.cli(&["cluster", "myid"]);
    nodes.iter().for_each(|node| drop(node.cli(&["cluster", "setslot", &slot.to_string(), "node", &id])));
}

async fn in_force(lane: &dyn Lane, name: &str) -> Watch {
    let mut watch = lane.watch(&key(name));
    while !watch.observe().in_force {
        watch.changed().await;
    }
    watch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_with_both_kinds_of_notices_a_slot_that_moves_deafens_no_other_channel() {
    let nodes = cluster(2).await;
    let mut config = config(&nodes);
    config.notices = NoticeKind::Both;
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let names: Vec<String> = names_at_the_first().take(2).collect();
    let _moves = in_force(&*lane, &names[0]).await;
    let mut stays = in_force(&*lane, &names[1]).await;
    give(&nodes, slot(&names[0]), &nodes[1]);
    let is_left = || !nodes[0].cli(&["pubsub", "channels"]).contains(&names[0]);
    until(async || is_left().then_some(())).await;
    let state = stays.observe();
    assert!(state.in_force && state.gaps == 0, "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_a_warm_channel_whose_slot_has_moved_deafens_no_other() {
    let nodes = cluster(2).await;
    let mut config = config(&nodes);
    config.notices_warm_ms = 100;
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mut names = names_at_the_first();
    let mut stays = in_force(&*lane, &names.next().unwrap()).await;
    let is_redirected = || nodes[0].cli(&["info", "errorstats"]).contains("errorstat_MOVED");
    // The map may be looked at before the channel expires: then nothing is asked in vain, and the next one is tried.
    while !is_redirected() {
        let name = names.next().unwrap();
        let moves = in_force(&*lane, &name).await;
        give(&nodes, slot(&name), &nodes[1]);
        drop(moves);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let next = names.next().unwrap();
    in_force(&*lane, &next).await;
    let state = stays.observe();
    assert!(state.in_force && state.gaps == 0, "{state:?}");
}

/// Behind NAT: each node announces a port at which clients find nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_at_addresses_other_than_the_announced_ones_are_reached_by_the_map() {
    let nodes = cluster_with(2, |n| vec!["--cluster-announce-port".into(), announced(n).to_string()]).await;
    let address = |port| Address::new("127.0.0.1", port);
    let address_map =
        (0..).zip(&nodes).map(|(n, node)| (address(announced(n)), address(node.port))).collect();
    let without = RedisConfig::cluster([address(nodes[0].port)]);
    let mut with_map = without.clone();
    with_map.address_map = address_map;
    let engine = |config| {
        Engine::builder(RedisTransport::new(config)).unavailable_after(Duration::from_secs(2)).build()
    };
    assert!(engine(without).await.is_err(), "nothing is reached at the announced addresses");
    let engine = engine(with_map).await.unwrap();
    for name in names_at_the_first().take(3) {
        drop(engine.lock(&name).acquire().await.unwrap());
        give(&nodes, slot(&name), &nodes[1]);
        let moved = engine.lock(&name).acquire().await.unwrap();
        assert_eq!(nodes[1].cli(&["hlen", &name]), "1", "behind a redirect");
        moved.release().await.unwrap();
    }
}

fn announced(node: u16) -> u16 {
    1 + node
}

/// A new master whose password is another one: engines that run go on, and others start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_that_refuses_for_good_keeps_no_engine_from_starting() {
    let mut nodes = cluster(3).await;
    let other = Server::start_with(&["--cluster-enabled", "yes", "--requirepass", "x"]);
    nodes.push(other);
    until(async || knows(&nodes[0], &nodes).then_some(())).await;
    let seeds = [&nodes[3], &nodes[0]].map(|node| Address::new("127.0.0.1", node.port));
    for seeds in [&seeds[1..], &seeds[..]] {
        let transport = RedisTransport::new(RedisConfig::cluster(seeds.iter().cloned()));
        let engine = Engine::builder(transport).build().await.unwrap();
        drop(engine.lock("k").acquire().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_a_master_away_is_asked_ever_more_rarely() {
    let mut nodes = cluster(3).await;
    let engine = Engine::builder(RedisTransport::new(config(&nodes))).build().await.unwrap();
    nodes[2].kill();
    passed(Duration::from_secs(8)).await;
    nodes[0].cli(&["config", "resetstat"]);
    passed(Duration::from_secs(8)).await;
    let stats = nodes[0].cli(&["info", "commandstats"]);
    let line =
        stats.lines().find_map(|line| line.strip_prefix("cmdstat_cluster|nodes:calls=")).unwrap_or("0,");
    let asked: u32 = line.split(',').next().unwrap().parse().unwrap();
    assert!(asked <= 10, "asked {asked} times in 8 s");
    drop(engine);
}

async fn passed(time: Duration) {
    let begun = Clock::Boot.now();
    until(async || (Clock::Boot.now() - begun >= time).then_some(())).await;
}
