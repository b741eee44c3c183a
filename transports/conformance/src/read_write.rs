//! Locks with many readers or one writer.

use std::{cell::Cell, sync::Arc, time::Duration};

use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
    transport::{HoldKind, Lane, Op, Outcome, Remaining, Watch},
};

use super::{Context, Fixture, LONG, SHORT, granted, held, is_about, is_too_late};

const READ: HoldKind = HoldKind::Read;
const WRITE: HoldKind = HoldKind::Write;

/// One read/write lock, and what the tests do to it.
struct Ground {
    context: Context,
    key: Arc<LockKey>,
}

impl Ground {
    async fn open<G: Fixture>(fixture: &G) -> Self {
        let context = Context::open(fixture).await;
        let key = context.key_of(Family::ReadWrite, "a");
        Self { context, key }
    }

    async fn call(&self, kind: HoldKind, owner: Owner, op: Op) -> Outcome {
        self.call_over(&*self.context.calls, kind, owner, op).await
    }

    async fn call_over(&self, lane: &dyn Lane, kind: HoldKind, owner: Owner, op: Op) -> Outcome {
        let outcome = lane.call_one(self.context.call_of(kind, &self.key, op, owner)).await;
        outcome.into_result().expect("a definite answer")
    }

    async fn acquire(&self, kind: HoldKind) -> Outcome {
        self.call(kind, self.context.owner(), Op::Acquire { ttl: LONG }).await
    }

    /// A fresh owner that has such a hold.
    async fn held(&self, kind: HoldKind, ttl: Duration) -> Owner {
        let owner = self.context.owner();
        granted(&self.call(kind, owner, Op::Acquire { ttl }).await);
        owner
    }

    async fn release(&self, kind: HoldKind, owner: Owner) -> Outcome {
        self.call(kind, owner, Op::Release).await
    }

    async fn downgrade(&self, owner: Owner, ttl: Duration) -> Outcome {
        self.call(WRITE, owner, Op::Downgrade { ttl }).await
    }

    async fn are_held_by(&self, owners: &[Owner]) -> bool {
        let seen = self.context.inspect(&self.key).await;
        let mut shown: Vec<_> = seen.holds.iter().map(|hold| (hold.owner.clone(), hold.count)).collect();
        let mut expected: Vec<_> = owners.iter().map(|owner| (owner.to_string(), 1)).collect();
        shown.sort();
        expected.sort();
        shown == expected
    }

    async fn left(&self) -> Duration {
        self.context.left(&self.key).await
    }
}

fn is_released(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Released { .. })
}

fn is_renewed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Renewed { .. })
}

fn is_downgraded(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Downgraded { .. })
}

fn is_not_yours(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotYours { .. })
}

/// S1 of such locks.
pub async fn readers_share_and_a_writer_is_alone<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let readers = [ground.held(READ, LONG).await, ground.held(READ, LONG).await];
    held(&ground.acquire(WRITE).await);
    assert!(ground.are_held_by(&readers).await);
    assert!(is_released(&ground.release(READ, readers[0]).await));
    held(&ground.acquire(WRITE).await);
    assert!(is_released(&ground.release(READ, readers[1]).await));
    let writer = ground.held(WRITE, LONG).await;
    for kind in [READ, WRITE] {
        held(&ground.acquire(kind).await);
    }
    assert!(ground.are_held_by(&[writer]).await);
}

/// What a waiting caller needs to know.
pub async fn a_reader_is_refused_with_what_a_writer_has_left<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    ground.held(WRITE, LONG).await;
    for kind in [READ, WRITE] {
        match held(&ground.acquire(kind).await) {
            Remaining::For(left) => assert!(is_about(left, LONG), "{left:?}"),
            Remaining::NotKnown => {}
            other => panic!("our own hold, not {other:?}"),
        }
    }
}

/// A reader that died is in nobody's way, however long others stay.
pub async fn each_read_hold_has_its_own_expiry<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let dead = ground.held(READ, SHORT).await;
    let lives = ground.held(READ, LONG).await;
    ground.context.until(async || ground.are_held_by(&[lives]).await).await;
    assert!(is_not_yours(&ground.call(READ, dead, Op::Renew { ttl: LONG }).await));
    assert!(is_released(&ground.release(READ, lives).await));
    granted(&ground.acquire(WRITE).await);
}

