//! One of three masters stands still for two ttls. Its leases are lost, and told in time; the others notice nothing.

use std::{collections::BTreeMap, thread};

use leasehold::{
    Engine, EngineConfig, Lease,
    routing::slot::{SLOTS, Slot},
};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::cluster::RedisCluster;

use super::{
    rows::Rows,
    size::{FaultsSize, hold, runtime},
    watch::{Seen, Watch},
};
use crate::table::Table;

pub(super) fn measure(table: &mut Table, size: FaultsSize) {
    let runtime = runtime();
    // By default all masters refuse everything once one has failed: nobody is untouched by that.
    let recipe = RedisCluster::builder()
        .replicas_each(0)
        .servers(|server| server.option("--cluster-require-full-coverage", "no"));
    let cluster = recipe.start().expect("a cluster");
    let watch = Watch::default();
    let engine = runtime.block_on(engine(&cluster, size, &watch));
    let leases = runtime.block_on(hold(&engine, names(size.leases)));
    thread::sleep(size.ttl / 2); // each is renewed once at least
    watch.take();
    let master = cluster.master_of(first_slot(STRUCK)).expect("a master");
    master.stop().expect("stopped");
    thread::sleep(2 * size.ttl);
    let seen = watch.take();
    master.cont().expect("continued");
    tell(table, size, &leases, seen);
    let report = runtime.block_on(engine.shutdown(10 * size.ttl));
    assert!(report.unconfirmed.is_empty(), "{} are not confirmed", report.unconfirmed.len());
}

fn tell(table: &mut Table, size: FaultsSize, leases: &[Lease], mut seen: BTreeMap<String, Seen>) {
    let struck = seen.remove(&class(STRUCK)).expect("some are lost");
    let mut others = Seen::default();
    seen.into_values().for_each(|seen| others.add(seen));
    let of_struck = leases.iter().filter(|lease| lease.name().starts_with(&class(STRUCK))).count();
    let held = leases.iter().filter(|lease| lease.is_held()).count();
    let what = format!("{} leases, one of 3 masters stopped for 2 ttls", size.leases);
    let mut rows = Rows { table, target: "faults", what };
    rows.none("lost on the others", others.lost(), "leases");
    rows.late("late on the others, of their renewals", others.late(), "renewals", size);
    rows.add("renewals on the others", others.renewed() as f64, "renewals");
    rows.add("nearest to the deadline on the others", others.nearest(), "of ttl");
    rows.add("lost on the stopped one", struck.lost() as f64, "leases");
    rows.told(&struck, size);
    assert_eq!((struck.lost(), held), (of_struck, leases.len() - of_struck), "each loss is told");
}

async fn engine(cluster: &RedisCluster, size: FaultsSize, watch: &Watch) -> Engine {
    let classes = (0..MASTERS).map(|part| (format!("{}:", class(part)), class(part))).collect();
    let mut config = EngineConfig::default();
    config.classes = classes;
    let transport = RedisTransport::from_url(&cluster.url()).expect("a good URL");
    let builder = Engine::builder(transport).config(config).ttl(size.ttl).recorder(watch.clone());
    builder.build().await.expect("the servers are up")
}

/// Names that say which master has them, as many on each.
fn names(count: usize) -> Vec<String> {
    let mut left = [count / MASTERS; MASTERS];
    let fits = |name: &String, part: usize| part_of(Slot::of(name.as_bytes())) == part;
    let candidates = (0..).flat_map(|number| (0..MASTERS).map(move |part| (part, number)));
    let named = candidates.map(|(part, number)| (part, format!("{}:{number:029}", class(part))));
    let mut names = Vec::with_capacity(count);
    for (part, name) in named.filter(|(part, name)| fits(name, *part)) {
        if left[part] > 0 {
            left[part] -= 1;
            names.push(name);
        } else if left == [0; MASTERS] {
            break;
        }
    }
    names
}

fn class(part: usize) -> String {
    format!("m{part}")
}

fn part_of(slot: Slot) -> usize {
    (0..MASTERS).find(|part| *part + 1 == MASTERS || slot.number() < first_slot(part + 1)).expect("a part")
}

// As the harness gives them out.
fn first_slot(part: usize) -> u16 {
    u16::try_from(part * usize::from(SLOTS) / MASTERS).expect("a slot")
}

const MASTERS: usize = 3;
const STRUCK: usize = 1;
