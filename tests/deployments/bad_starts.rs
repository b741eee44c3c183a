//! What is said about a configuration that does not fit its servers, word for word: what has happened with the value, and
//! what to do. Those that a file alone shows are in `transports/redis/tests/bad_config`.

use std::{error::Error, time::Duration};

use leasehold::{BuildError, Engine};
use leasehold_redis::{ConfigFile, RedisTransport};
use leasehold_tests::harness::{
    certificates::Certificates, cluster::RedisCluster, redis_server::RedisServer, sentinel::RedisSentinel,
    server_tls::ServerTls,
};

/// The rest of `[redis]`, and what is said. Names in brackets stand for addresses and files of the fixture.
const REFUSED: &[(&str, &str)] = &[
    (
        "addresses = ['<locked>']",
        "redis <locked> refused: NOAUTH Authentication required. (`username` default, no `password`); set `password` \
         (and `username`)",
    ),
    (
        "addresses = ['<locked>']\npassword = 'hunter2-wrong'",
        "redis <locked> refused the login (`username` default, `password` given as a value): WRONGPASS; correct \
         `username` and `password`",
    ),
    (
        "addresses = ['<locked>']\nusername = 'app'\npassword = 'hunter2-wrong'",
        "redis <locked> refused the login (`username` app, `password` given as a value): WRONGPASS; correct `username` \
         and `password`",
    ),
    (
        "addresses = ['<server>']\ndatabase = 99",
        "redis <server> refused: ERR DB index is out of range (`username` default, no `password`); correct `database`",
    ),
    (
        "addresses = ['<server>']\npassword = { file = '/nowhere/secret' }",
        "`password` file /nowhere/secret cannot be read: No such file or directory; correct the path or its \
         rights",
    ),
    (
        "addresses = ['<server>']\npassword = { file = '<empty>' }",
        "`password` (from file <empty>) is empty; put the password there",
    ),
    (
        "addresses = ['<server>']\npassword = { env = 'LEASEHOLD_NO_SUCH_VARIABLE' }",
        "`password` variable LEASEHOLD_NO_SUCH_VARIABLE is not set, or no UTF-8; set it",
    ),
    (
        "addresses = ['<tls>']\ntls.ca = '/nowhere/ca.pem'",
        "`tls.ca` /nowhere/ca.pem cannot be read: No such file or directory; correct the path or its rights",
    ),
    (
        "addresses = ['<tls>']\ntls.ca = '<empty>'",
        "`tls.ca` <empty> holds no certificate; give a PEM file (-----BEGIN CERTIFICATE-----)",
    ),
    (
        "addresses = ['<tls>']\ntls.ca = '<unknown-ca>'",
        "redis <tls>: TLS failed: no trusted authority has signed the server's certificate; set `tls.ca` to the \
         certificate of the one that has",
    ),
    (
        "addresses = ['<tls>']\ntls = { ca = '<ca>', server_name = 'other.example' }",
        "redis <tls>: TLS failed: the server's certificate is for another name: it names 127.0.0.1, 0::1, localhost; name \
         it in `addresses` as its certificate does, or set `tls.server_name`",
    ),
    (
        "addresses = ['<sentinel>']\ntopology = 'sentinel'\nservice_name = 'other'",
        "sentinel <sentinel> knows no master `service_name` = \"other\"; write a name that its SENTINEL MASTERS shows",
    ),
    (
        "addresses = ['<sentinel>']",
        "redis <sentinel> is a sentinel, not a server; point `addresses` at the master",
    ),
    (
        "addresses = ['<server>']\ntopology = 'sentinel'\nservice_name = 'm'",
        "redis <server> is a server, no sentinel; name the sentinels in `addresses` (they listen on 26379), or set \
         topology = \"single\"",
    ),
    (
        "addresses = ['<server>']\ntopology = 'cluster'",
        "redis <server> refused: ERR This instance has cluster support disabled; this server is no node of a cluster; set \
         topology = \"single\", or write redis:// in place of redis-cluster://",
    ),
    (
        "addresses = ['<node>']",
        "redis <node> is a node of a cluster, but `topology` is \"single\": set topology = \"cluster\", or write \
         redis-cluster:// in the URL",
    ),
];

