//! Kinds of holds: those of one name, those of other keys and those that a transport lacks.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use leasehold::{
    FencingMode,
    key::{Family, LockKey},
    owner::Owner,
    transport::{Effect, ErrorKind, HoldKind, Op, Outcome, Remaining},
};

use super::{Context, Fixture, LONG, SHORT, granted, held, is_about};

/// Every kind that there is.
const KINDS: [HoldKind; 7] = [
    HoldKind::Exclusive,
    HoldKind::Spin,
    HoldKind::Fenced(FencingMode::Hybrid),
    HoldKind::Read,
    HoldKind::Write,
    HoldKind::Permits(NonZeroU16::MIN),
    HoldKind::Fair,
];

const OPERATIONS: [Op; 4] =
    [Op::Acquire { ttl: LONG }, Op::Renew { ttl: LONG }, Op::Downgrade { ttl: LONG }, Op::Release];

/// The data of the two would be mixed up.
pub async fn a_kind_on_a_key_of_another_family_is_refused<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    for family in [Family::Exclusive, Family::ReadWrite, Family::Fair, Family::Permits] {
        let of_other = |kind: &HoldKind| kind.family() != family;
        for kind in KINDS.into_iter().filter(of_other) {
            is_refused(&context, kind, &context.key_of(family, "a")).await;
        }
    }
    assert!(context.is_held_by(&key, owner).await);
}

/// The engine refuses it too, and asks no server.
pub async fn a_kind_that_is_lacking_is_refused_without_effect<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let kinds = fixture.transport().capabilities().kinds;
    for kind in KINDS.into_iter().filter(|kind| !kinds.contains(kind.needs())) {
        is_refused(&context, kind, &context.key_of(kind.family(), "a")).await;
    }
    // A hold that is alone in every respect can be no reader's.
    let key = context.key("b");
    let downgrade = context.call_of(HoldKind::Exclusive, &key, OPERATIONS[2], context.owner());
    assert_refused(&context.calls.call_one(downgrade).await);
    assert!(context.is_free(&key).await);
}

/// Of two locks with one name, whatever their kinds, one is held at a time. Only readers share.
pub async fn locks_of_one_name_exclude_each_other<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for first in lock_kinds(fixture) {
        for second in lock_kinds(fixture) {
            if (first, second) != (HoldKind::Read, HoldKind::Read) {
                exclude_each_other(&context, first, second).await;
            }
        }
    }
}

/// After the ttl of a hold, an acquire of any kind is granted.
pub async fn a_hold_of_another_kind_that_ran_out_is_free<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for first in lock_kinds(fixture) {
        for second in lock_kinds(fixture) {
            let name = format!("{first} before {second}");
            granted(&ask(&context, first, &name, context.owner(), SHORT).await);
        }
    }
    context.sleep(SHORT + Duration::from_millis(20)).await;
    for first in lock_kinds(fixture) {
        for second in lock_kinds(fixture) {
            let name = format!("{first} before {second}");
            granted(&ask(&context, second, &name, context.owner(), LONG).await);
        }
    }
}

/// The kinds that the transport keeps, without permits: a semaphore is no lock.
fn lock_kinds<G: Fixture>(fixture: &G) -> impl Iterator<Item = HoldKind> + use<G> {
    let kinds = fixture.transport().capabilities().kinds;
    let is_lock = |kind: &HoldKind| kind.family() != Family::Permits;
    KINDS.into_iter().filter(is_lock).filter(move |kind| kinds.contains(kind.needs()))
}

async fn exclude_each_other(context: &Context, first: HoldKind, second: HoldKind) {
    let name = format!("{first} and {second}");
    let (holder, other) = (context.owner(), context.owner());
    granted(&ask(context, first, &name, holder, LONG).await);
    let remaining = held(&ask(context, second, &name, other, LONG).await);
    assert!(matches!(remaining, Remaining::For(left) if is_about(left, LONG)), "{name}: {remaining:?}");
    let released = call(context, second, &name, other, Op::Release).await;
    assert!(matches!(released, Outcome::NotYours { .. }), "{name}: {released:?}");
    let renewed = call(context, first, &name, holder, Op::Renew { ttl: LONG }).await;
    assert!(matches!(renewed, Outcome::Renewed { .. }), "{name}: {renewed:?}");
    let released = call(context, first, &name, holder, Op::Release).await;
    assert!(matches!(released, Outcome::Released { .. }), "{name}: {released:?}");
    granted(&ask(context, second, &name, other, LONG).await);
}

async fn ask(context: &Context, kind: HoldKind, name: &str, owner: Owner, ttl: Duration) -> Outcome {
    call(context, kind, name, owner, Op::Acquire { ttl }).await
}

async fn call(context: &Context, kind: HoldKind, name: &str, owner: Owner, op: Op) -> Outcome {
    let key = context.key_of(kind.family(), name);
    let outcome = context.calls.call_one(context.call_of(kind, &key, op, owner)).await;
    outcome.into_result().expect("a definite answer")
}

/// Alone and in a batch.
async fn is_refused(context: &Context, kind: HoldKind, key: &Arc<LockKey>) {
    for op in OPERATIONS {
        let call = context.call_of(kind, key, op, context.owner());
        assert_refused(&context.calls.call_one(call.clone()).await);
        let answered = context.renew_all(vec![call]).await;
        assert!(answered.len() == 1, "{answered:?}");
        assert_refused(&answered[0].outcome);
    }
}

fn assert_refused(outcome: &Outcome) {
    let error = outcome.error().unwrap_or_else(|| panic!("refused, not {outcome:?}"));
    assert_eq!((error.kind, error.effect), (ErrorKind::Misconfigured, Effect::None), "{error}");
}
