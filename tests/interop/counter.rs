//! Java's threads and our tasks add to one number under one lock, by reading, adding and writing: whoever is let in
//! beside another loses an update.

use std::time::Duration;

use leasehold::Engine;
use leasehold_tests::harness::raw_client::RawClient;
use tokio::task::JoinSet;

use crate::ground::{Ground, NAME};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_8_java_threads_and_8_tasks_of_ours_add_2000_each_and_no_update_is_lost() {
    let mut ground = Ground::new(Duration::from_secs(30)).await;
    let add = |thread| format!("increment t{thread} {NAME} {COUNTER} {ROUNDS}");
    let given: Vec<_> = (0..HANDS).map(|thread| ground.java.give(&add(thread))).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..HANDS {
        tasks.spawn(increment(ground.engine.clone(), ground.server.client().expect("a connection")));
    }
    let between: u64 = tasks.join_all().await.into_iter().sum();
    for given in given {
        let done = ground.java.answer(given, DONE_BY).expect("Java's increments");
        assert!(done.starts_with(&format!("{ROUNDS} ")), "{done}");
    }
    let total = ground.raw.command(&["GET", COUNTER]).expect("a reply").text();
    assert_eq!(total, Some((2 * HANDS * ROUNDS).to_string()));
    println!("in {between} of our {} rounds somebody else had been there since our last", HANDS * ROUNDS);
    assert!(between >= 200, "they did not contend: {between}");
    assert_eq!((ground.pttl(), ground.engine.snapshot().lost), (-2, 0));
}

/// One task's rounds; returns in how many it found another number than it had written.
async fn increment(engine: Engine, mut client: RawClient) -> u64 {
    let (mut written, mut others) = (0, 0);
    for _ in 0..ROUNDS {
        let lease = engine.lock(NAME).acquire().await.expect("our turn");
        let read = client.command(&["GET", COUNTER]).expect("a reply").text();
        let number: u64 = read.map_or(0, |text| text.parse().expect("a number"));
        others += u64::from(number != written);
        written = number + 1;
        client.command(&["SET", COUNTER, &written.to_string()]).expect("a reply");
        lease.release().await.expect("ours to the end");
    }
    others
}

const COUNTER: &str = "stock";
const HANDS: u64 = 8;
const ROUNDS: u64 = 250;
const DONE_BY: Duration = Duration::from_secs(60);
