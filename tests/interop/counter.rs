//! Java's threads and our tasks add to one number under one lock, by reading, adding and writing: whoever is let in
//! beside another loses an update.

use std::time::Duration;

use leasehold::Engine;
use leasehold_tests::harness::{deployment::Topology, length, raw_client::RawClient};
use tokio::task::JoinSet;

use crate::fixture::Fixture;

leasehold_tests::on_every_topology!(
    s1_8_java_threads_and_8_tasks_of_ours_add_to_a_number_and_no_update_is_lost
);

async fn s1_8_java_threads_and_8_tasks_of_ours_add_to_a_number_and_no_update_is_lost(topology: Topology) {
    let rounds = if topology == Topology::Single || length::is_long() { 250 } else { 50 };
    let mut fixture = Fixture::new(topology, Duration::from_secs(30)).await;
    let (name, counter) = (fixture.name.clone(), fixture.counter());
    let add = |thread| format!("increment t{thread} {name} {counter} {rounds}");
    let given: Vec<_> = (0..HANDS).map(|thread| fixture.java.give(&add(thread))).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..HANDS {
        tasks.spawn(Hand::of(&fixture).increment(rounds));
    }
    let between: u64 = tasks.join_all().await.into_iter().sum();
    for given in given {
        let done = fixture.java.answer(given, DONE_BY).expect("Java's increments");
        assert!(done.starts_with(&format!("{rounds} ")), "{done}");
    }
    let total = fixture.raw.command(&["GET", &counter]).expect("a reply").text();
    assert_eq!(total, Some((2 * HANDS * rounds).to_string()));
    println!("in {between} of our {} rounds somebody else had been there since our last", HANDS * rounds);
    assert!(between * 10 >= HANDS * rounds, "they did not contend: {between}");
    assert_eq!((fixture.pttl(), fixture.engine.snapshot().lost), (-2, 0));
}

/// One task of ours.
struct Hand {
    engine: Engine,
    client: RawClient,
    name: String,
    counter: String,
}

impl Hand {
    fn of(fixture: &Fixture) -> Self {
        let (name, counter) = (fixture.name.clone(), fixture.counter());
        let master = fixture.servers.master_of(&counter).expect("a master");
        Self { engine: fixture.engine.clone(), client: master.client().expect("a connection"), name, counter }
    }

    /// Returns in how many rounds it found another number than it had written.
    async fn increment(mut self, rounds: u64) -> u64 {
        let (mut written, mut others) = (0, 0);
        for _ in 0..rounds {
            let lease = self.engine.lock(&self.name).acquire().await.expect("our turn");
            let read = self.client.command(&["GET", &self.counter]).expect("a reply").text();
            let number: u64 = read.map_or(0, |text| text.parse().expect("a number"));
            others += u64::from(number != written);
            written = number + 1;
            self.client.command(&["SET", &self.counter, &written.to_string()]).expect("a reply");
            lease.release().await.expect("ours to the end");
        }
        others
    }
}

const HANDS: u64 = 8;
const DONE_BY: Duration = Duration::from_secs(60);
