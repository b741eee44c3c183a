//! What a holder sees when its lease cannot be renewed, and when it is taken away.
//! `cargo example losing_a_lease [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! `Faulty` stands between the engine and its servers, and cuts them off on request.

use std::time::Duration;

use leasehold::{
    Engine, EngineBuilder, EngineConfig, Lease, LeaseState, LossEvent, RunError, transport::Transport,
};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::{Cut, Faults, Faulty, MemoryTransport};
use leasehold_redis::RedisTransport;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let (faults, builder) = match servers()? {
        Servers::Memory => faulty(MemoryTransport::new(), EngineConfig::default()),
        Servers::Redis(file) => faulty(RedisTransport::new(file.redis), file.engine),
    };
    // Short, so that it is over in a few seconds. Services leave both as they are: 30 s and 1 s.
    let builder = builder.ttl(Duration::from_secs(2)).command_timeout(Duration::from_millis(200));
    let engine = builder.build().await?;
    let mut losses = engine.losses();

    println!("-- the server is away for a moment");
    let lease = engine.lock("report").acquire().await?;
    faults.cut(Cut::BlackHole);
    until(&lease, |state| state == LeaseState::Jeopardy).await; // still held, but a renewal got no answer
    faults.heal();
    until(&lease, |state| state == LeaseState::Held).await; // the next one did

    println!("-- the server stays away");
    faults.cut(Cut::BlackHole);
    let reason = lease.lost().await; // needs no answer: the deadline is on our own clock
    println!("   lost: {reason}");
    println!("   looking tells it too: {}", said(lease.ensure_held()));
    println!("   and so does releasing: {}", said(lease.release().await));
    faults.heal();

    println!("-- an operator takes it away");
    let lease = engine.lock("report").acquire().await?;
    engine.lock("report").force_release().await?;
    println!("   lost, at the next renewal: {}", lease.lost().await);

    println!("-- work that is stopped by a loss");
    let outcome = engine.lock("report").run(async |_lease| {
        engine.lock("report").force_release().await?;
        std::future::pending::<Result<(), Trouble>>().await // never ends by itself
    });
    match outcome.await {
        Err(RunError::Lost(reason)) => println!("   dropped in the middle: {reason}"),
        Err(RunError::Acquire(error)) => return Err(error.into()),
        Err(RunError::Work(last_error)) => return Err(last_error),
        Err(RunError::Release(error)) => return Err(error.into()),
        Ok(()) => {}
    }

    println!("-- all of them in one stream, for a log");
    for _ in 0..3 {
        let Some(LossEvent::Lost(loss)) = losses.next().await else { continue };
        println!(
            "   {}, token {}, held for {:.1?}: {}",
            loss.name, loss.fencing_token, loss.held, loss.reason
        );
    }
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

fn faulty(servers: impl Transport, settings: EngineConfig) -> (Faults, EngineBuilder) {
    let servers = Faulty::new(servers);
    (servers.faults(), Engine::builder(servers).config(settings))
}

/// Shows how the state changes until it is the wanted one.
async fn until(lease: &Lease, wanted: impl Fn(LeaseState) -> bool) {
    while !wanted(lease.state()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("   {:?}, held: {}, believed for {:.1?}", lease.state(), lease.is_held(), lease.remaining());
}

fn said<T, E: std::fmt::Display>(answer: Result<T, E>) -> String {
    answer.err().map_or_else(|| "held".to_owned(), |error| error.to_string())
}
