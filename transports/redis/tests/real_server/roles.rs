//! Servers that lose their role, or were never what the configuration takes them for.

use std::{path::PathBuf, sync::atomic::Ordering};

use crate::{far, server::*};
use leasehold::{owner::OwnerMint, transport::*};
use leasehold_redis::{Address, RedisConfig, RedisTransport};

/// On 6.2 the refusal inside a script begins with the place in the script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_a_demoted_master_behind_an_address_that_moves_is_left() {
    for program in [PathBuf::from("redis-server"), oldest()] {
        let (old, new) = (Server::start_program(&program, &[]), Server::start_program(&program, &[]));
        let (port, target) = far::movable(old.port);
        let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
        let (lane, mint) = (open(&transport, LanePurpose::Calls).await.unwrap(), OwnerMint::new());
        let granted = async |name| lane.call_one(acquire(&mint, name)).await.into_result();
        assert!(matches!(granted("before").await, Ok(Outcome::Granted { .. })));
        target.store(new.port, Ordering::SeqCst);
        old.cli(&["replicaof", "127.0.0.1", &new.port.to_string()]);
        until(async || matches!(granted("after").await, Ok(Outcome::Granted { .. })).then_some(())).await;
        assert_eq!(new.cli(&["exists", "after"]), "1", "{program:?}");
    }
}

async fn refusal(config: RedisConfig) -> TransportError {
    let error = open(&RedisTransport::new(config), LanePurpose::Calls).await.err().unwrap();
    assert_eq!((error.kind, error.effect), (ErrorKind::Misconfigured, Effect::None), "{error}");
    error
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_as_single_with_the_remedy() {
    let node = Server::start_with(&["--cluster-enabled", "yes"]);
    let error = refusal(node.config()).await;
    assert!(error.detail.contains("topology = \"cluster\""), "{error}");
    assert!(error.detail.contains("redis-cluster://"), "{error}");
}

#[tokio::test]
async fn a_single_server_is_refused_as_cluster_with_the_remedy() {
    let server = Server::start();
    let error = refusal(RedisConfig::cluster([Address::new("127.0.0.1", server.port)])).await;
    assert!(error.detail.contains("topology = \"single\""), "{error}");
    assert!(error.detail.contains("redis://"), "{error}");
}

#[tokio::test]
async fn a_server_is_refused_as_sentinel_with_the_remedy() {
    for program in [PathBuf::from("redis-server"), oldest()] {
        let server = Server::start_program(&program, &[]);
        let error = refusal(RedisConfig::sentinel([Address::new("127.0.0.1", server.port)], "m")).await;
        assert!(error.detail.contains("is a server") && error.detail.contains("26379"), "{error}");
    }
}

/// The oldest version that is supported; `tests/harness/servers.sh` brings it.
fn oldest() -> PathBuf {
    let program =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/redis-6.2/redis-server"));
    assert!(program.exists(), "{program:?} is missing: run tests/harness/servers.sh");
    program
}
