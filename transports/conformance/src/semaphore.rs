//! Semaphores.

use leasehold::transport::{Counter, CounterOp, Kinds};

use super::{
    Context, Fixture,
    counting::{Client, some, take, together},
};

fn client<'a>(context: &'a Context, name: &str) -> Client<'a> {
    Client::new(context, name, Counter::Semaphore)
}

/// The engine asks for it.
pub async fn a_transport_that_keeps_semaphores_says_so<G: Fixture>(fixture: &G) {
    assert!(fixture.transport().capabilities().kinds.contains(Kinds::SEMAPHORE));
}

/// Callers in their order, and none past the first that does not fit.
pub async fn a_take_serves_the_longest_prefix_that_fits<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for (wants, taken) in [([1, 2, 3], 3), ([3, 3, 1], 3), ([4, 2, 2], 4), ([6, 1, 1], 0), ([2, 2, 1], 5)] {
        let mut client = client(&context, &format!("{wants:?}"));
        client.set(5).await;
        assert_eq!(client.count(take(wants)).await, taken, "{wants:?}");
        assert_eq!(client.shown().await, 5 - taken, "{wants:?}");
    }
}

/// As if it had none.
pub async fn a_semaphore_that_does_not_exist_has_no_permits<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    assert_eq!(client.count(take([1])).await, 0);
    assert_eq!(client.count(CounterOp::Drain).await, 0);
    assert_eq!(client.count(CounterOp::SetIfAbsent(2)).await, 1, "nothing was made");
}

/// Nobody checks that the permits were taken.
pub async fn a_give_makes_the_semaphore<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    assert_eq!(client.count(CounterOp::Give(some(2))).await, 2);
    assert_eq!(client.count(CounterOp::SetIfAbsent(9)).await, 0);
    assert_eq!(client.shown().await, 2);
}

/// The number may become negative; then there is nothing to take or to drain.
pub async fn permits_are_added_and_removed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    assert_eq!(client.count(CounterOp::Add(5)).await, 5);
    assert_eq!(client.count(CounterOp::Add(-7)).await, -2);
    assert_eq!(client.count(take([1])).await, 0);
    assert_eq!(client.count(CounterOp::Drain).await, 0);
    assert_eq!(client.count(CounterOp::Add(4)).await, 2);
    assert_eq!(client.count(take([2])).await, 2);
}

/// And leaves an empty semaphore, not none.
pub async fn a_drain_takes_everything<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    client.set(3).await;
    assert_eq!(client.count(CounterOp::Drain).await, 3);
    assert_eq!((client.shown().await, client.count(CounterOp::SetIfAbsent(9)).await), (0, 0));
}

/// And its copies change nothing.
pub async fn a_void_gives_back_what_was_taken<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for (name, op, taken) in [("take", take([2, 1]), 3), ("drain", CounterOp::Drain, 5)] {
        let mut client = client(&context, name);
        client.set(5).await;
        let call = client.next(op);
        assert_eq!(client.send(&call).await, (taken, 5 - taken));
        let void = client.next(CounterOp::Void { number: call.number });
        for _ in 0..2 {
            assert_eq!(client.send(&void).await, (taken, 5), "{name}");
        }
    }
}

/// Its late copy finds a higher number.
pub async fn a_void_keeps_a_take_from_ever_being_done<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    client.set(5).await;
    let late = client.next(take([2]));
    let void = client.next(CounterOp::Void { number: late.number });
    assert_eq!(client.send(&void).await, (0, 5));
    let reply = client.send_over(&*context.others, &late).await;
    assert!(super::counting::is_not_done(&reply), "{reply:?}");
    assert_eq!(client.shown().await, 5);
}

/// Whether by a give, an add, a set or a void; and nobody is told when nothing became free, or a second time.
pub async fn permits_that_become_free_give_notice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut client = client(&context, "a");
    let mut watch = context.others.watch_counter(&client.key, Counter::Semaphore);
    while !watch.observe().in_force {
        watch.changed().await;
    }
    let before = watch.observe().notices;
    client.set(1).await;
    let call = client.next(CounterOp::Give(some(1)));
    client.send(&call).await;
    client.send(&call).await; // a copy
    client.count(take([2])).await;
    client.count(take([2])).await;
    client.count(CounterOp::Add(-1)).await;
    client.count(CounterOp::Give(some(1))).await; // still none
    client.count(CounterOp::Add(3)).await;
    let taken = client.next(take([3]));
    client.send(&taken).await;
    client.count(CounterOp::Void { number: taken.number }).await;
    while watch.observe().notices < before + 4 {
        watch.changed().await;
    }
    client.count(CounterOp::Give(some(1))).await;
    while watch.observe().notices < before + 5 {
        watch.changed().await;
    }
    assert_eq!(watch.observe().notices, before + 5);
}

/// Many clients take and give at once, and the sum stays.
pub async fn the_sum_of_permits_is_conserved<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut first = client(&context, "a");
    first.set(7).await;
    let mut clients: Vec<_> = (0..6).map(|_| first.other()).collect();
    let works = clients.iter_mut().enumerate().map(|(place, client)| async move {
        for round in 0..20 {
            let wants = 1 + (place as u32 + round) % 3;
            let call = client.next(take([wants, 1]));
            let (taken, left) = client.send(&call).await;
            assert!((0..=7).contains(&left), "{left}");
            assert_eq!(client.send(&call).await.0, taken);
            if let Ok(Some(given)) = u32::try_from(taken).map(std::num::NonZeroU32::new) {
                client.count(CounterOp::Give(given)).await;
            }
        }
    });
    together(works).await;
    assert_eq!(first.shown().await, 7);
}
