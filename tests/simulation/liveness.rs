//! L1 to L5 to the millisecond.

use std::collections::HashMap;

use leasehold::transport::LanePurpose;
use leasehold_memory::{Cut, Fault, Faulty, MemoryTransport, Operation};

use crate::fixture::{Traffic, What, breathe, builder, engine, fixture, millis, now, pass, seconds, timed};

/// A lock that a process which was killed has left behind.
async fn killed_holder(memory: &MemoryTransport, ttl_ms: u64) -> leasehold::Lease {
    let transport = Faulty::new(memory.clone());
    let doomed = engine(&transport).await;
    let lease = doomed.lock("a").ttl(millis(ttl_ms)).acquire().await.unwrap();
    transport.faults().cut(Cut::BlackHole);
    lease
}

#[tokio::test(start_paused = true)]
async fn l1_a_killed_holders_lock_is_granted_by_the_first_command_after_its_expiry() {
    for ttl_ms in [1_000, 2_345, 30_000] {
        let memory = MemoryTransport::new();
        let expiry = now() + millis(ttl_ms);
        let _killed = killed_holder(&memory, ttl_ms).await;
        let traffic = Traffic::new(memory.clone());
        let waiter = engine(&traffic).await;
        let lease = waiter.lock("a").acquire().await.unwrap();
        let late = now() - expiry;
        assert!(now() >= expiry && late <= millis(3), "{ttl_ms}: {late:?}");
        let after = traffic.of(What::Acquire).into_iter().filter(|ask| ask.at >= expiry).count();
        assert_eq!(after, 1, "{ttl_ms}: commands between expiry and grant");
        assert!(lease.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn l1_many_waiters_of_one_process_are_one_command_at_the_expiry() {
    let memory = MemoryTransport::new();
    let expiry = now() + seconds(5);
    let _killed = killed_holder(&memory, 5_000).await;
    let traffic = Traffic::new(memory.clone());
    let waiter = engine(&traffic).await;
    let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(waiter.lock("a").acquire())).collect();
    pass(seconds(5) + millis(10)).await;
    let after = traffic.of(What::Acquire).into_iter().filter(|ask| ask.at >= expiry).count();
    assert_eq!(after, 1);
    assert_eq!(waiter.snapshot().granted, 1);
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn l2_a_notice_leads_to_one_command_at_once() {
    let memory = MemoryTransport::new();
    let (holder, traffic) = (engine(&memory).await, Traffic::new(memory.clone()));
    let waiter = engine(&traffic).await;
    let held = holder.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.lock("a").acquire());
    pass(seconds(20)).await;
    traffic.clear();
    held.release().await.unwrap();
    let (lease, took) = timed(waiting).await;
    assert!(lease.unwrap().unwrap().is_held());
    assert_eq!((took, traffic.count(What::Acquire)), (millis(0), 1));
}

#[tokio::test(start_paused = true)]
async fn l2_a_lost_notice_costs_at_most_a_second_and_a_tenth() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    for _ in 0..20 {
        let held = other.lock("a").acquire().await.unwrap();
        let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
        pass(millis(3_210)).await;
        let lost = fixture.faults.on(Operation::Notice).inject(Fault::LoseRequest);
        held.release().await.unwrap();
        let (lease, took) = timed(waiting).await;
        assert_eq!(lost.fired(), 1);
        assert!(took <= millis(1_101), "{took:?}");
        lease.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn l2_a_cut_subscription_is_made_good_when_it_is_back() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(2)).await;
    fixture.faults.cut_lane(LanePurpose::Calls, Cut::BlackHole);
    breathe().await;
    held.release().await.unwrap();
    pass(millis(300)).await;
    fixture.faults.heal();
    let (lease, took) = timed(waiting).await;
    assert!(lease.unwrap().unwrap().is_held());
    assert!(took <= millis(1_101), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn l2_many_callers_of_one_name_poll_as_one() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting: Vec<_> = (0..5_000).map(|_| tokio::spawn(fixture.engine.lock("a").acquire())).collect();
    pass(seconds(10)).await;
    let asks = fixture.engine.snapshot().asks;
    pass(seconds(100)).await;
    let polls = fixture.engine.snapshot().asks - asks;
    assert!((90..=101).contains(&polls), "about one a second: {polls}");
    fixture.faults.on(Operation::Notice).inject(Fault::LoseRequest);
    let before = now();
    held.release().await.unwrap();
    while fixture.engine.snapshot().granted == 0 {
        pass(millis(1)).await;
    }
    assert!(now() - before <= millis(1_102), "{:?}", now() - before);
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn l2_many_contended_names_poll_at_five_hundred_a_second() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let mut held = vec![];
    let mut waiting = vec![];
    for number in 0..2_000 {
        held.push(other.lock(format!("{number}")).acquire().await.unwrap());
        waiting.push(tokio::spawn(fixture.engine.lock(format!("{number}")).acquire()));
    }
    pass(seconds(10)).await;
    let asks = fixture.engine.snapshot().asks;
    pass(seconds(20)).await;
    let rate = (fixture.engine.snapshot().asks - asks) / 20;
    assert!((400..=500).contains(&rate), "{rate} a second");
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn l2_after_a_reconnect_the_longest_wait_asks_first_at_a_bounded_rate() {
    let memory = MemoryTransport::new();
    let other = engine(&memory).await;
    let faulty = Faulty::new(memory);
    let traffic = Traffic::new(faulty.clone());
    let engine = builder(&traffic).unavailable_after(seconds(60)).build().await.unwrap();
    let (mut held, mut waiting) = (vec![], vec![]);
    for number in 0..3_000 {
        held.push(other.lock(format!("{number}")).acquire().await.unwrap());
        waiting.push(tokio::spawn(engine.lock(format!("{number}")).acquire()));
        breathe().await;
    }
    pass(seconds(10)).await;
    faulty.faults().cut_lane(LanePurpose::Calls, Cut::Refused);
    pass(millis(100)).await;
    traffic.clear();
    faulty.faults().heal();
    pass(millis(500)).await;
    let asks = traffic.of(What::Acquire);
    let mut windows: HashMap<u64, usize> = HashMap::new();
    for ask in &asks {
        *windows.entry(ask.at.as_nanos() / 10_000_000).or_default() += 1;
    }
    assert!(windows.values().all(|count| *count <= 50), "5,000 a second: {windows:?}");
    assert!(asks.len() >= 2_000, "{}", asks.len());
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn l3_every_wait_ends_in_time_also_while_thousands_of_names_ask_again() {
    let memory = MemoryTransport::new();
    let other = engine(&memory).await;
    let faulty = Faulty::new(memory);
    let engine = engine(&faulty).await;
    let (mut held, mut waiting) = (vec![], vec![]);
    for number in 0..20_000 {
        held.push(other.lock(format!("{number}")).acquire().await.unwrap());
        let acquire = engine.lock(format!("{number}")).wait(seconds(3)).acquire();
        waiting.push(tokio::spawn(timed(acquire)));
    }
    pass(seconds(1)).await;
    faulty.faults().cut_lane(LanePurpose::Calls, Cut::Reset);
    let mut longest = millis(0);
    for task in waiting {
        let (refused, took) = task.await.unwrap();
        refused.unwrap_err();
        longest = longest.max(took);
    }
    assert!(longest >= seconds(3) && longest <= seconds(4), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn l5_after_healing_the_first_command_succeeds_within_the_retrys_pause() {
    for cut in [Cut::Refused, Cut::Reset, Cut::BlackHole, Cut::RepliesLost] {
        let fixture = fixture().await;
        fixture.faults.cut(cut);
        let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
        pass(millis(5_300)).await;
        assert!(!waiting.is_finished(), "{cut:?}");
        fixture.faults.heal();
        let (lease, took) = timed(waiting).await;
        assert!(lease.unwrap().unwrap().is_held());
        assert!(took <= millis(1_201), "{cut:?}: {took:?}"); // a timeout and a pause
    }
}

#[tokio::test(start_paused = true)]
async fn l5_after_healing_notices_come_again() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(2)).await;
    fixture.faults.cut(Cut::Reset);
    pass(seconds(4)).await;
    fixture.faults.heal();
    pass(seconds(3)).await;
    held.release().await.unwrap();
    let (lease, took) = timed(waiting).await;
    assert!(lease.unwrap().unwrap().is_held());
    assert_eq!(took, millis(0));
}

#[tokio::test(start_paused = true)]
async fn l5_a_lease_survives_an_outage_of_half_a_ttl_and_not_one_of_two() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.cut(Cut::BlackHole);
    pass(seconds(15)).await;
    fixture.faults.heal();
    pass(seconds(3)).await;
    assert_eq!(lease.state(), leasehold::LeaseState::Held);
    fixture.faults.cut(Cut::BlackHole);
    let (reason, took) = timed(lease.lost()).await;
    assert_eq!(reason, leasehold::LossReason::Expired);
    assert!(took <= millis(28_600), "{took:?}");
    pass(seconds(30)).await;
    fixture.faults.heal();
    assert!(!lease.is_held(), "never again");
    drop(lease);
    fixture.settles_within(seconds(7)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_topology_does_not_make_failing_entries_ask_without_pause() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::Refused);
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(300)).await;
    let asks = fixture.heard.counts().asked;
    fixture.transport.inner().restart(leasehold_memory::Restart::DataKept);
    pass(seconds(1)).await;
    let more = fixture.heard.counts().asked - asks;
    assert!(more <= 12, "{more} asks in a second");
    waiting.abort();
}
