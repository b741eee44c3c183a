//! The engine's settings: their defaults, their limits, and which of them contradict each other.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Invalid,
    fencing::{FencingMode, HAND_OFFS_MAX},
    label::{EngineLabel, LabelFault},
    lease::state::TTL_MIN,
    transport::Capabilities,
};

/// The settings of an engine. Every field has a default. A field whose name ends in `_ms` is a time in milliseconds.
///
/// The type implements serde's `Deserialize`; an unknown field is an error. In code, begin with the default and change
/// fields.
///
/// # Examples
/// ```
/// use leasehold::EngineConfig;
///
/// let mut config = EngineConfig::default();
/// config.ttl_ms = 10_000;
/// config.leases_max = 10_000;
/// assert_eq!(config.ttl().as_secs(), 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineConfig {
    /// A text that the engine puts before every lock name. Default: empty. A hash tag in the prefix puts all locks in
    /// one slot.
    pub name_prefix: String,
    /// How long the server keeps a lock unless it is renewed. Default 30,000 ms; at least 1,000 ms.
    pub ttl_ms: u64,
    /// How long a call waits that names no wait: for a lock, permits, a semaphore or a latch. At most ten years. Default:
    /// not set, no limit. A call that must not have this limit names a wait of its own.
    pub wait_ms: Option<u64>,
    /// For how long a lease is renewed whose call names no `max_hold`. Default: not set, no limit. Readers of a
    /// [read/write lock](crate::Engine::rw_lock) share no lease of this engine where it is set.
    pub max_hold_ms: Option<u64>,
    /// After which time without a definite answer a caller gets `Unavailable`. Default 10,000 ms.
    pub unavailable_after_ms: u64,
    /// The longest time that one command may stay unanswered. A command of a lease whose ttl is less than six times
    /// this has a sixth of the ttl. Default 1,000 ms. At most `unavailable_after_ms`.
    pub command_timeout_ms: u64,
    /// How long a server must have been up before this engine acquires locks on it, so that leases from before its restart
    /// have expired. Redisson's clients do not follow it.
    /// Recommended: the longest ttl of all clients. An acquire with a longer ttl is then refused. Default: not set, which
    /// is off, as 0. A [`Quorum`](crate::Quorum) refuses an engine in which it is not set. 0 then says that the server
    /// forgets nothing at a restart: an append-only file with `appendfsync always`.
    pub restart_grace_ms: Option<u64>,
    /// A name of the servers of this engine, the same in every process. [`MultiLock`](crate::MultiLock) orders members
    /// with equal names by it, and needs it as soon as two engines take part. Default: empty, no name.
    pub id: String,
    /// What an operator calls this engine: in log lines, in the names of its connections, in
    /// [`Snapshot::label`](crate::Snapshot::label). At most [`LABEL_BYTES_MAX`](crate::LABEL_BYTES_MAX) printable ASCII
    /// characters without spaces. Default: empty, which is `service@host`: the names of program and host.
    pub label: String,
    /// For how long a server remembers the last operation of this engine on a semaphore or a latch, so that an operation
    /// whose answer was lost is repeated without counting twice. It costs one short key for each counter. Default
    /// 300,000 ms; at least 120,000 ms.
    pub counter_memory_ms: u64,
    /// Into how many shards the slots are divided. Each shard has an inbox of the renewal scheduler, so that threads
    /// that acquire and release locks of different shards do not wait for each other. The number of shards changes
    /// neither the order of the renewals (the earliest deadline first) nor the size of the batches. With 1, 8 and 64
    /// shards, the lock pairs per second of callers on 8 threads differed by less than the noise (`--shards` in
    /// `benches/`). Default 8; at most 16,384.
    pub shards: usize,
    /// How many renewal batches may be unanswered on one node. More batches would only queue in front of the server,
    /// where the engine cannot put the most urgent batch first any more. Default 4.
    pub batches_in_flight_max: usize,
    /// The maximum number of unanswered bulk calls on one node, over all callers: names of
    /// [`acquire_all`](crate::Engine::acquire_all), leases of [`release_all`](crate::Engine::release_all) and of
    /// [`shutdown`](crate::Engine::shutdown). 256 calls keep a server busy across a round trip of 5 ms. A single caller
    /// waits behind at most `bulk_in_flight_max` commands. On a nearby server 64 calls are as fast, and single callers
    /// wait less (`--bulk` in `benches/`). Default 256.
    pub bulk_in_flight_max: usize,
    /// How many acquires and releases of exclusive locks may go to a node in one command (group commit). They do so only
    /// while the node has many calls to answer; a call to a node with little to do is sent at once, alone. 1: each call
    /// has a command of its own. Default 64; at most 1,000.
    pub group_commit_max: usize,
    /// Whether a connection for calls follows its callers: once 32 calls in a row came from one runtime within a second, a task on
    /// that runtime reads and writes the connection, so that an answer reaches its caller without a change of threads. If calls
    /// come from several runtimes in turn, the engine's own thread serves the connection. It takes the connection back if a
    /// reply lies unread or a request unwritten for some milliseconds (at most about 15), because the workers of the runtime are
    /// blocked. It keeps the connection for 1 s then, twice as long each time, at most a minute. So no runtime of yours can stop
    /// the calls.
    ///
    /// The runtime needs its I/O driver (`enable_all`). Without it tokio panics once on a task of the runtime, and prints that;
    /// then no connection of the process follows. A program whose panic hook ends the process should set `false`, unless all of
    /// its runtimes have the driver. No connection follows in a program with `panic = "abort"`, or with TLS. `false`: the
    /// engine's own thread always serves. Default true.
    pub connections_follow_callers: bool,
    /// How often one grant of an [exclusive lock](crate::Engine::lock) or of a [fenced lock](crate::Engine::fenced_lock) may
    /// be handed off: the holder gives the lock back, and the next caller of this engine gets it without a command. A grant
    /// is handed off for at most 100 ms. If other clients wait, for at most 32 grants, or 1,024 within 8 ms. Then the lock is
    /// released to the server. A fenced lock is handed off only in the mode [`Hybrid`](FencingMode::Hybrid), and at most once
    /// for each microsecond of half a round trip: its counter keeps a token for each of these holders. 0: never. Default
    /// 512; at most 1,023.
    pub hand_offs_max: u32,
    /// How many leases one engine holds. The limit bounds the engine's memory (about half a KiB for each lease with a
    /// name of 32 bytes), and the renewals that the one renewal thread has to do in a third of a ttl. A call beyond the
    /// limit gets [`LimitReached`](crate::AcquireError::LimitReached). Default 1,000,000.
    pub leases_max: usize,
    /// How many callers may be queued in one engine. Each queued caller takes memory, and all of them ask again when a
    /// server comes back. A call beyond the limit gets [`LimitReached`](crate::AcquireError::LimitReached). Default
    /// 100,000.
    pub waiters_max: usize,
    /// How many orders may wait in the inbox of one shard: leases that begin, that end, or that are renewed
    /// by hand. The renewal thread empties the inboxes every 50 ms. The limit is reached only if that thread stands
    /// still or gets no processor time. The engine then begins nothing new, so that its memory stays bounded: a call
    /// gets `LimitReached`. Default 100,000.
    pub inbox_max: usize,
    /// How the token counter of a [fenced lock](crate::Engine::fenced_lock) moves: `"hybrid"` or `"counter"`. Default:
    /// hybrid.
    pub fencing: FencingMode,
    /// How long other clients than this engine, as Redisson's, keep a silent place of this engine at the head of the line
    /// of a [fair lock](crate::Engine::fair_lock). Set it to at least the `fairLockWaitTimeout` and the longest wait of
    /// Java clients of the same locks. Default 300,000 ms; at least 10,000 ms and at most a day.
    pub fair_wait_ms: u64,
    /// How many callers of one [fair lock](crate::Engine::fair_lock) have a place in the line at once. Each place costs
    /// the server a few entries and a subscription, and a beat each second. Callers beyond the limit wait in this engine,
    /// behind those that have a place, and get their places as others become free. Default 1,000; at most 10,000.
    pub fair_places_max: usize,
    /// Which class a lock counts as in metrics, by the beginning of its name, without `name_prefix`. The longest
    /// beginning that fits decides. For example `"orders:" = "orders"`. Default: empty; every lock has the class
    /// `default`.
    pub classes: BTreeMap<String, String>,
    /// Whether the metric `leasehold_hot_lock_wait_seconds` names the ten locks that callers of this engine waited for
    /// longest in the last one to two minutes. Off by default, because names of locks may be private, and each new name
    /// is a new series: at most ten at a time, but as many over a day as there are contended names.
    /// [`Engine::most_contended`](crate::Engine::most_contended) and the log name them without this setting.
    pub hot_lock_names: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            name_prefix: String::new(),
            ttl_ms: 30_000,
            wait_ms: None,
            max_hold_ms: None,
            unavailable_after_ms: 10_000,
            command_timeout_ms: 1_000,
            restart_grace_ms: None,
            id: String::new(),
            label: String::new(),
            counter_memory_ms: 300_000,
            shards: 8,
            batches_in_flight_max: 4,
            bulk_in_flight_max: 256,
            group_commit_max: 64,
            connections_follow_callers: true,
            hand_offs_max: 512,
            leases_max: 1_000_000,
            waiters_max: 100_000,
            inbox_max: 100_000,
            fencing: FencingMode::default(),
            fair_wait_ms: 300_000,
            fair_places_max: 1_000,
            classes: BTreeMap::new(),
            hot_lock_names: false,
        }
    }
}

