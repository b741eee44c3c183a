//! Leader election: three candidates, of which one leads at a time, and another one follows at once.
//! `cargo example leader [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! Each candidate has an engine of its own, as three processes would have. An operator deposes the first leader; from
//! then on leaders retire after three steps, and the program ends when all have.

use std::time::Duration;

use leasehold::{
    Engine, EngineBuilder, Leader, LeaderState, LeaderWatch, LeaseView, LossEvent, Losses, NotHeld,
};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{sync::watch, task::JoinSet, time::sleep};

/// One process: it campaigns, leads, campaigns again if it loses the lease, and ends when its work is done.
async fn stand(engine: Engine, name: &'static str, retire: watch::Receiver<bool>) -> Result<(), Trouble> {
    // Another candidate follows a leader that dies after this time. Services take 5 s to 10 s.
    let leader = Leader::of(engine.lock(OFFICE).ttl(Duration::from_secs(1)));
    tokio::spawn(health(name, leader.watch()));
    leader.run(|term| lead(name, term, retire.clone())).await?;
    println!("{name} has retired");
    Ok(())
}

/// What only the leader does. It is dropped when the lease is lost. A leader that is deposed learns of it at its next
/// renewal, within a third of the ttl. So the token goes along with each step, and what is asked can refuse an older
/// one.
async fn lead(name: &str, term: LeaseView, retire: watch::Receiver<bool>) -> Result<(), NotHeld> {
    for step in 1.. {
        term.ensure_held()?;
        println!("{name} does step {step} of term {}", term.fencing_token());
        sleep(Duration::from_millis(200)).await;
        if step >= 3 && *retire.borrow() {
            break;
        }
    }
    Ok(())
}

/// What a health page would show.
async fn health(name: &str, mut watch: LeaderWatch) {
    while let Some(state) = watch.changed().await {
        match state {
            LeaderState::Leading { token } => println!("{name} leads, term {token}"),
            other => println!("{name}: {other:?}"),
        }
    }
}

/// Every loss of one process in one place.
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
