//! What servers of every version say when they refuse: each text must prove that nothing was executed, and name its
//! remedy. The texts inside scripts differ from version to version.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use leasehold::transport::{Call, Effect, ErrorKind, LanePurpose, Outcome, TransportError};
use leasehold_redis::{Address, Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::harness::{
    cluster::{RedisCluster, SlotMigration},
    node::Node,
    polling::holds_within,
    raw_client::RawClient,
    redis_server::RedisServer,
    resp::Value,
    server_version::ServerVersion,
};

use crate::lanes::{Lanes, open};

/// One server with two users: ours, whose rights the test takes away, and the default one.
pub(crate) struct Single {
    server: RedisServer,
    pub(crate) lanes: Lanes,
    held: Call,
}

impl Single {
    pub(crate) async fn start(version: ServerVersion) -> Self {
        let server = RedisServer::builder()
            .version(version)
            .option("--lua-time-limit", "20")
            .acl_user("ours on >hunter2 ~* &* +@all")
            .start()
            .expect("a server");
        let mut config = RedisConfig::single("127.0.0.1", server.port());
        (config.username, config.password) =
            (Some("ours".into()), Some(Password::Value(Secret::new("hunter2"))));
        let lanes = Lanes::open(config).await;
        let held = lanes.held("held").await;
        Self { server, lanes, held }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Value {
        self.server.client().expect("a connection").command(arguments).expect("a reply")
    }

    pub(crate) fn client(&self) -> RawClient {
        self.server.client().expect("a connection")
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        let set = self.command(&["CONFIG", "SET", name, value]);
        assert!(set.is_ok(), "{name} {value}: {set:?}");
    }

    /// While it is so, an acquire, a renewal and a release are each refused, with this kind and this word.
    async fn refuses(&self, kind: ErrorKind, word: &str) {
        let refused = |error: TransportError| is_refused(&error, kind, word);
        refused(self.lanes.acquire(&self.lanes.wish("free")).await.expect_err(word));
        refused(of_renewal(self.lanes.renew(&[&self.held]).await));
        refused(self.lanes.release(&self.held).await.expect_err(word));
    }

    /// And then everything works.
    async fn recovers(&self) {
        self.until_granted().await;
        assert!(self.lanes.is_renewed(&[&self.held]).await);
        self.keeps_nothing_else();
    }

    pub(crate) async fn until_granted(&self) {
        let wish = self.lanes.wish("free");
        for _ in 0..1_000 {
            if let Ok(Outcome::Granted { .. }) = self.lanes.acquire(&wish).await {
                assert!(self.lanes.is_released(&wish).await);
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing is granted any more");
    }

    /// What happens while our user lacks these rights.
    pub(crate) async fn without<T>(&self, rights: &[&str], happens: impl AsyncFnOnce() -> T) -> T {
        assert!(self.command(&[&["ACL", "SETUSER", "ours"], rights].concat()).is_ok(), "{rights:?}");
        let result = happens().await;
        assert!(self.command(&["ACL", "SETUSER", "ours", "+@all", "~*"]).is_ok());
        result
    }

    pub(crate) fn keeps_nothing_else(&self) {
        assert_eq!(self.command(&["KEYS", "*"]).texts(), ["held"]);
        assert!(self.command(&["PTTL", "held"]).integer() > Some(0));
    }
}

pub(crate) fn is_refused(error: &TransportError, kind: ErrorKind, word: &str) {
    println!("{error}");
    assert_eq!((error.kind, error.effect), (kind, Effect::None), "{word}: {error:?}");
    assert!(error.detail.contains(word), "{word}: {error}");
}

fn of_renewal(mut answers: Vec<Outcome>) -> TransportError {
    match answers.remove(0) {
        Outcome::Failed(error) => error,
        other => panic!("refused, not {other:?}"),
    }
}

pub(crate) async fn on_each_version<F: Future<Output = ()>>(check: impl Fn(ServerVersion) -> F) {
    for version in ServerVersion::ALL {
        println!("{version:?}");
        check(version).await;
    }
}

#[tokio::test]
async fn a_server_that_forgot_its_scripts_is_told_them_again() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        assert!(single.lanes.is_renewed(&[&single.held]).await);
        assert!(single.command(&["SCRIPT", "FLUSH"]).is_ok());
        assert!(single.lanes.is_renewed(&[&single.held]).await);
        single.recovers().await;
    })
    .await;
}

/// A replica of nobody, which serves what it has, and then one that does not.
#[tokio::test]
async fn a_replica_refuses_and_so_does_one_without_its_master() {
    on_each_version(async |version| {
        for (serves_stale, word) in [("yes", "READONLY"), ("no", "MASTERDOWN")] {
            let single = Single::start(version).await;
            single.set("replica-serve-stale-data", serves_stale);
            assert!(single.command(&["REPLICAOF", "127.0.0.1", "1"]).is_ok());
            // The connection ends at the first refusal, so there is one for each lane.
            let refused = single.lanes.acquire(&single.lanes.wish("free")).await.expect_err(word);
            is_refused(&refused, ErrorKind::NotReady, word);
            is_refused(&of_renewal(single.lanes.renew(&[&single.held]).await), ErrorKind::NotReady, "");
            assert!(single.command(&["REPLICAOF", "NO", "ONE"]).is_ok());
            single.until_granted().await;
            single.keeps_nothing_else();
        }
    })
    .await;
}

#[tokio::test]
async fn s9_out_of_memory_an_acquire_is_refused_and_renewal_and_release_work() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        single.set("maxmemory", "1");
        for name in ["free", "other"] {
            let refused = single.lanes.acquire(&single.lanes.wish(name)).await.expect_err("OOM");
            is_refused(&refused, ErrorKind::NotReady, "OOM");
        }
        single.keeps_nothing_else();
        // Asking again for what is held needs no memory.
        let again = single.lanes.acquire(&single.held).await;
        assert!(matches!(again, Ok(Outcome::Granted { .. })), "{again:?}");
        assert!(single.lanes.is_renewed(&[&single.held]).await);
        assert!(single.lanes.is_released(&single.held).await);
        assert_eq!(single.command(&["DBSIZE"]).integer(), Some(0));
        single.set("maxmemory", "0");
        single.until_granted().await;
    })
    .await;
}

