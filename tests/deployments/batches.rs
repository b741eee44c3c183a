//! How many commands renewals take on a cluster, whatever a node lacked as it was connected to.

use leasehold::transport::{Call, LanePurpose};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{cluster::RedisCluster, node::Node};

use crate::lanes::{Lanes, open};

/// A node that lacks replicas refuses scripts that may write: that says nothing of what it can do.
#[tokio::test]
async fn a_node_without_enough_replicas_still_renews_across_slots() {
    let cluster = RedisCluster::builder().masters(2).replicas_each(0).start().expect("a cluster");
    let config = RedisConfig::from_url(&cluster.url()).expect("a url");
    let mut lanes = Lanes::open(config.clone()).await;
    let mut holds = Vec::new();
    for n in 0..100 {
        holds.push(lanes.held(&format!("lock{n}")).await);
    }
    let masters = cluster.masters().expect("masters");
    for wanted in ["1", "0"] {
        for master in &masters {
            let reply = master.command(&["CONFIG", "SET", "min-replicas-to-write", wanted]);
            assert!(reply.expect("a reply").is_ok());
        }
        if wanted == "1" {
            let transport = RedisTransport::new(config.clone());
            lanes.renewals = open(&transport, LanePurpose::Renewals).await.expect("a lane");
        }
    }
    let topology = lanes.renewals.topology().borrow().clone();
    let of_one: Vec<&Call> = {
        let node = topology.serving(holds[0].key.slot()).expect("a node").id;
        let is_its = |hold: &&Call| topology.serving(hold.key.slot()).is_some_and(|of| of.id == node);
        holds.iter().filter(is_its).collect()
    };
    assert!(of_one.len() > 20, "{} of 100 are of one of two nodes", of_one.len());
    let before = scripts(&masters);
    assert!(lanes.is_renewed(&of_one).await);
    assert_eq!(scripts(&masters) - before, 1);
}

/// What all have executed.
fn scripts(masters: &[std::sync::Arc<Node>]) -> u64 {
    let count = |master: &Node, name: &str| {
        let calls = master.info("commandstats", &format!("cmdstat_{name}")).expect("a reply");
        calls.map_or(0, |text| {
            let count = text.split(['=', ',']).nth(1).and_then(|count| count.parse().ok());
            count.unwrap_or(0)
        })
    };
    masters.iter().map(|master| count(master, "eval") + count(master, "evalsha")).sum()
}
