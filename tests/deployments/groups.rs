//! Acquires and releases of many exclusive locks in one command (group commit): when a server gets one, and what each
//! member is told when the server, its users' rights or its cluster stand against it.

use std::sync::Arc;

use leasehold::{
    routing::topology::NodeId,
    transport::{Call, Op, Outcome},
};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{
    cluster::RedisCluster, node::Node, raw_client::RawClient, redis_server::RedisServer,
    server_version::ServerVersion,
};

use crate::lanes::{Lanes, call};

/// Makes all calls, those of each node in one call of the lane. The answers are in the order of the calls.
pub(crate) async fn call_together(lanes: &Lanes, calls: Vec<Call>) -> Vec<Call> {
    let topology = lanes.calls.topology().borrow().clone();
    let asked = calls.len();
    let mut of_nodes = std::collections::BTreeMap::<u32, Vec<Call>>::new();
    for (call, ticket) in calls.into_iter().zip(0..) {
        let node = topology.serving(call.key.slot()).expect("a node that serves the key").id;
        of_nodes.entry(node.0).or_default().push(call.with_ticket(ticket));
    }
    let mut answered = Vec::new();
    for (node, calls) in of_nodes {
        answered.extend(lanes.calls.call(NodeId(node), calls).await);
    }
    answered.sort_by_key(|call| call.ticket);
    let tickets: Vec<_> = answered.iter().map(|call| call.ticket).collect();
    assert_eq!(tickets, (0..asked as u64).collect::<Vec<_>>(), "each is answered once");
    answered
}

/// Owners that ask for the locks with these names, each for its own.
pub(crate) fn wishes(lanes: &Lanes, names: &[String]) -> Vec<Call> {
    names.iter().map(|name| lanes.wish(name)).collect()
}

pub(crate) async fn release_together(lanes: &Lanes, held: &[Call]) -> Vec<Call> {
    call_together(lanes, held.iter().map(|hold| call(hold, Op::Release)).collect()).await
}

pub(crate) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

pub(crate) fn assert_granted(calls: &[Call]) {
    for call in calls {
        assert!(matches!(call.outcome, Outcome::Granted { .. }), "{call:?}");
    }
}

pub(crate) fn assert_released(calls: &[Call]) {
    for call in calls {
        assert!(matches!(call.outcome, Outcome::Released { .. }), "{call:?}");
    }
}

/// The lane learns that one server answers for all keys. Nothing is left on the server.
pub(crate) async fn learn(lanes: &Lanes) {
    for round in 0..2 {
        let held = call_together(lanes, wishes(lanes, &names(&format!("learn{round}:"), LEARNT_BY))).await;
        assert_granted(&held);
        assert_released(&release_together(lanes, &held).await);
    }
}

/// How many scripts these servers have executed, as [`scripts_of`].
pub(crate) fn scripts(nodes: &[Arc<Node>]) -> i64 {
    nodes.iter().map(|node| scripts_of(&mut node.client().expect("a connection"))).sum()
}

/// How many scripts a server has executed without those that ask which run of it answers for a key. Each of those calls `INFO`
/// once, and so does the script of this function.
pub(crate) fn scripts_of(client: &mut RawClient) -> i64 {
    let info = client.command(&["EVAL", "return redis.call('INFO', 'commandstats')", "0"]).expect("a reply");
    let info = info.text().unwrap_or_default();
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse::<i64>().ok()).unwrap_or(0)
    };
    of("eval") + of("evalsha") - of("info")
}

/// Before Redis 7 a script cannot ask for rights, so each acquire goes alone.
#[tokio::test]
async fn a_hundred_acquires_cost_a_server_one_script() {
    for version in ServerVersion::ALL {
        let server = RedisServer::builder().version(version).start().expect("a server");
        let lanes = Lanes::open(RedisConfig::single("127.0.0.1", server.port())).await;
        learn(&lanes).await;
        let acquires = if version == ServerVersion::Redis62 { MANY as i64 } else { 1 };
        let mut client = server.client().expect("a connection");
        for prefix in ["a", "b", "c"] {
            let before = scripts_of(&mut client);
            let held = call_together(&lanes, wishes(&lanes, &names(prefix, MANY))).await;
            assert_granted(&held);
            let between = scripts_of(&mut client);
            assert_eq!(between - before, acquires, "{version:?}: acquires");
            assert_released(&release_together(&lanes, &held).await);
            assert_eq!(scripts_of(&mut client) - between, 1, "{version:?}: releases");
        }
    }
}

#[tokio::test]
async fn a_hundred_acquires_cost_each_node_of_a_cluster_one_script() {
    for version in [ServerVersion::Debian, ServerVersion::Redis82, ServerVersion::Valkey91] {
        let builder = RedisCluster::builder().version(version).masters(2).replicas_each(0);
        let cluster = builder.start().expect("a cluster");
        let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
        let masters = cluster.masters().expect("masters");
        learn(&lanes).await;
        learn(&lanes).await;
        let before = scripts(&masters);
        let held = call_together(&lanes, wishes(&lanes, &names("lock", MANY))).await;
        assert_granted(&held);
        let between = scripts(&masters);
        assert_eq!(between - before, 2, "{version:?}: acquires");
        assert_released(&release_together(&lanes, &held).await);
        assert_eq!(scripts(&masters) - between, 2, "{version:?}: releases");
    }
}

/// More keys than a lane asks for before it trusts a server.
const LEARNT_BY: usize = 80;
const MANY: usize = 100;
