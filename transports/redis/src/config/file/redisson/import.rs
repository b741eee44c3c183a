//! The settings that a Redisson YAML stands for. Pure.

use leasehold::EngineConfig;

use super::{
    super::{
        super::{Address, NoticeKind, Password, RedisConfig, RedisTopology, Secret},
        ConfigFile, ConfigFileError,
    },
    ignored_key::IgnoredKey,
    keys::{self, CLUSTER, Fate, Key, Place, SENTINEL, SINGLE},
    node::Node,
};

type Fault = ConfigFileError;
type Done = Result<(), Fault>;

/// The settings so far, and what was ignored.
pub(super) struct Import<'n> {
    pub(super) file: ConfigFile,
    pub(super) ignored: Vec<IgnoredKey>,
    /// The values that were mapped, each with its setting.
    origins: Vec<(&'static str, &'n Node)>,
    /// The first address, and whether it asks for TLS.
    scheme: Option<(&'n Node, bool)>,
    retries: Retries,
}

/// When Redisson gives a command up: after each of its attempts was unanswered for the timeout.
#[derive(Default)]
struct Retries {
    timeout_ms: Option<u64>,
    attempts: Option<u64>,
    interval_ms: Option<u64>,
}

impl<'n> Import<'n> {
    /// Reads the whole file.
    ///
    /// # Errors
    /// The first key that cannot be carried over.
    pub(super) fn of(root: &'n Node) -> Result<Self, Fault> {
        let (section, topology) = servers(root)?;
        let redis = RedisConfig::of(topology, Vec::new());
        let file = ConfigFile::new(EngineConfig::default(), redis);
        let (ignored, origins, retries) = (Vec::new(), Vec::new(), Retries::default());
        let mut import = Self { file, ignored, origins, scheme: None, retries };
        import.read_addresses(section)?;
        for node in root.members()? {
            import.take(node, None)?;
        }
        import.ignored.sort_by_key(|ignored| ignored.line);
        import.take_retries();
        Ok(import)
    }

