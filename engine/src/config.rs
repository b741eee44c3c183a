//! The engine's settings, their defaults, and the checks that find contradictions between them.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{error::Invalid, lease::state::TTL_MIN, transport::Capabilities};

/// Settings of an engine. Every field has a default. Times are in milliseconds where the name ends in `_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineConfig {
    /// The prefix of every lock name. Default: empty. A hash tag in the prefix puts all locks into one slot.
    pub name_prefix: String,
    /// How long the server keeps a lock unless it is renewed. Default 30,000; at least 1,000.
    pub ttl_ms: u64,
    /// How long a caller may be without a definite answer before it fails with `Unavailable`. Default 10,000.
    pub unavailable_after_ms: u64,
    /// The longest time that one command may stay unanswered. A sixth of the ttl if that is shorter. Default 1,000.
    pub command_timeout_ms: u64,
    /// A server grants nothing until it has been up for this long, so that leases from before its restart have run out.
    /// Recommended: the longest ttl of all clients; an acquire with a longer ttl is then refused. Default 0: off.
    pub restart_grace_ms: u64,
    /// The number of shards of the renewal scheduler. Each shard has a range of slots, an inbox and a timing wheel of
    /// its own. With more shards, fewer leases are looked through when a slot moves. All shards share one queue of due
    /// renewals per node, so their number changes neither the order of the renewals (the earliest deadline first) nor
    /// the size of the batches. With 1, 8 and 64 shards the pairs per second of callers on 8 threads differed by less
    /// than the noise (`--shards` in `benches/`). Default 8.
    pub shards: usize,
    /// The maximum number of unanswered renewal batches on one node. More batches would only queue up at the server,
    /// where the lease with the earliest deadline can no longer go first. Default 4.
    pub batches_in_flight_max: usize,
    /// The maximum number of unanswered bulk calls on one node, over all callers: names of
    /// [`acquire_all`](crate::Engine::acquire_all), leases of [`release_all`](crate::Engine::release_all) and of
    /// [`shutdown`](crate::Engine::shutdown). 256 calls keep a server busy across a round trip of 5 ms. A single caller
    /// waits behind at most `bulk_in_flight_max` commands. On a nearby server 64 calls are as fast, and single callers
    /// wait less (`--mass` in `benches/`). Default 256.
    pub bulk_in_flight_max: usize,
    /// The maximum number of leases that one engine holds. It limits the engine's memory (about half a KiB per lease
    /// with a name of 32 bytes) and the number of renewals that its one renewal thread must send within a third of a
    /// ttl. At the limit an acquire fails with [`LimitReached`](crate::AcquireError::LimitReached). Default 1,000,000.
    pub leases_max: usize,
    /// The maximum number of queued callers in one engine. Each queued caller takes memory, and all of them want to ask
    /// again when a server comes back. At the limit an acquire fails with
    /// [`LimitReached`](crate::AcquireError::LimitReached). Default 100,000.
    pub waiters_max: usize,
    /// The maximum number of leases that may begin, end or be renewed manually in one shard before the renewal thread
    /// reads the shard's inbox, which it does every 50 ms. The limit is reached only if that thread is blocked or gets
    /// no CPU time while callers continue. The engine then begins nothing new, so that its memory does not fill up. At
    /// the limit a call fails with `LimitReached`. Default 100,000.
    pub inbox_max: usize,
    /// The classes of locks in metrics, by the beginnings of their names (without `name_prefix`). The longest beginning
    /// that fits decides. For example `"orders:" = "orders"`. Default: none; every lock is of the class `default`.
    pub classes: BTreeMap<String, String>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            name_prefix: String::new(),
            ttl_ms: 30_000,
            unavailable_after_ms: 10_000,
            command_timeout_ms: 1_000,
            restart_grace_ms: 0,
            shards: 8,
            batches_in_flight_max: 4,
            bulk_in_flight_max: 256,
            leases_max: 1_000_000,
            waiters_max: 100_000,
            inbox_max: 100_000,
            classes: BTreeMap::new(),
        }
    }
}

impl EngineConfig {
    /// The default ttl.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// See `unavailable_after_ms`.
    pub fn unavailable_after(&self) -> Duration {
        Duration::from_millis(self.unavailable_after_ms)
    }

    /// See `command_timeout_ms`.
    pub fn command_timeout(&self) -> Duration {
        Duration::from_millis(self.command_timeout_ms)
    }

