//! The asks of fair locks after an outage or a failover are paced, as those of all locks.

use leasehold::{Engine, Lease};
use leasehold_memory::{Cut, Restart};

use crate::fixture::{Fixture, breathe, ground_with, millis, pass, seconds};

const KEYS: usize = 100;
const CALLERS: usize = 50;
/// 5,000 a second for each node.
const ASKS_IN_10_MS: u64 = 50;

async fn fixture() -> Fixture {
    ground_with(|builder| builder.unavailable_after(seconds(3_600))).await
}

/// Many callers of many names. None of them releases what it is granted.
fn callers(engine: &Engine) -> Vec<tokio::task::JoinHandle<Lease>> {
    let names = (0..KEYS * CALLERS).map(|number| format!("{}", number % KEYS));
    let acquire = |name| engine.fair_lock(name).acquire();
    names.map(acquire).map(|acquire| tokio::spawn(async { acquire.await.expect("granted") })).collect()
}

/// The most asks that went out in any 10 ms of the next two seconds, and the number of all of them.
async fn asked(engine: &Engine) -> (u64, u64) {
    let first = engine.snapshot().asks;
    let (mut before, mut most) = (first, 0);
    for _ in 0..200 {
        pass(millis(10)).await;
        let asks = engine.snapshot().asks;
        most = most.max(asks - before);
        before = asks;
    }
    (most, before - first)
}

fn assert_paced((most, all): (u64, u64)) {
    assert!(all >= (KEYS * (CALLERS - 1)) as u64, "{all} asks: each place is asked for");
    assert!(most <= 2 * ASKS_IN_10_MS, "{most} asks in 10 ms");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_places_that_could_not_join_are_asked_for_in_turns() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::Refused);
    let waiting = callers(&fixture.engine);
    pass(seconds(10)).await;
    fixture.faults.heal();
    assert_paced(asked(&fixture.engine).await);
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn after_a_failover_that_lost_the_lines_the_places_are_asked_for_in_turns() {
    let fixture = fixture().await;
    let waiting = callers(&fixture.engine);
    pass(seconds(5)).await;
    fixture.transport.inner().restart(Restart::DataLost);
    assert_paced(asked(&fixture.engine).await);
    waiting.iter().for_each(|task| task.abort());
}

/// A notice is followed at once although many places wait for their turn to ask.
#[tokio::test(start_paused = true)]
async fn a_notice_is_followed_at_once_while_places_wait_to_be_asked_for() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let held = other.fair_lock("wanted").acquire().await.expect("free");
    let wanted = tokio::spawn(fixture.engine.fair_lock("wanted").acquire());
    breathe().await;
    fixture.faults.cut(Cut::Refused);
    let waiting = callers(&fixture.engine);
    pass(seconds(2)).await;
    fixture.faults.heal();
    breathe().await;
    breathe().await;
    held.release().await.expect("held to the end");
    pass(millis(10)).await;
    assert!(wanted.is_finished(), "{:?}", fixture.engine.snapshot());
    waiting.iter().for_each(|task| task.abort());
}
