//! Releases that a waiting caller is not told of: it finds out by itself.

use std::time::Instant;

use leasehold::{AcquireError, Lease};
use leasehold_tests::harness::{deployment::Topology, proxy::Direction};
use tokio::task::JoinHandle;

use crate::{
    commands::Kind,
    fixture::{Fixture, SECOND, until},
};

leasehold_tests::on_every_topology!(
    l2_a_notice_leads_to_one_ask,
    l2_a_release_without_a_message_is_found_by_the_safety_poll,
    l2_a_release_while_the_subscriber_is_dead_is_found_after_its_return,
    l2_a_message_lost_behind_a_broken_route_is_made_up_for_when_it_heals,
);

/// A caller that waits, subscribed, for a lock that a peer holds for a long time.
async fn waiting(fixture: &Fixture) -> JoinHandle<Result<Lease, AcquireError>> {
    fixture.command(&["HSET", "k", PEER, "1"]);
    fixture.command(&["PEXPIRE", "k", "60000"]);
    let engine = fixture.builder().build().await.expect("an engine");
    let waiting = tokio::spawn(engine.lock("k").acquire());
    until("it listens and has asked again", || {
        fixture.listeners() == 1 && Kind::Acquire.seen(&fixture.proxy).len() >= 2
    })
    .await;
    fixture.proxy.clear();
    waiting
}

/// A release as Redisson's; returns how many heard it.
fn release(fixture: &Fixture) -> i64 {
    assert_eq!(fixture.command(&["DEL", "k"]).integer(), Some(1));
    fixture.command(&fixture.notice()).integer().expect("a number")
}

/// Well before the peer's ttl; the goal is about a second.
async fn is_granted(fixture: &Fixture, waiting: JoinHandle<Result<Lease, AcquireError>>, released: Instant) {
    let granted = tokio::time::timeout(3 * SECOND, waiting).await.expect("granted in time");
    let (took, asks) = (released.elapsed(), Kind::Acquire.seen(&fixture.proxy).len());
    println!("granted {took:?} after the release, by {asks} asks");
    let lease = granted.expect("no panic").expect("a lease");
    lease.release().await.expect("released");
}

async fn l2_a_notice_leads_to_one_ask(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let waiting = waiting(&fixture).await;
    let released = Instant::now();
    assert_eq!(release(&fixture), 1);
    is_granted(&fixture, waiting, released).await;
    // A safety poll may have been on its way.
    assert!(Kind::Acquire.seen(&fixture.proxy).len() <= 2);
}

async fn l2_a_release_without_a_message_is_found_by_the_safety_poll(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let waiting = waiting(&fixture).await;
    let released = Instant::now();
    assert_eq!(fixture.command(&["DEL", "k"]).integer(), Some(1));
    is_granted(&fixture, waiting, released).await;
}

async fn l2_a_release_while_the_subscriber_is_dead_is_found_after_its_return(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let waiting = waiting(&fixture).await;
    let released = Instant::now();
    let mut raw = fixture.raw();
    // In one go: the message is published before anybody can be back.
    let release = [vec!["CLIENT", "KILL", "TYPE", "pubsub"], vec!["DEL", "k"], fixture.notice().to_vec()];
    let replies = raw.pipeline(&release).expect("replies");
    let [killed, deleted, heard] = replies.iter().map(|reply| reply.integer()).collect::<Vec<_>>()[..] else {
        panic!("{replies:?}")
    };
    // Sentinels listen, too.
    assert!(killed >= Some(1) && (deleted, heard) == (Some(1), Some(0)), "{replies:?}");
    is_granted(&fixture, waiting, released).await;
}

/// Nothing arrives any more, and nothing tells so: the message is lost behind a broken route.
async fn l2_a_message_lost_behind_a_broken_route_is_made_up_for_when_it_heals(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let waiting = waiting(&fixture).await;
    fixture.proxy.block(Direction::ToClient, true);
    assert_eq!(release(&fixture), 1);
    tokio::time::sleep(2 * SECOND).await;
    assert!(!waiting.is_finished());
    // What was under way is lost with its connections.
    fixture.proxy.cut_all();
    fixture.proxy.block(Direction::ToClient, false);
    is_granted(&fixture, waiting, Instant::now()).await;
}

const PEER: &str = "5f1c7a3e-6a4b-4a50-9f29-0d6a3c1e9b77:63";
