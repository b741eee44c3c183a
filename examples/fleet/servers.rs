//! The engine, in memory or on the server that the options name.

use leasehold::{Engine, EngineBuilder, EngineConfig};
use leasehold_memory::MemoryTransport;
use leasehold_redis::{RedisConfig, RedisTransport};

use crate::{crew::millis, options::Options, status};

pub(crate) async fn connect(options: &Options) -> Result<Engine, String> {
    let builder = match &options.url {
        Some(url) => on_redis(url)?,
        None => Engine::builder(MemoryTransport::new()),
    };
    builder.config(settings(options)).build().await.map_err(|error| error.to_string())
}

fn on_redis(url: &str) -> Result<EngineBuilder, String> {
    let config = RedisConfig::from_url(url).map_err(|error| error.to_string())?;
    let transport = RedisTransport::new(config);
    status::say(&format!("connecting: {transport:?}"));
    Ok(Engine::builder(transport))
}

// The limits protect a service from its own faults; here the sizes are asked for.
fn settings(options: &Options) -> EngineConfig {
    let default = EngineConfig::default();
    EngineConfig {
        ttl_ms: millis(options.ttl),
        leases_max: default.leases_max.max(options.leases + options.contenders),
        callers_max: default.callers_max.max(options.leases + options.contenders),
        ..default
    }
}