/// These may pass, so the start waits for `unavailable_after` first.
const UNAVAILABLE: &[(&str, &str)] = &[
    (
        "addresses = ['<replica>']",
        "no server was ready within 2s: redis <replica> is no master (role slave); point `addresses` at the master",
    ),
    (
        "addresses = ['<server>']\ntls.ca = '<ca>'",
        "no server was ready within 2s: redis <server>: cannot connect: no answer within 2000 ms; check `addresses`, and \
         whether the server is up, and whether this is its port for TLS (`tls-port`): a plain one does not answer a \
         handshake",
    ),
    (
        "addresses = ['<tls>']",
        "no server was ready within 2s: redis <tls>: cannot connect: Connection reset by peer; check \
         `addresses`, and whether the server is up, and whether this is a port for TLS: then write [redis.tls], or \
         rediss://",
    ),
    ("addresses = ['127.0.0.1:1']", NO_SERVER),
    ("addresses = ['127.0.0.1:1']\ntopology = 'sentinel'\nservice_name = 'm'", NO_SERVER),
    ("addresses = ['127.0.0.1:1']\ntopology = 'cluster'", NO_SERVER),
];

const NO_SERVER: &str = "no server was ready within 2s: redis 127.0.0.1:1: cannot connect: Connection refused; \
                      check `addresses`, and whether the server is up";

/// One server of each kind, and files. The names that stand for them, and what they are.
struct Fixture {
    names: Vec<(&'static str, String)>,
    _servers: (RedisServer, RedisServer, RedisServer, RedisSentinel, RedisCluster),
    _files: (Certificates, tempfile::NamedTempFile),
}

impl Fixture {
    fn new() -> Self {
        let server = RedisServer::start().expect("a server");
        let locked = RedisServer::builder().password("hunter2-right").start().expect("a server");
        let certificates = Certificates::new().expect("certificates");
        let over_tls = RedisServer::builder().tls(&ServerTls::new(&certificates)).start().expect("a server");
        let sentinels = RedisSentinel::builder().replicas(1).sentinels(1, 1).start().expect("sentinels");
        let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let replica = sentinels.replicas().expect("replicas")[0].port();
        let node = cluster.master_of(0).expect("a master").port();
        let at = |port: u16| format!("127.0.0.1:{port}");
        let names = vec![
            ("<server>", at(server.port())),
            ("<locked>", at(locked.port())),
            ("<tls>", at(over_tls.port())),
            ("<sentinel>", at(sentinels.sentinels()[0].port())),
            ("<replica>", at(replica)),
            ("<node>", at(node)),
            ("<ca>", certificates.authority().display().to_string()),
            ("<unknown-ca>", certificates.unknown_authority().display().to_string()),
            ("<empty>", empty.path().display().to_string()),
        ];
        let servers = (server, locked, over_tls, sentinels, cluster);
        Self { names, _servers: servers, _files: (certificates, empty) }
    }

    fn filled_in(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    async fn refusal(&self, redis: &str) -> BuildError {
        let text = format!("[redis]\n{}", self.filled_in(redis));
        let settings = ConfigFile::parse(&text, "leasehold.toml").unwrap_or_else(|error| panic!("{error}"));
        let transport = RedisTransport::new(settings.redis);
        let builder =
            Engine::builder(transport).config(settings.engine).unavailable_after(Duration::from_secs(2));
        builder.build().await.expect_err("no engine")
    }

    /// What is said is this, and no source says it again.
    fn check(&self, error: &BuildError, expected: &str) {
        let said = error.to_string();
        assert_eq!(said, self.filled_in(expected));
        for word in DEBUG {
            assert!(!said.contains(word), "{word}: {said}");
        }
        assert!(!format!("{said} {error:?}").contains("hunter2"), "{error:?}");
        let sources =
            std::iter::successors(error.source(), |&source: &&(dyn Error + 'static)| source.source());
        sources.for_each(|source| assert!(!said.contains(&source.to_string()), "{source}: {said}"));
    }
}

/// What a `Debug` text has, and no sentence.
const DEBUG: [&str; 5] = [" { ", "kind:", "Some(", "Err(", "\\\""];

#[tokio::test]
async fn what_no_time_mends_is_refused_at_once_word_for_word() {
    let fixture = Fixture::new();
    for (redis, expected) in REFUSED {
        let error = fixture.refusal(redis).await;
        assert!(matches!(error, BuildError::Refused(_)), "{error:?}");
        fixture.check(&error, expected);
    }
}

/// A server may close before its word has arrived: three tries.
#[tokio::test]
async fn what_may_pass_is_told_after_the_time_to_start_word_for_word() {
    let fixture = Fixture::new();
    for (redis, expected) in UNAVAILABLE {
        let mut error = fixture.refusal(redis).await;
        for _again in 0..2 {
            if error.to_string() == fixture.filled_in(expected) {
                break;
            }
            println!("said: {error}");
            error = fixture.refusal(redis).await;
        }
        assert!(matches!(error, BuildError::Unavailable { .. }), "{error:?}");
        fixture.check(&error, expected);
    }
    // What the system says about a name differs from machine to machine.
    let error = fixture.refusal("addresses = ['no-such-host.invalid']").await.to_string();
    assert!(
        error.contains("no-such-host.invalid:6379: cannot connect: the host name is not known ("),
        "{error}"
    );
}
