//! Permits that expire on both sides: one total, one set of deadlines, each side woken by the other's message.

use std::time::{Duration, Instant};

use leasehold::{Engine, LossReason, Permits};
use leasehold_tests::harness::{deployment::Topology, length, polling::holds_within, raw_client::RawClient};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SOON, Side};

leasehold_tests::on_every_topology!(
    l2_java_gives_a_permit_back_and_we_take_it_by_one_command_after_its_message,
    l2_we_give_permits_back_and_java_takes_them_after_our_message,
    s1_java_threads_and_our_tasks_never_hold_more_than_the_total,
    s2_our_permit_that_java_gives_back_is_told_lost,
    s4_a_java_permit_without_lease_time_stays_until_java_gives_it_back,
    s4_what_expires_on_either_side_comes_back_on_the_other,
    both_sides_show_and_change_one_total,
);

/// What a test asks of one semaphore beside the engine and Java.
struct Bench {
    fixture: Fixture,
    name: String,
    permits: Permits,
}

impl Bench {
    /// With this total, which Java has set.
    async fn new(topology: Topology, total: u32, ttl: Duration) -> Self {
        let fixture = Fixture::new(topology, ttl).await;
        let name = fixture.name.clone();
        let bench = Self { permits: fixture.engine.permits(&name), name, fixture };
        assert_eq!(bench.java("permit-set a", &total.to_string()), "true");
        bench
    }

    /// A command about this semaphore.
    fn java(&self, verb: &str, rest: &str) -> String {
        let command = format!("{verb} {} {rest}", self.name);
        self.fixture.java.call(&command).unwrap_or_else(|thrown| panic!("{command}: {thrown}"))
    }

    fn channel(&self) -> String {
        format!("redisson_sc:{{{}}}", self.name)
    }

    /// Waits until a client listens on the semaphore's channel.
    fn until_heard(&mut self) {
        let channel = self.channel();
        self.fixture.listeners_of(&channel, 1);
    }

    /// The available permits on the server, and the number of those that are held.
    fn stored(&mut self) -> (Option<String>, i64) {
        let available = self.fixture.raw.command(&["GET", &self.name]).expect("a reply").text();
        let deadlines = format!("{{{}}}:timeout", self.name);
        let held = self.fixture.raw.command(&["ZCARD", &deadlines]).expect("a reply").integer();
        (available, held.expect("a number"))
    }
}

async fn l2_java_gives_a_permit_back_and_we_take_it_by_one_command_after_its_message(topology: Topology) {
    let mut bench = Bench::new(topology, 3, TTL).await;
    let taken = bench.java("permit-acquire a", "2 60000");
    let ids: Vec<_> = taken.split(',').collect();
    assert!(bench.permits.try_acquire(2).await.expect("an answer").is_none(), "one is left");
    let waiting = tokio::spawn(bench.permits.acquire(2));
    bench.until_heard();
    let mut ear = bench.fixture.ear_of(&bench.channel());
    bench.fixture.next_ask();
    let before = Instant::now();
    assert_eq!(bench.java("permit-release a", ids[0]), "true");
    let permit = waiting.await.expect("no panic").expect("two permits");
    assert_eq!(bench.fixture.asks(Side::Ours, Some(before)).len(), 1);
    ear.assert_heard("2");
    assert_eq!(bench.stored(), (Some("0".into()), 3));
    permit.release().await.expect("ours to the end");
    assert_eq!(bench.java("permit-release a", ids[1]), "true");
    assert_eq!(bench.stored(), (Some("3".into()), 0));
}

/// Java waits for one: a thread of 3.27.2 that waits for several sleeps until the next deadline, whatever is published.
async fn l2_we_give_permits_back_and_java_takes_them_after_our_message(topology: Topology) {
    let mut bench = Bench::new(topology, 2, TTL).await;
    let permit = bench.permits.acquire(2).await.expect("two permits");
    let waiting = bench.fixture.java.give(&format!("permit-acquire b {} 1 60000", bench.name));
    bench.until_heard();
    let mut ear = bench.fixture.ear_of(&bench.channel());
    // Behind its subscription Java asks once more; only then it sleeps.
    assert!(holds_within(SOON, || bench.fixture.asks(Side::Java, None).len() >= 3));
    assert!(!bench.fixture.java.has_answered(waiting));
    let before = Instant::now();
    permit.release().await.expect("ours to the end");
    let taken = bench.fixture.java.answer(waiting, SOON).expect("a permit");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(bench.fixture.asks(Side::Java, Some(before)).len(), 1, "one try of Java's");
    ear.assert_heard("2");
    assert_eq!(bench.stored(), (Some("1".into()), 1));
    assert_eq!(bench.java("permit-release b", &taken), "true");
}

async fn s1_java_threads_and_our_tasks_never_hold_more_than_the_total(topology: Topology) {
    const TOTAL: u32 = 3;
    let long = topology == Topology::Single || length::is_long();
    let run = Duration::from_secs(if long { 15 } else { 4 });
    let mut bench = Bench::new(topology, TOTAL, TTL).await;
    let inside = bench.fixture.counter();
    let churn = |thread| format!("permit-churn t{thread} {} {inside} {}", bench.name, run.as_millis());
    let given: Vec<_> = (0..4).map(|thread| bench.fixture.java.give(&churn(thread))).collect();
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let hand = Hand::of(&bench, &inside);
        tasks.spawn(hand.churn(1 + task % 2, run));
    }
    let ours = tasks.join_all().await;
    let javas = given.into_iter().map(|given| {
        let done = bench.fixture.java.answer(given, run + SOON).expect("Java's rounds");
        let (rounds, most) = done.split_once(' ').expect("two numbers");
        (rounds.parse().expect("a number"), most.parse().expect("a number"))
    });
    let javas: Vec<(u64, i64)> = javas.collect();
    println!("rounds and most inside: ours {ours:?}, Java's {javas:?}");
    for (rounds, most) in ours.into_iter().chain(javas) {
        assert!(rounds > 0 && most <= i64::from(TOTAL), "{rounds} rounds, {most} inside");
    }
    assert_eq!(bench.stored(), (Some(TOTAL.to_string()), 0));
    assert_eq!(bench.fixture.engine.snapshot().lost, 0);
}

