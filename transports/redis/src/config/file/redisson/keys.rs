//! The keys of a Redisson YAML, and what becomes of each. They are the setters of Redisson 3.27 to 4.7, and some that other
//! versions have. Pure.

/// A key of a Redisson YAML.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) fate: Fate,
}

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of every section.
    Root,
    /// In the section of the servers.
    Section,
    /// In this section only.
    Only(&'static str),
    /// At either place: Redisson has moved the key from the sections to the root.
    Anywhere,
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It sets this setting of a `leasehold.toml`.
    Mapped(&'static str),
    /// It has no effect, for this reason.
    Ignored(&'static str),
    /// It cannot be carried over, and leaving it out would change what the service does. The remedy.
    Refused(&'static str),
}

use Fate::{Ignored, Mapped, Refused};
use Place::{Anywhere, Only, Root, Section};

pub(super) const SINGLE: &str = "singleServerConfig";
pub(super) const SENTINEL: &str = "sentinelServersConfig";
pub(super) const CLUSTER: &str = "clusterServersConfig";

/// Every key.
pub(super) const KEYS: &[Key] = &[
    key(SINGLE, Root, Mapped("redis.topology")),
    key(SENTINEL, Root, Mapped("redis.topology")),
    key(CLUSTER, Root, Mapped("redis.topology")),
    key("masterSlaveServersConfig", Root, Refused(MASTER_SLAVE)),
    key("replicatedServersConfig", Root, Refused(REPLICATED)),
    key("lockWatchdogTimeout", Root, Mapped("engine.ttl_ms")),
    key("lockWatchdogBatchSize", Root, Mapped("redis.batch_leases_max")),
    key("fairLockWaitTimeout", Root, Mapped("engine.fair_wait_ms")),
    key("checkLockSyncedSlaves", Root, Ignored(SYNCED)),
    key("slavesSyncTimeout", Root, Ignored(SYNCED)),
    key("nameMapper", Anywhere, Refused(NAME_MAPPER)),
    key("commandMapper", Anywhere, Refused(COMMAND_MAPPER)),
    key("credentialsResolver", Anywhere, Refused(CREDENTIALS_RESOLVER)),
    key("credentialsReapplyInterval", Anywhere, Ignored(CREDENTIALS)),
    key("username", Anywhere, Mapped("redis.username")),
    key("password", Anywhere, Mapped("redis.password")),
    key("address", Only(SINGLE), Mapped("redis.addresses")),
    key("nodeAddresses", Only(CLUSTER), Mapped("redis.addresses")),
    key("sentinelAddresses", Only(SENTINEL), Mapped("redis.addresses")),
    key("masterName", Only(SENTINEL), Mapped("redis.service_name")),
    key("sentinelUsername", Only(SENTINEL), Mapped("redis.sentinel_username")),
    key("sentinelPassword", Only(SENTINEL), Mapped("redis.sentinel_password")),
    key("database", Section, Mapped("redis.database")),
    key("natMapper", Section, Mapped("redis.address_map")),
    key("natMap", Section, Mapped("redis.address_map")),
    key("shardedSubscriptionMode", Only(CLUSTER), Mapped("redis.notices")),
    key("timeout", Anywhere, Mapped("engine.command_timeout_ms")),
    key("retryAttempts", Anywhere, Mapped("engine.unavailable_after_ms")),
    key("retryInterval", Anywhere, Mapped("engine.unavailable_after_ms")),
    key("retryDelay", Anywhere, Ignored(PAUSES)),
    key("reconnectionDelay", Anywhere, Ignored(PAUSES)),
    key("reconnectionTimeout", Anywhere, Ignored(PAUSES)),
    key("failedAttempts", Anywhere, Ignored(PAUSES)),
    key("connectTimeout", Anywhere, Ignored("each step of connecting has command_timeout_ms")),
    key("tcpUserTimeout", Anywhere, Mapped("redis.tcp_user_timeout_ms")),
    key("tcpKeepAlive", Root, Ignored(PROBES)),
    key("tcpKeepAliveCount", Anywhere, Ignored(PROBES)),
    key("tcpKeepAliveIdle", Anywhere, Ignored(PROBES)),
    key("tcpKeepAliveInterval", Anywhere, Ignored(PROBES)),
    key("keepAlive", Anywhere, Ignored(PROBES)),
    key("pingConnectionInterval", Anywhere, Ignored(PROBES)),
    key("tcpNoDelay", Anywhere, Ignored("it is always on")),
    key("sslEnableEndpointIdentification", Anywhere, Mapped("redis.tls")),
    key("sslVerificationMode", Anywhere, Mapped("redis.tls")),
    key("sslTruststore", Anywhere, Mapped("redis.tls.ca")),
    key("sslTruststorePassword", Anywhere, Ignored(KEY_STORE_PASSWORD)),
    key("sslKeystore", Anywhere, Refused(KEY_STORE)),
    key("sslKeystorePassword", Anywhere, Ignored(KEY_STORE_PASSWORD)),
    key("sslKeystoreType", Anywhere, Ignored(KEY_STORE_PASSWORD)),
    key("sslProvider", Anywhere, Ignored(TLS_LIBRARY)),
    key("sslProtocols", Anywhere, Ignored(TLS_LIBRARY)),
    key("sslCiphers", Anywhere, Ignored(TLS_LIBRARY)),
    key("sslTrustManagerFactory", Anywhere, Refused(JAVA_TLS)),
    key("sslKeyManagerFactory", Anywhere, Refused(JAVA_TLS)),
    key("codec", Root, Ignored("locks store no values that a codec would write")),
    key("threads", Root, Ignored(THREADS)),
    key("nettyThreads", Root, Ignored(THREADS)),
    key("nettyExecutor", Root, Ignored(THREADS)),
    key("executor", Root, Ignored(THREADS)),
    key("eventLoopGroup", Root, Ignored(THREADS)),
    key("transportMode", Root, Ignored(THREADS)),
    key("nettyHook", Root, Ignored(THREADS)),
    key("addressResolverGroupFactory", Root, Ignored("names are resolved by the operating system")),
    key("connectionListener", Root, Ignored(LISTENER)),
    key("monitorIPChanges", Section, Ignored(DNS)),
    key("dnsMonitoringInterval", Section, Ignored(DNS)),
    key("dnsMonitoringTimes", Section, Ignored(DNS)),
    key("protocol", Root, Ignored("both versions of the protocol leave the same data")),
    key("valkeyCapabilities", Root, Ignored("no capability of a client is announced")),
    key("useScriptCache", Root, Ignored("scripts are always sent by their digest")),
    key("keepPubSubOrder", Root, Ignored("notices are hints, and their order has no meaning")),
    key("lazyInitialization", Root, Ignored("an engine connects when it is built")),
    key("useThreadClassLoader", Root, Ignored(OTHER_OBJECTS)),
    key("referenceEnabled", Root, Ignored(OTHER_OBJECTS)),
    key("decodeInExecutor", Root, Ignored(OTHER_OBJECTS)),
    key("reliableTopicWatchdogTimeout", Root, Ignored(OTHER_OBJECTS)),
    key("reliablePubSubWatchdogTimeout", Root, Ignored(OTHER_OBJECTS)),
    key("minCleanUpDelay", Root, Ignored(OTHER_OBJECTS)),
    key("maxCleanUpDelay", Root, Ignored(OTHER_OBJECTS)),
    key("cleanUpKeysAmount", Root, Ignored(OTHER_OBJECTS)),
    key("entityIdCacheSize", Root, Ignored(OTHER_OBJECTS)),
    key("allowedClasses", Root, Ignored(OTHER_OBJECTS)),
    key("registrationKey", Root, Ignored("it belongs to Redisson PRO")),
    key("clientName", Anywhere, Ignored("connections have names of their own")),
    key("idleConnectionTimeout", Anywhere, Ignored(POOL)),
    key("connectionPoolSize", Section, Ignored(POOL)),
    key("connectionMinimumIdleSize", Section, Ignored(POOL)),
    key("masterConnectionPoolSize", Section, Ignored(POOL)),
    key("masterConnectionMinimumIdleSize", Section, Ignored(POOL)),
    key("slaveConnectionPoolSize", Section, Ignored(POOL)),
    key("slaveConnectionMinimumIdleSize", Section, Ignored(POOL)),
    key("subscriptionConnectionPoolSize", Section, Ignored(POOL)),
    key("subscriptionConnectionMinimumIdleSize", Section, Ignored(POOL)),
    key("subscriptionsPerConnection", Anywhere, Ignored(POOL)),
    key(
        "subscriptionTimeout",
        Anywhere,
        Ignored("a subscription that fails is repeated, and callers poll meanwhile"),
    ),
    key("readMode", Section, Ignored(REPLICAS)),
    key("subscriptionMode", Section, Ignored(REPLICAS)),
    key("loadBalancer", Section, Ignored(REPLICAS)),
    key("slaveNotUsed", Section, Ignored(REPLICAS)),
    key("failedSlaveReconnectionInterval", Section, Ignored(REPLICAS)),
    key("failedSlaveCheckInterval", Section, Ignored(REPLICAS)),
    key("failedSlaveNodeDetector", Section, Ignored(REPLICAS)),
    key("fallbackLoadingToMaster", Section, Ignored(REPLICAS)),
    key("slavesConnectionCheck", Section, Ignored(REPLICAS)),
    key("scanInterval", Section, Ignored(DISCOVERY)),
    key("checkSlotsCoverage", Only(CLUSTER), Ignored(DISCOVERY)),
    key("checkMasterLinkStatus", Only(CLUSTER), Ignored(DISCOVERY)),
    key("slotMigrationTimeout", Only(CLUSTER), Ignored(DISCOVERY)),
    key("checkSentinelsList", Only(SENTINEL), Ignored(DISCOVERY)),
    key("checkSlaveStatusWithSyncing", Only(SENTINEL), Ignored(DISCOVERY)),
    key("sentinelsDiscovery", Only(SENTINEL), Ignored(DISCOVERY)),
];

const fn key(name: &'static str, place: Place, fate: Fate) -> Key {
    Key { name, place, fate }
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known key that was probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > NAME_MAX {
        return None;
    }
    let wrong_letters = |key: &&Key| strsim::damerau_levenshtein(name, key.name);
    let nearest = KEYS.iter().min_by_key(wrong_letters)?;
    (wrong_letters(&nearest) <= (nearest.name.len() / 3).max(1)).then_some(nearest.name)
}

/// A longer name is near to none.
const NAME_MAX: usize = 64;

const MASTER_SLAVE: &str = "Leasehold does not choose among masters and replicas; write singleServerConfig with the \
    address of the master, or sentinelServersConfig";
const REPLICATED: &str = "Leasehold does not look for the master of such a group; write singleServerConfig with the \
    primary endpoint, or clusterServersConfig with the configuration endpoint";
const NAME_MAPPER: &str = "a Java class cannot be run here; if it puts a prefix before each name, leave it out and set \
    `name_prefix` of the engine to that prefix, else names would differ from those of Java";
const COMMAND_MAPPER: &str = "a Java class cannot be run here; give the service a user for whom the commands have their \
    own names, and leave it out";
const CREDENTIALS_RESOLVER: &str = "a Java class cannot be run here; write username and password, or set `password` of \
    the transport to a file that is read at each connect";
const KEY_STORE: &str = "a Java key store cannot be read; export the certificate and its key as PEM, leave it out and \
    set `tls.cert` and `tls.key` of the transport";
pub(super) const TRUST_STORE: &str =
    "a Java key store cannot be read; export its certificates as PEM and name that file";
const JAVA_TLS: &str = "a Java class cannot be run here; leave it out and set `tls` of the transport";
const SYNCED: &str = "no call waits for replicas; GUARANTEES.md says what a failover may forget";
const CREDENTIALS: &str = "a password from a file or a variable is read again at each connect";
const PAUSES: &str = "the engine chooses its pauses, and connects until it is shut down";
const PROBES: &str = "each connection is probed by its own watchdog";
const KEY_STORE_PASSWORD: &str = "PEM files have no such setting";
const TLS_LIBRARY: &str = "TLS is rustls, with TLS 1.2 and 1.3 and their safe suites";
const THREADS: &str = "an engine has two threads of its own";
const LISTENER: &str = "events are told by metrics and logs";
const DNS: &str = "names are resolved again at each connect";
const OTHER_OBJECTS: &str = "it concerns no locks";
const POOL: &str = "there is one connection for each node and purpose";
const REPLICAS: &str = "locks are on masters only";
const DISCOVERY: &str = "changes are followed by redirects, by sentinels' messages and by polls of their own";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_there_once_and_in_the_documentation() {
        let page = include_str!("../../../../COMPATIBILITY.md");
        for (place, key) in KEYS.iter().enumerate() {
            assert!(!KEYS[..place].iter().any(|other| other.name == key.name), "{} twice", key.name);
            let row =
                page.lines().find(|line| line.starts_with("| ") && line.contains(&format!("`{}`", key.name)));
            let row = row.unwrap_or_else(|| panic!("COMPATIBILITY.md has no row for {}", key.name));
            let word = match key.fate {
                Mapped(_) => "becomes",
                Ignored(_) => "ignored",
                Refused(_) => "refused",
            };
            assert!(row.contains(word), "{row} does not say {word}");
        }
    }

    #[test]
    fn a_misspelt_key_is_recognized() {
        assert_eq!(nearest("nodeAdresses"), Some("nodeAddresses"));
        assert_eq!(nearest("xyz"), None);
        assert_eq!(nearest(&"address".repeat(1_000_000)), None);
    }
}
