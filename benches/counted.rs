//! Counts that do not depend on the machine's mood: instructions under callgrind, allocations.
//!
//! Instructions: this program runs itself under callgrind, doing a job n and 2 n times; the difference divided by n
//! is what one costs, start-up and warm-up gone.

use leasehold::Engine;
use leasehold_memory::MemoryTransport;

use crate::{
    callgrind::{Cost, cost},
    rounds::Spread,
    size::Counts,
    table::Table,
    wheel_ops,
};

pub(crate) fn measure(table: &mut Table, counts: Counts) {
    let pair = cost(&["--count", "pair"], counts.pairs);
    table.add("P13", "memory pair on the current runtime: instructions", Spread::exactly(pair.all), "instr");
    table.at_most(PAIR_INSTRUCTIONS_MAX);
    measure_recording(table, &pair, counts);
    let made = allocations("pair", counts.pairs / 2);
    table.add(
        "P13",
        "memory pair: allocations, the memory table's included",
        Spread::exactly(made),
        "allocs",
    );
    table.at_most(PAIR_ALLOCATIONS_MAX);
    let renewals = format!("renewals_of_{}", counts.leases);
    let renewal = cost(&["--count", &renewals], counts.renewals).all;
    table.add(
        "P13c",
        "memory renewal: instructions, ticks and table included",
        Spread::exactly(renewal),
        "instr",
    );
    table.at_most(RENEWAL_INSTRUCTIONS_MAX);
    let made = allocations(&renewals, counts.renewals);
    table.add("P13c", "memory renewal: allocations", Spread::exactly(made), "allocs");
    table.at_most(RENEWAL_ALLOCATIONS_MAX);
}

/// A pair with metrics less one without. The allocator is left out, and both ask as much of it: how long it looks for a
/// task's aligned memory depends on what else lies on the heap, by up to 250 instructions a pair.
fn measure_recording(table: &mut Table, pair: &Cost, counts: Counts) {
    let recorded = cost(&["--count", "pair_recorded"], counts.pairs);
    let more = recorded.without_allocator - pair.without_allocator;
    let what = "memory pair with metrics less one without, allocator left out";
    table.add("P14", what, Spread::exactly(more), "instr");
    table.at_most(RECORDING_INSTRUCTIONS_MAX);
    let whole = recorded.all - pair.all;
    table.add("P14", "the same, allocator included: as the heap lies", Spread::exactly(whole), "instr");
    let times = counts.pairs / 2;
    let more = allocations("pair_recorded", times) - allocations("pair", times);
    table.add("P14", "the same: allocations", Spread::exactly(more), "allocs");
    table.at_most(RECORDING_ALLOCATIONS_MAX);
}

/// What the process does under `--count JOB TIMES`.
pub(crate) fn run_job(job: &str, times: usize) {
    match job {
        "pair" => on_paused_runtime(async { pairs(engine().await, times).await }),
        "pair_recorded" => on_paused_runtime(async { pairs(recording_engine().await, times).await }),
        other => run_sized_job(other, times),
    }
}

fn run_sized_job(job: &str, times: usize) {
    let size = |text: &str| text.parse().expect("a number");
    if let Some(leases) = job.strip_prefix("renewals_of_") {
        on_paused_runtime(renewals(size(leases), times));
    } else if let Some(entries) = job.strip_prefix("wheel_of_") {
        wheel_ops::turn(size(entries), times);
    } else {
        panic!("no job is called {job}");
    }
}

fn on_paused_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work);
}

async fn engine() -> Engine {
    let building = Engine::builder(MemoryTransport::new()).on_current_runtime().build();
    building.await.expect("the memory transport is always there")
}

async fn recording_engine() -> Engine {
    let building = Engine::builder(MemoryTransport::new()).metrics().on_current_runtime().build();
    building.await.expect("the memory transport is always there")
}

async fn pairs(engine: Engine, times: usize) {
    let lock = engine.lock("orders:42");
    for _ in 0..times {
        let lease = lock.acquire().await.expect("nobody else wants it");
        lease.release().await.expect("it is ours");
    }
}

/// So many renewals of so many leases, through the whole driver.
async fn renewals(of: usize, times: usize) {
    let engine = engine().await;
    let mut leases = Vec::new();
    for number in 0..of {
        leases.push(engine.lock(format!("lease:{number}")).acquire().await.expect("nobody else wants it"));
    }
    while engine.snapshot().renewals < times as u64 {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    }
}

fn allocations(job: &str, times: usize) -> f64 {
    run_job(job, 1); // what is made once in a process is made here: the places that trace, say
    let count = |times| allocation_counter::measure(|| run_job(job, times)).count_total as f64;
    (count(2 * times) - count(times)) / times as f64
}

// Limits lie 1.5 to 4 % above the figures of 2026-11-23, that of the pair's instructions above the figure of 2026-11-26, which
// has the checks for a forked process and the time that a call waits unsent: the same code differs by up to 2 %, as the
// compiler lays it out.
const PAIR_INSTRUCTIONS_MAX: f64 = 18_750.0;
/// Five events.
const RECORDING_INSTRUCTIONS_MAX: f64 = 350.0;
/// A table may grow once more in one than in the other.
const RECORDING_ALLOCATIONS_MAX: f64 = 0.02;
const PAIR_ALLOCATIONS_MAX: f64 = 5.2;
const RENEWAL_INSTRUCTIONS_MAX: f64 = 2_150.0;
const RENEWAL_ALLOCATIONS_MAX: f64 = 0.05;