/// F1: whoever leaves takes nobody along.
pub async fn a_read_release_ends_one_hold_only<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let (leaves, stays) = (ground.held(READ, 2 * LONG).await, ground.held(READ, LONG).await);
    assert!(is_released(&ground.release(READ, leaves).await));
    assert!(is_not_yours(&ground.release(READ, leaves).await));
    assert!(ground.are_held_by(&[stays]).await);
    assert!(is_about(ground.left().await, LONG));
    assert!(is_renewed(&ground.call(READ, stays, Op::Renew { ttl: 2 * LONG }).await));
    held(&ground.acquire(WRITE).await);
}

/// F1: a late release of a reader shortens no writer's lease.
pub async fn a_late_read_release_spares_the_writer<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let late = ground.held(READ, SHORT).await;
    ground.context.until(async || ground.context.is_free(&ground.key).await).await;
    let writer = ground.held(WRITE, LONG).await;
    assert!(is_not_yours(&ground.release(READ, late).await));
    assert!(ground.are_held_by(&[writer]).await && is_about(ground.left().await, LONG));
}

/// The writer's hold becomes a read hold; at no moment is the lock free.
pub async fn a_downgrade_lets_readers_in_and_no_writer<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    assert!(is_downgraded(&ground.downgrade(owner, LONG).await));
    let reader = ground.held(READ, LONG).await;
    held(&ground.acquire(WRITE).await);
    assert!(ground.are_held_by(&[owner, reader]).await);
    assert!(is_not_yours(&ground.call(WRITE, owner, Op::Renew { ttl: LONG }).await));
    assert!(is_renewed(&ground.call(READ, owner, Op::Renew { ttl: LONG }).await));
    assert!(is_not_yours(&ground.release(WRITE, owner).await));
    for owner in [owner, reader] {
        assert!(is_released(&ground.release(READ, owner).await));
    }
    granted(&ground.acquire(WRITE).await);
}

/// After a lost reply the engine asks again, as a writer or as a reader.
pub async fn a_downgrade_can_be_repeated<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    for kind in [WRITE, WRITE, READ] {
        let answer = ground.call(kind, owner, Op::Downgrade { ttl: LONG }).await;
        assert!(is_downgraded(&answer), "{answer:?}");
    }
    assert!(ground.are_held_by(&[owner]).await);
    assert!(is_released(&ground.release(READ, owner).await));
    assert!(ground.context.is_free(&ground.key).await);
}

/// It renews as well.
pub async fn a_downgrade_lasts_for_its_ttl_and_never_shortens<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    for (ttl, expected) in [(SHORT, LONG), (2 * LONG, 2 * LONG), (LONG, 2 * LONG)] {
        assert!(is_downgraded(&ground.downgrade(owner, ttl).await));
        let left = ground.left().await;
        assert!(is_about(left, expected) && left > expected / 2, "{left:?} of {expected:?}");
    }
    let Outcome::Renewed { found, .. } = ground.call(READ, owner, Op::Renew { ttl: SHORT }).await else {
        panic!("renewed");
    };
    assert!(is_about(found, 2 * LONG), "the read hold itself: {found:?}");
}

/// S8.
pub async fn a_downgrade_never_creates<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    assert!(is_not_yours(&ground.downgrade(ground.context.owner(), LONG).await));
    let owner = ground.held(WRITE, SHORT).await;
    ground.context.until(async || ground.context.is_free(&ground.key).await).await;
    assert!(is_not_yours(&ground.downgrade(owner, LONG).await));
    assert!(ground.context.is_free(&ground.key).await);
}

/// S4.
pub async fn a_downgrade_by_another_owner_changes_nothing<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    for kind in [WRITE, READ] {
        let owner = ground.held(kind, LONG).await;
        assert!(is_not_yours(&ground.downgrade(ground.context.owner(), 2 * LONG).await));
        assert!(ground.are_held_by(&[owner]).await && is_about(ground.left().await, LONG));
        assert!(is_released(&ground.release(kind, owner).await));
    }
}

