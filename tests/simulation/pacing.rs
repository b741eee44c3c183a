//! Callers that come and go through an outage: the turns that they leave hold back no other caller (L5, L2).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::transport::LanePurpose;
use leasehold_memory::{Cut, Faulty, MemoryTransport};

use crate::fixture::{breathe, builder, engine, millis, now, pass, seconds};

/// Callers of so many names that wait for `wait_ms` and come again; how long after the outage a caller that came one
/// second before its end has its lock, which is free by then.
async fn granted_after_an_outage(names: u64, wait_ms: u64, outage: Duration) -> Duration {
    let transport = Faulty::new(MemoryTransport::new());
    let engine_of_callers = builder(&transport).unavailable_after(seconds(3_600)).build().await.unwrap();
    let other = engine(transport.inner()).await;
    let held = other.lock("wanted").ttl(seconds(1)).no_renewal().acquire().await.unwrap();
    transport.faults().cut(Cut::Refused);
    let ended = Arc::new(AtomicBool::new(false));
    for number in 0..names {
        let (engine, ended) = (engine_of_callers.clone(), ended.clone());
        tokio::spawn(async move {
            pass(millis(number % wait_ms)).await;
            while !ended.load(Ordering::Relaxed) {
                drop(engine.lock(format!("{number}")).wait(millis(wait_ms)).acquire().await);
            }
        });
    }
    pass(outage - seconds(1)).await;
    let waiting = tokio::spawn(engine_of_callers.lock("wanted").wait(seconds(300)).acquire());
    pass(seconds(1)).await;
    ended.store(true, Ordering::Relaxed);
    transport.faults().heal();
    let healed = now();
    assert!(waiting.await.unwrap().unwrap().is_held());
    drop(held);
    now() - healed
}

#[tokio::test(start_paused = true)]
async fn l5_after_an_outage_turns_of_callers_that_have_gone_delay_no_other() {
    for (names, wait_ms, outage) in
        [(10, 200, seconds(60)), (1_500, 200, seconds(10)), (3_000, 100, seconds(10))]
    {
        let took = granted_after_an_outage(names, wait_ms, outage).await;
        assert!(took <= millis(220), "{names} names, waits of {wait_ms} ms: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn l2_a_notice_is_heard_by_a_caller_that_waits_for_its_turn() {
    let memory = MemoryTransport::new();
    let (other, faulty) = (engine(&memory).await, Faulty::new(memory));
    let waiter = engine(&faulty).await;
    let (mut held, mut waiting) = (vec![], vec![]);
    for number in 0..3_000 {
        held.push(other.lock(format!("{number}")).acquire().await.unwrap());
        waiting.push(tokio::spawn(waiter.lock(format!("{number}")).acquire()));
        breathe().await;
    }
    pass(seconds(10)).await;
    // Notices may have been missed, so all names are asked for again, 50 in each 10 ms and the last one at the end.
    faulty.faults().cut_lane(LanePurpose::Calls, Cut::Refused);
    faulty.faults().heal();
    breathe().await;
    held.pop().unwrap().release().await.unwrap();
    breathe().await;
    assert!(waiting.last().unwrap().is_finished(), "its notice came before its turn");
    waiting.iter().for_each(|task| task.abort());
}
