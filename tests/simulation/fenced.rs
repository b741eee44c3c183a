//! Fenced locks: tokens from a counter, beside plain locks of the same name.

use std::time::Duration;

use leasehold::{
    AcquireError, FencingMode, Lock,
    key::LockKey,
    transport::{BoxFuture, Call, Outcome},
};
use leasehold_memory::{ClockStep, Fault, MemoryTransport, Operation};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

use crate::fixture::{breathe, builder, fixture, ground_with, millis, pass, seconds};

#[tokio::test(start_paused = true)]
async fn s6_tokens_rise_over_engines_of_both_modes_and_a_clock_that_steps_back() {
    let fixture = fixture().await;
    let counts = builder(fixture.transport.inner()).fencing(FencingMode::Counter).build().await.unwrap();
    let mut last = None;
    for round in 0..20 {
        let engine = if round % 3 == 0 { &counts } else { &fixture.engine };
        let lease = engine.fenced_lock("a").acquire().await.unwrap();
        assert!(Some(lease.fencing_token()) > last, "{:?} after {last:?}", lease.fencing_token());
        last = Some(lease.fencing_token());
        lease.release().await.unwrap();
        if round == 10 {
            fixture.transport.inner().step_server_clock(ClockStep::Back(seconds(3_600)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_lost_reply_is_asked_again_and_has_the_token_of_its_grant() {
    let fixture = ground_with(|builder| builder.fencing(FencingMode::Counter)).await;
    fixture.faults.on(Operation::Acquire).times(2).inject(Fault::LoseReply);
    let lease = fixture.engine.fenced_lock("a").acquire().await.unwrap();
    assert_eq!((lease.fencing_token().as_i64(), fixture.engine.snapshot().asks), (1, 3));
    lease.release().await.unwrap();
    fixture.settles_within(seconds(3)).await;
    let lease = fixture.engine.fenced_lock("a").acquire().await.unwrap();
    assert_eq!(lease.fencing_token().as_i64(), 2);
}

#[tokio::test(start_paused = true)]
async fn s5_a_counter_that_is_gone_at_a_repeat_is_an_error_and_the_owner_is_closed() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::LoseReply);
    let waiting = tokio::spawn(fixture.engine.fenced_lock("a").acquire());
    let plain = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(500)).await;
    fixture.transport.inner().put_token_counter(&LockKey::new("", "a").unwrap(), None);
    let refused = waiting.await.unwrap().unwrap_err();
    assert!(
        matches!(&refused, AcquireError::Refused(why) if why.to_string().contains("counter")),
        "{refused:?}"
    );
    let plain = plain.await.unwrap().expect("the lock itself is well");
    plain.release().await.unwrap();
    fixture.settles_within(seconds(5)).await;
    assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
    assert!(fixture.engine.fenced_lock("a").acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn callers_of_both_kinds_take_turns_and_each_has_the_token_of_its_kind() {
    let fixture = ground_with(|builder| builder.fencing(FencingMode::Counter)).await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let mut waiting = vec![];
    for number in 0..8 {
        let engine = &fixture.engine;
        let lock = if number % 2 == 0 { engine.lock("a") } else { engine.fenced_lock("a") };
        waiting.push(tokio::spawn(lock.acquire()));
        breathe().await;
    }
    held.release().await.unwrap();
    let mut fenced = 0;
    for (number, waiting) in waiting.into_iter().enumerate() {
        let lease = waiting.await.unwrap().unwrap();
        let token = lease.fencing_token().as_i64();
        if number % 2 == 0 {
            assert!(token > 1 << 50, "{token} is no server time");
        } else {
            fenced += 1;
            assert_eq!(token, fenced);
        }
        lease.release().await.unwrap();
    }
    fixture.settles_within(millis(50)).await;
}

/// The token of the outer lease would be compared with those of another kind.
#[tokio::test(start_paused = true)]
async fn a_scope_does_not_share_a_hold_of_another_kind() {
    let fixture = fixture().await;
    let scope = fixture.engine.reentry();
    let (plain, fenced) = (fixture.engine.lock("a"), fixture.engine.fenced_lock("a"));
    let locks = [plain, fenced, fixture.engine.spin_lock("a")].map(|lock| lock.reentry(&scope));
    for outer in &locks {
        let lease = outer.acquire().await.unwrap();
        for inner in &locks {
            match inner.try_acquire().await {
                Ok(again) => assert!(std::ptr::eq(inner, outer) && again.unwrap().hold_count() == 2),
                Err(refused) => {
                    assert!(!std::ptr::eq(inner, outer));
                    let text = refused.to_string();
                    assert!(text.contains("kind") && text.contains("one scope"), "{text}");
                }
            }
        }
        lease.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_waits_for_one_kind_does_not_ask_for_another() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let scope = fixture.engine.reentry();
    let waiting = tokio::spawn(fixture.engine.fenced_lock("a").reentry(&scope).acquire());
    breathe().await;
    let refused = fixture.engine.lock("a").reentry(&scope).acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Invalid(_)), "{refused:?}");
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_fenced_lease_is_renewed_lost_and_counted_under_its_kind() {
    let fixture = ground_with(|builder| builder.metrics()).await;
    let lease = fixture.engine.fenced_lock("a").acquire().await.unwrap();
    pass(seconds(60)).await;
    assert!(lease.is_held() && fixture.engine.snapshot().renewals >= 5);
    assert!(fixture.engine.lock("a").force_release().await.unwrap());
    lease.lost().await;
    let families = fixture.engine.metrics().unwrap().read();
    let text = format!("{families:?}");
    assert!(text.contains("fenced"), "{text}");
}

/// The server of some names is far away.
#[derive(Clone, Default)]
struct FarAway;

impl Hand for FarAway {
    fn acquire<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if request.key.name().starts_with("far") {
                pass(millis(20)).await;
            }
            behind.lane.call_one(request).await
        })
    }
}

async fn always_asks(lock: Lock, from: Duration) {
    pass(from).await;
    loop {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// The engine's mean round trip is that of another server, and grants of this lock come much faster, each for a caller whose
/// lease cannot be handed off: no reserved token is ever used.
#[tokio::test(start_paused = true)]
async fn s6_tokens_stay_near_the_servers_time_so_a_lost_counter_is_made_up_for() {
    let memory = MemoryTransport::new();
    let engine = builder(&Interposed::<_, FarAway>::new(memory.clone())).build().await.unwrap();
    let far: Vec<_> = (0..80_u64)
        .map(|number| always_asks(engine.lock(format!("far{number}")), millis(number / 4)))
        .map(tokio::spawn)
        .collect();
    let lock = engine.fenced_lock("near").no_renewal();
    let mut highest = None;
    for _round in 0..300 {
        let callers: Vec<_> = (0..12).map(|_| tokio::spawn(lock.acquire())).collect();
        for caller in callers {
            let lease = caller.await.unwrap().unwrap();
            highest = highest.max(Some(lease.fencing_token()));
            lease.release().await.unwrap();
        }
        pass(millis(1)).await;
    }
    memory.put_token_counter(&LockKey::new("", "near").unwrap(), None);
    pass(millis(3)).await;
    let next = lock.acquire().await.unwrap();
    assert!(Some(next.fencing_token()) > highest, "{:?} after {highest:?}", next.fencing_token());
    far.into_iter().for_each(|asks| asks.abort());
}
