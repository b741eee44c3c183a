//! At most two of six jobs at once, and one holder that dies.
//!
//! `cargo example permits [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::Engine;
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;
    let name = format!("exports-{}", std::process::id()); // so that two runs of this example do not share it
    engine.permits(&name).try_set_total(2).await?;

    let (running, mut jobs) = (Arc::new(AtomicU32::new(0)), JoinSet::new());
    for job in 0..6 {
        jobs.spawn(export(engine.clone(), name.clone(), job, running.clone()));
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }

    // As if the process had died: nobody renews the permits, and nobody gives them back.
    let short = engine.permits(&name).ttl(Duration::from_secs(1)).no_renewal();
    let dead = short.acquire(2).await?;
    let permit = engine.permits(&name).acquire(1).await?;
    println!("a permit is available again");
    println!("the first holder is told: {}", dead.lost().await);
    drop(dead);
    permit.release().await?;
    println!("{} permits are available afterwards", engine.permits(&name).available().await?);
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn export(engine: Engine, name: String, job: u32, running: Arc<AtomicU32>) -> Result<(), Trouble> {
    let permit = engine.permits(name).acquire(1).await?;
    let beside = running.fetch_add(1, Ordering::SeqCst);
    println!("job {job} runs beside {beside} other");
    tokio::time::sleep(Duration::from_millis(50)).await;
    permit.ensure_held()?; // before the step that must not be done by three at once
    running.fetch_sub(1, Ordering::SeqCst);
    permit.release().await?;
    Ok(())
}
