//! Random runs: two engines acquire, hold, release and drop permits at random, while requests and replies are lost, late,
//! doubled and reordered, and the server restarts with its data. At no moment more permits are held than there are, and
//! afterwards every permit is available again.

use std::sync::{Arc, Mutex};

use leasehold::{AcquireError, Engine, Permit};
use leasehold_memory::{Fault, Faults, Faulty, MemoryTransport, Operation, Restart};
use leasehold_tests::harness::seed::seed;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::fixture::{engine, millis, pass, seconds, settles_within};

const RUNS: u64 = 100;
const TOTAL: u32 = 6;

/// Every permit of the run that was granted and is not dropped, by the number of its grant.
#[derive(Default)]
struct Board {
    held: Vec<(u64, Arc<Permit>)>,
    grants: u64,
}

type Shared = Arc<Mutex<Board>>;

#[test]
fn s1_never_more_permits_are_held_than_there_are_and_all_come_back() {
    let first = seed();
    let mut grants = 0;
    for run in 0..RUNS {
        let seed = first.wrapping_add(run);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        grants += runtime.expect("a runtime").block_on(one_run(seed));
    }
    println!("{grants} grants");
    assert!(grants > RUNS * 20, "{grants} grants");
}

async fn one_run(seed: u64) -> u64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let transport = Faulty::new(MemoryTransport::new());
    let engines = [engine(&transport).await, engine(&transport).await];
    let board = Shared::default();
    engines[0].permits("a").try_set_total(TOTAL).await.expect("a healthy server");
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (rng, engine) = (StdRng::seed_from_u64(rng.random()), engines[task % 2].clone());
            tokio::spawn(client(engine, rng, board.clone(), seed))
        })
        .collect();
    for _ in 0..12 {
        disturb(&mut rng, &transport.faults(), transport.inner());
        pass(millis(rng.random_range(1..400))).await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    transport.faults().clear();
    pass(seconds(3)).await; // what is delayed arrives
    for engine in &engines {
        settles_within(engine, seconds(120)).await;
    }
    let shown = engines[0].permits("a").available().await.expect("a healthy server");
    assert_eq!(shown, i64::from(TOTAL), "LEASEHOLD_SEED={seed}");
    board.lock().expect("no panic").grants
}

fn disturb(rng: &mut StdRng, faults: &Faults, server: &MemoryTransport) {
    let time = millis(rng.random_range(1..1_500));
    let fault = match rng.random_range(0..9) {
        0 => Fault::LoseRequest,
        1 | 2 => Fault::LoseReply,
        3 => Fault::DelayRequest(time),
        4 => Fault::DelayReply(time),
        5 => Fault::Repeat,
        6 => Fault::RepeatLater(time),
        7 => Fault::Reorder(rng.random_range(1..5)),
        _ => return server.restart(Restart::DataKept),
    };
    let operations = [Operation::Acquire, Operation::Release, Operation::Renew];
    let operation = operations[rng.random_range(0..operations.len())];
    faults.on(operation).nth(rng.random_range(1..6)).times(rng.random_range(1..4)).inject(fault);
}

async fn client(engine: Engine, mut rng: StdRng, board: Shared, seed: u64) {
    let permits = engine.permits("a").ttl(seconds(2));
    for _ in 0..12 {
        let handle = permits.clone().wait(millis(rng.random_range(0..3_000)));
        let handle = if rng.random_bool(0.2) { handle.no_renewal() } else { handle };
        let acquire = handle.acquire(rng.random_range(1..5));
        let acquired = match rng.random_bool(0.2) {
            true => tokio::time::timeout(millis(rng.random_range(0..500)), acquire).await.ok(),
            false => Some(acquire.await),
        };
        match acquired {
            Some(Ok(permit)) => hold(permit, &mut rng, &board, seed).await,
            Some(Err(AcquireError::TimedOut { .. } | AcquireError::Unavailable { .. })) | None => {}
            Some(Err(error)) => panic!("LEASEHOLD_SEED={seed}: {error:?}"),
        }
        pass(millis(rng.random_range(0..50))).await;
    }
}

/// Holds permits for a while, also past their end, and gives them back or drops them.
async fn hold(permit: Permit, rng: &mut StdRng, board: &Shared, seed: u64) {
    let permit = Arc::new(permit);
    let number = enter(board, &permit);
    for _ in 0..rng.random_range(1..4) {
        check(board, seed);
        pass(millis(rng.random_range(0..900))).await;
    }
    check(board, seed);
    board.lock().expect("no panic").held.retain(|(other, _)| *other != number);
    let permit = Arc::into_inner(permit).expect("the board had the other");
    if rng.random_bool(0.7) {
        let _told = permit.release().await;
    }
}

fn enter(board: &Shared, permit: &Arc<Permit>) -> u64 {
    let mut board = board.lock().expect("no panic");
    board.grants += 1;
    let number = board.grants;
    board.held.push((number, permit.clone()));
    number
}

fn check(board: &Shared, seed: u64) {
    let board = board.lock().expect("no panic");
    let held: u32 = board.held.iter().filter(|(_, permit)| permit.is_held()).map(|(_, it)| it.count()).sum();
    assert!(held <= TOTAL, "LEASEHOLD_SEED={seed}: {held} permits are held");
}
