//! The engine, in memory or on the servers that the options name.

use leasehold::{Engine, EngineBuilder, EngineConfig};
use leasehold_examples::Servers;
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;

use crate::{
    crew::millis,
    options::{Options, Place},
    status,
};

/// Connects; from then on the options have the ttl that is in force.
pub(crate) async fn connect(options: &mut Options) -> Result<Engine, String> {
    let (builder, settings) = match servers(&options.place)? {
        Servers::Memory => (Engine::builder(MemoryTransport::new()), EngineConfig::default()),
        Servers::Redis(file) => (on_redis(RedisTransport::new(file.redis)), file.engine),
    };
    let settings = large_enough(options, settings);
    options.ttl = Some(settings.ttl());
    builder.config(settings).metrics().build().await.map_err(|error| error.to_string())
}

fn servers(place: &Place) -> Result<Servers, String> {
    match place {
        Place::Memory => Ok(Servers::Memory),
        Place::Url(url) => Servers::of_url(url).map_err(|error| error.to_string()),
        Place::File(file) => Servers::of_file(file).map_err(|error| error.to_string()),
    }
}

fn on_redis(transport: RedisTransport) -> EngineBuilder {
    status::say(&format!("connecting: {transport:?}"));
    Engine::builder(transport)
}

// The limits protect a service from its own faults; here the sizes are asked for.
fn large_enough(options: &Options, mut settings: EngineConfig) -> EngineConfig {
    settings.ttl_ms = options.ttl.map_or(settings.ttl_ms, millis);
    settings.leases_max = settings.leases_max.max(options.leases + options.contenders);
    settings.waiters_max = settings.waiters_max.max(options.leases + options.contenders);
    settings
}
