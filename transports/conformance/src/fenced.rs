//! Tokens of the fenced lock: they rise with each grant and stay on a repeat, in both modes.

use std::time::Duration;

use leasehold::{
    FencingMode,
    transport::{Effect, HoldKind, Outcome},
};

use super::{Context, FencedGround, LONG, granted, held, of_kind};

/// A resend after a lost reply has the token of its grant, so both answers can be used.
pub async fn a_repeat_has_the_token_of_its_grant<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    let token = granted(&context.acquire(&key, owner, LONG).await);
    for _ in 0..3 {
        assert_eq!(granted(&context.acquire(&key, owner, LONG).await), token);
    }
    context.release(&key, owner).await;
    assert!(granted(&context.acquire(&key, context.owner(), LONG).await) > token);
}

/// A grant moves the counter by the tokens that it reserves, too. So the next grant has a higher token than all of them, and
/// a repeat has the token of its grant.
pub async fn reserved_tokens_are_below_that_of_the_next_grant<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, mut last) = (context.key("a"), 0);
    for reserved in [7, 0, 1_023] {
        let owner = context.owner();
        let call = context.acquire_request(&key, owner, LONG).with_reserved_tokens(reserved);
        let token = granted(&context.calls.call_one(call.clone()).await).as_i64();
        assert!(token > last, "{token} after {last}");
        assert_eq!(granted(&context.calls.call_one(call).await).as_i64(), token, "a repeat");
        context.release(&key, owner).await;
        last = token + i64::from(reserved);
    }
    assert!(granted(&context.acquire(&key, context.owner(), LONG).await).as_i64() > last);
}

/// `Counter` counts grants. `Hybrid` is at least the server's time.
pub async fn a_token_is_what_its_mode_says<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    for number in 1..=3 {
        let before = context.inspect(&key).await.at.micros;
        let owner = context.owner();
        let outcome = context.acquire(&key, owner, LONG).await;
        let (token, at) = (granted(&outcome).as_i64() as u64, outcome.at().expect("an answer").micros);
        match mode::<G>() {
            FencingMode::Hybrid => assert!((before..=at + 3).contains(&token), "{before} {token} {at}"),
            _ => assert_eq!(token, number),
        }
        context.release(&key, owner).await;
    }
}

/// Only a grant to an owner that did not hold the lock moves the counter.
pub async fn nothing_but_a_grant_moves_the_counter<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    fixture.put_token_counter(&key, Some(AHEAD)).await;
    let token = granted(&context.acquire(&key, owner, LONG).await);
    held(&context.acquire(&key, context.owner(), LONG).await);
    context.renew(&key, owner, 2 * LONG).await;
    context.acquire(&key, owner, LONG).await;
    let late = context.acquire_request(&key, context.owner(), LONG);
    let late = late.with_execute_by(context.now().before(Duration::from_secs(10)));
    context.calls.call_one(late).await;
    context.release(&key, owner).await;
    let next = granted(&context.acquire(&key, context.owner(), LONG).await);
    assert_eq!((token.as_i64(), next.as_i64()), (AHEAD as i64 + 1, AHEAD as i64 + 2));
}

/// Engines with different modes, and a peer that counts, take turns.
pub async fn tokens_rise_over_both_modes_and_a_peers_counter<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, mut last) = (context.key("a"), 0);
    for round in 0..6 {
        let owner = context.owner();
        let mode = if round % 2 == 0 { FencingMode::Counter } else { FencingMode::Hybrid };
        let call = context.acquire_request(&key, owner, LONG);
        let call = of_kind(HoldKind::Fenced(mode), call);
        let token = granted(&context.calls.call_one(call).await).as_i64();
        assert!(token > last, "{token} after {last}");
        context.release(&key, owner).await;
        last = token + 1;
        fixture.put_token_counter(&key, Some(last as u64)).await; // as Java's lock and unlock
    }
}

/// The holder's token is not known any more, and an invented one would be a lie. The hold itself is untouched.
pub async fn a_repeat_without_its_counter_is_an_error<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    granted(&context.acquire(&key, owner, LONG).await);
    fixture.put_token_counter(&key, None).await;
    let repeat = context.calls.call_one(context.acquire_request(&key, owner, LONG)).await;
    let error = repeat.into_result().expect_err("no token, no grant");
    assert!(error.effect == Effect::None && error.kind.is_final(), "{error:?}");
    assert!(context.is_held_by(&key, owner).await);
    let released = context.release(&key, owner).await;
    assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
}

/// A peer has deleted the counter (Redisson's `delete()`). `Hybrid` makes up for it, `Counter` begins again.
pub async fn a_deleted_counter_is_made_up_for_by_the_time<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    let before = granted(&context.acquire(&key, owner, LONG).await);
    context.release(&key, owner).await;
    fixture.put_token_counter(&key, None).await;
    context.sleep(Duration::from_millis(2)).await;
    let after = granted(&context.acquire(&key, context.owner(), LONG).await);
    match mode::<G>() {
        FencingMode::Hybrid => assert!(after > before, "{after} after {before}"),
        _ => assert_eq!(after.as_i64(), 1),
    }
}

/// On the server it is one lock, whatever the kind of the hold.
pub async fn holds_of_other_kinds_exclude_and_leave_the_counter<G: FencedGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    fixture.put_token_counter(&key, Some(AHEAD)).await;
    for kind in [HoldKind::Exclusive, HoldKind::Spin] {
        let owner = context.owner();
        granted(&context.calls.call_one(of_kind(kind, context.acquire_request(&key, owner, LONG))).await);
        held(&context.acquire(&key, context.owner(), LONG).await);
        context.calls.call_one(of_kind(kind, context.release_request(&key, owner))).await;
    }
    let owner = context.owner();
    let token = granted(&context.acquire(&key, owner, LONG).await);
    assert_eq!(token.as_i64(), AHEAD as i64 + 1);
    let plain = of_kind(HoldKind::Exclusive, context.acquire_request(&key, context.owner(), LONG));
    held(&context.calls.call_one(plain).await);
}

fn mode<G: FencedGround>() -> FencingMode {
    match G::KIND {
        HoldKind::Fenced(mode) => mode,
        kind => panic!("a fixture of fenced locks, not of {kind} ones"),
    }
}

/// Ahead of every server's clock, in the year 2128, and below 2^53.
const AHEAD: u64 = 5_000_000_000_000_000;
