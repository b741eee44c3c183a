//! A lock that survives the loss of a server.
//! `cargo example quorum [-- redis://HOST:PORT redis://HOST:PORT redis://HOST:PORT]`
//!
//! Without URLs the servers are three in memory, and one of them is cut off on the way. With URLs, kill one of them
//! while the example waits.

use std::{env, time::Duration};

use leasehold::{Engine, EngineBuilder, Quorum, QuorumLease};
use leasehold_examples::{Servers, Trouble};
use leasehold_memory::{Cut, Faults, Faulty, MemoryTransport};
use leasehold_redis::RedisTransport;
use tokio::time::sleep;

/// How long the lock is held while one server is away.
const WITHOUT_ONE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let urls: Vec<String> = env::args().skip(1).collect();
    let (builders, faults) = if urls.is_empty() { in_memory() } else { (on_redis(&urls)?, None) };
    let mut engines = Vec::new();
    for builder in builders {
        // Zero says: these servers forget nothing at a restart. Otherwise the longest ttl of all clients.
        let builder = builder.restart_grace(Duration::ZERO).ttl(Duration::from_secs(2));
        engines.push(builder.connect_later()?); // a server that is down does not stop the start
    }
    let quorum = Quorum::over(engines.iter().cloned())?;

    let lease = quorum.lock("orders:42").wait(Duration::from_secs(5)).acquire().await?;
    sleep(Duration::from_millis(100)).await; // the grants behind the majority join
    tell("acquired", &lease);
    if let Some(faults) = &faults {
        faults.cut(Cut::BlackHole);
    }
    sleep(WITHOUT_ONE).await;
    lease.ensure_held()?; // before each step that must not be done twice
    tell("without one server", &lease);
    println!("others get it now: {}", quorum.lock("orders:42").try_acquire().await?.is_some());
    if let Some(faults) = &faults {
        faults.heal();
    }
    sleep(Duration::from_secs(1)).await; // a third of the ttl
    tell("with all of them", &lease);
    lease.release().await?; // `Ok`: a majority held it to the end

    for engine in &engines {
        engine.shutdown(Duration::from_secs(2)).await;
    }
    Ok(())
}

fn tell(when: &str, lease: &QuorumLease) {
    let tally = lease.tally();
    println!("{when}: held by {} of {}, {} needed", tally.held, tally.of, tally.needed);
}

/// Three servers in this process, and what can cut off the first.
fn in_memory() -> (Vec<EngineBuilder>, Option<Faults>) {
    let servers: Vec<_> = (0..3).map(|_| Faulty::new(MemoryTransport::new())).collect();
    let faults = servers.first().map(Faulty::faults);
    (servers.into_iter().map(Engine::builder).collect(), faults)
}

fn on_redis(urls: &[String]) -> Result<Vec<EngineBuilder>, Trouble> {
    let mut builders = Vec::new();
    for url in urls {
        let Servers::Redis(file) = Servers::of_url(url)? else { continue };
        builders.push(Engine::builder(RedisTransport::new(file.redis)));
    }
    Ok(builders)
}
