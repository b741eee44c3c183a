//! Renewing leases, one and many.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold::{
    key::LockKey,
    owner::Owner,
    routing::topology::NodeId,
    transport::{Call, Effect, Outcome, TransportError},
};

use super::{Context, Fixture, LONG, SHORT, is_about};

/// What a renewal is for.
pub async fn a_renewal_lengthens<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let answer = context.renew(&key, owner, 2 * LONG).await;
    assert!(is_renewed(&answer), "{answer:?}");
    assert!(is_about(context.left(&key).await, 2 * LONG));
}

/// At least the ttl, never less than is left.
pub async fn a_renewal_never_shortens<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let answer = context.renew(&key, owner, SHORT).await;
    assert!(is_renewed(&answer), "{answer:?}");
    assert!(is_about(context.left(&key).await, LONG));
}

/// S12: the engine compares it with what it expected.
pub async fn a_renewal_tells_what_was_left<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    for ttl in [2 * LONG, 3 * LONG] {
        let Outcome::Renewed { found, .. } = context.renew(&key, owner, ttl).await else {
            panic!("renewed");
        };
        assert!(is_about(found, ttl - LONG), "{found:?} before {ttl:?}");
    }
}

/// S8: a renewal that was overtaken by the release cannot revive the hold.
pub async fn a_renewal_never_creates<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    context.release(&key, owner).await;
    for asker in [owner, context.owner()] {
        let answer = context.renew(&key, asker, LONG).await;
        assert!(is_not_yours(&answer), "{answer:?}");
    }
    assert!(context.is_free(&key).await);
}

/// S4.
pub async fn a_renewal_by_another_owner_changes_nothing<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let answer = context.renew(&key, context.owner(), 2 * LONG).await;
    assert!(is_not_yours(&answer), "{answer:?}");
    assert!(context.is_held_by(&key, owner).await);
    assert!(is_about(context.left(&key).await, LONG));
}

/// A lease that was lost stays lost.
pub async fn a_renewal_of_what_ran_out_is_not_yours<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, SHORT).await;
    context.until(async || context.is_free(&key).await).await;
    let answer = context.renew(&key, owner, LONG).await;
    assert!(is_not_yours(&answer), "{answer:?}");
    assert!(context.is_free(&key).await);
}

/// Never late.
pub async fn a_renewal_past_its_limit_is_not_executed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let execute_by = context.now().before(Duration::from_secs(10));
    let late = context.renewal(&key, owner, 2 * LONG).with_execute_by(execute_by);
    let answered = context.renew_all(vec![late]).await;
    assert!(answered.len() == 1 && is_too_late(&answered[0].outcome), "{answered:?}");
    assert!(is_about(context.left(&key).await, LONG));
}

/// Nothing asked, nothing answered.
pub async fn an_empty_batch_is_answered_empty<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    assert!(context.renew_all(vec![]).await.is_empty());
}

/// One answer each, and each its own, with the ticket that it came with.
pub async fn a_mixed_batch_answers_each_member_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    // One hash tag, so that one node serves all of them.
    let [mine, theirs, missing, last] =
        ["mine", "theirs", "missing", "last"].map(|name| context.key(&format!("{{t}}{name}")));
    let owner = context.held(&mine, LONG).await;
    context.held(&theirs, LONG).await;
    let last_owner = context.held(&last, LONG).await;
    let members = [(&mine, owner), (&theirs, owner), (&missing, owner), (&last, last_owner)];
    let batch = members
        .iter()
        .zip(10..)
        .map(|((key, owner), ticket)| context.renewal(key, *owner, 2 * LONG).with_ticket(ticket));
    let mut answered = context.renew_all(batch.collect()).await;
    answered.sort_by_key(|member| member.ticket);
    assert_eq!(answered.iter().map(|member| member.ticket).collect::<Vec<_>>(), [10, 11, 12, 13]);
    let keys: Vec<_> = answered.iter().map(|member| &member.key).collect();
    assert_eq!(keys, [&mine, &theirs, &missing, &last]);
    let renewed: Vec<_> = answered.iter().map(|member| is_renewed(&member.outcome)).collect();
    assert_eq!(renewed, [true, false, false, true], "{answered:?}");
    assert!(answered[1..3].iter().all(|member| is_not_yours(&member.outcome)), "{answered:?}");
    assert!(is_about(context.left(&theirs).await, LONG) && context.is_free(&missing).await);
}

