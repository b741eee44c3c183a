//! Locks of several kinds with one name.

use leasehold::transport::PlaceTerms;

use super::{
    tests::{moment, owner, token},
    *,
};
use leasehold::transport::LockMode;

const TTL: Duration = Duration::from_secs(10);

/// Every kind of lock but the fair one.
const OTHERS: [HoldKind; 5] = [
    HoldKind::Exclusive,
    HoldKind::Spin,
    HoldKind::Fenced(FencingMode::Counter),
    HoldKind::Read,
    HoldKind::Write,
];

/// A table whose calls are all on locks with the name `a`.
#[derive(Default)]
struct World {
    table: Table,
    millis: u64,
}

impl World {
    /// A table in which owner 1 has a hold of this kind.
    fn held(kind: HoldKind) -> Self {
        let mut world = Self::default();
        token(world.acquire(kind, 1));
        world
    }

    fn call(&mut self, kind: HoldKind, op: Op, n: u64) -> Outcome {
        let execute_by = Instant::from_nanos(u64::MAX);
        let call = Call::new(key_of(kind), kind, op, owner(n), execute_by);
        self.table.execute(&call, moment(self.millis))
    }

    fn acquire(&mut self, kind: HoldKind, n: u64) -> Outcome {
        self.call(kind, Op::Acquire { ttl: TTL }, n)
    }

    fn release(&mut self, kind: HoldKind, n: u64) -> Outcome {
        self.call(kind, Op::Release, n)
    }

    fn queue(&mut self, n: u64) -> Outcome {
        self.call(HoldKind::Fair, Op::Queue { ttl: TTL, place: place() }, n)
    }

    fn beat(&mut self, n: u64) -> Outcome {
        self.call(HoldKind::Fair, Op::Beat { place: place() }, n)
    }

    fn inspect(&self, kind: HoldKind) -> Inspection {
        self.table.inspect(&key_of(kind), moment(self.millis).server)
    }
}

fn key_of(kind: HoldKind) -> Arc<LockKey> {
    LockKey::with_family("", "a", kind.family()).unwrap()
}

/// Places that stay alive for as long as any test lasts.
fn place() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_secs(9))
}

fn is_busy_for(reply: &Outcome, left: Duration) -> bool {
    matches!(reply, Outcome::Busy { remaining: Remaining::For(time), .. } if *time == left)
}

fn is_first_for(reply: &Outcome, left: Duration) -> bool {
    matches!(reply, Outcome::Queued { remaining: Remaining::For(time), ahead: 0, .. } if *time == left)
}

#[test]
fn a_fair_lock_is_busy_for_what_another_kind_has_left() {
    for kind in OTHERS {
        let mut world = World::held(kind);
        world.millis = 4_000;
        let left = TTL - Duration::from_secs(4);
        let tried = world.acquire(HoldKind::Fair, 2);
        assert!(is_busy_for(&tried, left), "{kind}: {tried:?}");
        for reply in [world.queue(3), world.queue(3), world.beat(3)] {
            assert!(is_first_for(&reply, left), "{kind}: {reply:?}");
        }
        assert_eq!(world.table.take_turn(), None, "{kind}");
    }
}

#[test]
fn every_kind_is_busy_for_what_a_fair_hold_has_left() {
    for kind in OTHERS {
        let mut world = World::held(HoldKind::Fair);
        world.millis = 4_000;
        let tried = world.acquire(kind, 2);
        assert!(is_busy_for(&tried, TTL - Duration::from_secs(4)), "{kind}: {tried:?}");
        world.release(HoldKind::Fair, 1);
        token(world.acquire(kind, 2));
    }
}

#[test]
fn plain_and_read_write_locks_exclude_each_other() {
    for (first, second) in [(HoldKind::Exclusive, HoldKind::Read), (HoldKind::Exclusive, HoldKind::Write)] {
        for (first, second) in [(first, second), (second, first)] {
            let mut world = World::held(first);
            world.millis = 1;
            let tried = world.acquire(second, 2);
            assert!(is_busy_for(&tried, TTL - Duration::from_millis(1)), "{second} at {first}: {tried:?}");
            world.release(first, 1);
            token(world.acquire(second, 2));
        }
    }
}

#[test]
fn the_head_finds_the_end_of_another_kinds_hold_by_its_beat() {
    for kind in OTHERS {
        for is_released in [true, false] {
            let mut world = World::held(kind);
            world.queue(2);
            world.millis = 5_000;
            assert!(is_first_for(&world.beat(2), TTL / 2), "{kind}");
            match is_released {
                true => drop(world.release(kind, 1)),
                false => world.millis = 10_000,
            }
            let turn = world.beat(2);
            assert!(matches!(turn, Outcome::Turn { .. }), "{kind}: {turn:?}");
            token(world.queue(2));
        }
    }
}

