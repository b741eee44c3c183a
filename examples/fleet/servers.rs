//! The engine, in memory or on the servers that the options name.

use leasehold::{Engine, EngineBuilder, EngineConfig};
#[cfg(feature = "redis")]
use leasehold_examples::Servers;
use leasehold_memory::MemoryTransport;
#[cfg(feature = "redis")]
use leasehold_redis::RedisTransport;

use crate::{
    crew::millis,
    options::{Options, Place},
};

/// Connects; from then on the options have the ttl that is in force.
pub(crate) async fn connect(options: &mut Options) -> Result<Engine, String> {
    let (builder, settings) = builder(&options.place)?;
    let settings = adapted(options, settings);
    options.ttl = Some(settings.ttl());
    builder.config(settings).metrics().build().await.map_err(|error| error.to_string())
}

#[cfg(feature = "redis")]
fn builder(place: &Place) -> Result<(EngineBuilder, EngineConfig), String> {
    let servers = match place {
        Place::Memory => Servers::Memory,
        Place::Url(url) => Servers::of_url(url).map_err(|error| error.to_string())?,
        Place::File(file) => Servers::of_file(file).map_err(|error| error.to_string())?,
    };
    Ok(match servers {
        Servers::Memory => in_memory(),
        Servers::Redis(file) => (on_redis(RedisTransport::new(file.redis)), file.engine),
    })
}

#[cfg(not(feature = "redis"))]
fn builder(place: &Place) -> Result<(EngineBuilder, EngineConfig), String> {
    match place {
        Place::Memory => Ok(in_memory()),
        Place::Url(_) | Place::File(_) => Err("this fleet was built without the feature `redis`".to_owned()),
    }
}

fn in_memory() -> (EngineBuilder, EngineConfig) {
    (Engine::builder(MemoryTransport::new()), EngineConfig::default())
}

#[cfg(feature = "redis")]
fn on_redis(transport: RedisTransport) -> EngineBuilder {
    crate::terminal::say(&format!("connecting: {transport:?}"));
    Engine::builder(transport)
}

// The limits protect a service from its own faults, and its names may be private; here both are asked for.
fn adapted(options: &Options, mut settings: EngineConfig) -> EngineConfig {
    settings.ttl_ms = options.ttl.map_or(settings.ttl_ms, millis);
    settings.leases_max = settings.leases_max.max(options.leases + options.contenders);
    settings.waiters_max = settings.waiters_max.max(options.leases + options.contenders);
    settings.hot_lock_names = true; // they are our own
    settings
}
