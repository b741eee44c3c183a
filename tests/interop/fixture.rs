//! Servers, a JVM and an engine of ours, with a proxy in front of each server that counts what passes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::Engine;
use leasehold_redis::{NoticeKind, RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    deployment::{Deployment, Topology},
    node::Node,
    polling::holds_within,
    proxy::SeenRequest,
    raw_client::RawClient,
    shared::Shared,
};

use crate::java::{Java, chooses_notices_by_chance};

/// Fields drop in this order: clients before what they are connected to.
pub struct Fixture {
    pub java: Java,
    pub engine: Engine,
    /// To the master that has the lock, past its proxy.
    pub raw: RawClient,
    pub servers: Arc<Deployment>,
    /// The lock of this test, which no other test uses.
    pub name: String,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Java,
    Ours,
}

impl Fixture {
    /// Java's watchdog time and our ttl are both `ttl`. Servers and JVM are those of other tests, too.
    pub async fn new(topology: Topology, ttl: Duration) -> Self {
        let (servers, tag) = (shared(topology), next_tag());
        Self::on(servers.clone(), Java::shared(&servers, ttl, &tag), &tag, ttl).await
    }

    /// With a JVM that no other test has: it may be ended.
    pub async fn with_its_own_jvm(topology: Topology, ttl: Duration) -> Self {
        Self::with_its_own_jvm_on(shared(topology), ttl).await
    }

    /// On servers that no other test has: they may be told to fail over.
    pub async fn with_its_own_servers(topology: Topology, ttl: Duration) -> Self {
        let servers = Deployment::start_proxied(topology).expect("servers");
        Self::with_its_own_jvm_on(Arc::new(servers), ttl).await
    }

    async fn with_its_own_jvm_on(servers: Arc<Deployment>, ttl: Duration) -> Self {
        let tag = next_tag();
        Self::on(servers.clone(), Java::start(&servers, ttl, &tag), &tag, ttl).await
    }

    async fn on(servers: Arc<Deployment>, java: Java, tag: &str, ttl: Duration) -> Self {
        let name = format!("orders-{tag}-0");
        let mut config = RedisConfig::from_url(&servers.url()).expect("a URL");
        if is_mixed(&servers) {
            config.notices = NoticeKind::Both; // as OPERATORS.md says
        }
        let engine = Engine::builder(RedisTransport::new(config)).ttl(ttl).build().await.expect("an engine");
        let master = servers.master_of(&name).expect("a master");
        Self { java, engine, raw: master.client().expect("a connection"), servers, name }
    }

    /// The lock's name but for its number.
    pub fn prefix(&self) -> &str {
        self.name.trim_end_matches('0')
    }

    /// A key on the lock's server, whatever becomes of its slot.
    pub fn counter(&self) -> String {
        format!("stock-{{{}}}", self.name)
    }

    fn is_sharded(&self) -> bool {
        self.servers.topology() == Topology::Cluster
    }

    fn channel(&self) -> String {
        format!("redisson_lock__channel:{{{}}}", self.name)
    }

    /// Waits until so many clients listen on the lock's channel, at its master and in the way of this topology.
    pub fn listeners(&mut self, count: i64) {
        let channel = self.channel();
        self.listeners_of(&channel, count);
    }

    /// The same for another channel. Where clients choose by chance, any listener counts.
    pub fn listeners_of(&mut self, channel: &str, count: i64) {
        let is_mixed = is_mixed(&self.servers);
        let ways: &[&str] = match (is_mixed, self.is_sharded()) {
            (true, _) => &["NUMSUB", "SHARDNUMSUB"],
            (false, true) => &["SHARDNUMSUB"],
            (false, false) => &["NUMSUB"],
        };
        let heard = || {
            let counted = ways.iter().map(|way| {
                let reply = self.raw.command(&["PUBSUB", way, channel]).expect("a reply");
                reply.items().get(1).and_then(|number| number.integer()).unwrap_or(0)
            });
            let counted: i64 = counted.sum();
            counted == count || (is_mixed && counted > count)
        };
        assert!(holds_within(SOON, heard), "{count} listeners");
    }

    /// Listens where the waiters do.
    pub fn ear(&self) -> Ear {
        self.ear_of(&self.channel())
    }

    /// The same for another channel.
    pub fn ear_of(&self, channel: &str) -> Ear {
        let master = self.servers.master_of(&self.name).expect("a master");
        let ways: &[Way] = match (is_mixed(&self.servers), self.is_sharded()) {
            (true, _) => &[CLASSIC, SHARDED],
            (false, true) => &[SHARDED],
            (false, false) => &[CLASSIC],
        };
        let clients = ways.iter().map(|way| {
            let mut client = master.client().expect("a connection");
            client.command(&[way.0, channel]).expect("a reply");
            (client, way.1)
        });
        Ear { clients: clients.collect(), channel: channel.to_owned() }
    }