/// Its snapshot cannot be written: a directory stands where the file would.
#[tokio::test]
async fn a_server_that_cannot_write_its_snapshot_refuses() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        std::fs::create_dir(single.server.dir().join("dump.rdb")).expect("a directory");
        single.set("save", "3600 1000000");
        single.command(&["BGSAVE"]);
        let failed =
            || single.command(&["INFO", "persistence"]).text().unwrap_or_default().contains("status:err");
        assert!(holds_within(PATIENCE, failed));
        single.refuses(ErrorKind::NotReady, "MISCONF").await;
        single.set("stop-writes-on-bgsave-error", "no");
        single.recovers().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_without_enough_replicas_refuses() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        single.set("min-replicas-to-write", "1");
        single.refuses(ErrorKind::NotReady, "NOREPLICAS").await;
        single.set("min-replicas-to-write", "0");
        single.recovers().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_busy_with_a_script_refuses() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        let mut hog = single.server.client().expect("a connection");
        hog.send(&["EVAL", "while true do end", "0"]).expect("sent");
        let busy = || single.command(&["GET", "x"]).error().is_some_and(|why| why.starts_with("BUSY"));
        assert!(holds_within(PATIENCE, busy));
        single.refuses(ErrorKind::NotReady, "BUSY").await;
        assert!(single.command(&["SCRIPT", "KILL"]).is_ok());
        single.recovers().await;
    })
    .await;
}

/// Each right that an acquire of a free lock needs, and each pair of them; then those of a renewal. S9 for what is left.
#[tokio::test]
async fn s9_a_missing_right_inside_a_script_is_told_and_leaves_nothing() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        for (n, one) in RIGHTS.iter().enumerate() {
            for other in &RIGHTS[n..] {
                single
                    .without(&[one, other], async || {
                        let refused = single.lanes.acquire(&single.lanes.wish("free")).await.expect_err(one);
                        is_refused(&refused, ErrorKind::Denied, "grant the rights");
                        single.keeps_nothing_else();
                    })
                    .await;
            }
        }
        // The server has to be told the script once, by EVAL.
        assert!(single.lanes.is_renewed(&[&single.held]).await);
        for right in ["-evalsha", "-time", "-hexists", "-pttl", "-pexpireat"] {
            // The first renewal has lengthened it, so that the next has nothing to write.
            single.command(&["PEXPIRE", "held", "60000"]);
            let refused = async || of_renewal(single.lanes.renew(&[&single.held]).await);
            let refused = single.without(&[right], refused).await;
            is_refused(&refused, ErrorKind::Denied, "grant the rights");
        }
        single.recovers().await;
    })
    .await;
}

const RIGHTS: [&str; 7] = ["-evalsha", "-time", "-pttl", "-hset", "-pexpire", "-hdel", "resetkeys"];

#[tokio::test]
async fn s10_data_of_another_type_is_refused() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        single.command(&["DEL", "held"]);
        single.command(&["SET", "held", "v"]);
        single.command(&["SET", "free", "v"]);
        single.refuses(ErrorKind::WrongType, "use another name").await;
    })
    .await;
}

/// Three masters, one of which serves the keys of the test.
struct Cluster {
    cluster: RedisCluster,
    lanes: Lanes,
}

impl Cluster {
    async fn start(version: ServerVersion) -> Self {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
        let lanes = Lanes::open(RedisConfig::cluster(nodes)).await;
        Self { cluster, lanes }
    }
}

/// How often its servers have answered so, all together.
fn cluster_count(cluster: &RedisCluster, code: &str) -> usize {
    cluster.nodes().iter().filter_map(|node| count(node, code)).sum()
}

