//! The metrics of engines, read from the processes that export them: which locks their callers waited for.

mod address;
mod exposition;
mod glob;
mod hottest;
mod http;

pub(crate) use address::Address;
pub(crate) use hottest::Hottest;

use self::glob::Glob;

/// Asks all processes at once for the locks whose names the pattern matches.
pub(crate) async fn read(addresses: &[Address], pattern: &str) -> Hottest {
    let (pattern, mut hottest) = (Glob::new(pattern), Hottest::default());
    let asked: Vec<_> = addresses.iter().cloned().map(|address| tokio::spawn(answer(address))).collect();
    for (address, asked) in addresses.iter().zip(asked) {
        match asked.await.unwrap_or_else(|panic| Err(panic.to_string())) {
            Ok(locks) => hottest.add(locks.into_iter().filter(|(name, _)| pattern.matches(name))),
            Err(error) => hottest.fail(address, error),
        }
    }
    hottest
}

async fn answer(address: Address) -> Result<Vec<(String, std::time::Duration)>, String> {
    exposition::hot_locks(&http::get(&address).await?)
}