impl EngineConfig {
    /// The default ttl: `ttl_ms` as a duration.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// `wait_ms` as a duration; `None`: no limit.
    pub fn wait(&self) -> Option<Duration> {
        self.wait_ms.map(Duration::from_millis)
    }

    /// `max_hold_ms` as a duration; `None`: no limit.
    pub fn max_hold(&self) -> Option<Duration> {
        self.max_hold_ms.map(Duration::from_millis)
    }

    /// `unavailable_after_ms` as a duration.
    pub fn unavailable_after(&self) -> Duration {
        Duration::from_millis(self.unavailable_after_ms)
    }

    /// `command_timeout_ms` as a duration.
    pub fn command_timeout(&self) -> Duration {
        Duration::from_millis(self.command_timeout_ms)
    }

    /// `restart_grace_ms` as a duration; zero if it is not set.
    pub fn restart_grace(&self) -> Duration {
        Duration::from_millis(self.restart_grace_ms.unwrap_or(0))
    }

    /// `counter_memory_ms` as a duration.
    pub fn counter_memory(&self) -> Duration {
        Duration::from_millis(self.counter_memory_ms)
    }

    /// `fair_wait_ms` as a duration.
    pub fn fair_wait(&self) -> Duration {
        Duration::from_millis(self.fair_wait_ms)
    }

