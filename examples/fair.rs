//! A fair lock: its callers are served in the order in which they came, whichever process they are in. Here two engines
//! share it, as two processes would. `cargo example fair [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::{
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use leasehold::Engine;
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let (one, other) = engines().await?;
    let printing = one.fair_lock("printer:2").wait(WAIT).acquire().await?;
    let ((served, order), mut jobs) = (channel(), JoinSet::new());
    for number in 1..=5 {
        let engine = if number % 2 == 0 { one.clone() } else { other.clone() };
        jobs.spawn(print(engine, number, served.clone()));
        tokio::time::sleep(Duration::from_millis(100)).await; // the next one comes later
    }
    printing.release().await?;
    let tried = one.fair_lock("printer:2").try_acquire().await?;
    println!("a try is refused while others wait: {}", tried.is_none());
    while let Some(done) = jobs.join_next().await {
        done??;
    }
    drop(served);
    println!("served in the order of arrival: {}", Vec::from_iter(order).join(" "));
    one.shutdown(Duration::from_secs(2)).await;
    other.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn print(engine: Engine, number: u32, served: Sender<String>) -> Result<(), Trouble> {
    let lease = engine.fair_lock("printer:2").wait(WAIT).acquire().await?;
    served.send(number.to_string())?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    lease.release().await?;
    Ok(())
}

async fn engines() -> Result<(Engine, Engine), Trouble> {
    Ok(match servers()? {
        Servers::Memory => {
            let memory = MemoryTransport::new();
            (Engine::builder(memory.clone()).build().await?, Engine::builder(memory).build().await?)
        }
        Servers::Redis(file) => {
            let redis =
                || Engine::builder(RedisTransport::new(file.redis.clone())).config(file.engine.clone());
            (redis().build().await?, redis().build().await?)
        }
    })
}

const WAIT: Duration = Duration::from_secs(20);
