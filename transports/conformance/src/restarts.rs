//! A server that comes back as another run.

use super::{Context, RestartGround};

/// Its node keeps its number and gets a new epoch, which every answer of the new run carries.
pub async fn a_restarted_node_has_a_new_clock<G: RestartGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let before = context.inspect(&key).await.at.clock;
    let run = || {
        let topology = context.calls.topology().borrow().clone();
        topology.serving(key.slot()).and_then(|node| node.run_id.clone())
    };
    let first_run = run();
    fixture.restart().await;
    context.until(async || context.calls.inspect(&key).await.is_ok_and(|seen| seen.at.clock != before)).await;
    let after = context.inspect(&key).await.at.clock;
    assert!(after.node == before.node && after.epoch > before.epoch, "{before:?}, {after:?}");
    let topology = context.calls.topology().borrow().clone();
    assert!(topology.is_current(after) && !topology.is_current(before), "{:?}", topology.nodes());
    assert!(first_run.is_none() || first_run != run(), "another run has another id: {first_run:?}");
}

/// What was published while the server was away, nobody heard.
pub async fn a_restart_leaves_a_gap_in_every_watch<G: RestartGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut watches = vec![];
    for lane in [&context.calls, &context.others] {
        watches.push(context.watch_over(&**lane, &key).await);
    }
    fixture.restart().await;
    for watch in &mut watches {
        while watch.observe().gaps == 0 || !watch.observe().in_force {
            watch.changed().await;
        }
    }
}
