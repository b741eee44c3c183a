//! Random runs: two engines take, give, drain and drop calls at random on a few semaphores, while requests and replies are
//! lost, late, doubled and reordered, and the server restarts with its data. Afterwards everything heals, and the number
//! on the server must be what the answers say.

use std::sync::{Arc, Mutex};

use leasehold::{CountError, Engine};
use leasehold_memory::{Fault, Faults, Faulty, MemoryTransport, Operation, Restart};
use leasehold_tests::harness::seed::seed;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::fixture::{engine, millis, pass, seconds, settles_within};

const RUNS: u64 = 150;
const START: u32 = 20;

/// What the number must be, by the answers.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    sure: i64,
    done: u64,
    unsure: u64,
}

type Shared = Arc<Mutex<Ledger>>;

#[test]
fn sums_of_permits_are_conserved_in_random_runs() {
    let first = seed();
    let (mut done, mut unsure) = (0, 0);
    for run in 0..RUNS {
        let seed = first.wrapping_add(run);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let ledger = runtime.expect("a runtime").block_on(one_run(seed));
        (done, unsure) = (done + ledger.done, unsure + ledger.unsure);
    }
    println!("{done} calls done, {unsure} not answered");
    assert!(done > RUNS * 40, "{done} calls");
}

async fn one_run(seed: u64) -> Ledger {
    let mut rng = StdRng::seed_from_u64(seed);
    let transport = Faulty::new(MemoryTransport::new());
    let engines = [engine(&transport).await, engine(&transport).await];
    let ledger = Shared::default();
    engines[0].semaphore("a").try_set(START).await.expect("a healthy server");
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (rng, engine) = (StdRng::seed_from_u64(rng.random()), engines[task % 2].clone());
            tokio::spawn(client(engine, rng, ledger.clone()))
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
        settles_within(engine, seconds(330)).await;
    }
    let shown = engines[0].semaphore("a").available().await.expect("a healthy server");
    let ledger = *ledger.lock().expect("no panic");
    let expected = i64::from(START) + ledger.sure;
    assert_eq!(shown, expected, "LEASEHOLD_SEED={seed}: {ledger:?}");
    ledger
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
    faults.on(Operation::Count).nth(rng.random_range(1..6)).times(rng.random_range(1..4)).inject(fault);
}

async fn client(engine: Engine, mut rng: StdRng, ledger: Shared) {
    let permits = engine.semaphore("a").wait(millis(rng.random_range(0..3_000)));
    for _ in 0..12 {
        let number = rng.random_range(1..4);
        let patience = millis(rng.random_range(0..2_000));
        let cancelled = rng.random_bool(0.3);
        match rng.random_range(0..10) {
            0..5 => {
                // A take that is dropped or fails takes nothing: there is no "perhaps".
                let taken = within(cancelled, patience, permits.acquire(number)).await;
                match taken {
                    Some(Ok(())) => note(&ledger, |ledger| ledger.sure -= i64::from(number)),
                    Some(Err(CountError::TimedOut { .. } | CountError::Unavailable { .. })) | None => {}
                    Some(Err(error)) => panic!("{error:?}"),
                }
            }
            5..9 => {
                let given = within(cancelled, patience, permits.release(number)).await;
                note_write(&ledger, given, i64::from(number));
            }
            _ => {
                if let Some(Ok(drained)) = within(cancelled, patience, permits.drain()).await {
                    note(&ledger, |ledger| ledger.sure -= drained);
                }
            }
        }
        pass(millis(rng.random_range(0..50))).await;
    }
}

// A release that was begun counts, whether its caller has waited or not, once the server answers again.
fn note_write(ledger: &Shared, outcome: Option<Result<(), CountError>>, by: i64) {
    note(ledger, |ledger| match outcome {
        Some(Ok(())) => ledger.sure += by,
        Some(Err(CountError::Unknown { .. })) | None => {
            ledger.sure += by;
            ledger.unsure += 1;
        }
        Some(Err(error)) => panic!("{error:?}"),
    });
}

fn note(ledger: &Shared, change: impl FnOnce(&mut Ledger)) {
    let mut ledger = ledger.lock().expect("no panic");
    ledger.done += 1;
    change(&mut ledger);
}

/// Polls the call at least once, and drops it after a while if it is to be cancelled.
async fn within<T>(
    cancelled: bool,
    patience: std::time::Duration,
    call: impl Future<Output = T>,
) -> Option<T> {
    match cancelled {
        true => tokio::time::timeout(patience, call).await.ok(),
        false => Some(call.await),
    }
}
