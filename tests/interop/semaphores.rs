//! Semaphores and latches that a live Redisson shares: each side wakes the other by one message, and neither miscounts.

use std::time::{Duration, Instant};

use leasehold::CountError;
use leasehold_tests::harness::{deployment::Topology, polling::holds_within};
use tokio::task::JoinSet;

use crate::fixture::{Ear, Fixture, SOON, Side};

const TTL: Duration = Duration::from_secs(30);

leasehold_tests::on_every_topology!(
    java_releases_permits_and_we_take_them_by_one_command_after_its_message,
    we_release_permits_and_java_takes_them_after_our_message,
    java_threads_and_our_tasks_share_permits_and_none_is_lost,
    our_permits_are_javas_permits,
    the_last_step_of_either_side_opens_the_latch_for_the_other,
    javas_wait_for_our_latch_still_times_out,
    we_are_not_held_up_by_a_latch_that_java_deletes,
);

/// What a test asks of one counter beside the engine and Java.
struct Bench {
    fixture: Fixture,
    name: String,
    channel: String,
}

impl Bench {
    async fn semaphore(topology: Topology) -> Self {
        let fixture = Fixture::new(topology, TTL).await;
        let name = fixture.name.clone();
        Self { channel: format!("redisson_sc:{{{name}}}"), name, fixture }
    }

    async fn latch(topology: Topology) -> Self {
        let fixture = Fixture::new(topology, TTL).await;
        let name = fixture.name.clone();
        Self { channel: format!("redisson_countdownlatch__channel__{{{name}}}"), name, fixture }
    }

    fn java(&self, command: &str) -> String {
        let command = command.replace('L', &self.name);
        self.fixture.java.call(&command).unwrap_or_else(|thrown| panic!("{command}: {thrown}"))
    }

    /// Waits until so many clients listen on the counter's channel.
    fn listeners(&mut self, count: i64) {
        self.fixture.listeners_of(&self.channel, count);
    }

    /// Listens where the waiters do.
    fn ear(&self) -> Ear {
        self.fixture.ear_of(&self.channel)
    }

    fn stored(&mut self) -> Option<String> {
        self.fixture.raw.command(&["GET", &self.name]).expect("a reply").text()
    }
}

async fn java_releases_permits_and_we_take_them_by_one_command_after_its_message(topology: Topology) {
    let mut bench = Bench::semaphore(topology).await;
    assert_eq!(bench.java("sem-set a L 1"), "true");
    let permits = bench.fixture.engine.semaphore(&bench.name);
    assert!(!permits.try_acquire(2).await.expect("an answer"), "Java has set one");
    let waiting = tokio::spawn(permits.acquire(2));
    bench.listeners(1);
    let mut ear = bench.ear();
    bench.fixture.next_ask();
    let before = Instant::now();
    bench.java("sem-release a L 1");
    waiting.await.expect("no panic").expect("two permits");
    assert_eq!(bench.fixture.asks(Side::Ours, Some(before)).len(), 1);
    ear.assert_heard("2");
    assert_eq!(bench.stored().as_deref(), Some("0"));
}

async fn we_release_permits_and_java_takes_them_after_our_message(topology: Topology) {
    let mut bench = Bench::semaphore(topology).await;
    let permits = bench.fixture.engine.semaphore(&bench.name);
    assert!(permits.try_set(1).await.expect("an answer"));
    assert_eq!(bench.java("sem-set a L 9"), "false");
    let waiting = bench.fixture.java.give(&format!("sem-acquire b {} 3", bench.name));
    bench.listeners(1);
    let mut ear = bench.ear();
    // Behind its subscription Java asks once more; only then it sleeps.
    assert!(holds_within(SOON, || bench.fixture.asks(Side::Java, None).len() >= 3));
    assert!(!bench.fixture.java.has_answered(waiting));
    let before = Instant::now();
    permits.release(2).await.expect("an answer");
    assert_eq!(bench.fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    assert_eq!(bench.fixture.asks(Side::Java, Some(before)).len(), 1, "one try of Java's");
    ear.assert_heard("3");
    assert_eq!(bench.stored().as_deref(), Some("0"));
}

async fn java_threads_and_our_tasks_share_permits_and_none_is_lost(topology: Topology) {
    const ROUNDS: u32 = 60;
    let mut bench = Bench::semaphore(topology).await;
    let permits = bench.fixture.engine.semaphore(&bench.name);
    permits.try_set(3).await.expect("an answer");
    let churn = |thread| format!("sem-churn t{thread} {} {ROUNDS}", bench.name);
    let given: Vec<_> = (0..4).map(|thread| bench.fixture.java.give(&churn(thread))).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let permits = permits.clone();
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                permits.acquire(1 + round % 2).await.expect("a permit");
                permits.release(1 + round % 2).await.expect("an answer");
            }
        });
    }
    tasks.join_all().await;
    for given in given {
        bench.fixture.java.answer(given, Duration::from_secs(60)).expect("Java's rounds");
    }
    assert_eq!(bench.stored().as_deref(), Some("3"));
}

