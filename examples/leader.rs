//! Leader election: whoever holds the lock leads; who loses it stops and stands again.
//! `cargo example leader [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! Three candidates, each with an engine of its own as three processes would have. An operator deposes the first leader;
//! from then on leaders retire after three steps, and the program ends when all have.

use std::time::Duration;

use leasehold::{Engine, EngineBuilder, Lease, LossEvent, Losses};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{sync::watch, task::JoinSet, time::sleep};

/// The election.
async fn stand(engine: Engine, name: &str, retire: watch::Receiver<bool>) -> Result<(), Trouble> {
    // Who hangs or dies is followed after this time. Services take more: 5 s, or the default of 30 s.
    let office = engine.lock(OFFICE).ttl(Duration::from_secs(1));
    loop {
        let lease = office.acquire().await?;
        println!("{name} leads, term {}", lease.fencing_token());
        tokio::select! {
            reason = lease.lost() => println!("{name} stops at once: {reason}"),
            () = lead(name, &lease, &retire) => match lease.release().await {
                Ok(()) => break,
                Err(error) => println!("{name} did not lead to the end: {error}"),
            },
        }
    }
    println!("{name} has retired");
    Ok(())
}

/// What only the leader does. A leader that is deposed hears of it at its next renewal, within a third of the ttl: the
/// term goes along with each step, so that whoever is asked can refuse the older one.
async fn lead(name: &str, lease: &Lease, retire: &watch::Receiver<bool>) {
    for step in 1.. {
        println!("{name} does step {step} of term {}", lease.fencing_token());
        sleep(Duration::from_millis(200)).await;
        if step >= 3 && *retire.borrow() {
            return;
        }
    }
}

/// Every loss of one process in one place, whoever held the lease.
async fn log(name: &str, mut losses: Losses, retire: watch::Sender<bool>) {
    while let Some(LossEvent::Lost(loss)) = losses.next().await {
        println!("{name}'s log: lost {:?}, term {}: {}", loss.name, loss.fencing_token, loss.reason);
        retire.send_replace(true);
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let (operator, retire) = (process()?.build().await?, watch::Sender::new(false));
    let mut candidates = JoinSet::new();
    for name in ["ada", "ben", "cleo"] {
        let engine = process()?.build().await?;
        tokio::spawn(log(name, engine.losses(), retire.clone()));
        candidates.spawn(stand(engine, name, retire.subscribe()));
    }
    while !operator.lock(OFFICE).is_locked().await? {
        sleep(Duration::from_millis(20)).await;
    }
    println!("the operator deposes the leader: {}", operator.lock(OFFICE).force_release().await?);
    while let Some(done) = candidates.join_next().await {
        done??;
    }
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

const OFFICE: &str = "leader of reports";
