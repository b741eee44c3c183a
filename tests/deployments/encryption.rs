//! TLS behind sentinels and on a cluster, of Debian's Redis: the only one here that speaks it. What is wrong is told with
//! its reason, wherever on the way it is met, and nothing is ever said in plain.

use std::{
    io::Read,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use leasehold::{BuildError, Engine, routing::slot::Slot};
use leasehold_redis::{Address, Password, RedisConfig, RedisTransport, Secret, SentinelTlsConfig, TlsConfig};
use leasehold_tests::{
    changed,
    harness::{
        certificates::{Certificates, Identity},
        cluster::RedisCluster,
        node::Node,
        sentinel::{RedisSentinel, SERVICE},
        server_tls::ServerTls,
    },
};

use crate::tour::tour;

/// That of the servers, and a certificate of ours.
fn good(certificates: &Certificates) -> TlsConfig {
    let trusting = changed(TlsConfig::default(), |new| new.ca = Some(certificates.authority()));
    showing(certificates, Identity::Client, trusting)
}

fn showing(certificates: &Certificates, identity: Identity, tls: TlsConfig) -> TlsConfig {
    let (cert, key) = (certificates.certificate(identity), certificates.key(identity));
    changed(tls, |new| {
        new.cert = Some(cert);
        new.key = Some(key);
    })
}

/// With a password, so that it would be heard if we spoke in plain.
fn over(tls: Option<TlsConfig>, config: RedisConfig) -> RedisConfig {
    changed(config, |new| {
        new.tls = tls;
        new.password = Some(Password::Value(Secret::new(PASSWORD)));
    })
}

fn behind(deployment: &RedisSentinel) -> RedisConfig {
    let addresses = deployment.sentinel_addresses();
    RedisConfig::sentinel(addresses.iter().map(|address| address.parse().expect("an address")), SERVICE)
}

fn of(nodes: &[Arc<Node>]) -> RedisConfig {
    RedisConfig::cluster(nodes.iter().map(|node| Address::new("127.0.0.1", node.port())))
}

async fn refusal(config: RedisConfig) -> BuildError {
    let builder = Engine::builder(RedisTransport::new(config)).unavailable_after(Duration::from_secs(2));
    let error = builder.build().await.expect_err("no engine");
    println!("{error}");
    assert!(!format!("{error:?}").contains(PASSWORD), "the password");
    error
}

/// For good, and by whom.
async fn is_refused(config: RedisConfig, reason: &str, by: &Node) {
    let error = refusal_saying(config, reason).await;
    assert!(matches!(error, BuildError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{}", by.port())), "{reason}: {error}");
}

/// In the end: a server may close before its word has arrived.
async fn refusal_saying(config: RedisConfig, reason: &str) -> BuildError {
    let began = Instant::now();
    loop {
        let error = refusal(config.clone()).await;
        if error.to_string().contains(reason) {
            return error;
        }
        assert!(began.elapsed() < PATIENCE, "{reason}: {error}");
    }
}

/// What is wrong with us, each time in another way.
async fn refuses_what_is_wrong_with_us(certificates: &Certificates, config: &RedisConfig, by: &Node) {
    let good = good(certificates);
    let only_trusting = changed(good.clone(), |new| {
        new.cert = None;
        new.key = None;
    });
    for (tls, reason) in [
        (changed(good.clone(), |new| new.ca = Some(certificates.unknown_authority())), "set `tls.ca`"),
        (
            changed(good.clone(), |new| new.server_name = Some("other.example".into())),
            "set `tls.server_name`",
        ),
        (only_trusting, "set `tls.cert` and `tls.key`"),
        (showing(certificates, Identity::StrangeClient, good.clone()), "does not know the authority"),
    ] {
        is_refused(over(Some(tls), config.clone()), reason, by).await;
    }
    refusal_saying(over(None, config.clone()), "write [redis.tls]").await;
}

/// What a server shows that is wrong, and what we say to it.
const WRONG: [(Identity, &str); 3] = [
    (Identity::ExpiredServer, "certificate has expired"),
    (Identity::ServerElsewhere, "certificate is for another name"),
    (Identity::StrangeServer, "no trusted authority"),
];

/// From now on it shows this to who connects; those that have stay.
fn show(node: &Node, certificates: &Certificates, identity: Identity) {
    let (certificate, key) = (certificates.certificate(identity), certificates.key(identity));
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().expect("a path"));
    let set = ["CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key];
    let shown = node.command(&set).expect("a reply");
    assert!(shown.is_ok(), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_are_spoken_to_over_tls_or_not_at_all() {
    let certificates = Certificates::new().expect("certificates");
    let builder = RedisSentinel::builder().tls(&ServerTls::new(&certificates).asks_clients());
    let builder = builder.replicas(1).sentinels(1, 1).password(PASSWORD);
    let deployment = builder.start().expect("servers");
    let config = behind(&deployment);
    let right = over(Some(good(&certificates)), config.clone());
    tour(&right).await;
    refuses_what_is_wrong_with_us(&certificates, &config, &deployment.sentinels()[0]).await;
    // The sentinel stays as it is, and names a master that shows something wrong.
    let master = deployment.master().expect("a master");
    for (identity, reason) in WRONG {
        show(&master, &certificates, identity);
        is_refused(right.clone(), reason, &master).await;
    }
    show(&master, &certificates, Identity::Server);
    tour(&right).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_shows_something_wrong_is_not_believed() {
    let certificates = Certificates::new().expect("certificates");
    for (identity, reason) in WRONG {
        let tls = ServerTls::new(&certificates);
        let builder = RedisSentinel::builder().replicas(0).sentinels(1, 1).tls(&tls);
        let builder = builder.sentinel_servers(|sentinel| sentinel.tls(&tls.clone().identity(identity)));
        let deployment = builder.start().expect("servers");
        let config = over(Some(good(&certificates)), behind(&deployment));
        is_refused(config, reason, &deployment.sentinels()[0]).await;
    }
}

/// The sentinel speaks TLS with us, but not with the servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_at_a_plain_port_is_told_and_never_used_in_plain() {
    let certificates = Certificates::new().expect("certificates");
    let tls = ServerTls::new(&certificates);
    let builder = RedisSentinel::builder().replicas(0).sentinels(1, 1);
    let builder = builder.sentinel_servers(|sentinel| sentinel.tls(&tls).option("--tls-replication", "no"));
    let deployment = builder.start().expect("servers");
    let error = refusal(over(Some(good(&certificates)), behind(&deployment))).await.to_string();
    let master = deployment.master().expect("a master");
    assert!(error.contains("`tls-port`") && error.contains(&master.port().to_string()), "{error}");
    heard_no_password(&master);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sentinels_in_front_of_servers_with_tls_are_used() {
    let certificates = Certificates::new().expect("certificates");
    let path = |path: std::path::PathBuf| path.into_os_string().into_string().expect("a path");
    let builder = RedisSentinel::builder().replicas(0).sentinels(1, 1);
    let builder = builder.servers(|server| server.tls(&ServerTls::new(&certificates)));
    let builder = builder.sentinel_servers(|sentinel| {
        let certificate = path(certificates.certificate(Identity::Server));
        sentinel
            .option("--tls-replication", "yes")
            .option("--tls-ca-cert-file", &path(certificates.authority()))
            .option("--tls-cert-file", &certificate)
            .option("--tls-key-file", &path(certificates.key(Identity::Server)))
    });
    let deployment = builder.start().expect("servers");
    let config = changed(behind(&deployment), |new| new.tls = Some(good(&certificates)));
    refusal_saying(config.clone(), "`tls-port`").await;
    tour(&changed(config, |new| new.sentinel_tls = Some(SentinelTlsConfig::plain()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_with_tls_in_front_of_plain_servers_are_used() {
    let certificates = Certificates::new().expect("certificates");
    let tls = ServerTls::new(&certificates);
    let builder = RedisSentinel::builder().replicas(0).sentinels(1, 1);
    let builder = builder.sentinel_servers(|sentinel| sentinel.tls(&tls).option("--tls-replication", "no"));
    let deployment = builder.start().expect("servers");
    let config = behind(&deployment);
    tour(&changed(config.clone(), |new| new.sentinel_tls = Some(good(&certificates).into()))).await;
    let unknown = changed(good(&certificates), |new| new.ca = Some(certificates.unknown_authority()));
    let config = changed(config, |new| new.sentinel_tls = Some(unknown.into()));
    refusal_saying(config, "`sentinel_tls.ca`").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_of_a_cluster_is_spoken_to_over_tls_or_not_at_all() {
    let certificates = Certificates::new().expect("certificates");
    let tls = ServerTls::new(&certificates).asks_clients();
    let builder = RedisCluster::builder().tls(&tls).replicas_each(0).password(PASSWORD);
    let cluster = builder.start().expect("a cluster");
    let nodes = cluster.nodes();
    let (first, other) = (of(&nodes[..1]), &nodes[1]);
    let right = over(Some(good(&certificates)), first.clone());
    tour(&right).await;
    refuses_what_is_wrong_with_us(&certificates, &first, &nodes[0]).await;
    let is_of_other = |name: &String| {
        let master = cluster.master_of(Slot::of(name.as_bytes()).number()).expect("a master");
        master.port() == other.port()
    };
    let of_other = (0..).map(|n| format!("n{n}")).find(is_of_other).expect("a name");
    // The first is good, and names another that shows something wrong.
    for (identity, reason) in WRONG {
        show(other, &certificates, identity);
        is_refused_alone(right.clone(), reason, other, &of_other).await;
        is_refused(over(right.tls.clone(), of(&nodes[1..2])), reason, other).await;
    }
    show(other, &certificates, Identity::Server);
    tour(&right).await;
}

/// An engine starts with the other nodes; a lock of this one is refused with the reason.
async fn is_refused_alone(config: RedisConfig, reason: &str, by: &Node, name: &str) {
    let builder = Engine::builder(RedisTransport::new(config)).unavailable_after(Duration::from_secs(2));
    let engine = builder.build().await.expect("an engine");
    let error = format!("{:?}", engine.lock(name).try_acquire().await.expect_err("no lease"));
    assert!(error.contains(reason) && error.contains(&by.port().to_string()), "{error}");
    assert!(!error.contains(PASSWORD), "the password");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_at_plain_ports_is_told_and_never_used_in_plain() {
    let certificates = Certificates::new().expect("certificates");
    let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    let error = refusal(over(Some(good(&certificates)), of(&cluster.nodes()))).await.to_string();
    assert!(error.contains("`tls-port`"), "{error}");
    cluster.nodes().iter().for_each(|node| heard_no_password(node));
}

/// It would be the first thing that we say.
fn heard_no_password(node: &Node) {
    let stats = node.command(&["INFO", "commandstats"]).expect("a reply").text().unwrap_or_default();
    assert!(stats.contains("cmdstat_info"), "{stats}");
    assert!(!stats.contains("cmdstat_auth"), "{stats}");
}

/// Somebody who says nothing, and writes down what is said to him.
struct Ear {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Ear {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::default());
        let ear = Self { port, heard: Arc::clone(&heard) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                thread::spawn(move || listen(stream, &heard));
            }
        });
        ear
    }
}

fn listen(mut stream: TcpStream, heard: &Mutex<Vec<Vec<u8>>>) {
    let mut said = Vec::new();
    // A connection that is reset has been heard all the same.
    let _ = stream.read_to_end(&mut said);
    heard.lock().expect("no panic").push(said);
}

#[tokio::test]
async fn before_a_handshake_is_through_nothing_is_said_but_the_handshake() {
    let certificates = Certificates::new().expect("certificates");
    let ear = Ear::open();
    let address = || [Address::new("127.0.0.1", ear.port)];
    let mut count = 0;
    let password = Some(Password::Value(Secret::new(PASSWORD)));
    let sentinel = changed(RedisConfig::sentinel(address(), SERVICE), |new| new.sentinel_password = password);
    for config in [sentinel, RedisConfig::cluster(address())] {
        let error = refusal(over(Some(good(&certificates)), config)).await.to_string();
        assert!(error.contains("`tls-port`"), "{error}");
        let heard = ear.heard.lock().expect("no panic").clone();
        assert!(heard.len() > count, "it was tried");
        count = heard.len();
        for said in heard {
            // A record of a handshake, of TLS 1.x.
            assert_eq!(said.get(..2), Some(&[22, 3][..]), "{said:?}");
            assert!(!said.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes()));
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
const PASSWORD: &str = "hunter2-is-no-word";
