//! Counts that do not depend on the machine's mood: instructions under callgrind, allocations.
//!
//! Instructions: this program runs itself under callgrind, doing a job n and 2 n times; the difference divided by n
//! is what one costs, start-up and warm-up gone.

use std::process::Command;

use leasehold::Engine;
use leasehold_memory::MemoryTransport;

use crate::{rounds::Spread, table::Table, wheel_ops};

pub(crate) fn measure(table: &mut Table) {
    let pair = instructions(&["--count", "pair"], 2_000);
    table.add("P13", "memory pair on the current runtime: instructions", Spread::exactly(pair), "instr");
    table.at_most(PAIR_INSTRUCTIONS_MAX);
    let recorded = recorded_instructions(2_000);
    table.add(
        "P14",
        "memory pair with metrics: instructions of recording",
        Spread::exactly(recorded),
        "instr",
    );
    table.at_most(RECORDED_INSTRUCTIONS_MAX);
    let allocations = allocations_of_pairs(1_000);
    table.add(
        "P13",
        "memory pair: allocations, the memory table's included",
        Spread::exactly(allocations),
        "allocs",
    );
    table.at_most(PAIR_ALLOCATIONS_MAX);
    let renewal = instructions(&["--count", "renewals"], 40_000);
    table.add(
        "P13c",
        "memory renewal: instructions, ticks and table included",
        Spread::exactly(renewal),
        "instr",
    );
    table.at_most(RENEWAL_INSTRUCTIONS_MAX);
    let allocations = allocations_of_renewals(40_000);
    table.add("P13c", "memory renewal: allocations", Spread::exactly(allocations), "allocs");
    table.at_most(RENEWAL_ALLOCATIONS_MAX);
    let wheel = instructions(&["--count", "wheel"], 400_000);
    table.add("P11", "wheel of 100,000: instructions an operation", Spread::exactly(wheel), "instr");
    table.at_most(400.0);
}

/// What the process does under `--count JOB TIMES`.
pub(crate) fn run_job(job: &str, times: usize) {
    match job {
        "pair" => on_paused_runtime(async { pairs(engine().await, times).await }),
        "pair_recorded" => on_paused_runtime(async { pairs(recording_engine().await, times).await }),
        "renewals" => on_paused_runtime(renewals(times)),
        "wheel" => wheel_ops::turn(times),
        other => panic!("no job is called {other}"),
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

// So many that the ticks, twenty a second whatever happens in them, do not count.
const RENEWED_LEASES: usize = 20_000;

/// So many renewals of a few thousand leases, through the whole driver.
async fn renewals(times: usize) {
    let engine = engine().await;
    let mut leases = Vec::new();
    for number in 0..RENEWED_LEASES {
        leases.push(engine.lock(format!("lease:{number}")).acquire().await.expect("nobody else wants it"));
    }
    while engine.snapshot().renewals < times as u64 {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    }
}

/// Of what this program does under `job TIMES`, once.
pub(crate) fn instructions(job: &[&str], times: usize) -> f64 {
    (callgrind(job, 2 * times, &[]) - callgrind(job, times, &[])) / times as f64
}

/// Those of the recorder alone. The difference of two whole programs says the same, but for malloc: how long it looks for
/// a task's aligned memory depends on what else lies on the heap, up to 160 instructions a pair one way or the other.
fn recorded_instructions(times: usize) -> f64 {
    let only = ["--collect-atstart=no", RECORDING];
    let count = |times| callgrind(&["--count", "pair_recorded"], times, &only);
    let each = (count(2 * times) - count(times)) / times as f64;
    assert!(each > 0.0, "{RECORDING} names no function of this program");
    each
}

fn callgrind(job: &[&str], times: usize, options: &[&str]) -> f64 {
    let program = std::env::current_exe().expect("a program knows its path");
    let out = std::env::temp_dir().join(format!("leasehold-callgrind-{}-{times}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    command.args(options).arg(program).args(job).arg(times.to_string());
    let done = command.output().expect("valgrind is installed: apt-get install valgrind");
    let _ = std::fs::remove_file(out);
    let text = String::from_utf8_lossy(&done.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.unwrap_or_else(|| panic!("callgrind counts nothing: {text}")).1;
    count.trim().parse().expect("a number of instructions")
}

fn allocations_of_pairs(times: usize) -> f64 {
    let count = |times| allocation_counter::measure(|| run_job("pair", times)).count_total as f64;
    (count(2 * times) - count(times)) / times as f64
}

fn allocations_of_renewals(times: usize) -> f64 {
    let count = |times| allocation_counter::measure(|| run_job("renewals", times)).count_total as f64;
    (count(2 * times) - count(times)) / times as f64
}

const PAIR_INSTRUCTIONS_MAX: f64 = 22_000.0;
const RECORDING: &str =
    "--toggle-collect=*leasehold::metrics::recorder::Recorder for leasehold::metrics::numbers::Numbers*";
/// Five events.
const RECORDED_INSTRUCTIONS_MAX: f64 = 350.0;
const PAIR_ALLOCATIONS_MAX: f64 = 12.0;
const RENEWAL_INSTRUCTIONS_MAX: f64 = 1_800.0;
const RENEWAL_ALLOCATIONS_MAX: f64 = 0.05;
