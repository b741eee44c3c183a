//! What a lane says about its nodes, and a transport about itself.

use std::time::Duration;

use super::{Field, Ground};

/// A key without a node could never be asked for.
pub async fn the_slots_of_our_keys_are_served<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let topology = field.calls.topology().borrow().clone();
    for n in 0..1000 {
        let node = topology.serving(field.key(&n.to_string()).slot()).expect("a node that serves the key");
        assert!(node.connected && node.batch_leases_max > 0 && !node.address.is_empty(), "{node:?}");
        assert_eq!(node.clock.node, node.id);
    }
}

/// The engine groups renewals by what the renewals lane says, and compares clocks of both lanes.
pub async fn lanes_of_both_purposes_agree_on_the_nodes<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (calls, renewals) = (field.calls.topology(), field.renewals.topology());
    for n in 0..1000 {
        let slot = field.key(&n.to_string()).slot();
        let of = |topology: &leasehold::routing::topology::Topology| {
            topology.serving(slot).map(|node| (node.address.clone(), node.clock))
        };
        assert_eq!(of(&calls.borrow()), of(&renewals.borrow()));
    }
}

/// A name for the metrics, and a longest ttl that is worth having.
pub async fn the_capabilities_can_be_used<G: Ground>(ground: &G) {
    let capabilities = ground.transport().capabilities();
    let fit_for_a_label = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(!capabilities.name.is_empty() && fit_for_a_label(capabilities.name), "{capabilities:?}");
    assert!(capabilities.ttl_max >= Duration::from_secs(24 * 3600), "{capabilities:?}");
    let field = Field::open(ground).await;
    let topology = field.calls.topology().borrow().clone();
    let uptimes = topology.nodes().iter().all(|node| node.up_since.is_some());
    assert!(uptimes || !capabilities.uptime, "{:?}", topology.nodes());
}
