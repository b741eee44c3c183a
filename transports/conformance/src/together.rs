//! Acquires and releases of many locks in one call of the lane (group commit). Each behaviour makes its calls twice: a
//! transport may send the first ones alone, until it knows its server. `Lane::call` and `Lane::begin_many` take turns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::{
    key::LockKey,
    owner::Owner,
    routing::topology::NodeId,
    transport::{AnswersTo, Call, Lane, Outcome, Remaining},
};
use tokio::sync::mpsc;

use super::{Context, Fixture, LONG, OtherDataGround, granted, held, is_about, is_too_late};

/// Each member has an answer of its own, and its lock is held by its owner for its ttl.
pub async fn many_acquires_are_each_answered<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    let mut tokens = HashMap::new();
    for ttl in [LONG, 2 * LONG] {
        let acquires = acquires(&context, &keys, ttl);
        for call in call_all(&*context.calls, acquires.clone()).await {
            let token = granted(&call.outcome);
            let before = tokens.insert(call.key.clone(), token);
            assert!(
                before.is_none_or(|before| before < token),
                "{}: {token:?} is no later token",
                call.key.name()
            );
        }
        for call in &acquires {
            assert!(context.is_held_by(&call.key, call.owner).await, "{}", call.key.name());
            assert!(is_about(context.left(&call.key).await, ttl));
        }
        assert_released(&call_all(&*context.calls, releases(&context, &acquires)).await);
    }
    for key in &keys {
        assert!(context.is_free(key).await);
    }
}

/// What is held is refused with what is left, and what is free beside it is granted.
pub async fn of_many_acquires_the_held_are_refused<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    let held_ones: Vec<_> = acquires(&context, &keys, LONG).into_iter().step_by(2).collect();
    assert_granted(&call_all(&*context.calls, held_ones.clone()).await);
    for _ in 0..2 {
        let asked = acquires(&context, &keys, LONG);
        let answered = call_all(&*context.calls, asked.clone()).await;
        let (refused, taken): (Vec<_>, Vec<_>) =
            answered.into_iter().partition(|call| held_ones.iter().any(|other| other.key == call.key));
        assert_granted(&taken);
        for call in refused {
            assert!(!matches!(held(&call.outcome), Remaining::NoExpiry), "{call:?}");
            assert!(!context.is_held_by(&call.key, call.owner).await);
        }
        assert_released(&call_all(&*context.calls, releases(&context, &taken)).await);
    }
}

/// S9: an acquire that is repeated in a group counts once and never shortens.
pub async fn acquiring_many_again_counts_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let acquires = acquires(&context, &keys(&context), LONG);
    for _ in 0..3 {
        assert_granted(&call_all(&*context.calls, acquires.clone()).await);
    }
    for call in &acquires {
        assert!(context.is_held_by(&call.key, call.owner).await);
        assert!(is_about(context.left(&call.key).await, LONG));
    }
}

/// Two owners that ask for one lock in one group: one of them holds it.
pub async fn of_two_acquires_of_a_lock_in_a_group_one_is_granted<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    for _ in 0..2 {
        let both = [acquires(&context, &keys, LONG), acquires(&context, &keys, LONG)].concat();
        let answered = call_all(&*context.calls, both).await;
        let (taken, refused): (Vec<_>, Vec<_>) =
            answered.into_iter().partition(|call| matches!(call.outcome, Outcome::Granted { .. }));
        assert_eq!((taken.len(), refused.len()), (keys.len(), keys.len()));
        for call in &refused {
            held(&call.outcome);
        }
        for call in &taken {
            assert!(context.is_held_by(&call.key, call.owner).await);
        }
        assert_released(&call_all(&*context.calls, releases(&context, &taken)).await);
    }
}

/// The limit holds for each member of a group.
pub async fn acquires_past_their_limit_are_not_executed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    for _ in 0..2 {
        let past = context.now();
        context.sleep(Duration::from_millis(20)).await;
        let late =
            acquires(&context, &keys, LONG).into_iter().map(|call| call.with_execute_by(past)).collect();
        for call in call_all(&*context.calls, late).await {
            assert!(is_too_late(&call.outcome), "{call:?}");
            assert!(context.is_free(&call.key).await);
        }
        let held = acquires(&context, &keys, LONG);
        assert_granted(&call_all(&*context.calls, held.clone()).await);
        assert_released(&call_all(&*context.calls, releases(&context, &held)).await);
    }
}

/// S4, for each member of a group: another owner's hold stays, and a second release says so.
pub async fn many_releases_end_their_own_holds_only<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    for _ in 0..2 {
        let (mine, theirs) = (acquires(&context, &keys, LONG), acquires(&context, &keys, LONG));
        assert_granted(&call_all(&*context.calls, mine.clone()).await);
        assert_not_yours(&call_all(&*context.calls, releases(&context, &theirs)).await);
        for call in &mine {
            assert!(context.is_held_by(&call.key, call.owner).await);
        }
        assert_released(&call_all(&*context.calls, releases(&context, &mine)).await);
        assert_not_yours(&call_all(&*context.calls, releases(&context, &mine)).await);
    }
}

