//! Permits that expire.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
    transport::{
        Counter, CounterOp, Effect, ErrorKind, HoldKind, Kinds, Lane, LockMode, Op, Outcome, PermitCount,
    },
};

use super::{
    Context, Fixture, LONG, OtherDataGround, SHORT,
    counting::{Client, together},
    granted, held,
};

/// One semaphore.
struct Ground {
    context: Context,
    key: Arc<LockKey>,
}

fn of(permits: u16) -> HoldKind {
    HoldKind::Permits(NonZeroU16::new(permits).expect("above zero"))
}

impl Ground {
    async fn open<G: Fixture>(fixture: &G) -> Self {
        let context = Context::open(fixture).await;
        let key = context.key_of(Family::Permits, "a");
        Self { context, key }
    }

    /// With this total.
    async fn with_total<G: Fixture>(fixture: &G, total: u32) -> Self {
        let ground = Self::open(fixture).await;
        ground.total().set(total).await;
        ground
    }

    /// A client that has not counted yet.
    fn total(&self) -> Client<'_> {
        Client::new(&self.context, "a", Counter::PermitTotal).other()
    }

    async fn available(&self) -> i64 {
        self.total().shown().await
    }

    async fn call_over(&self, lane: &dyn Lane, permits: u16, owner: Owner, op: Op) -> Outcome {
        let call = self.context.call_of(of(permits), &self.key, op, owner);
        lane.call_one(call).await.into_result().expect("a definite answer")
    }

    async fn call(&self, permits: u16, owner: Owner, op: Op) -> Outcome {
        self.call_over(&*self.context.calls, permits, owner, op).await
    }

    /// A fresh owner asks.
    async fn acquire(&self, permits: u16) -> Outcome {
        self.call(permits, self.context.owner(), Op::Acquire { ttl: LONG }).await
    }

    /// A fresh owner that holds so many.
    async fn held(&self, permits: u16, ttl: Duration) -> Owner {
        let owner = self.context.owner();
        granted(&self.call(permits, owner, Op::Acquire { ttl }).await);
        owner
    }

    async fn release(&self, permits: u16, owner: Owner) -> Outcome {
        self.call(permits, owner, Op::Release).await
    }

    /// How many permits are shown as held.
    async fn shown(&self) -> usize {
        let seen = self.context.inspect(&self.key).await;
        assert!(seen.holds.iter().all(|hold| hold.mode == LockMode::Permits), "{seen:?}");
        assert_eq!(seen.permits.map(|count| count.held), Some(seen.holds.len() as u64), "{seen:?}");
        seen.holds.len()
    }
}

fn is_released(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Released { .. })
}

fn is_not_yours(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotYours { .. })
}

/// The engine asks for it.
pub async fn a_transport_that_keeps_permits_says_so<G: Fixture>(fixture: &G) {
    assert!(fixture.transport().capabilities().kinds.contains(Kinds::PERMITS));
}

/// And asking makes none.
pub async fn without_a_total_there_are_no_permits<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    held(&ground.acquire(1).await);
    assert_eq!((ground.available().await, ground.shown().await), (0, 0));
    assert_eq!(ground.total().count(CounterOp::SetIfAbsent(2)).await, 1, "nothing was made");
}

/// A caller that gets too few gets nothing.
pub async fn permits_are_granted_all_or_none<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 5).await;
    let owner = ground.held(3, LONG).await;
    held(&ground.acquire(3).await);
    assert_eq!((ground.available().await, ground.shown().await), (2, 3));
    ground.held(2, LONG).await;
    assert_eq!((ground.available().await, ground.shown().await), (0, 5));
    assert!(is_released(&ground.release(3, owner).await));
    assert_eq!((ground.available().await, ground.shown().await), (3, 2));
    let seen = ground.context.inspect(&ground.key).await.permits;
    assert_eq!(seen, Some(PermitCount::new(3, 2)));
}

/// S5: a resend after a lost reply counts once, and its release is one.
pub async fn a_repeat_takes_no_more_permits<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 5).await;
    let owner = ground.context.owner();
    for _ in 0..3 {
        granted(&ground.call(2, owner, Op::Acquire { ttl: LONG }).await);
        assert_eq!(ground.available().await, 3);
    }
    assert!(is_released(&ground.release(2, owner).await));
    assert!(is_not_yours(&ground.release(2, owner).await));
    assert_eq!(ground.available().await, 5);
}

