//! What a renewal costs the client between the engine and the socket: whole batches through the transport, without the
//! engine. Instructions under callgrind, as for the counts.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    owner::OwnerMint,
    routing::topology::NodeId,
    transport::{Call, HoldKind, Lane, LanePurpose, Op, OpenLane, Outcome, Transport},
};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{cluster::RedisCluster, redis_server::RedisServer};

use crate::{callgrind::instructions, rounds::Spread, size::Counts, table::Table};

pub(crate) fn measure(table: &mut Table, counts: Counts) {
    let server = RedisServer::start().expect("a redis-server");
    let cluster = RedisCluster::builder().masters(3).replicas_each(0).start().expect("a cluster");
    for (place, url) in [("one server", server.url()), ("a cluster", cluster.url())] {
        let each = instructions(&["--batches", &url], counts.batches) / MEMBERS as f64;
        let what = format!("renewal through the transport, {place}, batches of {MEMBERS}: instructions");
        table.add("P11", what, Spread::exactly(each), "instr");
        table.at_most(RENEWAL_INSTRUCTIONS_MAX);
    }
}

/// What the process does under `--batches URL TIMES`.
pub(crate) fn run_job(url: &str, times: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let transport = RedisTransport::from_url(url).expect("a good URL");
        let lane = lane(&transport, LanePurpose::Renewals).await;
        let (node, mut batch) = taken(&*lane).await;
        for _ in 0..times {
            // Each asks for more than the one before, so that none finds enough left.
            for member in &mut batch {
                let ttl = member.op.ttl().unwrap_or(PATIENCE) + Duration::from_millis(10);
                (member.op, member.execute_by) = (Op::Renew { ttl }, CLOCK.now() + PATIENCE);
            }
            batch = lane.call(node, batch).await;
            assert!(batch.iter().all(|member| matches!(member.outcome, Outcome::Renewed { .. })));
        }
    });
}

async fn lane(transport: &RedisTransport, purpose: LanePurpose) -> Arc<dyn Lane> {
    let how = OpenLane::new(purpose, CLOCK, PATIENCE);
    transport.open(how).await.expect("the servers are up")
}

/// Locks of one node, with names of 32 bytes that no earlier run has taken.
async fn taken(lane: &dyn Lane) -> (NodeId, Vec<Call>) {
    let topology = lane.topology().borrow().clone();
    let node = topology.nodes()[0].id;
    let (mint, mut batch) = (OwnerMint::new(), Vec::new());
    for number in 0.. {
        let key = LockKey::new("", &format!("lease:{:08}:{number:017}", std::process::id())).expect("a name");
        if topology.serving(key.slot()).is_none_or(|serving| serving.id != node) {
            continue;
        }
        let (owner, ttl, execute_by) = (mint.mint(), PATIENCE, CLOCK.now() + PATIENCE);
        let call = |op| Call::new(key.clone(), HoldKind::Exclusive, op, owner, execute_by);
        lane.call_one(call(Op::Acquire { ttl })).await.into_result().expect("free");
        batch.push(call(Op::Renew { ttl }).with_ticket(number));
        if batch.len() == MEMBERS {
            break;
        }
    }
    (node, batch)
}

/// The one that can be read under callgrind.
const CLOCK: Clock = Clock::Tokio;
/// Under callgrind all takes long.
const PATIENCE: Duration = Duration::from_secs(60);
/// As many as the transport's default.
const MEMBERS: usize = 100;
const RENEWAL_INSTRUCTIONS_MAX: f64 = 1_850.0;
