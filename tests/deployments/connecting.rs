//! What servers of every version say to who connects: nothing was asked yet, so it is certain that nothing was done, and
//! the remedy is named.

use std::time::{Duration, Instant};

use leasehold::transport::{Effect, ErrorKind, LanePurpose, TransportError};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::{
    changed,
    harness::{redis_server::RedisServer, server_version::ServerVersion},
};

use crate::lanes::open;

/// Why there is no lane.
async fn refusal(config: RedisConfig) -> Option<TransportError> {
    let error = open(&RedisTransport::new(config), LanePurpose::Renewals).await.err()?;
    assert_eq!(error.effect, Effect::None, "{error}");
    Some(error)
}

/// Asks until this is said, and no longer than it can be.
async fn refusal_saying(port: u16, word: &str) -> TransportError {
    let began = Instant::now();
    loop {
        match refusal(RedisConfig::single("127.0.0.1", port)).await {
            Some(error) if error.detail.contains(word) => return error,
            other => assert!(began.elapsed() < PATIENCE, "{word}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_password_that_is_missing_or_wrong_is_told() {
    for version in ServerVersion::ALL {
        let server =
            RedisServer::builder().version(version).password("hunter2-right").start().expect("a server");
        let single = RedisConfig::single("127.0.0.1", server.port());
        let wrong = Some(Password::Value(Secret::new("hunter2-wrong")));
        let nobody = Some("nobody".to_owned());
        for (config, word, remedy) in [
            (single.clone(), "NOAUTH", "set `password`"),
            (changed(single.clone(), |new| new.password = wrong.clone()), "WRONGPASS", "correct"),
            (
                changed(single, |new| {
                    new.password = wrong;
                    new.username = nobody;
                }),
                "WRONGPASS",
                "`username` nobody",
            ),
        ] {
            let error = refusal(config).await.expect("refused");
            println!("{version:?}: {error}");
            assert_eq!(error.kind, ErrorKind::Denied, "{error}");
            assert!(error.detail.contains(word) && error.detail.contains(remedy), "{error}");
        }
    }
}

/// The server writes it as soon as it has accepted, and closes: it may be lost on the way.
#[tokio::test]
async fn a_server_with_too_many_clients_is_told() {
    for version in ServerVersion::ALL {
        let server = RedisServer::builder().version(version).start().expect("a server");
        let mut only = server.client().expect("a connection");
        assert!(only.command(&["CONFIG", "SET", "maxclients", "1"]).expect("a reply").is_ok());
        let error = refusal_saying(server.port(), "max number of clients").await;
        println!("{version:?}: {error}");
        assert_eq!(error.kind, ErrorKind::NotReady, "{error}");
        assert!(only.command(&["CONFIG", "SET", "maxclients", "100"]).expect("a reply").is_ok());
        let error = refusal(RedisConfig::single("127.0.0.1", server.port())).await;
        assert!(error.is_none(), "{error:?}");
    }
}

/// Loading takes most of a second: the server is told to be slow at it. It answers every 2 MB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_is_told() {
    for version in ServerVersion::ALL {
        let mut server = RedisServer::builder()
            .version(version)
            // Microseconds a key.
            .option("--key-load-delay", "2000")
            .option("--rdbcompression", "no")
            .start()
            .expect("a server");
        let mut client = server.client().expect("a connection");
        let fill = "for n = 1, 400 do redis.call('set', 'data' .. n, string.rep('x', 30000)) end";
        client.command(&["EVAL", fill, "0"]).expect("a reply");
        assert!(client.command(&["SAVE"]).expect("a reply").is_ok());
        let port = server.port();
        let restarting = tokio::task::spawn_blocking(move || server.restart().map(|()| server));
        let error = refusal_saying(port, "LOADING").await;
        println!("{version:?}: {error}");
        assert_eq!(error.kind, ErrorKind::NotReady, "{error}");
        let _server = restarting.await.expect("no panic").expect("restarted");
        let error = refusal(RedisConfig::single("127.0.0.1", port)).await;
        assert!(error.is_none(), "{error:?}");
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
