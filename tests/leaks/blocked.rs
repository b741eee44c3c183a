//! L4: the user's runtime stands still for four ttls, from before the first reply on, and no lease is lost.

use std::{pin::pin, thread, time::Duration};

use leasehold::LeaseState;
use leasehold_memory::{Fault, Operation};

use crate::fixture::{Fixture, Stage, on_every_ground};

on_every_ground!(l4_a_blocked_runtime_loses_no_lease);

fn l4_a_blocked_runtime_loses_no_lease<G: Fixture>() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::<G>::new().await;
        let mut held = vec![];
        for number in 0..20 {
            held.push(stage.engine.lock(format!("{number}")).ttl(TTL).acquire().await.unwrap());
        }
        stage.faults.on(Operation::Acquire).inject(Fault::DelayReply(TTL / 8));
        let mut unanswered = pin!(stage.engine.lock("unanswered").ttl(TTL).acquire());
        tokio::select! {
            biased;
            early = &mut unanswered => panic!("answered before it was blocked: {early:?}"),
            () = std::future::ready(()) => {}
        }
        thread::sleep(BLOCKED);
        let last = unanswered.await.unwrap();
        let renewed = stage.engine.snapshot().renewals;
        assert!(held.iter().chain([&last]).all(|lease| lease.state() == LeaseState::Held));
        assert_eq!(stage.engine.snapshot().lost, 0);
        assert!(
            renewed >= 21 * 10,
            "each in every third of four ttls, less two for a slow machine: {renewed}"
        );
        for lease in held.into_iter().chain([last]) {
            lease.release().await.expect("ours to the end");
        }
        stage.settles();
    });
}

const TTL: Duration = Duration::from_secs(5);
const BLOCKED: Duration = Duration::from_secs(20);
