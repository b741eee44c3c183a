//! Take a lock, work, give it back. `cargo example quickstart [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::time::Duration;

use leasehold::Engine;
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    // One engine for the whole process; the transport decides where the locks are.
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;

    // Waits until nobody else holds it, at most 5 s; renewed from now on until it is released.
    let lease = engine.lock("orders:42").wait(Duration::from_secs(5)).acquire().await?;
    println!("holding {:?}, believed for {:.1?}", lease.name(), lease.remaining());
    println!("others get it now: {}", engine.lock("orders:42").try_acquire().await?.is_some());
    lease.ensure_held()?; // before each step that must not be done twice
    lease.release().await?; // `Ok`: it was ours to the end

    println!("others get it afterwards: {}", engine.lock("orders:42").try_acquire().await?.is_some());
    engine.shutdown(Duration::from_secs(2)).await; // or what was only dropped is left to its ttl
    Ok(())
}