/// A holder that died is in nobody's way, however long others stay.
pub async fn each_hold_of_permits_has_its_own_expiry<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 3).await;
    let (dead, lives) = (ground.held(1, SHORT).await, ground.held(2, LONG).await);
    ground.context.until(async || ground.shown().await == 2).await;
    assert!(is_not_yours(&ground.call(1, dead, Op::Renew { ttl: LONG }).await));
    let renewed = ground.call(2, lives, Op::Renew { ttl: 2 * LONG }).await;
    assert!(matches!(renewed, Outcome::Renewed { found, .. } if found <= LONG), "{renewed:?}");
    granted(&ground.acquire(1).await);
    held(&ground.acquire(1).await);
}

/// Whether it was reclaimed before or not.
pub async fn a_release_of_what_ran_out_gives_it_back_once<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 4).await;
    let (one, other) = (ground.held(2, SHORT).await, ground.held(2, SHORT).await);
    ground.context.until(async || ground.shown().await == 0).await;
    assert!(is_not_yours(&ground.release(2, one).await));
    let next = ground.held(4, LONG).await;
    for late in [one, other] {
        assert!(is_not_yours(&ground.release(2, late).await));
    }
    assert_eq!((ground.available().await, ground.shown().await), (0, 4));
    assert!(is_released(&ground.release(4, next).await));
    assert_eq!(ground.available().await, 4);
}

/// Before anybody reclaims them; and a read reclaims nothing.
pub async fn permits_that_expired_count_as_available<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 3).await;
    let dead = ground.held(2, SHORT).await;
    assert_eq!(ground.available().await, 1);
    ground.context.until(async || ground.available().await == 3).await;
    assert_eq!(ground.available().await, 3);
    assert!(is_not_yours(&ground.release(2, dead).await));
    assert_eq!(ground.available().await, 3);
}

/// F9: a semaphore that was left alone with 100,000 of them can be used at once.
pub async fn very_many_expired_permits_come_back_in_steps<G: Fixture>(fixture: &G) {
    const LARGE: u16 = 10_000;
    let ground = Ground::with_total(fixture, 100_000).await;
    for _ in 0..50 {
        ground.held(2_000, Duration::from_secs(3)).await;
    }
    ground.context.until(async || ground.available().await == 100_000).await;
    let small = ground.held(1, LONG).await;
    assert_eq!(ground.available().await, 99_999);
    let large = ground.held(LARGE, LONG).await;
    assert_eq!(ground.available().await, 99_999 - i64::from(LARGE));
    assert!(is_released(&ground.release(1, small).await));
    assert!(is_released(&ground.release(LARGE, large).await));
    assert_eq!(ground.available().await, 100_000);
}

/// What is held stays held.
pub async fn a_total_may_grow_and_shrink_under_holds<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 2).await;
    let owner = ground.held(2, LONG).await;
    assert_eq!(ground.total().count(CounterOp::Add(-1)).await, -1);
    assert_eq!((ground.available().await, ground.shown().await), (-1, 2));
    held(&ground.acquire(1).await);
    assert!(is_released(&ground.release(2, owner).await));
    let last = ground.held(1, LONG).await;
    held(&ground.acquire(1).await);
    assert_eq!(ground.total().count(CounterOp::Add(3)).await, 3);
    ground.held(3, LONG).await;
    assert!(is_released(&ground.release(1, last).await));
}

