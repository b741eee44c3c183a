//! A server that comes back as another run.

use super::{Field, RestartGround};

/// Its node keeps its number and gets a new epoch, which every answer of the new run carries.
pub async fn a_restarted_node_has_a_new_clock<G: RestartGround>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let before = field.inspect(&key).await.at.clock;
    ground.restart().await;
    field.until(async || field.calls.inspect(&key).await.is_ok_and(|seen| seen.at.clock != before)).await;
    let after = field.inspect(&key).await.at.clock;
    assert!(after.node == before.node && after.epoch > before.epoch, "{before:?}, {after:?}");
    let topology = field.calls.topology().borrow().clone();
    assert!(topology.is_current(after) && !topology.is_current(before), "{:?}", topology.nodes());
}

/// What was published while the server was away, nobody heard.
pub async fn a_restart_leaves_a_gap_in_every_watch<G: RestartGround>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let mut watches = vec![];
    for lane in [&field.calls, &field.others] {
        watches.push(field.watch_over(&**lane, &key).await);
    }
    ground.restart().await;
    for watch in &mut watches {
        while watch.observe().gaps == 0 || !watch.observe().in_force {
            watch.changed().await;
        }
    }
}
