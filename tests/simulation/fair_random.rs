//! Random runs of fair locks: three processes, of which one has a bad way to the server. Nobody is inside beside another,
//! every caller that stays is served, callers behind a good way are served in the order in which they came, and nothing is
//! left.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use leasehold::Engine;
use leasehold_memory::{Cut, Fault, Faults, Operation};
use leasehold_tests::harness::seed::seed;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::fixture::{breathe, fixture, millis, now, pass, seconds, settles_within};

/// What the callers of a run have seen.
#[derive(Default)]
struct Run {
    came: Cell<u64>,
    /// The number of the last caller of a good process that was served, and of all callers that were.
    last: Cell<u64>,
    served: Cell<u64>,
    inside: RefCell<Option<u64>>,
}

/// A caller that comes at a random moment, and holds the lock for a while, or leaves.
async fn caller(engine: Engine, run: Rc<Run>, is_good: bool, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    pass(millis(chance.random_range(0..20_000))).await;
    let number = run.came.get() + 1;
    run.came.set(number);
    let lock = engine.fair_lock("a").wait(seconds(3_000));
    if chance.random_ratio(1, 5) {
        let patience = millis(chance.random_range(0..8_000));
        let Ok(Ok(lease)) = tokio::time::timeout(patience, lock.acquire()).await else { return };
        return drop(lease);
    }
    let lease = loop {
        match lock.acquire().await {
            Ok(lease) => break lease,
            Err(error) => assert!(!is_good, "{number}: {error}"),
        }
    };
    if is_good {
        let before = run.last.replace(number);
        assert!(before < number, "{number} came before {before}");
    }
    for _ in 0..chance.random_range(1..40) {
        if lease.is_held() {
            let other = run.inside.replace(Some(number)).filter(|other| *other != number);
            assert_eq!(other, None, "two inside");
        }
        pass(millis(5)).await;
    }
    run.inside.borrow_mut().take_if(|inside| *inside == number);
    run.served.set(run.served.get() + 1);
    drop(lease.release().await);
}

async fn trouble(faults: Faults, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    loop {
        pass(millis(chance.random_range(20..1_500))).await;
        if chance.random_ratio(1, 5) {
            faults.cut(*[Cut::Refused, Cut::BlackHole, Cut::RepliesLost].choose(&mut chance).expect("some"));
            pass(millis(chance.random_range(5..7_000))).await;
            faults.heal();
        }
        let late = millis(chance.random_range(1..2_500));
        let fates =
            [Fault::LoseRequest, Fault::LoseReply, Fault::DelayRequest(late), Fault::DelayReply(late)];
        let operations = [Operation::Acquire, Operation::Beat, Operation::Release, Operation::Notice];
        let on = faults.on(*operations.choose(&mut chance).expect("some"));
        on.times(chance.random_range(1..4)).inject(*fates.choose(&mut chance).expect("some"));
    }
}

async fn run(seed: u64) -> u64 {
    let fixture = fixture().await;
    let good = [fixture.other().await, fixture.other().await];
    let mut chance = StdRng::seed_from_u64(seed);
    let run = Rc::new(Run::default());
    let local = tokio::task::LocalSet::new();
    let troubled = tokio::spawn(trouble(fixture.faults.clone(), chance.random()));
    let mut callers = Vec::new();
    for number in 0..60 {
        let (engine, is_good) = match number % 3 {
            0 => (fixture.engine.clone(), false),
            at => (good[at - 1].clone(), true),
        };
        callers.push(local.spawn_local(caller(engine, run.clone(), is_good, chance.random())));
    }
    let began = now();
    tokio::time::timeout(seconds(1_000), local).await.expect("every caller is served or leaves");
    for caller in callers {
        caller.await.expect("a caller that saw what is promised");
    }
    assert!(now() - began < seconds(600), "{:?}: a caller has waited for too long", now() - began);
    troubled.abort();
    breathe().await;
    fixture.faults.clear();
    fixture.faults.heal();
    for engine in good.iter().chain([&fixture.engine]) {
        settles_within(engine, seconds(30)).await;
    }
    pass(seconds(2)).await;
    assert_eq!(fixture.transport.inner().watched_keys(), 0);
    run.served.get()
}

#[test]
fn runs_at_random_keep_order_and_exclusion_and_leave_nothing() {
    let first = seed();
    let mut served = 0;
    for round in 0..RUNS {
        let seed = first.wrapping_add(round);
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        served += runtime.expect("a runtime").block_on(run(seed));
    }
    assert!(served > 30 * RUNS, "{served} of {RUNS} runs");
}

const RUNS: u64 = 20;