/// Releases and acquires of different locks may share a group.
pub async fn a_group_may_have_acquires_and_releases<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    let (some, others) = keys.split_at(keys.len() / 2);
    let mut held = acquires(&context, some, LONG);
    assert_granted(&call_all(&*context.calls, held.clone()).await);
    for keys in [others, some, others] {
        let next = acquires(&context, keys, LONG);
        let answered = call_all(&*context.calls, [releases(&context, &held), next.clone()].concat()).await;
        let (taken, ended): (Vec<_>, Vec<_>) =
            answered.into_iter().partition(|call| keys.contains(&call.key));
        assert_granted(&taken);
        assert_released(&ended);
        held = next;
    }
}

/// Each release of a group is told to those who watch its lock.
pub async fn many_releases_tell_those_who_watch<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    for key in &keys {
        context.prepare(key).await;
    }
    for _ in 0..2 {
        let held = acquires(&context, &keys, LONG);
        assert_granted(&call_all(&*context.calls, held.clone()).await);
        let mut watches = Vec::new();
        for key in &keys {
            watches.push(context.watch_over(&*context.others, key).await);
        }
        let before: Vec<_> = watches.iter_mut().map(|watch| watch.observe().notices).collect();
        assert_released(&call_all(&*context.calls, releases(&context, &held)).await);
        for (watch, before) in watches.iter_mut().zip(before) {
            while watch.observe().notices == before {
                watch.changed().await;
            }
        }
    }
}

/// S10: a key that holds something else is refused, and harms no other member.
pub async fn one_key_with_other_data_harms_no_other<G: OtherDataGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let keys = keys(&context);
    fixture.put_other_data(&keys[3]).await;
    for _ in 0..2 {
        let asked = acquires(&context, &keys, LONG);
        let answered = call_all(&*context.calls, asked.clone()).await;
        let (bad, taken): (Vec<_>, Vec<_>) = answered.into_iter().partition(|call| call.key == keys[3]);
        assert!(matches!(&bad[..], [Call { outcome: Outcome::Failed(_), .. }]), "{bad:?}");
        assert_granted(&taken);
        let ended = call_all(&*context.calls, releases(&context, &asked)).await;
        let (bad, ended): (Vec<_>, Vec<_>) = ended.into_iter().partition(|call| call.key == keys[3]);
        assert!(matches!(&bad[..], [Call { outcome: Outcome::Failed(_), .. }]), "{bad:?}");
        assert_released(&ended);
    }
    assert!(fixture.other_data_is_unchanged(&keys[3]).await);
}

fn keys(context: &Context) -> Vec<Arc<LockKey>> {
    (0..MANY).map(|number| context.key(&format!("together:{number}"))).collect()
}

fn acquires(context: &Context, keys: &[Arc<LockKey>], ttl: Duration) -> Vec<Call> {
    keys.iter().map(|key| context.acquire_request(key, context.owner(), ttl)).collect()
}

fn releases(context: &Context, held: &[Call]) -> Vec<Call> {
    held.iter().map(|call| context.release_request(&call.key, call.owner)).collect()
}

/// Makes all calls, those of each node in one call of the lane, and checks that each is answered once.
async fn call_all(lane: &dyn Lane, calls: Vec<Call>) -> Vec<Call> {
    let topology = lane.topology().borrow().clone();
    let who = |calls: &[Call]| {
        let mut who: Vec<(String, Owner)> =
            calls.iter().map(|call| (call.key.name().to_owned(), call.owner)).collect();
        who.sort_unstable_by_key(|(name, owner)| (name.clone(), owner.number()));
        who
    };
    let asked = who(&calls);
    let mut of_nodes = BTreeMap::<_, Vec<Call>>::new();
    for call in calls {
        let node = topology.serving(call.key.slot()).expect("a node that serves the key").id;
        of_nodes.entry(node.0).or_default().push(call);
    }
    let mut answered = Vec::new();
    for (node, calls) in of_nodes {
        answered.extend(call_at(lane, NodeId(node), calls).await);
    }
    assert_eq!(who(&answered), asked);
    answered
}

static TURN: AtomicUsize = AtomicUsize::new(0);

async fn call_at(lane: &dyn Lane, node: NodeId, calls: Vec<Call>) -> Vec<Call> {
    if TURN.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
        return lane.call(node, calls).await;
    }
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let answers_to = AnswersTo::new(move |calls| calls.into_iter().for_each(|call| drop(sender.send(call))));
    if let Some((calls, _)) = lane.begin_many(node, calls, answers_to) {
        return lane.call(node, calls).await;
    }
    let mut answered = Vec::new();
    while let Some(call) = receiver.recv().await {
        answered.push(call);
    }
    answered
}

fn assert_granted(calls: &[Call]) {
    for call in calls {
        granted(&call.outcome);
    }
}

fn assert_released(calls: &[Call]) {
    for call in calls {
        assert!(matches!(call.outcome, Outcome::Released { .. }), "{call:?}");
    }
}

fn assert_not_yours(calls: &[Call]) {
    for call in calls {
        assert!(matches!(call.outcome, Outcome::NotYours { .. }), "{call:?}");
    }
}

/// So many that each node of a small cluster gets enough of them to send them together.
const MANY: usize = 36;
