//! S2: the renewal thread stands still, whatever keeps it. Its leases are lost at their deadlines all the same, and
//! whoever waits for that is told, by another thread; when it goes on, leases are renewed again.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use leasehold::{
    Engine, LossEvent, LossReason, RenewError,
    routing::topology::NodeId,
    transport::{BoxFuture, Call},
};
use leasehold_memory::MemoryTransport;
use leasehold_tests::{
    harness::stall::unless_stalled_for,
    interposed::{Behind, Hand, Interposed},
};

#[test]
fn s2_a_renewal_thread_that_stands_still_loses_its_leases_at_their_deadlines_and_tells() {
    unless_stalled_for(TOLD_BY / 2, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(stand_still_and_go_on());
    });
}

async fn stand_still_and_go_on() {
    let transport: Interposed<_, Gate> = Interposed::new(MemoryTransport::new());
    let gate = transport.hand.clone();
    let engine = Engine::builder(transport).ttl(TTL).build().await.expect("an engine");
    let mut losses = engine.losses();
    let mut held = Vec::new();
    for number in 0..LEASES {
        held.push(engine.lock(format!("{number}")).acquire().await.expect("a free lock"));
    }
    let closed = gate.close();
    let by_hand = tokio::spawn(held[0].renew(TTL));
    for lease in &held {
        let told = tokio::time::timeout(PATIENCE, lease.lost()).await.expect("told");
        assert_eq!(told, LossReason::RenewalStopped);
        assert!(!lease.is_held());
    }
    for _ in 0..LEASES {
        let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("a loss was missed") };
        assert_eq!(loss.reason, LossReason::RenewalStopped);
        let late = loss.at.since(loss.deadline);
        assert!(loss.at >= loss.deadline && late < TOLD_BY, "told {late:?} after the deadline");
    }
    assert_eq!(engine.snapshot().lost, LEASES as u64);
    let told = tokio::time::timeout(PATIENCE, by_hand).await.expect("told while the thread stands still");
    let told = told.expect("no panic");
    assert!(matches!(told, Err(RenewError::Lost(LossReason::RenewalStopped))), "{told:?}");
    drop(closed);
    drop(held);
    let lease = engine.lock("0").acquire().await.expect("free again");
    tokio::time::sleep(2 * TTL).await;
    assert!(lease.is_held(), "renewed again");
    lease.release().await.expect("ours to the end");
    let left = engine.shutdown(TTL).await;
    assert!(left.unconfirmed.is_empty(), "{left:?}");
}

/// Renewals stand before it, with the thread that sends them, while it is closed. Clones are the same.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

/// Opens the gate when it is dropped.
struct Closed(Gate);

impl Gate {
    fn close(&self) -> Closed {
        self.set(true);
        Closed(self.clone())
    }

    fn set(&self, is_closed: bool) {
        *self.0.0.lock().expect("no panic under it") = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.0.0.lock().expect("no panic under it");
        let _open = self.0.1.wait_while(is_closed, |is_closed| *is_closed).expect("no panic under it");
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Hand for Gate {
    fn renew<'a>(&'a self, behind: &'a Behind, node: NodeId, batch: Vec<Call>) -> BoxFuture<'a, Vec<Call>> {
        self.pass();
        behind.lane.call(node, batch)
    }
}

const TTL: Duration = Duration::from_secs(1);
const LEASES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(20);
/// It is looked at every tick once the thread is known to stand still, which takes four; the rest is for this machine.
const TOLD_BY: Duration = Duration::from_millis(250);
