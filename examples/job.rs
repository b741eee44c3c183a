//! Work that a fleet does once per period, in any of its processes.
//! `cargo example job [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! Three processes run the same loop. The process that ran the job goes away in the middle of the program; the others
//! run it from then on.

use std::{sync::Arc, time::Duration};

use leasehold::{AcquireError, Engine, EngineBuilder, Job, JobOutcome, NotHeld, RunError, clock::Clock};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{sync::watch, task::JoinSet, time::sleep};

/// One process: each time it is its turn, it runs the job.
async fn work(engine: Engine, name: &'static str, runs: Arc<watch::Sender<u32>>) -> Result<(), Trouble> {
    let job = Job::new(&engine, JOB, PERIOD).at_most_for(Duration::from_secs(10));
    loop {
        let ran = job.run_when_due(async |lease| {
            lease.ensure_held()?; // before each guarded step
            println!("{name} runs the job, token {}", lease.fencing_token());
            sleep(Duration::from_millis(50)).await;
            Ok::<_, NotHeld>(())
        });
        match ran.await {
            Ok(JobOutcome::Ran(())) => runs.send_modify(|count| *count += 1),
            Ok(other) => println!("{name}: {other:?}"),
            Err(RunError::Acquire(AcquireError::ShuttingDown)) => return Ok(()),
            Err(error) => println!("{name}: {error}"), // the next call tries again
        }
        if *runs.borrow() == 2 {
            println!("{name} goes away");
            engine.shutdown(Duration::from_secs(5)).await; // releases what it holds, and not the mark of the run
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let (mut fleet, (runs, mut seen)) = (JoinSet::new(), watch::channel(0));
    let (runs, begun) = (Arc::new(runs), Clock::Boot.now());
    for name in ["ada", "ben", "cleo"] {
        fleet.spawn(work(process()?.build().await?, name, runs.clone()));
    }
    seen.wait_for(|count| *count == 4).await?;
    println!("4 runs began at least 3 periods apart: {}", Clock::Boot.now() - begun >= PERIOD * 3);
    let operator = process()?.build().await?;
    let tried = Job::new(&operator, JOB, PERIOD).run_if_due(async |_lease| Ok::<_, NotHeld>(()));
    println!("one more try: {}", if tried.await? == JobOutcome::Ran(()) { "ran" } else { "not due" });
    fleet.shutdown().await; // drops what runs, then releases it
    Ok(())
}

/// The engine of one process more. Clones of one memory transport are as one server to all of them.
fn process() -> Result<EngineBuilder, Trouble> {
    static MEMORY: std::sync::LazyLock<MemoryTransport> = std::sync::LazyLock::new(MemoryTransport::new);
    Ok(match servers()? {
        Servers::Memory => Engine::builder(MEMORY.clone()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    })
}

const JOB: &str = "invoices";
/// Services take minutes or hours.
const PERIOD: Duration = Duration::from_secs(1);