/// One task of ours.
struct Hand {
    engine: Engine,
    client: RawClient,
    name: String,
    inside: String,
}

impl Hand {
    fn of(bench: &Bench, inside: &str) -> Self {
        let master = bench.fixture.servers.master_of(inside).expect("a master");
        let client = master.client().expect("a connection");
        let (engine, name) = (bench.fixture.engine.clone(), bench.name.clone());
        Self { engine, client, name, inside: inside.to_owned() }
    }

    /// Takes permits and gives them back, for so long. Returns how often, and the most that were inside at once.
    async fn churn(mut self, permits: u32, run: Duration) -> (u64, i64) {
        let (begin, mut rounds, mut most) = (Instant::now(), 0, 0);
        while begin.elapsed() < run {
            let permit = self.engine.permits(&self.name).acquire(permits).await.expect("our turn");
            most = most.max(self.count(i64::from(permits)));
            self.count(-i64::from(permits));
            permit.release().await.expect("ours to the end");
            rounds += 1;
        }
        (rounds, most)
    }

    fn count(&mut self, by: i64) -> i64 {
        let reply = self.client.command(&["INCRBY", &self.inside, &by.to_string()]).expect("a reply");
        reply.integer().expect("a number")
    }
}

async fn s2_our_permit_that_java_gives_back_is_told_lost(topology: Topology) {
    let bench = Bench::new(topology, 3, Duration::from_secs(15)).await;
    let permit = bench.permits.acquire(2).await.expect("two permits");
    let other = bench.permits.acquire(1).await.expect("the third");
    let id = permit.ids().remove(1);
    assert_eq!(bench.java("permit-release a", &id), "true");
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await, Ok(LossReason::NotOurs));
    other.ensure_held().expect("it is another one");
    // What was left of the two goes back, too, long before its ttl is over.
    assert!(holds_within(Duration::from_secs(5), || bench.java("permit-available a", "") == "2"));
    other.release().await.expect("ours to the end");
    assert_eq!(bench.java("permit-available a", ""), "3");
}

async fn s4_a_java_permit_without_lease_time_stays_until_java_gives_it_back(topology: Topology) {
    let ttl = Duration::from_secs(2);
    let mut bench = Bench::new(topology, 1, ttl).await;
    let id = bench.java("permit-acquire a", "1");
    let waiting = tokio::spawn(bench.permits.acquire(1));
    tokio::time::sleep(2 * ttl).await;
    assert!(!waiting.is_finished() && bench.stored() == (Some("0".into()), 1));
    assert_eq!(bench.java("permit-release a", &id), "true");
    let permit = waiting.await.expect("no panic").expect("the permit");
    permit.release().await.expect("ours to the end");
    assert_eq!(bench.stored(), (Some("1".into()), 0));
}

async fn s4_what_expires_on_either_side_comes_back_on_the_other(topology: Topology) {
    let short = Duration::from_secs(1);
    let mut bench = Bench::new(topology, 2, TTL).await;
    let dead = bench.java("permit-acquire a", "2 1000");
    let permit = bench.permits.clone().ttl(short).no_renewal().acquire(2).await.expect("Java's have expired");
    dead.split(',').for_each(|id| assert_eq!(bench.java("permit-release a", id), "false"));
    assert_eq!(bench.stored(), (Some("0".into()), 2));
    let taken = bench.java("permit-try a", "10000 60000");
    assert_ne!(taken, "null", "ours have expired");
    assert_eq!(permit.lost().await, LossReason::Expired);
    assert_eq!(bench.java("permit-release a", &taken), "true");
    assert_eq!(bench.java("permit-available a", ""), "2");
    assert_eq!(bench.stored(), (Some("2".into()), 0));
}

async fn both_sides_show_and_change_one_total(topology: Topology) {
    let mut bench = Bench::new(topology, 2, TTL).await;
    let permits = bench.permits.clone();
    assert!(!permits.try_set_total(9).await.expect("an answer"), "Java has set two");
    let held = permits.acquire(2).await.expect("two permits");
    assert_eq!(bench.java("permit-try a", "0 60000"), "null");
    permits.add(3).await.expect("an answer");
    assert_eq!(bench.java("permit-available a", ""), "3");
    bench.java("permit-add a", "-2");
    assert_eq!(permits.available().await.expect("an answer"), 1);
    let taken = bench.java("permit-acquire a", "1 60000");
    assert!(permits.try_acquire(1).await.expect("an answer").is_none());
    assert_eq!(bench.stored(), (Some("0".into()), 3));
    held.release().await.expect("ours to the end");
    assert_eq!(bench.java("permit-release a", &taken), "true");
    assert_eq!(bench.stored(), (Some("3".into()), 0));
}

const TTL: Duration = Duration::from_secs(30);