/// Never late.
pub async fn a_downgrade_past_its_limit_is_not_executed<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    let call = ground.context.call_of(WRITE, &ground.key, Op::Downgrade { ttl: 2 * LONG }, owner);
    let late = call.with_execute_by(ground.context.now().before(Duration::from_secs(10)));
    assert!(is_too_late(&ground.context.calls.call_one(late).await));
    assert!(is_about(ground.left().await, LONG));
    held(&ground.acquire(READ).await);
    assert!(is_renewed(&ground.call(WRITE, owner, Op::Renew { ttl: LONG }).await));
}

/// It was overtaken by the release, and revives nothing.
pub async fn a_late_downgrade_after_the_release_is_not_yours<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    for kind in [WRITE, READ] {
        let owner = ground.held(WRITE, LONG).await;
        if kind == READ {
            assert!(is_downgraded(&ground.downgrade(owner, LONG).await));
        }
        assert!(is_released(&ground.release(kind, owner).await));
        let next = ground.held(WRITE, LONG).await;
        assert!(is_not_yours(&ground.downgrade(owner, LONG).await));
        assert!(ground.are_held_by(&[next]).await);
        assert!(is_released(&ground.release(WRITE, next).await));
    }
}

/// Whoever has sent a downgrade and got no answer gives back what it has now.
pub async fn a_read_release_ends_a_hold_whose_downgrade_was_not_executed<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    assert!(is_released(&ground.release(READ, owner).await));
    assert!(ground.context.is_free(&ground.key).await);
    granted(&ground.acquire(WRITE).await);
}

/// The owner of a read hold cannot write, and that of a write hold cannot read under the same owner.
pub async fn an_owner_has_one_kind_of_hold_at_a_time<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    for (kind, other) in [(READ, WRITE), (WRITE, READ)] {
        let owner = ground.held(kind, LONG).await;
        held(&ground.call(other, owner, Op::Acquire { ttl: LONG }).await);
        assert!(is_not_yours(&ground.call(other, owner, Op::Renew { ttl: 2 * LONG }).await));
        assert!(ground.are_held_by(&[owner]).await && is_about(ground.left().await, LONG));
        assert!(is_released(&ground.release(kind, owner).await));
    }
}

/// Renewals of holds of all kinds, together with other calls.
pub async fn a_batch_may_mix_kinds<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let context = &ground.context;
    // One hash tag, so that one node serves all of them.
    let kinds = [HoldKind::Exclusive, READ, WRITE, READ, WRITE];
    let keys: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(n, kind)| context.key_of(kind.family(), &format!("{{t}}{n}")))
        .collect();
    let mut batch = Vec::new();
    for (kind, key) in kinds.iter().zip(&keys) {
        let owner = context.owner();
        granted(&context.calls.call_one(context.call_of(*kind, key, Op::Acquire { ttl: LONG }, owner)).await);
        batch.push(context.call_of(*kind, key, Op::Renew { ttl: 2 * LONG }, owner));
    }
    let stranger = context.call_of(READ, &keys[1], Op::Renew { ttl: 3 * LONG }, context.owner());
    let last = batch.len() - 1;
    batch[last].op = Op::Downgrade { ttl: 2 * LONG };
    batch.push(stranger);
    let batch = batch.into_iter().zip(0..).map(|(call, ticket)| call.with_ticket(ticket)).collect();
    let mut answered = context.renew_all(batch).await;
    answered.sort_by_key(|call| call.ticket);
    assert!(answered.iter().map(|call| call.ticket).eq(0..6), "{answered:?}");
    assert!(answered[..last].iter().all(|call| is_renewed(&call.outcome)), "{answered:?}");
    assert!(is_downgraded(&answered[last].outcome), "{answered:?}");
    assert!(is_not_yours(&answered[last + 1].outcome), "{answered:?}");
    for key in &keys {
        assert!(is_about(context.left(key).await, 2 * LONG), "{key:?}");
    }
}

/// S6. Readers that share may share a token, or not.
pub async fn a_writer_has_a_higher_token_than_all_before<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let (mut highest, mut last_writer) = (None, None);
    for kind in [WRITE, READ, WRITE, WRITE, READ, READ, WRITE] {
        let owner = ground.context.owner();
        let token = granted(&ground.call(kind, owner, Op::Acquire { ttl: LONG }).await);
        assert!(last_writer < Some(token), "{token} of a {kind} after {last_writer:?}");
        assert!(kind == READ || highest < Some(token), "{token} of a writer after {highest:?}");
        highest = highest.max(Some(token));
        last_writer = if kind == WRITE { Some(token) } else { last_writer };
        assert!(is_released(&ground.release(kind, owner).await));
    }
}