    /// See `restart_grace_ms`.
    pub fn restart_grace(&self) -> Duration {
        Duration::from_millis(self.restart_grace_ms)
    }

    /// How long a request of a lease with this ttl may stay unanswered: at most a sixth of the ttl, so that retries fit
    /// before the deadline.
    pub fn request_timeout(&self, ttl: Duration) -> Duration {
        self.command_timeout().min(ttl / 6)
    }

    /// Checks each setting, and the settings that depend on each other or on the transport. Building an engine does
    /// this check too. A program that reads settings from a file can call it earlier, to report where the wrong setting
    /// is.
    ///
    /// # Errors
    /// [`Invalid`] with the first setting that cannot be used.
    pub fn check(&self, transport: Capabilities) -> Result<(), Invalid> {
        self.check_ttl("ttl_ms", self.ttl(), transport.ttl_max)?;
        let positive = [
            ("unavailable_after_ms", self.unavailable_after_ms),
            ("command_timeout_ms", self.command_timeout_ms),
            ("shards", self.shards as u64),
            ("batches_in_flight_max", self.batches_in_flight_max as u64),
            ("bulk_in_flight_max", self.bulk_in_flight_max as u64),
            ("leases_max", self.leases_max as u64),
            ("waiters_max", self.waiters_max as u64),
            ("inbox_max", self.inbox_max as u64),
        ];
        if let Some((field, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(Invalid::new(field, 0, "must be at least 1"));
        }
        if self.shards > SHARDS_MAX {
            return Err(Invalid::new(
                "shards",
                self.shards,
                format!("must be at most {SHARDS_MAX}, the number of slots"),
            ));
        }
        if self.command_timeout_ms > self.unavailable_after_ms {
            let remedy = format!(
                "is longer than unavailable_after_ms = {}; make it shorter",
                self.unavailable_after_ms
            );
            return Err(Invalid::new("command_timeout_ms", self.command_timeout_ms, remedy));
        }
        if self.restart_grace_ms > 0 && !transport.uptime {
            let remedy = format!(
                "the transport {} cannot tell since when a server is up; leave it at 0",
                transport.name
            );
            return Err(Invalid::new("restart_grace_ms", self.restart_grace_ms, remedy));
        }
        Ok(())
    }

    /// Checks a ttl that a caller asks for.
    pub(crate) fn check_ttl(
        &self,
        field: &'static str,
        ttl: Duration,
        most: Duration,
    ) -> Result<(), Invalid> {
        if ttl < TTL_MIN {
            return Err(Invalid::new(
                field,
                format_args!("{ttl:?}"),
                format!("must be at least {TTL_MIN:?}"),
            ));
        }
        if ttl > most {
            return Err(Invalid::new(
                field,
                format_args!("{ttl:?}"),
                format!("must be at most {most:?} with this transport"),
            ));
        }
        let grace = self.restart_grace();
        if !grace.is_zero() && ttl > grace {
            let remedy = format!(
                "is longer than restart_grace = {grace:?}; shorten it, or raise restart_grace on every client"
            );
            return Err(Invalid::new(field, format_args!("{ttl:?}"), remedy));
        }
        Ok(())
    }
}

const SHARDS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    const CAN: Capabilities =
        Capabilities { name: "test", notices: true, uptime: false, ttl_max: Duration::from_secs(86_400) };

    fn refused(change: impl FnOnce(&mut EngineConfig)) -> String {
        let mut config = EngineConfig::default();
        change(&mut config);
        config.check(CAN).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_accepted() {
        EngineConfig::default().check(CAN).unwrap();
    }

    #[test]
    fn contradictions_are_refused_with_both_values() {
        let text = refused(|config| config.command_timeout_ms = 20_000);
        assert!(text.contains("20000") && text.contains("10000"), "{text}");
        assert!(refused(|config| config.ttl_ms = 999).contains("1s"));
        assert!(refused(|config| config.restart_grace_ms = 60_000).contains("leave it at 0"));
        assert!(refused(|config| config.shards = 0).starts_with("shards = 0"));
    }

    #[test]
    fn a_ttl_beyond_the_restart_grace_is_refused() {
        let config = EngineConfig { restart_grace_ms: 40_000, ..EngineConfig::default() };
        let refused = config.check_ttl("ttl", Duration::from_secs(50), CAN.ttl_max).unwrap_err().to_string();
        assert!(refused.contains("50s") && refused.contains("40s"), "{refused}");
    }
}
