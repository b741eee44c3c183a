//! Holders that die or stand still, and who comes after them.

use std::time::{Duration, Instant};

use leasehold::{Engine, Lease};
use leasehold_tests::harness::{deployment::Topology, proxy::SeenRequest};
use tokio::task::JoinHandle;

use crate::{
    commands::{Kind, owner_of_acquire},
    fixture::{Fixture, until},
    holder_process::HolderProcess,
};

const TTL: Duration = Duration::from_millis(1_500);

leasehold_tests::on_every_topology!(
    l1_a_killed_holders_lock_is_granted_at_its_ttl_for_two_commands_a_process,
    s1_a_holder_that_stood_still_beyond_its_deadline_holds_nothing_when_it_goes_on,
);

/// A waiting process, as it were.
struct Waiter {
    /// What its owners begin with.
    client: String,
    granted: JoinHandle<(Lease, Instant)>,
    _engine: Engine,
}

impl Waiter {
    /// Returns when it listens and knows how long the lock is held.
    async fn start(fixture: &Fixture) -> Self {
        let engine = fixture.builder().build().await.expect("an engine");
        let (asked, listeners) = (fixture.seen(Kind::Acquire).len(), fixture.listeners());
        let acquire = engine.lock("k").acquire();
        let granted = tokio::spawn(async move { (acquire.await.expect("a lease"), Instant::now()) });
        let client = || fixture.seen(Kind::Acquire).get(asked).map(client_of);
        until("it has asked", || client().is_some()).await;
        let client = client().expect("a client");
        until("it listens and has asked again", || {
            fixture.listeners() > listeners && asks_of(fixture, &client).len() >= 2
        })
        .await;
        Self { client, granted, _engine: engine }
    }
}

/// The asks of one process.
fn asks_of(fixture: &Fixture, client: &str) -> Vec<SeenRequest> {
    let mut asks = fixture.seen(Kind::Acquire);
    asks.retain(|ask| client_of(ask) == client);
    asks
}

fn client_of(ask: &SeenRequest) -> String {
    let owner = owner_of_acquire(ask);
    owner.split_once(':').expect("an owner").0.to_owned()
}

/// When the lock runs out, at the earliest; asked until it is near, since a last renewal may have been on its way.
async fn expiry(fixture: &Fixture) -> Instant {
    loop {
        let asked = Instant::now();
        let left_ms = u64::try_from(fixture.pttl_ms("k")).expect("held");
        if left_ms < 400 {
            return asked + Duration::from_millis(left_ms);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn l1_a_killed_holders_lock_is_granted_at_its_ttl_for_two_commands_a_process(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let mut holder = HolderProcess::start(&fixture.servers.url(), "k", TTL);
    let (one, other) = (Waiter::start(&fixture).await, Waiter::start(&fixture).await);
    holder.process.kill().expect("killed");
    let expiry = expiry(&fixture).await;
    let clients = [one.client, other.client];
    let (mut first, mut second) = (one.granted, other.granted);
    let ((lease, granted), last) = tokio::select! {
        first = &mut first => (first.expect("no panic"), second),
        second = &mut second => (second.expect("no panic"), first),
    };
    let between = |client: &String| {
        let asks = asks_of(&fixture, client);
        asks.iter().filter(|ask| ask.at >= expiry && ask.at <= granted).count()
    };
    let asks = clients.each_ref().map(between);
    let took = granted - expiry;
    println!("granted {took:?} after the expiry; commands between of each process: {asks:?}");
    assert!(asks.iter().all(|asks| *asks <= 2), "{asks:?}");
    assert!(took <= TTL / 3, "{took:?}");
    assert!(lease.fencing_token().as_i64() > holder.token());
    assert!(!last.is_finished());
    lease.release().await.expect("released");
    last.await.expect("no panic").0.release().await.expect("released");
}

async fn s1_a_holder_that_stood_still_beyond_its_deadline_holds_nothing_when_it_goes_on(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let mut holder = HolderProcess::start(&fixture.servers.url(), "k", TTL);
    let waiter = Waiter::start(&fixture).await;
    holder.process.stop().expect("stopped");
    let expiry = expiry(&fixture).await;
    let (lease, granted) = waiter.granted.await.expect("no panic");
    assert!(granted >= expiry && granted - expiry <= TTL / 3, "{:?}", granted - expiry);
    assert!(lease.fencing_token().as_i64() > holder.token());
    holder.process.cont().expect("continued");
    let (still, is_held) = holder.after_standing_still();
    assert!(still > TTL / 2 && !is_held, "{still:?} {is_held}");
    // What it does when it goes on changes nothing for the next owner.
    assert!(lease.is_held() && fixture.is_held_once("k"));
    lease.release().await.expect("released");
}
