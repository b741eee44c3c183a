//! The renewal lane breaks before, inside and after a batch: each lease gets one answer, none is renewed early, none is
//! lost while its deadline is ahead.

use std::collections::HashMap;

use leasehold::{RenewalOutcome, clock::Instant, transport::ErrorKind};
use leasehold_memory::{Fault, Faulty, MemoryTransport, Operation};
use leasehold_tests::conservation::Numbers;

use crate::fixture::{Cluster, Heard, Traffic, What, builder, millis, now, pass, seconds};

const LEASES: usize = 1_000;
const RENEW_AFTER: std::time::Duration = seconds(10);
/// A crowded tick gives renewals to earlier ones, within an eighth of the period.
const SPREAD_MAX: std::time::Duration = millis(1_250);

#[tokio::test(start_paused = true)]
async fn before_a_batch_ran() {
    one_batch_meets(Fault::Reset).await;
    one_batch_meets(Fault::LoseRequest).await;
}

#[tokio::test(start_paused = true)]
async fn inside_a_batch() {
    one_batch_meets(Fault::LoseHalf).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_batch_ran() {
    one_batch_meets(Fault::LoseReply).await;
    one_batch_meets(Fault::DelayReply(seconds(3))).await;
}

async fn one_batch_meets(fault: Fault) {
    let (faulty, heard) = (Faulty::new(MemoryTransport::new()), Heard::default());
    let traffic = Traffic::new(faulty.clone());
    let engine = builder(&traffic).recorder(heard.clone()).build().await.unwrap();
    let mut leases = vec![];
    for number in 0..LEASES {
        leases.push(engine.lock(format!("a{number}")).acquire().await.unwrap());
    }
    let granted = now();
    let rule = faulty.faults().on(Operation::Renew).inject(fault);
    pass(seconds(35)).await;
    assert_eq!(rule.fired(), 1);
    assert!(leases.iter().all(|lease| lease.is_held()), "{fault:?}");
    assert_eq!(engine.snapshot().lost, 0);

    let sent = traffic.of(What::Renewal);
    let answers: u64 = heard.counts().renewals.values().sum();
    assert_eq!(answers, sent.len() as u64, "{fault:?}: one answer each");
    let failed = heard.renewals_failed();
    assert!(failed > 0 && failed <= LEASES as u64, "{fault:?}: {failed} in one batch");
    assert_eq!(sent.len(), 3 * LEASES + failed as usize, "{fault:?}: three periods, and the repeated ones");

    let mut last: HashMap<_, Instant> = HashMap::new();
    let mut early = 0;
    for renewal in &sent {
        let before = last.insert(renewal.owner, renewal.at).unwrap_or(granted);
        early += usize::from(renewal.at - before < RENEW_AFTER - SPREAD_MAX);
    }
    assert_eq!(early, failed as usize, "{fault:?}: only a failed one is repeated before its time");
    drop(leases);
    crate::fixture::settles_within(&engine, millis(2_000)).await;
    assert_eq!(faulty.inner().stored_holds(), 0, "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_fails_again_and_again_loses_no_lease_while_a_deadline_is_ahead() {
    let (faulty, heard) = (Faulty::new(MemoryTransport::new()), Heard::default());
    let engine = builder(&faulty).recorder(heard.clone()).build().await.unwrap();
    let lease = engine.lock("a").acquire().await.unwrap();
    // Of twenty renewals in a row nineteen meet something else each time; the retries come once a second.
    for round in 0..10 {
        let fate = [Fault::Reset, Fault::LoseReply, Fault::LoseRequest][round % 3];
        faulty.faults().on(Operation::Renew).times(8).inject(fate);
        pass(seconds(28)).await;
        assert!(lease.is_held(), "{round} {fate:?}: {:?}", lease.remaining());
    }
    assert!(heard.renewals_failed() >= 80);
    lease.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn renewals_without_a_connected_node_are_counted_before_the_first_loss() {
    let (cluster, heard) = (Cluster::new(1), Heard::default());
    let engine = builder(&cluster).recorder(heard.clone()).metrics().build().await.unwrap();
    let lock = |number: usize| engine.lock(format!("a{number}")).ttl(seconds(6));
    let mut leases = vec![];
    for number in 0..100 {
        leases.push(lock(number).acquire().await.unwrap());
        pass(millis(20)).await;
    }
    cluster.disconnect(0);
    let mut losses = engine.losses();
    losses.next().await;
    let unreachable = RenewalOutcome::Failed(ErrorKind::Unreachable);
    assert_eq!(heard.renewals(unreachable), 100);
    pass(seconds(6)).await;
    let seen = engine.snapshot();
    assert_eq!((seen.lost, seen.renewals_failed, heard.renewals(unreachable)), (100, 100, 100), "each once");
    let counted =
        Numbers::of(&engine).one("leasehold_renewals_total", &["default", "exclusive", "unreachable"]);
    assert_eq!(counted, 100.0);
    drop(leases);
}
