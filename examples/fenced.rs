//! A fenced lock: its tokens come from a counter beside the lock, which Java services count up too (`getFencedLock`).
//! `cargo example fenced [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::time::Duration;

use leasehold::{Engine, FencingToken};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;

/// What keeps the data: it refuses a token that is not above the highest one that it has seen.
#[derive(Default)]
struct Resource {
    seen: Vec<FencingToken>,
}

impl Resource {
    fn accepts(&mut self, token: FencingToken) -> bool {
        let is_new = self.seen.last().is_none_or(|highest| token > *highest);
        self.seen.extend(is_new.then_some(token));
        is_new
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let (engine, mut resource) = (builder.build().await?, Resource::default());
    let lock = engine.fenced_lock("ledger:7");
    for writer in ["ada", "ben", "cleo"] {
        let lease = lock.acquire().await?;
        let token = lease.fencing_token();
        println!("{writer} has token {token}; the resource accepts it: {}", resource.accepts(token));
        lease.release().await?;
    }
    println!("the resource has seen {} tokens, each higher than the one before", resource.seen.len());
    if !resource.accepts(resource.seen[0]) {
        println!("the oldest is refused");
    }
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
