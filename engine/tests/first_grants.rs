//! The first moments of an engine.

use std::time::Duration;

use leasehold::Engine;
use leasehold_memory::MemoryTransport;

// Their grants come from the server that the renewal driver is about to see for the first time: that is no change.
#[tokio::test(start_paused = true)]
async fn s12_leases_granted_before_the_first_look_at_the_topology_are_not_in_doubt() {
    let engine = Engine::builder(MemoryTransport::new()).on_current_runtime().build().await.expect("built");
    let mut leases = Vec::new();
    for number in 0..100 {
        leases.push(engine.lock(format!("lease {number}")).acquire().await.expect("granted"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = engine.snapshot();
    assert_eq!((seen.held, seen.jeopardies, seen.renewals), (100, 0, 0));
}
