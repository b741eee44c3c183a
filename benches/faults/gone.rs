//! The server is gone, and with it all leases at once.

use std::thread;

use leasehold::{Engine, LossEvent, margin};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;

use super::{
    rows::Rows,
    size::{FaultsSize, hold, runtime},
    watch::Watch,
};
use crate::table::Table;

pub(super) fn measure(table: &mut Table, size: FaultsSize) {
    let (runtime, watch) = (runtime(), Watch::default());
    let server = RedisServer::start().expect("a redis-server");
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let building = Engine::builder(transport).ttl(size.ttl).recorder(watch.clone()).build();
    let engine = runtime.block_on(building).expect("the server is up");
    let mut losses = engine.losses();
    let names = (0..size.crowd).map(|number| format!("gone:{number:027}")).collect();
    // As crowded as they were granted: the server is gone before the renewals have spread them.
    let leases = runtime.block_on(hold(&engine, names));
    drop(server);
    thread::sleep(size.ttl + margin(size.ttl));
    let told = std::iter::from_fn(|| losses.try_next()).map(|notice| match notice {
        LossEvent::Lost(_) => 1,
        other => panic!("not every loss is kept: {other:?}"),
    });
    let told: usize = told.sum();
    let seen = watch.take().into_values().next().expect("they are lost");
    let what = format!("{} leases, the server is gone", size.crowd);
    let mut rows = Rows { table, target: "faults", what };
    rows.add("lost", seen.lost() as f64, "leases");
    rows.none("not told", size.crowd - told, "losses");
    rows.told(&seen, size);
    assert!(!leases.iter().any(|lease| lease.is_held()));
}
