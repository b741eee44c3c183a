//! The server's clock steps by two seconds under a thousand leases and traffic.

use std::sync::{Arc, Mutex};

use leasehold::{Engine, RenewalOutcome};
use leasehold_memory::{ClockStep, MemoryTransport};
use leasehold_tests::harness::{checkers, recorder::Window};

use crate::fixture::{Heard, builder, engine, millis, now, pass, seconds, settles_within};

#[tokio::test(start_paused = true)]
async fn s12_forward_within_the_sum_of_the_assumptions_no_lease_is_lost() {
    step(ClockStep::Forward(seconds(2))).await;
}

#[tokio::test(start_paused = true)]
async fn s12_back_no_lease_is_lost_and_nothing_is_held_by_nobody() {
    step(ClockStep::Back(seconds(2))).await;
}

async fn step(step: ClockStep) {
    let (transport, heard) = (MemoryTransport::new(), Heard::default());
    let engine = builder(&transport).recorder(heard.clone()).build().await.unwrap();
    let mut leases = vec![];
    for number in 0..1_000 {
        leases.push(engine.lock(format!("held {number}")).acquire().await.unwrap());
        if number % 4 == 0 {
            pass(millis(40)).await; // their renewals are due all over the period
        }
    }
    let windows = Arc::new(Mutex::new(vec![]));
    let traffic: Vec<_> =
        (0..16).map(|number| tokio::spawn(contend(engine.clone(), number, windows.clone()))).collect();
    pass(seconds(5)).await;
    let renewals = heard.renewals(RenewalOutcome::Renewed);
    transport.step_server_clock(step);
    // The next renewal tells it, and they may have met in one tick of an eighth of a period.
    pass(seconds(10) / 8 + millis(250)).await;
    let hurried = heard.renewals(RenewalOutcome::Renewed) - renewals;
    assert!(hurried >= 1_000, "all leases of the node are asked in the ticks after it: {hurried}");
    pass(seconds(35)).await;
    assert!(heard.counts().found_ttls > 0, "two seconds are more than the margin of 1.5 s");
    assert_eq!(engine.snapshot().lost, 0);
    assert!(leases.iter().all(|lease| lease.is_held()));
    assert_eq!(heard.renewals(RenewalOutcome::TooLate), 0);
    traffic.iter().for_each(|task| task.abort());
    drop((leases, traffic));
    settles_within(&engine, seconds(5)).await;
    assert_eq!(transport.stored_holds(), 0);
    let windows = windows.lock().unwrap();
    let report = checkers::overlaps(&windows);
    assert!(report.violations.is_empty() && report.windows > 1_000, "{:?}", report.windows);
    assert_eq!(checkers::token_order(&windows), []);
}

async fn contend(engine: Engine, number: usize, windows: Arc<Mutex<Vec<Window>>>) {
    for round in 0.. {
        let key = format!("wanted {}", (number + round) % 4);
        let lease = engine.lock(&key).acquire().await.unwrap();
        let from_ns = now().as_nanos();
        pass(millis(10)).await;
        assert!(lease.is_held());
        let (until_ns, token) = (now().as_nanos(), lease.fencing_token().as_i64());
        lease.release().await.unwrap();
        let holder = format!("{number} {round}");
        windows.lock().unwrap().push(Window { key, holder, process: 0, token, from_ns, until_ns });
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_step_beyond_what_is_left_on_the_server_loses_leases_and_says_so() {
    let transport = MemoryTransport::new();
    let engine = engine(&transport).await;
    let mut leases = vec![];
    for number in 0..100 {
        leases.push(engine.lock(format!("{number}")).ttl(seconds(30)).acquire().await.unwrap());
    }
    pass(seconds(9)).await;
    transport.step_server_clock(ClockStep::Forward(seconds(25)));
    pass(millis(1_100)).await;
    assert_eq!(engine.snapshot().lost, 100, "the next renewal told it");
    assert!(leases.iter().all(|lease| !lease.is_held()));
}
