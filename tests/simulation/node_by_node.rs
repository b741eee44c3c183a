//! What is wrong with one node is felt on that node alone.

use leasehold::{
    EngineConfig, LeaseState, RenewalOutcome,
    routing::{slot::Slot, topology::Batching},
};
use leasehold_tests::changed;

use crate::fixture::{Cluster, Heard, builder, millis, name_in, now, pass, seconds, until};

#[tokio::test(start_paused = true)]
async fn l2_each_node_is_polled_at_the_rate_of_its_own_crowd() {
    let cluster = Cluster::new(3);
    let other = builder(&cluster).build().await.expect("an engine");
    let engine = builder(&cluster).build().await.expect("an engine");
    let crowded = (0..2_000).map(|number| (0, number));
    let quiet = (0..10).map(|number| (11, number));
    let (mut held, mut waiting) = (vec![], vec![]);
    for name in crowded.chain(quiet).map(|(part, number)| name_in(part, number)) {
        held.push(other.lock(&name).acquire().await.expect("free"));
        waiting.push(tokio::spawn(engine.lock(&name).acquire()));
    }
    pass(seconds(10)).await;
    let before = [cluster.asks(0), cluster.asks(2)];
    pass(seconds(20)).await;
    let rates = [cluster.asks(0) - before[0], cluster.asks(2) - before[1]].map(|asks| asks / 20);
    assert!((400..=500).contains(&rates[0]), "the crowded node: {rates:?} a second");
    assert!((9..=10).contains(&rates[1]), "the quiet one: {rates:?} a second");
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn s5_owners_of_a_node_that_hangs_leave_the_others_their_room() {
    let cluster = Cluster::new(3);
    // Every call is sent, so that each leaves an owner to close.
    let config = changed(EngineConfig::default(), |new| new.group_commit_max = 1);
    let engine = builder(&cluster).config(config).build().await.expect("an engine");
    cluster.hang(0);
    let asks = (0..300).map(|number| {
        let asked = engine.lock(name_in(0, number)).wait(millis(100)).acquire();
        tokio::spawn(async move { asked.await.expect_err("it hangs") })
    });
    for ask in asks.collect::<Vec<_>>() {
        ask.await.expect("no panic");
    }
    pass(seconds(2)).await;
    assert_eq!(engine.snapshot().closing, 300);
    // An owner that is to be closed on another node is closed as if nothing were wrong.
    cluster.hang(1);
    engine.lock(name_in(4, 0)).wait(millis(100)).acquire().await.expect_err("it hangs");
    cluster.wake(1);
    let began = now();
    while engine.snapshot().closing > 300 {
        assert!(now() < began + millis(2_500), "{:?}", engine.snapshot());
        pass(millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l5_owners_that_waited_for_room_are_closed_by_the_node_that_follows() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.expect("an engine");
    cluster.hang(0);
    let asks = (0..300).map(|number| {
        let asked = engine.lock(name_in(0, number)).ttl(seconds(2)).wait(millis(100)).acquire();
        tokio::spawn(async move { asked.await.expect_err("it hangs") })
    });
    for ask in asks.collect::<Vec<_>>() {
        ask.await.expect("no panic");
    }
    cluster.fail_over(0, 3, crate::fixture::Data::Kept);
    crate::fixture::settles_within(&engine, seconds(9)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_renewals_hang_delays_nobody_elses() {
    let cluster = Cluster::new(3);
    let heard = Heard::default();
    let engine = builder(&cluster).recorder(heard.clone()).build().await.expect("an engine");
    let mut leases = vec![];
    // Many batches' worth on the node that hangs: its room of batches in flight is full all the time.
    for (part, count) in [(0, 2_000), (4, 50), (8, 50)] {
        for number in 0..count {
            let lock = engine.lock(name_in(part, number)).ttl(seconds(3));
            leases.push((part, lock.acquire().await.expect("free")));
        }
    }
    let began = now();
    cluster.hang(0);
    let mut closest = seconds(3);
    while now() < began + seconds(9) {
        for (_, lease) in leases.iter().filter(|(part, _)| *part > 0) {
            assert_eq!(lease.state(), LeaseState::Held);
            closest = closest.min(lease.remaining());
        }
        pass(millis(25)).await;
    }
    assert!(
        closest > seconds(1),
        "late is what is renewed with less than a third of the ttl left: {closest:?}"
    );
    assert_eq!(heard.counts().losses.values().sum::<u64>(), 2_000, "all of the node that hangs, nobody else");
    assert!(heard.renewals(RenewalOutcome::Renewed) >= 800);
    until(began + seconds(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_one_call_per_slot_gets_the_leases_of_a_slot_together() {
    let cluster = Cluster::new(3);
    cluster.take_batches(Batching::BySlot, 100);
    let engine = builder(&cluster).build().await.expect("an engine");
    let mut leases = vec![];
    for slot in 0..40 {
        for number in 0..5 {
            let lock = engine.lock(format!("{{tag {slot}}} {number}")).ttl(seconds(6));
            leases.push(lock.acquire().await.expect("free"));
            pass(millis(9)).await; // within a slot and from slot to slot at other times
        }
    }
    pass(seconds(4)).await;
    let before = cluster.batches().len();
    pass(seconds(20)).await;
    let batches = cluster.batches().split_off(before);
    let calls: usize = batches.iter().map(|batch| runs(batch)).sum();
    // 40 slots, each once in a period of two seconds; one for each end of the time looked at.
    assert!((40 * 9..=40 * 11).contains(&calls), "{calls} calls");
    assert!(leases.iter().all(|lease| lease.state() == LeaseState::Held && lease.remaining() > seconds(2)));
}

fn runs(slots: &[Slot]) -> usize {
    slots.chunk_by(|one, other| one == other).count()
}