    /// The ear has heard of the release, in the way of this topology; and nobody on these servers publishes in the other.
    pub fn assert_was_told(&self, ear: &mut Ear) {
        ear.assert_heard("0");
        if is_mixed(&self.servers) {
            return;
        }
        let other = if self.is_sharded() { "publish" } else { "spublish" };
        let masters = self.servers.masters().expect("masters");
        let others: u64 = masters.iter().map(|master| calls(master, other)).sum();
        assert_eq!(others, 0, "{other} was called");
    }

    /// Milliseconds left of the lock; -2: nobody holds it.
    pub fn pttl(&mut self) -> i64 {
        self.raw.command(&["PTTL", &self.name]).expect("a reply").integer().expect("a number")
    }

    /// The owners on the server.
    pub fn owners(&mut self) -> Vec<String> {
        self.raw.command(&["HKEYS", &self.name]).expect("a reply").texts()
    }

    /// The scripts about the lock that one side has sent since then. Of a client that only waits, its tries to get it.
    pub fn asks(&self, side: Side, since: Option<Instant>) -> Vec<SeenRequest> {
        asks(&self.servers, side, &self.name, since)
    }

    /// Waits until the engine has asked once more, so that its next poll is a second away.
    pub fn next_ask(&self) {
        let before = self.asks(Side::Ours, None).len();
        assert!(holds_within(SOON, || self.asks(Side::Ours, None).len() > before), "a poll");
    }
}

/// How to listen, and how what is heard begins.
type Way = (&'static str, &'static str);
const CLASSIC: Way = ("SUBSCRIBE", "message");
const SHARDED: Way = ("SSUBSCRIBE", "smessage");

/// A listener on one channel, in each way in which it may be told.
pub struct Ear {
    clients: Vec<(RawClient, &'static str)>,
    channel: String,
}

impl Ear {
    /// The next message is this. Where several ways are listened to, it is the next in one of them that is not skipped: what
    /// is told in both ways was heard in one before.
    pub fn assert_heard(&mut self, payload: &str) {
        if let [(client, kind)] = self.clients.as_mut_slice() {
            assert_eq!(client.read().expect("a message").texts(), [*kind, &self.channel, payload]);
            return;
        }
        let channel = &self.channel;
        let is_heard = self.clients.iter_mut().any(|(client, kind)| {
            let messages = std::iter::from_fn(|| client.read().ok());
            messages.map(|message| message.texts()).any(|texts| texts == [*kind, channel, payload])
        });
        assert!(is_heard, "no message {payload} came on {channel}");
    }
}

/// Whether Java's clients may publish and listen in either way.
pub fn is_mixed(servers: &Deployment) -> bool {
    servers.topology() == Topology::Cluster && chooses_notices_by_chance()
}

/// The scripts about any lock that one side has sent since then.
pub fn asks(servers: &Deployment, side: Side, name: &str, since: Option<Instant>) -> Vec<SeenRequest> {
    servers.requests(|request| {
        // Java's connections have no names.
        let ours = request.client.as_deref().is_some_and(|client| client.starts_with("leasehold-"));
        ours == (side == Side::Ours)
            && since.is_none_or(|since| request.at >= since)
            && request.command().starts_with("EVAL")
            && request
                .arguments
                .iter()
                .any(|argument| argument == name.as_bytes() || has_packed(argument, name))
    })
}

/// Whether the name stands in a list in MessagePack, as those of renewals do where keys are not declared: behind its
/// length, and before something that no name begins with.
fn has_packed(list: &[u8], name: &str) -> bool {
    let mut packed = Vec::new();
    rmp::encode::write_str(&mut packed, name).expect("a vector has room");
    list.windows(packed.len()).any(|part| part == packed)
}

/// How often a command was called on a server, in scripts or not.
fn calls(server: &Node, command: &str) -> u64 {
    let counted = server.info("commandstats", &format!("cmdstat_{command}")).expect("statistics");
    let calls = counted.map(|counted| {
        let calls = counted.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
        calls.and_then(|calls| calls.parse::<u64>().ok()).expect("a number of calls")
    });
    calls.unwrap_or(0)
}

fn shared(topology: Topology) -> Arc<Deployment> {
    static SINGLE: Shared<Deployment> = Shared::new();
    static SENTINEL: Shared<Deployment> = Shared::new();
    static CLUSTER: Shared<Deployment> = Shared::new();
    let seat = match topology {
        Topology::Single => &SINGLE,
        Topology::Sentinel => &SENTINEL,
        Topology::Cluster => &CLUSTER,
    };
    seat.get(move || Deployment::start_proxied(topology).expect("servers"))
}

/// No two tests of this process have the same.
fn next_tag() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// Far above what anything takes that is not meant to wait.
pub const SOON: Duration = Duration::from_secs(20);
