//! Two locks together: a transfer needs both accounts.
//! `cargo example transfer [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! One task moves money from ada to ben, another one from ben to ada. Each names the account that it takes from first.
//! With one lock after the other they would wait for each other for ever; a multi lock has one order for all.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{Engine, MultiLease, MultiLock, NotHeld};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{task::JoinSet, time::sleep};

/// The balances, as a database without transactions would have them.
type Balances = Arc<Mutex<[i64; 2]>>;

const NAMES: [&str; 2] = ["acct:ada", "acct:ben"];

async fn transfers(engine: Engine, from: usize, to: usize, balances: Balances) -> Result<(), Trouble> {
    let accounts = [from, to].map(|account| engine.lock(NAMES[account]).ttl(Duration::from_secs(5)));
    let both = MultiLock::of(accounts).wait(Duration::from_secs(20));
    for _ in 0..50 {
        both.run(async |lease: &MultiLease| step(lease, from, to, &balances).await).await?;
    }
    println!("50 transfers from {} to {}", NAMES[from], NAMES[to]);
    Ok(())
}

/// Reads, waits, writes: another step in between would be lost.
async fn step(lease: &MultiLease, from: usize, to: usize, balances: &Balances) -> Result<(), NotHeld> {
    let mut read = *balances.lock().expect("no panic");
    sleep(Duration::from_millis(1)).await;
    read[from] -= 1;
    read[to] += 1;
    lease.ensure_held()?; // before each step that must not be done twice
    *balances.lock().expect("no panic") = read;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;
    let balances = Balances::new(Mutex::new([100, 100]));
    let mut tasks = JoinSet::new();
    tasks.spawn(transfers(engine.clone(), 0, 1, balances.clone()));
    tasks.spawn(transfers(engine.clone(), 1, 0, balances.clone()));
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("balances: {:?}", balances.lock().expect("no panic"));
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
