//! Leader election: whoever holds the lock leads; who loses it stops and stands again.
//! `cargo run -p leasehold-examples --bin leader [-- --url redis://127.0.0.1]`
//!
//! Three candidates, each with an engine of its own as three processes would have. The first leader is deposed by an
//! operator. Each ends when it has led to the end once.

use std::time::Duration;

use leasehold::{Engine, EngineBuilder, Lease, LossNotice};
use leasehold_examples::Trouble;
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{task::JoinSet, time::sleep};

/// The election.
async fn stand(engine: Engine, name: &'static str) -> Result<(), Trouble> {
    // Who hangs or dies is followed after this time. Services take more: 5 s, or the default of 30 s.
    let office = engine.lock(OFFICE).ttl(Duration::from_secs(1));
    loop {
        let lease = office.acquire().await?;
        println!("{name} leads, term {}", lease.fencing_token());
        tokio::select! {
            reason = lease.lost() => println!("{name} stops at once: {reason}"),
            () = lead(name, &lease) => match lease.release().await {
                Ok(()) => break,
                Err(error) => println!("{name} did not lead to the end: {error}"),
            },
        }
    }
    println!("{name} has stepped down");
    Ok(())
}

/// What only the leader does. A leader that is deposed hears of it at its next renewal, within a third of the ttl: the
/// term goes along with each step, so that whoever is asked can refuse the older one.
async fn lead(name: &str, lease: &Lease) {
    for step in 1..=3 {
        println!("{name} does step {step} of term {}", lease.fencing_token());
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let (operator, mut losses) = (process()?.build().await?, Vec::new());
    let mut candidates = JoinSet::new();
    for name in ["ada", "ben", "cleo"] {
        let engine = process()?.build().await?;
        losses.push((name, engine.losses()));
        candidates.spawn(stand(engine, name));
    }
    sleep(Duration::from_millis(300)).await;
    println!("the operator deposes the leader: {}", operator.lock(OFFICE).force_release().await?);
    while let Some(done) = candidates.join_next().await {
        done??;
    }
    for (name, losses) in &mut losses {
        while let Some(LossNotice::Lost(loss)) = losses.try_next() {
            println!("in {name}'s log: lost {:?}, term {}: {}", loss.name, loss.fencing_token, loss.reason);
        }
    }
    Ok(())
}

/// The engine of one process more. Clones of one memory transport are as one server to all of them.
fn process() -> Result<EngineBuilder, Trouble> {
    static MEMORY: std::sync::LazyLock<MemoryTransport> = std::sync::LazyLock::new(MemoryTransport::new);
    Ok(match leasehold_examples::url() {
        Some(url) => Engine::builder(RedisTransport::from_url(&url)?),
        None => Engine::builder(MEMORY.clone()),
    })
}

const OFFICE: &str = "leader of reports";