#[test]
fn a_release_ends_holds_of_its_own_kind_alone() {
    for kind in OTHERS {
        let mut world = World::held(kind);
        assert!(matches!(world.release(HoldKind::Fair, 1), Outcome::NotYours { .. }), "{kind}");
        world.queue(2);
        world.queue(3);
        let left = world.release(HoldKind::Fair, 2);
        assert!(matches!(left, Outcome::Released { listeners: None, .. }), "{kind}: {left:?}");
        assert_eq!(world.table.take_turn(), None, "{kind}: the lock is not free for the next");
        assert!(is_busy_for(&world.acquire(HoldKind::Fair, 4), TTL), "{kind}");
    }
}

// As on Redis, where the script of the plain lock does not look at the line.
#[test]
fn a_plain_lock_that_is_free_is_granted_whatever_line_waits() {
    let mut world = World::held(HoldKind::Fair);
    world.queue(2);
    world.release(HoldKind::Fair, 1);
    assert_eq!(world.table.take_turn(), Some(owner(2)));
    token(world.acquire(HoldKind::Exclusive, 3));
    let late = world.queue(2);
    assert!(is_first_for(&late, TTL), "{late:?}");
}

#[test]
fn an_ask_that_another_kind_excludes_leaves_nothing() {
    let mut world = World::held(HoldKind::Fair);
    let fenced = HoldKind::Fenced(FencingMode::Counter);
    for kind in OTHERS {
        world.acquire(kind, 2);
    }
    assert_eq!(world.table.stored(), 1);
    world.release(HoldKind::Fair, 1);
    assert_eq!(token(world.acquire(fenced, 3)), FencingToken::of_counter(1));
    world.acquire(HoldKind::Fair, 4);
    world.release(fenced, 3);
    assert_eq!(world.table.stored(), 0);
}

#[test]
fn an_inspection_shows_the_hold_of_another_kind_and_the_line() {
    let mut world = World::held(HoldKind::Write);
    world.queue(2);
    for kind in [HoldKind::Exclusive, HoldKind::Write, HoldKind::Fair] {
        let seen = world.inspect(kind);
        assert_eq!(seen.holds.len(), 1, "{kind}: {seen:?}");
        assert_eq!((seen.mode(), seen.remaining), (LockMode::Write, Remaining::For(TTL)), "{kind}");
        assert_eq!(seen.line.len(), usize::from(kind == HoldKind::Fair), "{kind}");
    }
}

#[test]
fn a_forced_release_ends_the_hold_of_every_kind() {
    for held in OTHERS {
        let mut world = World::held(held);
        world.queue(2);
        assert!(world.table.force_release(&key_of(HoldKind::Fair), moment(0).server), "{held}");
        assert_eq!(world.table.take_turn(), Some(owner(2)), "{held}");
        assert!(world.inspect(held).holds.is_empty(), "{held}");
    }
    for asked in OTHERS {
        let mut world = World::held(HoldKind::Fair);
        assert!(world.table.force_release(&key_of(asked), moment(0).server), "{asked}");
        assert!(!world.table.force_release(&key_of(asked), moment(0).server), "{asked}");
        token(world.acquire(asked, 2));
    }
}

#[test]
fn a_peers_hold_replaces_holds_of_every_kind() {
    for (held, put) in [
        (HoldKind::Fair, HoldKind::Exclusive),
        (HoldKind::Exclusive, HoldKind::Fair),
        (HoldKind::Read, HoldKind::Fair),
        (HoldKind::Exclusive, HoldKind::Write),
    ] {
        let mut world = World::held(held);
        let peer = PeerHold { owner: "a:b:c".into(), count: 1, ttl: None };
        world.table.put_peer(key_of(put), peer, moment(0).server);
        let renewed = world.call(held, Op::Renew { ttl: TTL }, 1);
        assert!(matches!(renewed, Outcome::NotYours { .. }), "{held} and {put}: {renewed:?}");
        let tried = world.acquire(held, 2);
        assert!(
            matches!(tried, Outcome::Busy { remaining: Remaining::NoExpiry, .. }),
            "{held} and {put}: {tried:?}"
        );
    }
}

/// Random calls of all kinds never leave holds of two families.
#[test]
fn at_most_one_family_of_a_name_is_held() {
    for seed in 1..=64_u64 {
        let (mut world, mut random) = (World::default(), seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut grants = 0;
        for step in 0..500 {
            world.millis += draw(2_000);
            let (kind, n) = (ALL[usize::try_from(draw(6)).unwrap()], draw(4));
            let reply = match draw(4) {
                0 if kind == HoldKind::Fair => world.queue(n),
                0 | 1 => world.acquire(kind, n),
                2 => world.call(kind, Op::Renew { ttl: TTL }, n),
                _ => world.release(kind, n),
            };
            grants += u32::from(matches!(reply, Outcome::Granted { .. }));
            let at = moment(world.millis).server;
            let held = [HoldKind::Exclusive, HoldKind::Write, HoldKind::Fair]
                .map(|kind| world.table.inspect_kind(&key_of(kind), at).holds.len())
                .into_iter()
                .filter(|holds| *holds > 0);
            assert!(held.count() <= 1, "seed {seed}, step {step}: after {reply:?} to {kind}");
        }
        assert!(grants > 20, "seed {seed}: {grants} grants");
    }
}

const ALL: [HoldKind; 6] = [OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[3], OTHERS[4], HoldKind::Fair];
