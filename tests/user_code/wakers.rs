//! A waker that blocks the renewal thread.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use leasehold::{Engine, Lease};
use leasehold_memory::MemoryTransport;
use leasehold_tests::harness::stall::unless_stalled_for;

use crate::recorders::{Gate, block_on};

struct Blocks(Gate);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.0.pass();
    }
}

#[test]
fn a_waker_that_blocks_keeps_no_loss_from_being_told() {
    unless_stalled_for(Duration::from_millis(500), || block_on(blocked()));
}

// Nearly all are lost in the tick of the first one, behind it.
async fn blocked() {
    let engine = Engine::builder(MemoryTransport::new()).ttl(Duration::from_secs(1)).build().await.unwrap();
    let names = (0..500).map(|number| number.to_string());
    let asked = engine.acquire_all(names).no_renewal().await;
    let leases: Vec<Lease> = asked.into_iter().collect::<Result<_, _>>().unwrap();
    let gate = Gate::default();
    let (waker, mut first) = (Waker::from(Arc::new(Blocks(gate.clone()))), pin!(leases[0].lost()));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let waiters: Vec<_> = leases[1..].iter().map(|lease| tokio::spawn(lease.lost())).collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let untold = waiters.iter().filter(|waiter| !waiter.is_finished()).count();
    gate.open();
    assert_eq!(untold, 0, "2 s behind their deadlines");
}
