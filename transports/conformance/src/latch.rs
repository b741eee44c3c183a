//! Latches.

use leasehold::transport::{Counter, CounterOp, Kinds};

use super::{
    Context, Fixture,
    counting::{Client, some, together},
};

fn client<'a>(context: &'a Context, name: &str) -> Client<'a> {
    Client::new(context, name, Counter::Latch)
}

fn down(steps: u32) -> CounterOp {
    CounterOp::CountDown(some(steps))
}

/// The engine asks for it.
pub async fn a_transport_that_keeps_latches_says_so<G: Fixture>(fixture: &G) {
    assert!(fixture.transport().capabilities().kinds.contains(Kinds::LATCH));
}

/// And not a step earlier.
pub async fn a_latch_opens_exactly_at_zero<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    client.set(3).await;
    for left in [2, 1, 0] {
        let call = client.next(down(1));
        assert_eq!(client.send(&call).await, (1, left));
        assert_eq!(client.shown().await, left);
    }
    client.set(1).await; // it is gone, so it can be set again
}

/// At most what is left is counted, and an open latch counts nothing.
pub async fn a_latch_counts_no_more_than_is_left<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    assert_eq!(client.count(down(1)).await, 0, "never set");
    client.set(3).await;
    assert_eq!(client.count(down(5)).await, 3);
    assert_eq!(client.count(down(1)).await, 0);
    client.set(2).await;
    assert_eq!(client.shown().await, 2);
}

/// Once, however often it is deleted.
pub async fn a_deleted_latch_is_open<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    client.set(3).await;
    assert_eq!(client.count(CounterOp::Delete).await, 1);
    assert_eq!(client.count(CounterOp::Delete).await, 0);
    assert_eq!(client.shown().await, 0);
    client.set(1).await;
}

/// The set, the last step and the deletion, each once; steps in between are silent.
pub async fn a_latch_tells_its_changes_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    let mut watch = context.others.watch_counter(&client.key, Counter::Latch);
    while !watch.observe().in_force {
        watch.changed().await;
    }
    let before = watch.observe().notices;
    client.set(3).await;
    client.count(down(1)).await;
    let last = client.next(down(2));
    client.send(&last).await;
    client.send(&last).await; // a copy
    client.count(down(1)).await; // already open
    client.count(CounterOp::Delete).await; // already gone
    client.set(1).await;
    client.count(CounterOp::Delete).await;
    while watch.observe().notices < before + 4 {
        watch.changed().await;
    }
    client.set(1).await;
    while watch.observe().notices < before + 5 {
        watch.changed().await;
    }
    assert_eq!(watch.observe().notices, before + 5);
}

/// Many clients count down at once, and exactly one of them makes the last step.
pub async fn exactly_one_step_is_the_last<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut first = client(&context, "a");
    first.set(20).await;
    let mut clients: Vec<_> = (0..5).map(|_| first.other()).collect();
    let works = clients.iter_mut().map(|client| async move {
        let mut last = 0;
        for _ in 0..4 {
            let call = client.next(down(1));
            let (counted, left) = client.send(&call).await;
            assert_eq!(counted, 1);
            last += u32::from(left == 0);
        }
        last
    });
    let last: u32 = together(works).await.into_iter().sum();
    assert_eq!((last, first.shown().await), (1, 0));
}