    /// How long a request of a lease with this ttl may stay unanswered: `command_timeout_ms`, and at most a sixth of
    /// the ttl, so that retries fit before the deadline.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use leasehold::EngineConfig;
    ///
    /// let config = EngineConfig::default(); // command_timeout_ms = 1,000
    /// assert_eq!(config.request_timeout(Duration::from_secs(30)), Duration::from_secs(1));
    /// assert_eq!(config.request_timeout(Duration::from_secs(3)), Duration::from_millis(500));
    /// ```
    pub fn request_timeout(&self, ttl: Duration) -> Duration {
        self.command_timeout().min(ttl / 6)
    }

    /// Checks every setting, and the settings that depend on each other or on the transport. Building an engine makes
    /// the same check. A reader of a file calls it to name the place of the setting too.
    ///
    /// # Errors
    /// The first setting that cannot be used: its field, its value and the remedy.
    ///
    /// # Examples
    /// ```
    /// use leasehold::{EngineConfig, transport::Transport};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let mut config = EngineConfig::default();
    /// config.ttl_ms = 500;
    /// let invalid = config.check(MemoryTransport::new().capabilities()).unwrap_err();
    /// assert_eq!(invalid.to_string(), "ttl_ms = 500: must be at least 1000, one second");
    /// ```
    pub fn check(&self, transport: Capabilities) -> Result<(), Invalid> {
        self.check_ttl("ttl_ms", self.ttl(), transport.ttl_max)?;
        self.check_limits_of_calls()?;
        self.own_label()?;
        let positive = [
            ("unavailable_after_ms", self.unavailable_after_ms),
            ("command_timeout_ms", self.command_timeout_ms),
            ("shards", self.shards as u64),
            ("batches_in_flight_max", self.batches_in_flight_max as u64),
            ("bulk_in_flight_max", self.bulk_in_flight_max as u64),
            ("group_commit_max", self.group_commit_max as u64),
            ("leases_max", self.leases_max as u64),
            ("waiters_max", self.waiters_max as u64),
            ("inbox_max", self.inbox_max as u64),
            ("fair_places_max", self.fair_places_max as u64),
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
        if self.group_commit_max > GROUP_COMMIT_MAX {
            let remedy = format!("must be at most {GROUP_COMMIT_MAX}");
            return Err(Invalid::new("group_commit_max", self.group_commit_max, remedy));
        }
        if self.hand_offs_max > u32::from(HAND_OFFS_MAX) {
            let remedy = format!("must be at most {HAND_OFFS_MAX}");
            return Err(Invalid::new("hand_offs_max", self.hand_offs_max, remedy));
        }
        if self.command_timeout_ms > self.unavailable_after_ms {
            let remedy = format!(
                "is longer than unavailable_after_ms = {}; make it shorter",
                self.unavailable_after_ms
            );
            return Err(Invalid::new("command_timeout_ms", self.command_timeout_ms, remedy));
        }
        if self.counter_memory_ms < COUNTER_MEMORY_MIN_MS {
            let remedy = format!("must be at least {COUNTER_MEMORY_MIN_MS}, two minutes");
            return Err(Invalid::new("counter_memory_ms", self.counter_memory_ms, remedy));
        }
        self.check_fair()?;
        if !self.restart_grace().is_zero() && !transport.uptime {
            let remedy = format!(
                "the transport {} cannot tell since when a server is up; leave it at 0",
                transport.name
            );
            return Err(Invalid::new("restart_grace_ms", self.restart_grace().as_millis(), remedy));
        }
        Ok(())
    }

    /// The label, if the settings have one.
    pub(crate) fn own_label(&self) -> Result<Option<EngineLabel>, Invalid> {
        let refused =
            |fault: LabelFault| Invalid::new("label", format_args!("{:?}", self.label), fault.to_string());
        (!self.label.is_empty()).then(|| EngineLabel::new(&self.label).map_err(refused)).transpose()
    }

    fn check_limits_of_calls(&self) -> Result<(), Invalid> {
        let most = u64::try_from(WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
        if let Some(wait) = self.wait_ms.filter(|wait| *wait > most) {
            let remedy = format!("must be at most {most}, ten years; leave it out to wait without limit");
            return Err(Invalid::new("wait_ms", wait, remedy));
        }
        if self.max_hold_ms == Some(0) {
            return Err(Invalid::new("max_hold_ms", 0, "must be longer; leave it out for no limit"));
        }
        Ok(())
    }

    fn check_fair(&self) -> Result<(), Invalid> {
        if !FAIR_WAIT_MS.contains(&self.fair_wait_ms) {
            let remedy = format!("must be {} to {}, a day", FAIR_WAIT_MS.start(), FAIR_WAIT_MS.end());
            return Err(Invalid::new("fair_wait_ms", self.fair_wait_ms, remedy));
        }
        if self.fair_places_max > FAIR_PLACES_MAX {
            let remedy = format!("must be at most {FAIR_PLACES_MAX}");
            return Err(Invalid::new("fair_places_max", self.fair_places_max, remedy));
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
        let refused = |remedy: String| Err(Invalid::new(field, shown(field, ttl), remedy));
        if ttl < TTL_MIN {
            let second = if is_in_ms(field) { ", one second" } else { "" };
            return refused(format!("must be at least {}{second}", shown(field, TTL_MIN)));
        }
        if ttl > most {
            return refused(format!("must be at most {} with this transport", shown(field, most)));
        }
        let grace = self.restart_grace();
        if !grace.is_zero() && ttl > grace {
            let name = if is_in_ms(field) { "restart_grace_ms" } else { "restart_grace" };
            let remedy = format!(
                "is longer than {name} = {}; shorten it, or raise {name} on every client",
                shown(name, grace)
            );
            return refused(remedy);
        }
        Ok(())
    }
}

/// The time as the setting is written: `ttl_ms` is a number of milliseconds, `ttl` a time with its unit.
fn shown(field: &str, time: Duration) -> String {
    if is_in_ms(field) { time.as_millis().to_string() } else { format!("{time:?}") }
}

fn is_in_ms(field: &str) -> bool {
    field.ends_with("_ms")
}

/// Ten years. A longer wait is a mistake: a call without a wait has no limit.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
const SHARDS_MAX: usize = 16_384;
/// A script for more locks would keep the server from other clients for milliseconds.
const GROUP_COMMIT_MAX: usize = 1_000;
const COUNTER_MEMORY_MIN_MS: u64 = 120_000;
/// Shorter, and a place could be removed by another client between two beats that are late.
const FAIR_WAIT_MS: RangeInclusive<u64> = 10_000..=86_400_000;
const FAIR_PLACES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const CAN: Capabilities = Capabilities::new("test", Duration::from_secs(86_400)).with_notices();

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
        assert_eq!(refused(|config| config.ttl_ms = 999), "ttl_ms = 999: must be at least 1000, one second");
        let text = refused(|config| config.ttl_ms = 86_400_001);
        assert_eq!(text, "ttl_ms = 86400001: must be at most 86400000 with this transport");
        let ttl = EngineConfig::default().check_ttl("ttl", Duration::from_millis(30), CAN.ttl_max);
        assert_eq!(ttl.unwrap_err().to_string(), "ttl = 30ms: must be at least 1s");
        assert!(refused(|config| config.restart_grace_ms = Some(60_000)).contains("leave it at 0"));
        assert!(
            refused(|config| config.fair_wait_ms = 9_999).starts_with("fair_wait_ms = 9999: must be 10000")
        );
        assert!(
            refused(|config| config.wait_ms = Some(u64::MAX)).ends_with("leave it out to wait without limit")
        );
        assert!(
            refused(|config| config.max_hold_ms = Some(0)).starts_with("max_hold_ms = 0: must be longer")
        );
        assert!(refused(|config| config.fair_places_max = 0).starts_with("fair_places_max = 0"));
        assert!(refused(|config| config.fair_places_max = 10_001).contains("at most 10000"));
        assert!(refused(|config| config.group_commit_max = 0).starts_with("group_commit_max = 0"));
        assert!(refused(|config| config.group_commit_max = 1_001).contains("at most 1000"));
        assert!(refused(|config| config.hand_offs_max = 1_024).contains("at most 1023"));
        let label = refused(|config| config.label = "a b".into());
        assert!(label.starts_with("label = \"a b\": has ' '; write printable"), "{label}");
        assert!(refused(|config| config.shards = 0).starts_with("shards = 0"));
    }

    #[test]
    fn a_ttl_beyond_the_restart_grace_is_refused() {
        let config = EngineConfig { restart_grace_ms: Some(40_000), ..EngineConfig::default() };
        let refused = config.check_ttl("ttl", Duration::from_secs(50), CAN.ttl_max).unwrap_err().to_string();
        assert!(refused.contains("50s") && refused.contains("40s"), "{refused}");
    }
}