    /// The value from which a setting came.
    pub(super) fn origin(&self, setting: &str) -> Option<&'n Node> {
        let is_it =
            |(known, _): &&(&str, &Node)| *known == setting || setting.starts_with(&format!("{known}."));
        self.origins.iter().find(is_it).map(|(_, node)| *node)
    }

    // What the TLS keys mean depends on the addresses, so the addresses are first.
    fn read_addresses(&mut self, section: &'n Node) -> Done {
        let is_one = |node: &&Node| ["address", "nodeAddresses", "sentinelAddresses"].contains(&node.name());
        let addresses = section.members()?.find(is_one);
        let addresses =
            addresses.ok_or_else(|| section.refused_key("it names no server; give its address"))?;
        if section.name() == SINGLE && addresses.entries().len() > 1 {
            return Err(addresses.refused(ONE_SERVER));
        }
        addresses.entries().iter().try_for_each(|entry| self.take_address(entry))
    }

    fn take_address(&mut self, node: &'n Node) -> Done {
        let (address, tls) = address(node, self.file.redis.topology)?;
        let &mut (first, first_tls) = self.scheme.get_or_insert((node, tls));
        if tls != first_tls {
            let remedy =
                format!("the address in line {} is not so; give all servers the same scheme", first.line());
            return Err(node.refused(remedy));
        }
        if tls {
            self.file.redis.tls.get_or_insert_default();
        }
        self.file.redis.addresses.push(address);
        Ok(())
    }

    fn take(&mut self, node: &'n Node, section: Option<&'n Node>) -> Done {
        let key = keys::find(node.name()).ok_or_else(|| unknown(node))?;
        check_place(key, node, section)?;
        match key.fate {
            Fate::Ignored(reason) => self.ignore(node, reason),
            Fate::Refused(_) if is_default_class(node) => self.ignore(node, "it is Redisson's default"),
            Fate::Refused(remedy) => return Err(node.refused_key(remedy)),
            Fate::Mapped(setting) => {
                if self.is_there(setting, node)? {
                    return Ok(());
                }
                self.origins.push((setting, node));
                self.map(node)?;
            }
        }
        Ok(())
    }

    fn ignore(&mut self, node: &Node, reason: &'static str) {
        self.ignored.push(IgnoredKey { line: node.line(), key: node.path(), reason });
    }

    // Redisson knows some keys in the section and at the root, and writes them to both. Two different values contradict each
    // other.
    fn is_there(&self, setting: &str, node: &Node) -> Result<bool, Fault> {
        let is_other = |(known, other): &&(&str, &Node)| *known == setting && other.name() == node.name();
        match self.origins.iter().find(is_other) {
            Some((_, other)) if other.has_value_of(node) => Ok(true),
            Some((_, other)) => {
                let remedy = format!("it is `{}` in line {} too; leave one out", other.path(), other.line());
                Err(node.refused_key(remedy))
            }
            None => Ok(false),
        }
    }

    fn map(&mut self, node: &'n Node) -> Done {
        let (engine, redis) = (&mut self.file.engine, &mut self.file.redis);
        match node.name() {
            SINGLE | SENTINEL | CLUSTER => {
                return node.members()?.try_for_each(|member| self.take(member, Some(node)));
            }
            "username" => redis.username = Some(node.text()?.to_owned()),
            "password" => redis.password = Some(password(node)?),
            "sentinelUsername" => redis.sentinel_username = Some(node.text()?.to_owned()),
            "sentinelPassword" => redis.sentinel_password = Some(password(node)?),
            "masterName" => redis.service_name = Some(node.text()?.to_owned()),
            "database" => redis.database = u8::try_from(node.number(0, 255)?).unwrap_or(u8::MAX),
            "natMapper" => return self.take_nat_mapper(node),
            "natMap" => return self.take_address_map(node),
            "shardedSubscriptionMode" => redis.notices = notices(node)?,
            "lockWatchdogTimeout" => engine.ttl_ms = node.number(1, MILLIS_MAX)?,
            "fairLockWaitTimeout" => engine.fair_wait_ms = node.number(1, MILLIS_MAX)?,
            "lockWatchdogBatchSize" => {
                redis.batch_leases_max = usize::try_from(node.number(1, 1_000)?).unwrap_or(usize::MAX);
            }
            "tcpUserTimeout" => return self.take_tcp_user_timeout(node),
            "timeout" => self.retries.timeout_ms = Some(node.number(1, MILLIS_MAX)?),
            "retryAttempts" => self.retries.attempts = Some(node.number(0, ATTEMPTS_MAX)?),
            "retryInterval" => self.retries.interval_ms = Some(node.number(0, MILLIS_MAX)?),
            name if name.starts_with("ssl") => return self.take_tls(node),
            _ => {} // an address: it was read first
        }
        Ok(())
    }

    // 0 is Redisson's default, and leaves the choice to the system.
    fn take_tcp_user_timeout(&mut self, node: &'n Node) -> Done {
        match node.number(0, MILLIS_MAX)? {
            0 => self.ignore(node, "0 leaves it to the system; the transport has 2000 ms"),
            millis => self.file.redis.tcp_user_timeout_ms = millis,
        }
        Ok(())
    }

    fn take_tls(&mut self, node: &'n Node) -> Done {
        match node.name() {
            "sslEnableEndpointIdentification" if !node.boolean()? => return Err(node.refused(VERIFIED)),
            "sslVerificationMode" if node.text()? != "STRICT" => return Err(node.refused(VERIFIED)),
            "sslTruststore" => match &mut self.file.redis.tls {
                Some(tls) => tls.ca = Some(pem_file(node)?.into()),
                None => self.ignore(node, "the addresses do not begin with rediss://"),
            },
            _ => {}
        }
        Ok(())
    }

    fn take_nat_mapper(&mut self, node: &'n Node) -> Done {
        if is_default_class(node) {
            self.ignore(node, "it is Redisson's default");
            return Ok(());
        }
        let map = node.members().ok().and_then(|mut members| {
            members.find(|member| ["hostsPortMap", "hostsMap"].contains(&member.name()))
        });
        self.take_address_map(map.ok_or_else(|| node.refused_key(NAT_MAPPER))?)
    }

    fn take_address_map(&mut self, map: &Node) -> Done {
        for entry in map.members()? {
            // In a map of hosts, port 0 stands for every port.
            let read = |text: &str| Address::read(text, 0).filter(Address::has_a_host);
            let pair = (read(entry.name()), read(entry.text()?));
            let (Some(announced), Some(reachable)) = pair else {
                return Err(entry.refused("write host:port: host:port, or host: host"));
            };
            self.file.redis.address_map.insert(announced, reachable);
        }
        Ok(())
    }

    fn take_retries(&mut self) {
        let Retries { timeout_ms, attempts, interval_ms } = self.retries;
        let engine = &mut self.file.engine;
        engine.command_timeout_ms = timeout_ms.unwrap_or(engine.command_timeout_ms);
        let given_up_after = attempts.map(|attempts| {
            let timeout = timeout_ms.unwrap_or(REDISSON_TIMEOUT_MS);
            let interval = interval_ms.unwrap_or(REDISSON_INTERVAL_MS);
            timeout.saturating_mul(attempts + 1).saturating_add(interval.saturating_mul(attempts))
        });
        let unavailable_after = given_up_after.unwrap_or(engine.unavailable_after_ms);
        engine.unavailable_after_ms = unavailable_after.max(engine.command_timeout_ms);
    }
}

