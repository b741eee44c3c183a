//! What a lane says about its nodes, and a transport about itself.

use std::time::Duration;

use super::{Context, Fixture};

/// A key without a node could never be asked for.
pub async fn the_slots_of_our_keys_are_served<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let topology = context.calls.topology().borrow().clone();
    for n in 0..1000 {
        let node = topology.serving(context.key(&n.to_string()).slot()).expect("a node that serves the key");
        assert!(node.connected && node.batch_leases_max > 0 && !node.address.is_empty(), "{node:?}");
        assert_eq!(node.clock.node, node.id);
    }
}

/// The engine groups renewals by what the renewals lane says, and compares clocks of both lanes.
pub async fn lanes_of_both_purposes_agree_on_the_nodes<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (calls, renewals) = (context.calls.topology(), context.renewals.topology());
    for n in 0..1000 {
        let slot = context.key(&n.to_string()).slot();
        let of = |topology: &leasehold::routing::topology::Topology| {
            topology.serving(slot).map(|node| (node.address.clone(), node.clock, node.run_id.clone()))
        };
        assert_eq!(of(&calls.borrow()), of(&renewals.borrow()));
    }
}

/// A name for the metrics, and a longest ttl that is worth having.
pub async fn the_capabilities_can_be_used<G: Fixture>(fixture: &G) {
    let capabilities = fixture.transport().capabilities();
    let fit_for_a_label = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(!capabilities.name.is_empty() && fit_for_a_label(capabilities.name), "{capabilities:?}");
    assert!(capabilities.ttl_max >= Duration::from_secs(24 * 3600), "{capabilities:?}");
    let context = Context::open(fixture).await;
    let topology = context.calls.topology().borrow().clone();
    let uptimes = topology.nodes().iter().all(|node| node.up_since.is_some());
    assert!(uptimes || !capabilities.uptime, "{:?}", topology.nodes());
}
