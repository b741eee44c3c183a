//! Several lanes and many tasks at once.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use leasehold::{
    FencingToken,
    key::LockKey,
    transport::{Lane, Outcome},
};
use tokio::task::JoinSet;

use super::{Context, Fixture, LONG, granted, held};

/// Two processes on one server.
pub async fn two_lanes_see_each_others_holds<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, one, other) = (context.key("a"), context.owner(), context.owner());
    granted(&context.acquire_over(&*context.calls, &key, one, LONG).await);
    held(&context.acquire_over(&*context.others, &key, other, LONG).await);
    context.release(&key, one).await;
    granted(&context.acquire_over(&*context.others, &key, other, LONG).await);
    held(&context.acquire_over(&*context.calls, &key, one, LONG).await);
}

/// S1 at its plainest.
pub async fn of_many_tasks_exactly_one_is_granted<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for round in 0..10 {
        let key = context.key(&round.to_string());
        let mut tasks = JoinSet::new();
        for task in 0..64 {
            let lane = if task % 2 == 0 { context.calls.clone() } else { context.others.clone() };
            let request = context.acquire_request(&key, context.owner(), LONG);
            tasks
                .spawn(async move { lane.call_one(request).await.into_result().expect("a definite answer") });
        }
        let replies = tasks.join_all().await;
        let grants = replies.iter().filter(|reply| matches!(reply, Outcome::Granted { .. })).count();
        assert_eq!(grants, 1, "{replies:?}");
    }
}

/// S1 and S6: never two inside, and each newcomer has a higher token than all before.
pub async fn holders_follow_each_other_with_rising_tokens<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, section) = (context.key("a"), Section::default());
    let visitors = (0..16).map(|n| {
        let lane = if n % 2 == 0 { &*context.calls } else { &*context.others };
        visit(&context, lane, &key, &section)
    });
    let mut visitors: Vec<_> = visitors.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        visitors.retain_mut(|visitor| visitor.as_mut().poll(cx).is_pending());
        if visitors.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert_eq!(section.tokens.borrow().len(), 16);
    assert!(section.tokens.borrow().is_sorted_by(|one, next| one < next), "{:?}", section.tokens);
}

/// One is not in the other's way, and none is lost.
pub async fn many_locks_are_independent<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut leases = vec![];
    for n in 0..500 {
        let key = context.key(&format!("lock-{n}"));
        let owner = context.held(&key, LONG).await;
        leases.push((key, owner));
    }
    for (key, owner) in leases.iter().step_by(2) {
        context.release(key, *owner).await;
    }
    for (n, (key, owner)) in leases.iter().enumerate() {
        assert_eq!(context.is_held_by(key, *owner).await, n % 2 == 1, "lock {n}");
    }
}

/// Acquires and releases of one lane reach the node in the order of the calls, without waiting for answers.
pub async fn calls_are_executed_in_their_order<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let [one, other] = [context.owner(), context.owner()];
    for _ in 0..20 {
        let first = context.calls.call_one(context.acquire_request(&key, one, LONG));
        let released = context.calls.call_one(context.release_request(&key, one));
        let second = context.calls.call_one(context.acquire_request(&key, other, LONG));
        let (first, released, second) = tokio::join!(first, released, second);
        granted(&first);
        assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
        granted(&second);
        context.release(&key, other).await;
    }
}

#[derive(Default)]
struct Section {
    inside: Cell<bool>,
    tokens: RefCell<Vec<FencingToken>>,
}

async fn visit(context: &Context, lane: &dyn Lane, key: &Arc<LockKey>, section: &Section) {
    let owner = context.owner();
    let token = loop {
        match context.acquire_over(lane, key, owner, LONG).await {
            Outcome::Granted { token, .. } => break token,
            _ => context.sleep(Duration::from_millis(2)).await,
        }
    };
    assert!(!section.inside.replace(true), "two inside");
    section.tokens.borrow_mut().push(token);
    context.sleep(Duration::from_millis(1)).await;
    section.inside.set(false);
    let released = lane.call_one(context.release_request(key, owner)).await;
    assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
}