/// The section of the servers.
fn servers(root: &Node) -> Result<(&Node, RedisTopology), Fault> {
    let mut found: Option<(&Node, RedisTopology)> = None;
    for node in root.members()? {
        let topology = match node.name() {
            SINGLE => RedisTopology::Single,
            SENTINEL => RedisTopology::Sentinel,
            CLUSTER => RedisTopology::Cluster,
            "masterSlaveServersConfig" | "replicatedServersConfig" => match keys::find(node.name()) {
                Some(Key { fate: Fate::Refused(remedy), .. }) => return Err(node.refused_key(*remedy)),
                _ => continue,
            },
            _ => continue,
        };
        if let Some((other, _)) = found {
            let remedy = format!("`{}` is in line {} too; leave one out", other.path(), other.line());
            return Err(node.refused_key(remedy));
        }
        found = Some((node, topology));
    }
    found.ok_or_else(|| root.refused_key(NO_SERVERS))
}

fn unknown(node: &Node) -> Fault {
    let meant = keys::nearest(node.name());
    let remedy = meant.map_or("leave it out".to_owned(), |meant| format!("did you mean `{meant}`?"));
    node.refused_hidden(format!("no version of Redisson from 3.27 to 4.7 has such a key; {remedy}"))
}

fn check_place(key: &Key, node: &Node, section: Option<&Node>) -> Done {
    let name = section.map(Node::name);
    match (key.place, name) {
        (Place::Anywhere, _) | (Place::Root, None) | (Place::Section, Some(_)) => Ok(()),
        (Place::Only(only), Some(name)) if only == name => Ok(()),
        (Place::Root, Some(_)) => Err(node.refused("it belongs outside of every section; move it there")),
        (Place::Section, None) => {
            Err(node.refused("it belongs into the section of the servers; move it there"))
        }
        (Place::Only(only), _) => {
            Err(node.refused(format!("it belongs into `{only}`; move it there, or leave it out")))
        }
    }
}

/// Redisson writes its defaults too when it prints its configuration.
fn is_default_class(node: &Node) -> bool {
    let class = node.class().unwrap_or_default();
    ["DefaultNameMapper", "DefaultCommandMapper", "DefaultCredentialsResolver", "DefaultNatMapper"]
        .contains(&class)
}

fn address(node: &Node, topology: RedisTopology) -> Result<(Address, bool), Fault> {
    let text = node.text()?;
    let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
    let tls = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(node.refused("begin it with redis:// or rediss://")),
    };
    if rest.contains('@') {
        return Err(
            node.refused("write user and password as `username` and `password`, not into the address")
        );
    }
    let address = Address::read(rest.trim_end_matches('/'), topology.default_port());
    let address = address
        .ok_or_else(|| node.refused("write redis://host:port; Redis listens on 6379, sentinels on 26379"))?;
    Ok((address, tls))
}

fn password(node: &Node) -> Result<Password, Fault> {
    node.text().map(|text| Password::Value(Secret::new(text)))
}

fn notices(node: &Node) -> Result<NoticeKind, Fault> {
    match node.text()? {
        "AUTO" => Ok(NoticeKind::Auto),
        "ON" => Ok(NoticeKind::Sharded),
        "OFF" => Ok(NoticeKind::Classic),
        _ => Err(node.refused("write AUTO, ON or OFF")),
    }
}

fn pem_file(node: &Node) -> Result<&str, Fault> {
    let text = node.text()?;
    let path = text.strip_prefix("file://").or_else(|| text.strip_prefix("file:")).unwrap_or(text);
    let is_pem = [".pem", ".crt", ".cer"].iter().any(|end| path.ends_with(end));
    if is_pem { Ok(path) } else { Err(node.refused(keys::TRUST_STORE)) }
}

const VERIFIED: &str = "certificates and the names in them are always verified; give each server a certificate for its \
    name, and leave the key out";
const NAT_MAPPER: &str =
    "a Java class cannot be run here; leave it out and set `address_map` of the transport";
const ONE_SERVER: &str = "name one server, the master; for several write `sentinelServersConfig` or \
    `clusterServersConfig`";
const NO_SERVERS: &str = "no servers are named; write `singleServerConfig`, `sentinelServersConfig` or \
    `clusterServersConfig`";
const MILLIS_MAX: u64 = i32::MAX as u64;
const ATTEMPTS_MAX: u64 = 1_000_000;
/// What Redisson does where its file says nothing.
const REDISSON_TIMEOUT_MS: u64 = 3_000;
const REDISSON_INTERVAL_MS: u64 = 1_500;
