//! How many commands a hold of a composition costs, counted on the wire: one acquire and one release for each member.

use std::time::Duration;

use leasehold::{Engine, MultiLock, Quorum};

use crate::{
    commands::Kind,
    fixture::{Fixture, until},
};

/// The acquires, the releases and all commands with a script or a subscription.
fn sent(fixtures: &[Fixture]) -> [usize; 3] {
    let sum = |count: &dyn Fn(&Fixture) -> usize| fixtures.iter().map(count).sum();
    let counts = |command: &str| command.starts_with("EVAL") || command.ends_with("SUBSCRIBE");
    [
        sum(&|fixture| fixture.seen(Kind::Acquire).len()),
        sum(&|fixture| fixture.seen(Kind::Release).len()),
        sum(&|fixture| fixture.sent(|request| counts(&request.command())).len()),
    ]
}

#[tokio::test]
async fn a_hold_of_a_multi_lock_costs_two_commands_for_each_member() {
    for members in [2, 5] {
        let fixtures = [Fixture::new()];
        let engine = fixtures[0].builder().build().await.expect("an engine");
        let all = MultiLock::of((0..members).map(|member| engine.lock(format!("k{member}"))));
        for holds in 1..=10 {
            let lease = all.acquire().await.expect("a lease");
            lease.release().await.expect("held to the end");
            let each = holds * members;
            assert_eq!(sent(&fixtures), [each, each, 2 * each], "{members} members, {holds} holds");
        }
    }
}

#[tokio::test]
async fn a_hold_of_a_quorum_costs_two_commands_for_each_member() {
    for members in [3, 5] {
        let fixtures: Vec<_> = (0..members).map(|_| Fixture::new()).collect();
        let mut engines: Vec<Engine> = Vec::new();
        for fixture in &fixtures {
            let builder = fixture.builder().restart_grace(Duration::ZERO);
            engines.push(builder.build().await.expect("an engine"));
        }
        let lock = Quorum::over(engines).expect("a quorum").lock("k");
        for holds in 1..=10 {
            let lease = lock.acquire().await.expect("a lease");
            until("every member is held", || lease.tally().held == members).await;
            lease.release().await.expect("held to the end");
            let each = holds * members;
            // The release is confirmed by a majority.
            until("each member is released", || sent(&fixtures)[1] >= each).await;
            assert_eq!(sent(&fixtures), [each, each, 2 * each], "{members} members, {holds} holds");
        }
    }
}
