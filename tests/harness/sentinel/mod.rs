//! A master, replicas and sentinels of one test on loopback.
//!
//! ```no_run
//! use leasehold_tests::harness::sentinel::RedisSentinel;
//!
//! let deployment = RedisSentinel::start()?; // 1 master, 2 replicas, 3 sentinels
//! let old = deployment.master()?;
//! old.kill()?;
//! let new = deployment.wait_for_switch(old.port())?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! With [`RedisSentinelBuilder::proxied`] every data server has a proxy of its own. The sentinels monitor the first
//! master at its proxy's port, and replicas announce theirs (`replica-announce-port`), so the sentinels name nothing but
//! proxies, before and after a failover, and reach the servers themselves through them: a black hole at the master's proxy
//! is a master that is gone for clients and sentinels alike. Replication passes the proxies, too, and is never struck by a
//! fault. The sentinels themselves are reached directly.

mod builder;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use builder::RedisSentinelBuilder;

use crate::harness::node::Node;
use crate::harness::polling::found_within;
use crate::harness::resp::Value;

/// A running deployment. Dropping it kills and reaps every server and sentinel.
#[derive(Debug)]
pub struct RedisSentinel {
    // The sentinels first: they must not see servers die one by one.
    sentinels: Vec<Arc<Node>>,
    servers: Vec<Arc<Node>>,
}

/// The name that the sentinels know the master by.
pub const SERVICE: &str = "leasehold";

impl RedisSentinel {
    /// One master, two replicas, three sentinels with a quorum of two. All know each other when this returns (2 to 4 s).
    ///
    /// # Errors
    /// When a process does not start or they do not find each other.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// A deployment with other settings.
    pub fn builder() -> RedisSentinelBuilder {
        RedisSentinelBuilder::default()
    }

