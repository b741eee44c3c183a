//! Kinds of holds, those of other keys and those that a transport lacks.

use std::{num::NonZeroU16, sync::Arc};

use leasehold::{
    FencingMode,
    key::{Family, LockKey},
    transport::{Effect, ErrorKind, HoldKind, Op, Outcome},
};

use super::{Context, Fixture, LONG};

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