/// From 6.2 on.
fn count(node: &Node, code: &str) -> Option<usize> {
    let count = node.info("errorstats", &format!("errorstat_{code}")).ok()??;
    count.strip_prefix("count=")?.parse().ok()
}

/// Two keys of one slot, one of them moved: every request reaches the key where it is, alone and in company.
#[tokio::test]
async fn a_slot_on_its_way_is_served_from_both_ends() {
    on_each_version(async |version| {
        let Cluster { cluster, lanes } = &Cluster::start(version).await;
        let [stays, moves] = [lanes.held("{t}stays").await, lanes.held("{t}moves").await];
        let elsewhere = lanes.held("elsewhere").await;
        let slot = stays.key.slot().number();
        let masters = cluster.masters().expect("masters");
        let source = cluster.master_of(slot).expect("a master");
        let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
        let migration = cluster.begin_migration(slot, target).expect("begun");
        migration.move_key(b"{t}moves").expect("moved");
        for hold in [&stays, &moves] {
            assert!(lanes.is_renewed(&[hold]).await, "alone");
            let again = lanes.acquire(hold).await;
            assert!(matches!(again, Ok(Outcome::Granted { .. })), "{again:?}");
            assert_eq!(lanes.calls.inspect(&hold.key).await.expect("an answer").holds.len(), 1);
        }
        assert!(lanes.is_renewed(&[&stays, &moves]).await, "together");
        assert!(lanes.is_renewed(&[&moves, &elsewhere, &stays]).await, "with others");
        // One that nobody has is made at the target.
        let fresh = lanes.held("{t}fresh").await;
        let there = target
            .client()
            .and_then(|mut client| client.pipeline(&[vec!["ASKING"], vec!["EXISTS", "{t}fresh"]]));
        assert_eq!(there.expect("replies")[1].integer(), Some(1));
        assert!(lanes.is_released(&fresh).await && lanes.is_released(&moves).await);
        migration.finish().expect("finished");
        assert!(lanes.is_renewed(&[&stays]).await);
        // A table that happens to be read behind a move needs no redirect: then the slot moves again.
        let (mut ends, started) = ([&source, target].into_iter().cycle(), Instant::now());
        while cluster_count(cluster, "MOVED") == 0 {
            let to = ends.next().filter(|_| started.elapsed() < PATIENCE).expect("redirected by now");
            cluster.begin_migration(slot, to).and_then(SlotMigration::finish).expect("moved");
            assert!(lanes.is_renewed(&[&stays]).await);
        }
        assert!(lanes.is_released(&stays).await);
        println!("ASK: {}, MOVED: {}", cluster_count(cluster, "ASK"), cluster_count(cluster, "MOVED"));
        assert!(cluster_count(cluster, "ASK") > 0);
        // Keys that are declared together: half of them have arrived. Others declare none.
        assert_eq!(cluster_count(cluster, "TRYAGAIN") > 0, version == ServerVersion::Redis62);
    })
    .await;
}

const PATIENCE: Duration = Duration::from_secs(20);

/// The slots of two dead masters are served by nobody, and soon the third serves nothing either. fred gives the text to
/// every request that waits, so it proves nothing; what a script says of it does.
#[tokio::test]
async fn a_cluster_that_is_down_grants_nothing_and_comes_back() {
    on_each_version(async |version| {
        let Cluster { cluster, lanes } = &Cluster::start(version).await;
        let [held, other] = [lanes.held("held").await, lanes.held("{held}other").await];
        let serving = cluster.master_of(held.key.slot().number()).expect("a master");
        let others: Vec<_> =
            cluster.nodes().into_iter().filter(|node| node.port() != serving.port()).collect();
        others.iter().for_each(|node| node.kill().expect("killed"));
        let is_down = || {
            let info = serving.command(&["CLUSTER", "INFO"]).expect("a reply").text();
            info.is_some_and(|info| info.contains("cluster_state:fail"))
        };
        assert!(holds_within(PATIENCE, is_down));
        let denied = lanes.acquire(&lanes.wish("{held}free")).await.expect_err("down");
        println!("{denied}");
        let renewal = of_renewal(lanes.renew(&[&held, &other]).await);
        println!("{renewal}");
        if version != ServerVersion::Redis62 {
            assert_eq!(renewal.effect, Effect::None, "{renewal:?}");
        }
        others.iter().for_each(|node| node.restart().expect("restarted"));
        cluster.wait_until_whole().expect("whole");
        assert_eq!(serving.command(&["EXISTS", "{held}free"]).expect("a reply").integer(), Some(0));
        assert!(holds_within(PATIENCE, || !is_down()));
        lanes.until_renewed(&[&held, &other]).await;
    })
    .await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_single_server() {
    on_each_version(async |version| {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let node = cluster.master_of(0).expect("a master");
        let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", node.port()));
        let refused = open(&transport, LanePurpose::Calls).await.err().expect("refused at the start");
        is_refused(&refused, ErrorKind::Misconfigured, "topology = \"cluster\"");
    })
    .await;
}
