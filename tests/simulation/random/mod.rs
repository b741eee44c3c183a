//! Random runs: several engines on one to three nodes, each behind faults of its own, with clients that acquire, hold,
//! renew, release, drop and cancel at random, while requests are lost, late, doubled and reordered, lanes are cut, slots
//! are handed over, nodes stand still, restart and fail over, and engines end in the middle. Afterwards everything heals,
//! and the history is judged.
//!
//! A seed fixes the plan of a run: who does what when, and which faults come when. What it does not fix is in which order
//! tokio polls what is ready in the same millisecond; a failure that needs that order may take several tries.

mod chaos;
mod chaos_of_nodes;
mod client;
mod history;
mod world;

use leasehold_tests::harness::seed::seed;

use history::Totals;
use world::World;

/// As many as take about ten seconds.
const RUNS: u64 = 200;

#[test]
fn s1_s2_s3_s5_s6_l6_and_conservation_hold_in_random_runs() {
    let first = seed();
    let mut totals = Totals::default();
    for run in 0..RUNS {
        let seed = first.wrapping_add(run);
        let told = ToldOnPanic { run, seed };
        totals += World::run(seed);
        drop(told);
    }
    println!("{totals:?}");
    totals.assert_that_much_happened(RUNS);
}

struct ToldOnPanic {
    run: u64,
    seed: u64,
}

impl Drop for ToldOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { run, seed } = self;
            println!("run {run} failed; LEASEHOLD_SEED={seed} makes it the first");
        }
    }
}
