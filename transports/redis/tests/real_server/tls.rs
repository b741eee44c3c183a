//! TLS to a real server: what is wrong is told with its reason, and nothing is ever said in plain.

use std::{io::Write, net::TcpListener};

use leasehold::{owner::OwnerMint, transport::*};
use leasehold_redis::{RedisConfig, RedisTransport, TlsConfig};

use crate::{
    authority::{Authority, Signed},
    server::*,
};

/// A server with a plain port and one for TLS.
struct TlsServer {
    server: Server,
    port: u16,
}

impl TlsServer {
    fn start(signed: &Signed, clients: &Authority, ask_clients: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port_text, ca) = (port.to_string(), clients.ca());
        let server = Server::start_with(&[
            "--tls-port",
            &port_text,
            "--tls-auth-clients",
            ask_clients,
            "--tls-cert-file",
            signed.cert.to_str().unwrap(),
            "--tls-key-file",
            signed.key.to_str().unwrap(),
            "--tls-ca-cert-file",
            ca.to_str().unwrap(),
        ]);
        Self { server, port }
    }

    fn transport(&self, host: &str, tls: TlsConfig) -> RedisTransport {
        RedisTransport::new(encrypted(RedisConfig::single(host, self.port), tls))
    }
}

/// What is said in the end: a server that refuses our certificate may close before its word has arrived.
async fn refused(transport: &RedisTransport, reason: &str) -> TransportError {
    until(async || match open(transport, LanePurpose::Calls).await {
        Ok(_) => panic!("it connects, in spite of: {reason}"),
        Err(error) if error.detail.contains(reason) => Some(error),
        Err(error) => {
            println!("not yet {reason:?}: {error}");
            None
        }
    })
    .await
}

fn client(mut tls: TlsConfig, signed: Signed) -> TlsConfig {
    (tls.cert, tls.key) = (Some(signed.cert), Some(signed.key));
    tls
}

fn named(name: &str, mut tls: TlsConfig) -> TlsConfig {
    tls.server_name = Some(name.into());
    tls
}

fn encrypted(mut config: RedisConfig, tls: TlsConfig) -> RedisConfig {
    config.tls = Some(tls);
    config
}

#[tokio::test]
async fn locks_are_taken_over_tls_by_name_by_address_and_by_another_name() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.sign(&["localhost", "127.0.0.1"]), &authority, "no");
    let elsewhere = TlsServer::start(&authority.sign(&["redis.internal"]), &authority, "no");
    let named = named("redis.internal", authority.trusted());
    for transport in [
        server.transport("localhost", authority.trusted()),
        server.transport("127.0.0.1", authority.trusted()),
        elsewhere.transport("127.0.0.1", named),
    ] {
        let (lane, mint) = (open(&transport, LanePurpose::Calls).await.unwrap(), OwnerMint::new());
        let mut watch = lane.watch(&key("k"));
        while !watch.observe().in_force {
            watch.changed().await;
        }
        let ask = acquire(&mint, "k");
        assert!(matches!(lane.call_one(ask.clone()).await.into_result(), Ok(Outcome::Granted { .. })));
        assert!(matches!(lane.call_one(release(&ask)).await.into_result(), Ok(Outcome::Released { .. })));
        while watch.observe().notices == 0 {
            watch.changed().await;
        }
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_the_server_asks_for_one() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.sign(&["localhost"]), &authority, "yes");
    let tls = client(authority.trusted(), authority.sign(&["client"]));
    open(&server.transport("localhost", tls), LanePurpose::Calls).await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_refused_with_its_reason() {
    let (authority, other) = (Authority::named("ours"), Authority::named("theirs"));
    let (namesake, names) = (Authority::named("ours"), &["localhost"][..]);
    let server = TlsServer::start(&authority.sign(names), &authority, "no");
    let expired = TlsServer::start(&authority.sign_until(names, 2020), &authority, "no");
    let named = named("redis.internal", authority.trusted());
    for (server, tls, reason) in [
        (&server, other.trusted(), "set `tls.ca`"),
        (&server, namesake.trusted(), "set `tls.ca`"),
        (&server, TlsConfig::default(), "set `tls.ca`"),
        (&server, named, "set `tls.server_name`"),
        (&expired, authority.trusted(), "has expired"),
    ] {
        let error = refused(&server.transport("localhost", tls), reason).await;
        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
        assert!(error.detail.contains(&format!("localhost:{}", server.port)), "{error}");
        assert_eq!(error.effect, Effect::None);
    }
}

#[tokio::test]
async fn a_server_that_refuses_our_certificate_is_told_with_its_reason() {
    let (authority, other) = (Authority::named("ours"), Authority::named("theirs"));
    let server = TlsServer::start(&authority.sign(&["localhost"]), &authority, "yes");
    let (foreign, old) = (other.sign(&["client"]), authority.sign_until(&["client"], 2020));
    for (tls, reason) in [
        (authority.trusted(), "set `tls.cert` and `tls.key`"),
        (client(authority.trusted(), foreign), "does not know the authority"),
        (client(authority.trusted(), old), "our certificate has expired"),
    ] {
        let error = refused(&server.transport("localhost", tls), reason).await;
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    }
}

#[tokio::test]
async fn a_port_of_the_other_kind_is_told_and_never_used_in_plain() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.sign(&["localhost"]), &authority, "no");
    let on_the_plain_port = encrypted(server.server.config(), authority.trusted());
    let error = refused(&RedisTransport::new(on_the_plain_port), "its port for TLS (`tls-port`)").await;
    assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
    // Of all that arrived there, nothing was a command.
    let commands = server.server.cli(&["info", "commandstats"]);
    assert!(
        commands.lines().all(|line| !line.starts_with("cmdstat_") || line.contains("info")),
        "{commands}"
    );
    let in_plain = RedisTransport::new(RedisConfig::single("localhost", server.port));
    let error = refused(&in_plain, "write [redis.tls]").await;
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_server_that_answers_something_else_is_no_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"-ERR unknown command\r\n");
            open.push(stream); // closed with bytes unread, it would take the answer back
        }
    });
    let authority = Authority::new();
    let config = encrypted(RedisConfig::single("127.0.0.1", port), authority.trusted());
    let error = refused(&RedisTransport::new(config), "does not speak TLS").await;
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn a_bad_file_is_told_before_anything_is_sent_and_a_good_one_is_taken_at_the_next_connect() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.sign(&["localhost"]), &authority, "no");
    let good = std::fs::read(authority.ca()).unwrap();
    std::fs::write(authority.ca(), "").unwrap();
    let transport = server.transport("localhost", authority.trusted());
    let error = refused(&transport, "holds no certificate").await;
    assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
    std::fs::write(authority.ca(), good).unwrap();
    open(&transport, LanePurpose::Calls).await.unwrap();
}
