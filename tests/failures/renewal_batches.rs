//! The renewals' connection cut before, inside and after a batch.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    owner::{Owner, OwnerMint},
    routing::topology::NodeId,
    transport::{Call, Effect, HoldKind, Lane, LanePurpose, Op, OpenLane, Outcome, Transport},
};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{
    deployment::Topology,
    proxy::{Fault, Rule},
};

use crate::{
    commands::{Kind, owners_of_renewal},
    fixture::{Fixture, SECOND, hold, until},
    tally::Tally,
};

leasehold_tests::on_every_topology!(
    s2_no_lease_is_lost_while_its_deadline_is_ahead_wherever_the_connection_is_cut
);

const BATCHES: usize = 4;
const MEMBERS: usize = 100;
const TTL: Duration = Duration::from_secs(60);

/// Which of four batches is struck, and how: the others are in flight with it.
const CUTS: [(&str, u64, Fault); 4] = [
    ("before the first", 1, Fault::CutBefore),
    ("inside: the first ran, the others may not have", 1, Fault::CutAfter),
    ("inside: two ran, one was not answered", 2, Fault::CutAfter),
    ("after the last ran", BATCHES as u64, Fault::CutAfter),
];

fn rule((_, nth, fault): (&str, u64, Fault)) -> Rule {
    Rule { nth, ..Rule::once(Kind::Renewal.matching(), fault) }
}

async fn lane(transport: &RedisTransport, purpose: LanePurpose) -> Arc<dyn Lane> {
    let how = OpenLane::new(purpose, Clock::Boot, SECOND);
    transport.open(how).await.expect("a lane")
}

async fn holds(lane: &dyn Lane) -> Vec<(Arc<LockKey>, Owner)> {
    let mint = OwnerMint::new();
    let mut holds = Vec::new();
    for n in 0..BATCHES * MEMBERS {
        let (key, owner) = (LockKey::new("", &format!("k{n}")).expect("a name"), mint.mint());
        let execute_by = Clock::Boot.now() + SECOND;
        let op = Op::Acquire { ttl: TTL };
        let ask = Call::new(key.clone(), HoldKind::Exclusive, op, owner, execute_by);
        assert!(matches!(lane.call_one(ask).await, Outcome::Granted { .. }));
        holds.push((key, owner));
    }
    holds
}

fn batch(number: usize, holds: &[(Arc<LockKey>, Owner)]) -> Vec<Call> {
    let member = |(n, (key, owner)): (usize, &(Arc<LockKey>, Owner))| {
        let (op, execute_by) = (Op::Renew { ttl: 2 * TTL }, Clock::Boot.now() + SECOND);
        let call = Call::new(key.clone(), HoldKind::Exclusive, op, *owner, execute_by);
        call.with_ticket((number * MEMBERS + n) as u64)
    };
    holds.iter().enumerate().map(member).collect()
}

#[tokio::test]
async fn s8_every_member_has_exactly_one_answer_wherever_the_connection_is_cut() {
    for cut in CUTS {
        let fixture = Fixture::new();
        let transport = RedisTransport::from_url(&fixture.proxy.url()).expect("a url");
        let calls = lane(&transport, LanePurpose::Calls).await;
        let renewals = lane(&transport, LanePurpose::Renewals).await;
        let holds = holds(&*calls).await;
        let struck = fixture.proxy.rule(rule(cut));
        let mut sends = tokio::task::JoinSet::new();
        for (number, holds) in holds.chunks(MEMBERS).enumerate() {
            let (lane, batch) = (renewals.clone(), batch(number, holds));
            sends.spawn(async move { lane.call(NodeId(0), batch).await });
        }
        let answered = sends.join_all().await.concat();
        tokio::time::timeout(5 * SECOND, struck.wait_fired(1)).await.expect("struck");
        judge(&fixture, cut.0, &holds, answered);
    }
}

/// Each ticket once; "renewed" only if the server did it, "certainly not" only if it did not.
fn judge(fixture: &Fixture, cut: &str, holds: &[(Arc<LockKey>, Owner)], mut answered: Vec<Call>) {
    answered.sort_by_key(|member| member.ticket);
    let tickets: Vec<_> = answered.iter().map(|member| member.ticket).collect();
    assert_eq!(tickets, (0..holds.len() as u64).collect::<Vec<_>>(), "{cut}");
    let mut failed = 0;
    for (member, (key, _)) in answered.iter().zip(holds) {
        let renewed = fixture.pttl_ms(key.on_server()) > i64::try_from(TTL.as_millis()).expect("fits");
        match &member.outcome {
            Outcome::Renewed { .. } => assert!(renewed, "{cut}: {member:?}"),
            Outcome::Failed(error) => {
                failed += 1;
                assert!(error.effect != Effect::None || !renewed, "{cut}: {member:?}");
            }
            answer => panic!("{cut}: {answer:?}"),
        }
    }
    println!("{cut}: {failed} of {} without a definite answer", holds.len());
    assert!(failed >= MEMBERS, "{cut}: the struck batch at least");
}

async fn s2_no_lease_is_lost_while_its_deadline_is_ahead_wherever_the_connection_is_cut(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let (ttl, tally) = (6 * SECOND, Tally::default());
    let engine = fixture.builder().ttl(ttl).recorder(tally.clone()).build().await.expect("an engine");
    let leases = hold(&engine, 0..BATCHES * MEMBERS).await;
    let began = std::time::Instant::now();
    for cut in CUTS {
        let struck = fixture.proxy.rule(rule(cut));
        struck.wait_fired(1).await;
        let renewals = engine.snapshot().renewals;
        until("each is renewed again", || engine.snapshot().renewals >= renewals + leases.len() as u64).await;
    }
    assert!(leases.iter().all(|lease| lease.is_held()) && engine.snapshot().lost == 0);
    // Renewals that were due while no node was connected were in no batch, and have an outcome too.
    until("the recorder has been told", || tally.renewals_answered() >= tally.renewals_sent()).await;
    // None early: one send a period, and one more for each cut.
    let periods = began.elapsed().as_millis() / (ttl / 3).as_millis();
    let most = usize::try_from(periods).expect("few") + 1 + CUTS.len();
    let sends = sends_per_owner(&fixture);
    assert_eq!(sends.len(), leases.len());
    assert!(sends.values().all(|sends| *sends <= most), "{most}: {sends:?}");
}

fn sends_per_owner(fixture: &Fixture) -> BTreeMap<String, usize> {
    let mut sends = BTreeMap::new();
    for request in fixture.seen(Kind::Renewal) {
        for owner in owners_of_renewal(&request) {
            *sends.entry(owner).or_default() += 1;
        }
    }
    sends
}
