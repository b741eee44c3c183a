//! Commands sent: per pair, per renewal, per grant of a contended key. Counted by the server, exact.

use std::time::Duration;

use leasehold::{Engine, Lease};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};

use crate::{rounds::Spread, server_usage::ServerUsage, size::Size, table::Table};

pub(crate) fn measure(table: &mut Table, size: Size) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        pairs(table, size).await;
        renewals(table).await;
        for waiting in [4, 16] {
            grants(table, waiting).await;
        }
    });
}

async fn engine(server: &RedisServer) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    Engine::builder(transport).build().await.expect("the server is up")
}

fn scripts_sent(client: &mut RawClient) -> f64 {
    ServerUsage::of(client).commands
}

async fn pairs(table: &mut Table, size: Size) {
    let server = RedisServer::start().expect("a redis-server");
    let (engine, mut client) = (engine(&server).await, server.client().expect("a connection"));
    let lock = engine.lock("a");
    drop(lock.acquire().await); // the scripts are known from here on
    engine.lock("b").acquire().await.expect("free").release().await.expect("ours");
    let before = scripts_sent(&mut client);
    for _ in 0..size.pairs {
        lock.acquire().await.expect("free").release().await.expect("ours");
    }
    let sent = (scripts_sent(&mut client) - before) / size.pairs as f64;
    table.add("P5", "commands an uncontended pair (target 2)", Spread::exactly(sent), "commands");
    table.at_most(2.01);
}

async fn renewals(table: &mut Table) {
    let server = RedisServer::start().expect("a redis-server");
    let (engine, mut client) = (engine(&server).await, server.client().expect("a connection"));
    let mut leases: Vec<Lease> = Vec::new();
    for number in 0..2_000 {
        leases.push(
            engine.lock(format!("lease:{number}")).ttl(Duration::from_secs(3)).acquire().await.expect("free"),
        );
    }
    let (renewed, before) = (engine.snapshot().renewals, scripts_sent(&mut client));
    while engine.snapshot().renewals < renewed + 3 * leases.len() as u64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (now, after) = (engine.snapshot().renewals, scripts_sent(&mut client));
    let sent = (after - before) / (now - renewed) as f64;
    table.add("P5", "commands a renewal, 2,000 leases (target 0.02)", Spread::exactly(sent), "commands");
    table.at_most(0.05);
}

/// N engines wait for one key that each holds for a moment.
async fn grants(table: &mut Table, waiting: usize) {
    let server = RedisServer::start().expect("a redis-server");
    let mut client = server.client().expect("a connection");
    let mut engines = Vec::new();
    for _ in 0..waiting {
        engines.push(engine(&server).await);
    }
    let (before, mut running) = (scripts_sent(&mut client), tokio::task::JoinSet::new());
    for engine in engines.clone() {
        running.spawn(async move {
            for _ in 0..GRANTS_EACH {
                let lease = engine.lock("hot").acquire().await.expect("in the end");
                tokio::time::sleep(Duration::from_millis(2)).await;
                lease.release().await.expect("ours");
            }
        });
    }
    running.join_all().await;
    let grants = (waiting * GRANTS_EACH) as f64;
    let sent = (scripts_sent(&mut client) - before) / grants;
    table.add(
        "P10",
        format!("commands a grant, {waiting} engines on one key (target N + 2)"),
        Spread::exactly(sent),
        "commands",
    );
    table.at_most(waiting as f64 + 2.0);
}

const GRANTS_EACH: usize = 20;
