//! A hundred thousand leases on memory: renewed in time and once, and lost at once without one unheard.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    Engine, LOSSES_KEPT, Lease, LossEvent, LossReason,
    clock::Instant,
    routing::topology::NodeId,
    transport::{BoxFuture, Call},
};
use leasehold_memory::{MemoryTransport, Restart};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

use crate::fixture::{Heard, Traffic, What, builder, engine, millis, now, pass, seconds};

const LEASES: usize = 100_000;
/// A crowded tick gives renewals to earlier ones, within an eighth of the period.
const SPREAD_MAX: Duration = millis(1_250);
/// Two ticks, and a millisecond for the grain of tokio's timer.
const LATE_MAX: Duration = millis(101);

async fn hold(engine: &Engine, count: usize) -> Vec<Lease> {
    let mut leases = Vec::with_capacity(count);
    for number in 0..count {
        leases.push(engine.lock(format!("{number}")).acquire().await.unwrap());
        if number % 1_000 == 999 {
            pass(millis(100)).await; // spread over one period
        }
    }
    leases
}

#[tokio::test(start_paused = true)]
async fn for_three_periods_none_is_renewed_early_late_or_twice() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let leases = hold(&engine, LEASES).await;
    pass(seconds(31)).await;
    let mut last: HashMap<_, (Instant, u32)> = HashMap::with_capacity(LEASES);
    let (mut early, mut late) = (0, 0);
    for sent in traffic.all().iter().filter(|sent| sent.what != What::Release) {
        let Some((before, times)) = last.insert(sent.owner, (sent.at, 0)) else { continue };
        let after = sent.at - before;
        early += usize::from(after < seconds(10) - SPREAD_MAX);
        late += usize::from(after > seconds(10) + LATE_MAX);
        last.insert(sent.owner, (sent.at, times + 1));
    }
    assert_eq!((early, late), (0, 0));
    assert_eq!(last.len(), LEASES);
    assert!(last.values().all(|(_, times)| *times >= 3), "at least three periods each");
    let seen = engine.snapshot();
    assert_eq!((seen.held, seen.lost, seen.renewals_failed), (LEASES as u64, 0, 0));
    assert!(leases.iter().all(Lease::is_held));
}

#[tokio::test(start_paused = true)]
async fn leases_that_were_taken_all_at_once_are_not_renewed_all_at_once() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let leases: Vec<Lease> = {
        let mut leases = Vec::with_capacity(LEASES);
        for number in 0..LEASES {
            leases.push(engine.lock(format!("{number}")).acquire().await.unwrap());
        }
        leases
    };
    pass(seconds(60)).await;
    let end = now();
    let mut by_tick: HashMap<u64, usize> = HashMap::new();
    for sent in traffic.of(What::Renewal).iter().filter(|sent| end - sent.at < seconds(10)) {
        *by_tick.entry(sent.at.as_nanos() / 50_000_000).or_default() += 1;
    }
    let (widest, all) = (by_tick.values().max().copied().unwrap_or(0), by_tick.values().sum::<usize>());
    println!("{all} renewals in a period, at most {widest} in one tick, in {} ticks", by_tick.len());
    assert!(widest <= LEASES / 25, "{widest} in one tick");
    assert!((LEASES - LEASES / 20..=LEASES + LEASES / 7).contains(&all), "{all} renewals in one period");
    assert_eq!((engine.snapshot().lost, leases.iter().filter(|lease| lease.is_held()).count()), (0, LEASES));
}

#[tokio::test(start_paused = true)]
async fn lost_at_once_all_are_reported_within_two_ticks() {
    let memory = MemoryTransport::new();
    let engine = engine(&memory).await;
    let leases = hold(&engine, LEASES).await;
    let mut losses = engine.losses();
    memory.restart(Restart::DataLost);
    let before = now();
    let mut names = std::collections::HashSet::with_capacity(LEASES);
    for _ in 0..LEASES {
        let Some(LossEvent::Lost(loss)) = losses.next().await else {
            panic!("a reader that keeps up misses none")
        };
        assert_eq!(loss.reason, LossReason::NotOurs);
        assert!(loss.at - before <= LATE_MAX, "{:?}", loss.at - before);
        names.insert(loss.name);
    }
    assert_eq!((names.len(), losses.try_next().is_none()), (LEASES, true));
    assert!(leases.iter().all(|lease| !lease.is_held()));
    assert_eq!(engine.snapshot().lost, LEASES as u64);
    drop(leases);
    crate::fixture::settles_within(&engine, seconds(5)).await;
}

#[tokio::test(start_paused = true)]
async fn deadlines_that_pass_together_are_told_within_two_ticks_and_a_slow_reader_what_it_missed() {
    let engine = engine(&MemoryTransport::new()).await;
    let mut losses = engine.losses();
    let missed = 1_000;
    let mut leases = vec![];
    for number in 0..LOSSES_KEPT + missed {
        leases.push(engine.lock(format!("{number}")).ttl(seconds(1)).no_renewal().acquire().await.unwrap());
    }
    pass(seconds(2)).await;
    assert!(matches!(losses.next().await, Some(LossEvent::Missed(count)) if count == missed as u64));
    let mut kept = 0;
    while let Some(notice) = losses.try_next() {
        let LossEvent::Lost(loss) = notice else { panic!("told already") };
        assert!(loss.at >= loss.deadline && loss.at - loss.deadline <= LATE_MAX, "{loss:?}");
        kept += 1;
    }
    assert_eq!(kept, LOSSES_KEPT);
}

/// Notes how many losses were told when each batch was sent, and when it was answered.
#[derive(Clone, Default)]
struct Beside {
    heard: Heard,
    losses: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Beside {
    fn told(&self) -> u64 {
        self.heard.counts().losses.values().sum()
    }
}

impl Hand for Beside {
    fn renew<'a>(&'a self, behind: &'a Behind, node: NodeId, batch: Vec<Call>) -> BoxFuture<'a, Vec<Call>> {
        Box::pin(async move {
            let before = self.told();
            let answered = behind.lane.call(node, batch).await;
            self.losses.lock().expect("no panic under it").push((before, self.told()));
            answered
        })
    }
}

#[tokio::test(start_paused = true)]
async fn losses_by_the_thousand_do_not_delay_renewals() {
    const LOST: u64 = 5_000;
    let transport: Interposed<_, Beside> = Interposed::new(MemoryTransport::new());
    let beside = transport.hand.clone();
    let engine = builder(&transport).recorder(beside.heard.clone()).build().await.unwrap();
    let mut leases = vec![];
    for number in 0..LOST {
        leases.push(engine.lock(format!("{number}")).ttl(seconds(3)).no_renewal().acquire().await.unwrap());
    }
    // Its renewal is due in the tick in which the others' deadlines pass.
    let renewed = engine.lock("renewed").ttl(millis(8_550)).acquire().await.unwrap();
    pass(seconds(3)).await;
    assert_eq!(beside.told(), LOST);
    let seen = beside.losses.lock().expect("no panic under it").clone();
    assert!(matches!(seen[..], [(sent, answered)] if sent <= 200 && answered <= 200), "{seen:?}");
    assert!(renewed.is_held());
}
