//! What users hold: the configuration, and what all lanes share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::transport::{BoxFuture, Capabilities, ErrorKind, Lane, OpenLane, Transport, TransportError};

use crate::{
    config::{Address, ConfigError, RedisConfig},
    connection::warn_interval::WarnInterval,
    discovery::deployment::Deployment,
    lane::RedisLane,
};

/// Locks on a Redis or Valkey server. Cheap to make and to clone; connects when an engine opens its lanes.
///
/// Clones share what they know of the server (which run of it is the present one), nothing else.
#[derive(Clone)]
pub struct RedisTransport {
    deployment: Arc<Deployment>,
    failures: Arc<Mutex<WarnInterval>>,
}

impl RedisTransport {
    /// A transport with this configuration. A setting that cannot work is told when a lane is opened, or before by
    /// [`RedisConfig::check`].
    pub fn new(config: RedisConfig) -> Self {
        Self { deployment: Arc::new(Deployment::new(config)), failures: Arc::default() }
    }

    /// A transport with everything by default but what the URL says; see [`RedisConfig::from_url`].
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        RedisConfig::from_url(url).map(Self::new)
    }
}

impl Transport for RedisTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "redis", notices: true, uptime: true, ttl_max: TTL_MAX }
    }

    fn open(&self, lane: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let transport = self.clone();
        Box::pin(async move {
            let opened = transport.open_lane(lane).await;
            transport.tell(lane, opened.as_ref().err());
            Ok(Arc::new(opened?) as Arc<dyn Lane>)
        })
    }
}

impl RedisTransport {
    async fn open_lane(&self, lane: OpenLane) -> Result<RedisLane, TransportError> {
        self.deployment.config.check().map_err(misconfigured)?;
        RedisLane::open(self.deployment.clone(), lane).await
    }

    // An engine that waits for its servers tries again and again; its caller hears of it in the end only, or never.
    fn tell(&self, lane: OpenLane, error: Option<&TransportError>) {
        let purpose = lane.purpose;
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => failures.over(),
            Some(error) if failures.is_due(lane.clock.now()) => {
                tracing::warn!(transport = ?self, lane = ?purpose, %error, "cannot connect to redis");
            }
            Some(error) => {
                tracing::debug!(transport = ?self, lane = ?purpose, %error, "cannot connect to redis");
            }
        }
    }
}

impl fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.deployment.config;
        let addresses: Vec<_> = config.addresses.iter().map(Address::to_string).collect();
        write!(f, "RedisTransport({:?}, {})", config.topology, addresses.join(", "))
    }
}

fn misconfigured(error: ConfigError) -> TransportError {
    TransportError::without_effect(ErrorKind::Misconfigured, None, error.to_string())
}

// PEXPIRE takes far more. A lease is renewed; one that is to stand for longer than a month is a record, and a slip of
// units (µs for ms) should be an error rather than a lock that nobody can get for years.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
