//! Random runs of leaders and jobs: three processes with a bad way to the server each, which also resign and begin again.
//! The work of two terms or of two runs never overlaps, tokens rise, and runs keep their period.

use std::{cell::RefCell, rc::Rc, time::Duration};

use leasehold::{FencingToken, Job, Leader, LeaseView, RunError, clock::Instant};
use leasehold_memory::{Cut, Fault, Faults, Faulty, MemoryTransport, Operation};
use leasehold_tests::harness::seed::seed;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::task::{JoinSet, LocalSet};

use crate::fixture::{engine, millis, now, pass, seconds};

const PERIOD: Duration = seconds(40);
const LENGTH: Duration = seconds(2_000);

/// One term or one run: its token, its begin and its end.
type Spell = (FencingToken, Instant, Option<Instant>);

/// What was done, by all processes.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Spell>>>);

/// Notes the end when the work is dropped.
struct Working(Log, usize);

impl Log {
    fn begin(&self, lease: &LeaseView) -> Working {
        let mut spells = self.0.borrow_mut();
        spells.push((lease.fencing_token(), now(), None));
        Working(self.clone(), spells.len() - 1)
    }

    fn check(&self, seed: u64) -> usize {
        let spells = self.0.borrow();
        for pair in spells.windows(2) {
            assert!(pair[0].0 < pair[1].0, "seed {seed}: tokens: {pair:?}");
            assert!(pair[0].2.is_some_and(|end| end <= pair[1].1), "seed {seed}: two at once: {pair:?}");
        }
        spells.len()
    }

    /// The server counts the period from the mark, and the answer to it may take one command timeout, 1 s.
    fn check_period(&self, seed: u64) {
        for pair in self.0.borrow().windows(2) {
            let apart = pair[1].1 - pair[0].1;
            assert!(apart >= PERIOD - millis(1_100), "seed {seed}: {apart:?} apart: {pair:?}");
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.borrow_mut()[self.1].2 = Some(now());
    }
}

async fn trouble(faults: Faults, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    loop {
        pass(millis(chance.random_range(20..20_000))).await;
        if chance.random_ratio(1, 3) {
            faults.cut(*[Cut::Refused, Cut::BlackHole, Cut::RepliesLost].choose(&mut chance).expect("some"));
            pass(millis(chance.random_range(5..20_000))).await;
            faults.heal();
        }
        let late = millis(chance.random_range(1..2_500));
        let fates =
            [Fault::LoseRequest, Fault::LoseReply, Fault::DelayRequest(late), Fault::DelayReply(late)];
        let operations = [Operation::Acquire, Operation::Renew, Operation::Release, Operation::Notice];
        let on = faults.on(*operations.choose(&mut chance).expect("some"));
        on.times(chance.random_range(1..4)).inject(*fates.choose(&mut chance).expect("some"));
    }
}

/// A process that stands again whenever it has ended, and resigns now and then.
async fn stand(transport: Faulty<MemoryTransport>, log: Log, seed: u64) {
    let (engine, mut chance) = (engine(&transport).await, StdRng::seed_from_u64(seed));
    loop {
        let leader = Leader::of(engine.lock("leader").ttl(seconds(6)));
        let (watch, log, takes) = (leader.watch(), log.clone(), millis(chance.random_range(1..90_000)));
        let resigns = async {
            pass(millis(chance.random_range(1..60_000))).await;
            watch.resign();
            pass(millis(chance.random_range(1..60_000))).await; // then the process ends in order, and begins again
        };
        let leads = leader.run(|term| {
            let working = log.begin(&term);
            async move {
                let _working = working;
                pass(takes).await;
                Ok::<_, ()>(())
            }
        });
        tokio::select! {
            ended = leads => match ended {
                Ok(()) | Err(RunError::Release(_)) => {}
                other => panic!("seed {seed}: {other:?}"),
            },
            () = resigns => {}
        }
    }
}

async fn work(transport: Faulty<MemoryTransport>, log: Log, seed: u64) {
    let (engine, mut chance) = (engine(&transport).await, StdRng::seed_from_u64(seed));
    let job = Job::new(&engine, "job", PERIOD).at_most_for(seconds(70)).ttl(seconds(6));
    loop {
        let takes = millis(chance.random_range(1..90_000));
        let ran = job.run_when_due(async |lease: LeaseView| {
            let _working = log.begin(&lease);
            pass(takes).await;
            Ok::<_, ()>(())
        });
        let _whatever = tokio::time::timeout(millis(chance.random_range(1..200_000)), ran).await;
        pass(millis(1)).await; // also when an error is told at once
    }
}

async fn run(seed: u64) -> (usize, usize) {
    let (memory, terms, runs) = (MemoryTransport::new(), Log::default(), Log::default());
    let mut processes = JoinSet::new();
    for process in 0..3 {
        let (leaders, workers) = (Faulty::new(memory.clone()), Faulty::new(memory.clone()));
        processes.spawn_local(trouble(leaders.faults(), seed ^ (10 + process)));
        processes.spawn_local(trouble(workers.faults(), seed ^ (20 + process)));
        processes.spawn_local(stand(leaders, terms.clone(), seed ^ (30 + process)));
        processes.spawn_local(work(workers, runs.clone(), seed ^ (40 + process)));
    }
    tokio::select! {
        Some(ended) = processes.join_next() => ended.expect("no process panics"),
        () = pass(LENGTH) => {}
    }
    runs.check_period(seed);
    (terms.check(seed), runs.check(seed))
}

#[tokio::test(start_paused = true)]
async fn work_of_leaders_and_jobs_never_overlaps_and_jobs_keep_their_period() {
    let mut chance = StdRng::seed_from_u64(seed());
    for _ in 0..3 {
        let (terms, runs) = LocalSet::new().run_until(run(chance.random())).await;
        assert!(terms > 10 && runs > 5, "{terms} terms, {runs} runs");
    }
}
