//! The public transport: the configuration, and the state that all lanes share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::transport::{BoxFuture, Capabilities, ErrorKind, Lane, OpenLane, Transport, TransportError};

use crate::{
    config::{Address, ConfigError, RedisConfig},
    connection::{KINDS, warn_interval::WarnInterval},
    discovery::deployment::Deployment,
    lane::RedisLane,
};

/// Locks on Redis or Valkey servers. Creating and cloning it is cheap. It connects when an engine opens its lanes.
///
/// Clones share what they know about the servers (which server serves which slot, and each server's current run),
/// and the interval of their connection warnings.
#[derive(Clone)]
pub struct RedisTransport {
    deployment: Arc<Deployment>,
    failures: Arc<Mutex<WarnInterval>>,
}

impl RedisTransport {
    /// Returns a transport with this configuration. The configuration is checked when an engine opens a lane. Call
    /// [`RedisConfig::check`] to check it earlier.
    pub fn new(config: RedisConfig) -> Self {
        Self { deployment: Arc::new(Deployment::new(config)), failures: Arc::default() }
    }

    /// Returns a transport with the settings of the URL. All other settings have their defaults; see
    /// [`RedisConfig::from_url`].
    ///
    /// # Errors
    /// [`ConfigError`] if the URL is not valid. The message says what is wrong, and never contains the password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        RedisConfig::from_url(url).map(Self::new)
    }
}

impl Transport for RedisTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("redis", TTL_MAX)
            .with_notices()
            .with_uptime()
            .with_kinds(KINDS)
            .with_group_commit()
            .with_hand_offs()
    }

    fn open(&self, lane: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let transport = self.clone();
        Box::pin(async move {
            let opened = transport.open_lane(lane).await;
            transport.log_outcome(lane, opened.as_ref().err());
            Ok(Arc::new(opened?) as Arc<dyn Lane>)
        })
    }
}

impl RedisTransport {
    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    async fn open_lane(&self, lane: OpenLane) -> Result<RedisLane, TransportError> {
        self.deployment.config.check().map_err(misconfigured)?;
        RedisLane::open(self.deployment.clone(), lane).await
    }

    // An engine that waits for its servers repeats this call. Its caller gets an error only at the end, or never,
    // so each failure is logged here.
    fn log_outcome(&self, lane: OpenLane, error: Option<&TransportError>) {
        let purpose = lane.purpose;
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => failures.reset(),
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

// `PEXPIRE` accepts far longer times. The limit exists because a lease is renewed: a hold that must last longer
// than a month is a record, not a lease. A wrong unit (µs instead of ms) should be an error, not a lock that no
// caller can take for years.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