/// Calls of all operations in one batch: each is executed, and each is answered with what fits its operation.
pub async fn a_batch_may_mix_operations<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let [free, held, ended] = ["free", "held", "ended"].map(|name| context.key(&format!("{{t}}{name}")));
    let (owner, ending) = (context.held(&held, LONG).await, context.held(&ended, LONG).await);
    let newcomer = context.owner();
    context.prepare(&free).await;
    let batch = vec![
        context.release_request(&ended, ending).with_ticket(1),
        context.renewal(&held, owner, 2 * LONG).with_ticket(2),
        context.acquire_request(&free, newcomer, LONG).with_ticket(3),
    ];
    let mut answered = context.renew_all(batch).await;
    answered.sort_by_key(|call| call.ticket);
    assert!(matches!(answered[0].outcome, Outcome::Released { .. }), "{answered:?}");
    assert!(is_renewed(&answered[1].outcome) && answered.len() == 3, "{answered:?}");
    assert!(matches!(answered[2].outcome, Outcome::Granted { .. }), "{answered:?}");
    assert!(context.is_free(&ended).await && context.is_held_by(&free, newcomer).await);
    assert!(is_about(context.left(&held).await, 2 * LONG));
}

/// A renewal need not be in a batch.
pub async fn a_renewal_alone_is_answered<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let outcome = context.renewals.call_one(context.renewal(&key, owner, 2 * LONG)).await;
    assert!(is_renewed(&outcome), "{outcome:?}");
    let outcome = context.renewals.call_one(context.renewal(&key, context.owner(), 2 * LONG)).await;
    assert!(is_not_yours(&outcome), "{outcome:?}");
}

/// The engine never asks so; a transport that keys its members by lock would lose one.
pub async fn a_member_twice_in_a_batch_is_answered_twice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let batch = [1, 2].map(|ticket| context.renewal(&key, owner, 2 * LONG).with_ticket(ticket));
    let answered = context.renew_all(batch.to_vec()).await;
    assert!(answered.len() == 2 && answered.iter().all(|member| is_renewed(&member.outcome)), "{answered:?}");
    assert_eq!(answered.iter().map(|member| member.ticket).sum::<u64>(), 3);
}

/// Batches of whatever the nodes allow, each member answered once.
pub async fn a_thousand_members_are_each_answered<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut leases = vec![];
    for n in 0..1000 {
        let key = context.key(&n.to_string());
        let owner = context.held(&key, LONG).await;
        leases.push((key, owner));
    }
    let mut answered = vec![];
    for (node, batch) in batches(&context, &leases) {
        answered.extend(context.renewals.call(node, batch).await);
    }
    answered.sort_by_key(|member| member.ticket);
    assert!(answered.iter().map(|member| member.ticket).eq(0..1000));
    let failed = answered.iter().find(|member| !is_renewed(&member.outcome));
    assert!(failed.is_none(), "{failed:?}");
    assert!(is_about(context.left(&leases[999].0).await, 2 * LONG));
}

/// Nothing ties a hold to the connection that acquired it.
pub async fn the_renewals_lane_renews_what_the_calls_lane_acquired<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    context.acquire_over(&*context.others, &key, owner, LONG).await;
    let answer = context.renew(&key, owner, 2 * LONG).await;
    assert!(is_renewed(&answer), "{answer:?}");
    assert!(is_about(context.left(&key).await, 2 * LONG));
}

/// A node may leave the topology between the batch and its sending.
pub async fn a_batch_for_an_unknown_node_is_not_executed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let answered =
        context.renewals.call(NodeId(u32::MAX), vec![context.renewal(&key, owner, 2 * LONG)]).await;
    let without_effect =
        |answer: &Outcome| matches!(answer, Outcome::Failed(TransportError { effect: Effect::None, .. }));
    assert!(answered.len() == 1 && without_effect(&answered[0].outcome), "{answered:?}");
    assert!(is_about(context.left(&key).await, LONG));
}

fn batches(context: &Context, leases: &[(Arc<LockKey>, Owner)]) -> Vec<(NodeId, Vec<Call>)> {
    let topology = context.renewals.topology().borrow().clone();
    let mut by_node = BTreeMap::<NodeId, Vec<Call>>::new();
    for ((key, owner), ticket) in leases.iter().zip(0..) {
        let node = topology.serving(key.slot()).expect("a node that serves the key").id;
        by_node.entry(node).or_default().push(context.renewal(key, *owner, 2 * LONG).with_ticket(ticket));
    }
    let mut batches = vec![];
    for (node, members) in by_node {
        let most = topology.node(node).expect("a node of this topology").batch_leases_max;
        batches.extend(members.chunks(most).map(|batch| (node, batch.to_vec())));
    }
    batches
}

fn is_renewed(answer: &Outcome) -> bool {
    matches!(answer, Outcome::Renewed { .. })
}

fn is_not_yours(answer: &Outcome) -> bool {
    matches!(answer, Outcome::NotYours { .. })
}

// As for an acquire: a transport may answer at the limit, before the server can speak.
fn is_too_late(answer: &Outcome) -> bool {
    matches!(answer, Outcome::TooLate { .. } | Outcome::Failed(_))
}
