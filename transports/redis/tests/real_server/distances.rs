//! Servers that are far: hundreds of milliseconds for each round trip.

use std::time::Duration;

use crate::{far::far, server::*};
use leasehold::{owner::OwnerMint, transport::*};
use leasehold_redis::{RedisConfig, RedisTransport};

fn connections(server: &Server) -> u64 {
    let stats = server.cli(&["info", "stats"]);
    let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}

/// Idle for longer than it takes the watchdog to ask twice in vain, then busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_connections_to_a_far_server_stand_idle_and_busy() {
    for round_trip_ms in [320, 440] {
        let server = Server::start();
        let port = far(server.port, Duration::from_millis(round_trip_ms / 2));
        let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
        let (lane, mint) = (open(&transport, LanePurpose::Calls).await.unwrap(), OwnerMint::new());
        let before = connections(&server);
        tokio::time::sleep(Duration::from_secs(6)).await;
        for n in 0..5 {
            let granted = lane.call_one(acquire(&mint, &format!("k{n}"))).await.into_result();
            assert!(matches!(granted, Ok(Outcome::Granted { .. })), "{granted:?}");
        }
        // `redis-cli` connects once for each look.
        assert_eq!(connections(&server) - before - 1, 0, "new connections at {round_trip_ms} ms");
    }
}