async fn our_permits_are_javas_permits(topology: Topology) {
    let mut bench = Bench::semaphore(topology).await;
    let permits = bench.fixture.engine.semaphore(&bench.name);
    permits.add(5).await.expect("an answer");
    assert_eq!(bench.java("sem-available a L"), "5");
    assert_eq!(bench.java("sem-try a L 2 0"), "true");
    assert_eq!(permits.available().await.expect("an answer"), 3);
    bench.java("sem-add a L 4");
    assert_eq!(permits.drain().await.expect("an answer"), 7);
    assert_eq!(bench.java("sem-try a L 1 200"), "false");
    permits.release(2).await.expect("an answer");
    assert_eq!(bench.java("sem-drain a L"), "2");
    assert_eq!(bench.stored().as_deref(), Some("0"));
    let ttl = bench.fixture.raw.command(&["PTTL", &bench.name]).expect("a reply").integer();
    assert_eq!(ttl, Some(-1), "as Redisson leaves it");
}

async fn the_last_step_of_either_side_opens_the_latch_for_the_other(topology: Topology) {
    let mut bench = Bench::latch(topology).await;
    let latch = bench.fixture.engine.latch(&bench.name);
    assert!(latch.try_set(2).await.expect("an answer"));
    assert_eq!(bench.java("latch-set a L 5"), "false");
    let (ours, javas) =
        (tokio::spawn(latch.opened()), bench.fixture.java.give(&format!("latch-await b {}", bench.name)));
    bench.listeners(2);
    let mut ear = bench.ear();
    bench.java("latch-down a L");
    assert_eq!(latch.count().await.expect("an answer"), 1);
    assert!(!ours.is_finished() && !bench.fixture.java.has_answered(javas));
    assert_eq!(latch.count_down().await.expect("an answer"), 0);
    assert_eq!(bench.fixture.java.answer(javas, SOON).as_deref(), Ok(""));
    ours.await.expect("no panic").expect("open");
    ear.assert_heard("0");
    assert_eq!(bench.stored(), None);

    assert_eq!(bench.java("latch-set a L 1"), "true");
    ear.assert_heard("1");
    let ours = tokio::spawn(latch.opened());
    bench.fixture.next_ask();
    bench.fixture.next_ask(); // the first may be the one before our subscription
    let before = Instant::now();
    bench.java("latch-down a L");
    ours.await.expect("no panic").expect("open");
    assert_eq!(bench.fixture.asks(Side::Ours, Some(before)).len(), 1);
    ear.assert_heard("0");
}

/// A spurious "0" would open Java's gate for good: it would then neither return nor time out.
async fn javas_wait_for_our_latch_still_times_out(topology: Topology) {
    let bench = Bench::latch(topology).await;
    let latch = bench.fixture.engine.latch(&bench.name);
    latch.try_set(3).await.expect("an answer");
    let waiting = bench.fixture.java.give(&format!("latch-await a {} 2000", bench.name));
    latch.count_down().await.expect("an answer");
    latch.count_down().await.expect("an answer");
    assert_eq!(bench.fixture.java.answer(waiting, SOON).as_deref(), Ok("false"));
    assert_eq!(bench.java("latch-count a L"), "1");
}

async fn we_are_not_held_up_by_a_latch_that_java_deletes(topology: Topology) {
    let mut bench = Bench::latch(topology).await;
    bench.java("latch-set a L 3");
    let latch = bench.fixture.engine.latch(&bench.name);
    let timed_out = latch.clone().wait(Duration::from_millis(300)).opened().await;
    assert!(matches!(timed_out, Err(CountError::TimedOut { .. })), "{timed_out:?}");
    let waiting = tokio::spawn(latch.opened());
    bench.listeners(1);
    assert_eq!(bench.java("latch-delete a L"), "true");
    waiting.await.expect("no panic").expect("a deleted latch is open");
}
