//! A storage that refuses a writer whose lease is over, by its fencing token.
//! `cargo example fenced_write [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! The first writer goes on after its lease has ended without looking: a long pause of the process does just that. No
//! lock can stop the write that follows; the storage can, because it has seen a higher token.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use leasehold::{Engine, FencingToken};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;

/// A value, and the token of the lease under which it was written. In SQL:
/// `UPDATE balance SET value = $1, token = $2 WHERE id = $3 AND token <= $2`, and no row changed means refused.
#[derive(Default)]
struct Storage {
    written: Mutex<(String, Option<FencingToken>)>,
}

impl Storage {
    fn write(&self, value: &str, token: FencingToken) -> Result<(), String> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match written.1 {
            Some(newer) if newer > token => Err(format!("refused: {token} is older than {newer}")),
            Some(_) | None => {
                *written = (value.to_owned(), Some(token));
                Ok(())
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let (engine, storage) = (builder.build().await?, Storage::default());
    // One second and no renewal, so that the pause need not be long.
    let balance = engine.lock("balance:7").ttl(Duration::from_secs(1)).no_renewal();

    let paused = balance.acquire().await?;
    println!("the first writer holds it with token {}", paused.fencing_token());
    println!("... and is paused: its lease runs out");
    let second = balance.acquire().await?; // granted when the first has run out
    println!("the second writer holds it with token {}", second.fencing_token());
    println!("the second writes: {:?}", storage.write("second", second.fencing_token()));

    println!("the first wakes up, and would know if it looked: held is {}", paused.is_held());
    let refused = storage.write("first", paused.fencing_token());
    println!("it writes without looking: {refused:?}");

    second.release().await?;
    engine.shutdown(Duration::from_secs(2)).await;
    match refused {
        Err(_) => Ok(()),
        Ok(()) => Err(std::io::Error::other("the storage took the write of an older token").into()),
    }
}