/// S1 of permits, over two lanes.
pub async fn never_more_permits_than_the_total_are_held<G: Fixture>(fixture: &G) {
    const TOTAL: u16 = 5;
    let ground = Ground::with_total(fixture, TOTAL.into()).await;
    let inside = std::cell::Cell::new(0u16);
    let work = async |task: u16| {
        let lane = if task % 2 == 0 { &ground.context.calls } else { &ground.context.others };
        for round in 0..10 {
            let (owner, permits) = (ground.context.owner(), 1 + (task + round) % 3);
            let op = Op::Acquire { ttl: LONG };
            while !matches!(ground.call_over(&**lane, permits, owner, op).await, Outcome::Granted { .. }) {
                ground.context.sleep(Duration::from_millis(1)).await;
            }
            inside.set(inside.get() + permits);
            assert!(inside.get() <= TOTAL, "{} are held", inside.get());
            ground.context.sleep(Duration::from_millis(1)).await;
            inside.set(inside.get() - permits);
            assert!(is_released(&ground.call_over(&**lane, permits, owner, Op::Release).await));
        }
    };
    together((0..8).map(work)).await;
    assert_eq!((ground.available().await, ground.shown().await), (TOTAL.into(), 0));
}

/// The operator's tool asks nobody.
pub async fn a_forced_release_gives_all_permits_back<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 5).await;
    let owners = [ground.held(2, LONG).await, ground.held(2, LONG).await];
    assert!(ground.context.others.force_release(&ground.key).await.expect("a definite answer"));
    assert_eq!((ground.available().await, ground.shown().await), (5, 0));
    for owner in owners {
        assert!(is_not_yours(&ground.call(2, owner, Op::Renew { ttl: LONG }).await));
        assert!(is_not_yours(&ground.release(2, owner).await));
    }
    assert_eq!(ground.available().await, 5);
}

/// Each member is answered for itself.
pub async fn a_batch_renews_permits_beside_locks<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 20).await;
    let context = &ground.context;
    let (lock, stranger) = (context.key_of(Family::Exclusive, "b"), context.owner());
    let owner = context.owner();
    let acquire = context.call_of(HoldKind::Exclusive, &lock, Op::Acquire { ttl: LONG }, owner);
    granted(&context.calls.call_one(acquire).await);
    let holds = [(1, ground.held(1, LONG).await), (7, ground.held(7, LONG).await), (3, stranger)];
    let renew = Op::Renew { ttl: 2 * LONG };
    let renewals = holds.map(|(permits, owner)| context.call_of(of(permits), &ground.key, renew, owner));
    let mut batch = vec![context.call_of(HoldKind::Exclusive, &lock, renew, owner)];
    batch.extend(renewals);
    for answered in context.renew_all(batch).await {
        match answered.owner == stranger {
            true => assert!(is_not_yours(&answered.outcome), "{answered:?}"),
            false => assert!(matches!(answered.outcome, Outcome::Renewed { .. }), "{answered:?}"),
        }
    }
    assert_eq!((ground.available().await, ground.shown().await), (12, 8));
}

/// A release, a larger total, and an acquire that reclaims more than it takes.
pub async fn whatever_makes_permits_available_gives_notice<G: Fixture>(fixture: &G) {
    let ground = Ground::with_total(fixture, 3).await;
    let context = &ground.context;
    let mut watch = context.watch_over(&*context.others, &ground.key).await;
    let mut noticed = async |seen: u64| {
        while watch.observe().notices == seen {
            watch.changed().await;
        }
        watch.observe().notices
    };
    let owner = ground.held(3, LONG).await;
    ground.release(3, owner).await;
    let released = noticed(0).await;
    ground.total().count(CounterOp::Add(1)).await;
    let added = noticed(released).await;
    ground.held(4, SHORT).await;
    context.until(async || ground.shown().await == 0).await;
    ground.held(1, LONG).await;
    noticed(added).await;
}

/// S10, for every operation that looks at the number of permits.
pub async fn data_that_is_no_semaphore_is_refused_and_kept<G: OtherDataGround>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let (context, key) = (&ground.context, &ground.key);
    fixture.put_other_data(key).await;
    let mut errors = Vec::new();
    for op in [Op::Acquire { ttl: LONG }, Op::Release] {
        let outcome = context.calls.call_one(context.call_of(of(1), key, op, context.owner())).await;
        errors.push(outcome.into_result().expect_err("no semaphore"));
    }
    errors.push(context.calls.inspect(key).await.expect_err("no semaphore"));
    errors.push(context.calls.force_release(key).await.expect_err("no semaphore"));
    for error in errors {
        assert_eq!((error.kind, error.effect), (ErrorKind::WrongType, Effect::None), "{error}");
    }
    assert!(fixture.other_data_is_unchanged(key).await);
}
