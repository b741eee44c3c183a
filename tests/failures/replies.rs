//! The reply to each operation lost, late, and repeated, each once.

use std::time::Duration;

use leasehold::{Engine, Lease, ReleaseError};
use leasehold_tests::harness::proxy::{Fault, Rule};
use tokio::task::JoinSet;

use crate::{
    commands::Kind,
    fixture::{Fixture, SECOND, until},
};

const TIMEOUT: Duration = Duration::from_millis(200);

/// Lost with the connection; late by 1, 2 and 5 command timeouts, with all that follows; executed twice.
const FAULTS: [Fault; 5] = [
    Fault::CutAfter,
    Fault::DelayReply(TIMEOUT),
    Fault::DelayReply(Duration::from_millis(400)),
    Fault::DelayReply(Duration::from_millis(1_000)),
    Fault::RepeatRequest,
];

/// Each fault on a ground of its own, all at once.
async fn under_each<F: Future<Output = ()> + Send + 'static>(
    faults: impl IntoIterator<Item = Fault>,
    test: impl Fn(Fault) -> F,
) {
    let mut tests = JoinSet::new();
    for fault in faults {
        println!("under {fault:?}");
        tests.spawn(test(fault));
    }
    while let Some(test) = tests.join_next().await {
        test.expect("no panic");
    }
}

async fn engine(fixture: &Fixture) -> Engine {
    fixture.builder().command_timeout(TIMEOUT).build().await.expect("an engine")
}

/// The answer may be missing; that the lease was lost may not be said.
async fn release(lease: Lease) {
    match lease.release().await {
        Ok(()) | Err(ReleaseError::Unknown { .. } | ReleaseError::ReleasedOrLost) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Long before a ttl of 30 s ends it.
async fn nothing_is_left(fixture: &Fixture, engine: &Engine) {
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    until("no key is left", || fixture.is_empty()).await;
    assert_eq!(engine.snapshot().lost, 0);
}

async fn acquire_under(fault: Fault) {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let rule = fixture.proxy.rule(Rule::once(Kind::Acquire.matching(), fault));
    let lease = engine.lock("k").acquire().await.expect("a lease");
    rule.wait_fired(1).await;
    assert!(lease.is_held() && fixture.is_held_once("k"), "{fault:?}");
    release(lease).await;
    nothing_is_left(&fixture, &engine).await;
}

async fn release_under(fault: Fault) {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let rule = fixture.proxy.rule(Rule::once(Kind::Release.matching(), fault));
    let lease = engine.lock("k").acquire().await.expect("a lease");
    let token = lease.fencing_token();
    let stranger = fixture.stranger().await;
    let waiting = tokio::spawn(stranger.lock("k").acquire());
    until("the stranger waits", || stranger.snapshot().asks >= 1).await;
    release(lease).await;
    let next = tokio::time::timeout(5 * SECOND, waiting).await.expect("in time");
    let next = next.expect("no panic").expect("a lease");
    rule.wait_fired(1).await;
    assert!(next.fencing_token() > token);
    // The release that is repeated does not touch the next owner's hold.
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    assert!(next.is_held() && fixture.is_held_once("k"), "{fault:?}");
    next.release().await.expect("ours to the end");
    nothing_is_left(&fixture, &engine).await;
}

async fn renewal_under(fault: Fault) {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let rule = fixture.proxy.rule(Rule::once(Kind::Renewal.matching(), fault));
    let lease = engine.lock("k").ttl(3 * SECOND).acquire().await.expect("a lease");
    rule.wait_fired(1).await;
    let renewals = engine.snapshot().renewals;
    until("two more renewals", || {
        assert!(lease.is_held(), "{fault:?}");
        engine.snapshot().renewals >= renewals + 2
    })
    .await;
    assert!(fixture.is_held_once("k"), "{fault:?}");
    lease.release().await.expect("ours to the end");
    nothing_is_left(&fixture, &engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_an_acquire_whose_reply_is_lost_late_or_repeated_holds_once() {
    under_each(FAULTS.into_iter().chain([Fault::RepeatReply]), acquire_under).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_release_whose_reply_is_lost_late_or_repeated_frees_for_the_next_and_spares_it() {
    under_each(FAULTS.into_iter().chain([Fault::RepeatReply]), release_under).await;
}

// A repeated reply to a renewal is left out: it would answer the next renewal of the same shape, which TCP cannot do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_a_renewal_whose_reply_is_lost_late_or_repeated_costs_no_lease() {
    under_each(FAULTS, renewal_under).await;
}