    /// The data servers: the first master, then the first replicas.
    pub fn servers(&self) -> &[Arc<Node>] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Arc<Node>] {
        &self.sentinels
    }

    /// `127.0.0.1:<port>` of every sentinel.
    pub fn sentinel_addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect()
    }

    /// `redis-sentinel://127.0.0.1:<port>?node=...&sentinelServiceName=...`, as fred spells it; `rediss-` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.servers[0].speaks_tls() { "rediss-sentinel" } else { "redis-sentinel" };
        let addresses = self.sentinel_addresses();
        let others: String = addresses[1..].iter().map(|address| format!("node={address}&")).collect();
        format!("{scheme}://{}?{others}sentinelServiceName={SERVICE}", addresses[0])
    }

    /// The announced port of the master, as the first running sentinel says.
    ///
    /// # Errors
    /// When no sentinel answers.
    pub fn master_port(&self) -> io::Result<u16> {
        let sentinel = self.running_sentinels().next();
        master_port_by(sentinel.ok_or_else(|| io::Error::other("no sentinel runs"))?)
    }

    /// The server at that port.
    ///
    /// # Errors
    /// When no sentinel answers.
    pub fn master(&self) -> io::Result<Arc<Node>> {
        self.server(self.master_port()?)
    }

    /// The server with this announced port.
    ///
    /// # Errors
    /// When there is none.
    pub fn server(&self, port: u16) -> io::Result<Arc<Node>> {
        let found = self.servers.iter().find(|server| server.port() == port).cloned();
        found.ok_or_else(|| io::Error::other(format!("no server of this deployment announces port {port}")))
    }

    /// The running servers other than the master that the sentinels name.
    ///
    /// # Errors
    /// When no sentinel answers.
    pub fn replicas(&self) -> io::Result<Vec<Arc<Node>>> {
        let master = self.master_port()?;
        let others = self.servers.iter().filter(|server| server.runs() && server.port() != master);
        Ok(others.cloned().collect())
    }

    /// `SENTINEL FAILOVER`: without asking the other sentinels. It happens a little later: [`Self::wait_for_switch`].
    ///
    /// # Errors
    /// When no sentinel runs, or it sees no replica to promote or another failover under way.
    pub fn failover(&self) -> io::Result<()> {
        let sentinel = self.running_sentinels().next();
        let sentinel = sentinel.ok_or_else(|| io::Error::other("no sentinel runs"))?;
        sentinel.done(&["SENTINEL", "FAILOVER", SERVICE]).map(drop)
    }

    /// Waits until every running sentinel names the same other master than the one at this port, and it is one.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub fn wait_for_switch(&self, away_from: u16) -> io::Result<Arc<Node>> {
        let switched = || {
            let master = self.agreed_master().filter(|port| *port != away_from)?;
            self.server(master).ok().filter(|server| has_role(server, "master"))
        };
        found_within(SWITCHED_WITHIN, switched)
            .ok_or_else(|| io::Error::other(format!("the sentinels did not leave {away_from}")))
    }

    /// Waits until every running sentinel sees all others and all running replicas, each replica is linked to the master,
    /// and the quorum is there.
    ///
    /// # Errors
    /// When that does not happen in time, with the last reason.
    pub fn wait_until_whole(&self) -> io::Result<()> {
        let mut last = String::new();
        let whole = || match self.not_whole_because() {
            Ok(None) => Some(()),
            Ok(Some(why)) => keep(&mut last, why),
            Err(error) => keep(&mut last, error.to_string()),
        };
        found_within(WHOLE_WITHIN, whole)
            .ok_or_else(|| io::Error::other(format!("the sentinels did not get ready: {last}")))
    }

    fn not_whole_because(&self) -> io::Result<Option<String>> {
        let Some(master) = self.agreed_master() else { return Ok(Some("they name two masters".into())) };
        let replicas: Vec<_> =
            self.servers.iter().filter(|server| server.runs() && server.port() != master).collect();
        for replica in &replicas {
            if !follows(replica, master)? {
                return Ok(Some(format!("{} is not linked to {master}", replica.port())));
            }
        }
        for sentinel in self.running_sentinels() {
            if let Some(why) = self.trouble_of(sentinel, &replicas)? {
                return Ok(Some(format!("sentinel {}: {why}", sentinel.port())));
            }
        }
        Ok(None)
    }

    fn trouble_of(&self, sentinel: &Node, replicas: &[&Arc<Node>]) -> io::Result<Option<String>> {
        let known = well_ports(&sentinel.done(&["SENTINEL", "REPLICAS", SERVICE])?);
        if let Some(unseen) = replicas.iter().find(|replica| !known.contains(&replica.port())) {
            return Ok(Some(format!("it does not see replica {}", unseen.port())));
        }
        let known = well_ports(&sentinel.done(&["SENTINEL", "SENTINELS", SERVICE])?);
        let others = self.running_sentinels().filter(|other| other.port() != sentinel.port());
        if let Some(unseen) = others.into_iter().find(|other| !known.contains(&other.port())) {
            return Ok(Some(format!("it does not see sentinel {}", unseen.port())));
        }
        let quorum = sentinel.command(&["SENTINEL", "CKQUORUM", SERVICE])?;
        Ok(quorum.error().map(str::to_owned))
    }

    /// The port that all running sentinels name.
    fn agreed_master(&self) -> Option<u16> {
        let mut ports: Vec<u16> =
            self.running_sentinels().map(|sentinel| master_port_by(sentinel).ok()).collect::<Option<_>>()?;
        ports.dedup();
        (ports.len() == 1).then(|| ports[0])
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.sentinels.iter().filter(|sentinel| sentinel.runs())
    }
}

/// The announced port of the master as this sentinel says.
///
/// # Errors
/// When it does not answer or knows no master.
pub fn master_port_by(sentinel: &Node) -> io::Result<u16> {
    let address = sentinel.done(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])?.texts();
    let port = address.get(1).and_then(|port| port.parse().ok());
    port.ok_or_else(|| io::Error::other(format!("sentinel {} answers {address:?}", sentinel.port())))
}

fn follows(replica: &Node, master: u16) -> io::Result<bool> {
    let field = |name| replica.info("replication", name);
    Ok(field("master_link_status")?.as_deref() == Some("up")
        && field("master_port")? == Some(master.to_string()))
}

fn has_role(server: &Node, role: &str) -> bool {
    server.info("replication", "role").is_ok_and(|own| own.as_deref() == Some(role))
}

/// The ports in an answer of `SENTINEL REPLICAS` or `SENTINELS` that have no bad flag.
fn well_ports(answer: &Value) -> Vec<u16> {
    let lists = answer.items().iter().map(Value::texts);
    lists.filter_map(|list| well_port(&list)).collect()
}

fn well_port(list: &[String]) -> Option<u16> {
    let field = |name: &str| list.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1));
    let flags = field("flags")?;
    let bad = ["s_down", "o_down", "disconnected"].iter().any(|bad| flags.contains(bad));
    field("port")?.parse().ok().filter(|_| !bad)
}

fn keep(last: &mut String, why: String) -> Option<()> {
    *last = why;
    None
}

/// Sentinels greet each other every 2 s and look for replicas every 10 s; a busy machine needs more.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);
const SWITCHED_WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
