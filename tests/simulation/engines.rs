//! Two and more engines on one memory, as processes on one server.

use std::sync::{Arc, Mutex};

use leasehold::Engine;
use leasehold_memory::MemoryTransport;
use leasehold_tests::harness::{checkers, recorder::Window};

use crate::fixture::{engine, millis, now, pass, seconds, settles_within};

async fn contend(engine: Engine, process: u32, number: usize, windows: Arc<Mutex<Vec<Window>>>) {
    for round in 0.. {
        let lease = engine.lock("a").acquire().await.unwrap();
        let from_ns = now().as_nanos();
        pass(millis(1)).await;
        assert!(lease.is_held());
        let (until_ns, token) = (now().as_nanos(), lease.fencing_token().as_i64());
        let holder = format!("{process} {number} {round}");
        let key = lease.name().to_owned();
        windows.lock().unwrap().push(Window { key, holder, process, token, from_ns, until_ns });
        lease.release().await.unwrap();
    }
}

async fn turns(engines: u32, tasks: usize) -> Vec<Window> {
    let memory = MemoryTransport::new();
    let windows = Arc::new(Mutex::new(vec![]));
    let (mut all, mut contenders) = (vec![], vec![]);
    for process in 0..engines {
        let engine = engine(&memory).await;
        contenders.extend(
            (0..tasks).map(|task| tokio::spawn(contend(engine.clone(), process, task, windows.clone()))),
        );
        all.push(engine);
    }
    pass(seconds(6)).await;
    contenders.iter().for_each(|task| task.abort());
    drop(contenders);
    for engine in &all {
        settles_within(engine, seconds(1)).await;
    }
    assert_eq!(memory.stored_holds() + memory.watched_keys(), 0);
    Arc::try_unwrap(windows).expect("all tasks have ended").into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn s1_engines_exclude_each_other_and_each_gets_at_least_a_tenth_of_the_grants() {
    for (engines, tasks) in [(2, 1), (2, 16), (4, 16)] {
        let windows = turns(engines, tasks).await;
        let report = checkers::overlaps(&windows);
        assert_eq!(report.violations, []);
        assert_eq!(checkers::token_order(&windows), []);
        let grants = checkers::grants_per_process(&windows);
        let least = windows.len() / 10;
        assert_eq!(grants.len(), engines as usize);
        assert!(windows.len() > 2_000, "{}", windows.len());
        assert!(grants.values().all(|count| *count >= least), "{engines} x {tasks}: {grants:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_engine_has_more_than_32_grants_in_a_row_while_another_waits() {
    let mut windows = turns(2, 4).await;
    windows.sort_by_key(|window| window.from_ns);
    let rows = windows.chunk_by(|one, next| one.process == next.process);
    let longest = rows.map(<[Window]>::len).max().unwrap();
    assert!(longest <= 33, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_alone_never_stands_back() {
    let windows = turns(1, 4).await;
    assert!(windows.len() >= 5_700, "a grant each millisecond: {}", windows.len());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_of_one_engine_is_the_next_lease_of_the_other_with_a_higher_token() {
    let memory = MemoryTransport::new();
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let held = one.lock("a").ttl(seconds(2)).no_renewal().acquire().await.unwrap();
    let next = two.lock("a").acquire().await.unwrap();
    assert!(!held.is_held() && next.fencing_token() > held.fencing_token());
}
