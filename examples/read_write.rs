//! Three readers share a catalogue, one writer changes it. `cargo example read_write [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::time::Duration;

use leasehold::{AcquireError, Engine};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

const READERS: u32 = 3;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;
    let name = format!("catalogue-{}", std::process::id());

    let catalogue = engine.rw_lock(&name);
    let writer = catalogue.write().acquire().await?;
    println!("writing with token {}", writer.fencing_token());
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        readers.spawn(read(engine.clone(), name.clone(), reader));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("the change is done; this process reads on");
    let own = writer.downgrade().await?;
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    let refused = catalogue.write().try_acquire().await?.is_none();
    println!("a writer is kept out while this process reads: {refused}");
    own.release().await?;
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn read(engine: Engine, name: String, reader: u32) -> Result<(), AcquireError> {
    let lease = engine.rw_lock(name).read().acquire().await?;
    println!("reader {reader} reads, {}", if lease.is_held() { "beside the others" } else { "too late" });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(lease);
    Ok(())
}