/// Many tasks over two lanes.
pub async fn readers_and_writers_are_never_inside_together<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let inside = Cell::new((0_u32, 0_u32));
    let most_readers = Cell::new(0);
    let visitors = (0..24).map(async |n: u32| {
        let lane = if n % 2 == 0 { &*ground.context.calls } else { &*ground.context.others };
        let kind = if n % 3 == 0 { WRITE } else { READ };
        let owner = ground.context.owner();
        let acquire = Op::Acquire { ttl: LONG };
        while !matches!(ground.call_over(lane, kind, owner, acquire).await, Outcome::Granted { .. }) {
            ground.context.sleep(Duration::from_millis(2)).await;
        }
        let (readers, writers) = inside.get();
        assert!(writers == 0 && (kind == READ || readers == 0), "{readers} readers, {writers} writers");
        inside.set(if kind == READ { (readers + 1, 0) } else { (0, 1) });
        most_readers.set(most_readers.get().max(inside.get().0));
        ground.context.sleep(Duration::from_millis(3)).await;
        let (readers, writers) = inside.get();
        inside.set(if kind == READ { (readers - 1, writers) } else { (readers, writers - 1) });
        assert!(is_released(&ground.call_over(lane, kind, owner, Op::Release).await));
    });
    let mut visitors: Vec<_> = visitors.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        visitors.retain_mut(|visitor| visitor.as_mut().poll(cx).is_pending());
        if visitors.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert!(most_readers.get() > 1, "readers share");
    assert!(ground.context.is_free(&ground.key).await);
}

/// The operator's tool asks nobody.
pub async fn a_forced_release_ends_all_read_holds<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let readers = [ground.held(READ, LONG).await, ground.held(READ, LONG).await];
    assert!(ground.context.others.force_release(&ground.key).await.expect("a definite answer"));
    assert!(ground.context.is_free(&ground.key).await);
    granted(&ground.acquire(WRITE).await);
    for reader in readers {
        assert!(is_not_yours(&ground.call(READ, reader, Op::Renew { ttl: LONG }).await));
        assert!(is_not_yours(&ground.release(READ, reader).await));
    }
}

/// A writer that waits hears of the moment at which it can be granted.
pub async fn a_read_release_gives_notice_if_it_was_the_last<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let readers = [ground.held(READ, LONG).await, ground.held(READ, LONG).await];
    let mut watch = ground.context.watch_over(&*ground.context.others, &ground.key).await;
    let before = watch.observe().notices;
    let first = ground.release(READ, readers[0]).await;
    assert!(matches!(first, Outcome::Released { listeners: None, .. }), "nobody is told: {first:?}");
    assert!(is_released(&ground.release(READ, readers[1]).await));
    until_noticed(&mut watch, before + 1).await;
}

/// Readers that wait can be granted now.
pub async fn a_downgrade_gives_notice<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let owner = ground.held(WRITE, LONG).await;
    let mut watch = ground.context.watch_over(&*ground.context.others, &ground.key).await;
    let before = watch.observe().notices;
    let Outcome::Downgraded { listeners, .. } = ground.downgrade(owner, LONG).await else {
        panic!("downgraded");
    };
    assert!(listeners != Some(0), "{listeners:?}");
    until_noticed(&mut watch, before + 1).await;
}

/// Whoever waits for the one is not woken by the other.
pub async fn families_of_one_name_have_notices_of_their_own<G: Fixture>(fixture: &G) {
    let ground = Ground::open(fixture).await;
    let plain = ground.context.key_of(Family::Exclusive, ground.key.name());
    let mut of_plain = ground.context.watch_over(&*ground.context.others, &plain).await;
    let mut of_key = ground.context.watch_over(&*ground.context.others, &ground.key).await;
    let before = (of_plain.observe().notices, of_key.observe().notices);
    let owner = ground.held(WRITE, LONG).await;
    assert!(is_released(&ground.release(WRITE, owner).await));
    until_noticed(&mut of_key, before.1 + 1).await;
    assert_eq!(of_plain.observe().notices, before.0);
}

async fn until_noticed(watch: &mut Watch, notices: u64) {
    while watch.observe().notices < notices {
        watch.changed().await;
    }
}
