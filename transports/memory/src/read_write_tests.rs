use leasehold::{
    FencingToken,
    clock::Instant,
    key::Family,
    routing::topology::{ClockId, NodeId},
    transport::HoldKind::{Read, Write},
};

use super::*;
use crate::{
    hold::PeerHold,
    table::{Moment, Table},
};

const TTL: Duration = Duration::from_secs(10);

fn moment(millis: u64) -> Moment {
    let clock = ClockId { node: NodeId(0), epoch: 0 };
    let server = ServerTime { micros: 7_000_000 + millis * 1000, clock };
    Moment { ours: Instant::from_nanos(millis * 1_000_000), server }
}

fn key(name: &str) -> Arc<LockKey> {
    LockKey::with_family("", name, Family::ReadWrite).unwrap()
}

fn owner(n: u64) -> Owner {
    Owner::new(Default::default(), n)
}

/// One lock, and what is done to it.
#[derive(Default)]
struct Ground(Table);

impl Ground {
    fn at(&mut self, millis: u64, kind: HoldKind, n: u64, op: Op) -> Outcome {
        let call = Call::new(key("a"), kind, op, owner(n), Instant::from_nanos(u64::MAX));
        self.0.execute(&call, moment(millis))
    }

    fn acquire(&mut self, millis: u64, kind: HoldKind, n: u64) -> Outcome {
        self.at(millis, kind, n, Op::Acquire { ttl: TTL })
    }

    /// Who holds the lock, in order.
    fn holders(&self, millis: u64) -> Vec<String> {
        let seen = self.0.inspect(&key("a"), moment(millis).server);
        let mut holders: Vec<_> = seen.holds.into_iter().map(|hold| hold.owner).collect();
        holders.sort();
        holders
    }
}

fn owners(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|n| owner(*n).to_string()).collect()
}

fn token(outcome: Outcome) -> FencingToken {
    match outcome {
        Outcome::Granted { token, .. } => token,
        _ => panic!("{outcome:?}"),
    }
}

fn is_busy(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Busy { .. })
}

fn is_not_yours(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NotYours { .. })
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut ground = Ground::default();
    token(ground.acquire(0, Read, 1));
    token(ground.acquire(0, Read, 2));
    assert!(is_busy(&ground.acquire(0, Write, 3)));
    assert_eq!(ground.holders(0), owners(&[1, 2]));
    for reader in [1, 2] {
        assert!(is_busy(&ground.acquire(1, Write, 3)));
        assert!(matches!(ground.at(1, Read, reader, Op::Release), Outcome::Released { .. }));
    }
    token(ground.acquire(1, Write, 3));
    assert!(is_busy(&ground.acquire(1, Read, 1)) && is_busy(&ground.acquire(1, Write, 2)));
    assert!(is_busy(&ground.acquire(1, Read, 3)), "a writer's owner is not a reader's");
}

#[test]
fn each_read_hold_has_its_own_expiry() {
    let mut ground = Ground::default();
    ground.at(0, Read, 1, Op::Acquire { ttl: TTL });
    ground.at(0, Read, 2, Op::Acquire { ttl: 2 * TTL });
    assert_eq!(ground.holders(9_999), owners(&[1, 2]));
    assert_eq!(ground.holders(10_000), owners(&[2]));
    assert!(is_not_yours(&ground.at(10_000, Read, 1, Op::Renew { ttl: TTL })));
    assert!(matches!(ground.acquire(19_999, Write, 3), Outcome::Busy { remaining: Remaining::For(left), .. }
        if left == Duration::from_millis(1)));
    token(ground.acquire(20_000, Write, 3));
}

#[test]
fn only_the_last_read_release_is_told() {
    let mut ground = Ground::default();
    for (n, ttl) in [(1, TTL), (2, 2 * TTL), (3, 2 * TTL)] {
        ground.at(0, Read, n, Op::Acquire { ttl });
    }
    let told = |outcome| matches!(outcome, Outcome::Released { listeners: UNCOUNTED, .. });
    assert!(!told(ground.at(11_000, Read, 2, Op::Release)));
    assert!(told(ground.at(11_000, Read, 3, Op::Release)), "the first has expired");
    token(ground.acquire(11_000, Write, 4));
    assert!(told(ground.at(11_000, Write, 4, Op::Release)));
}

#[test]
fn a_downgrade_lets_readers_in_but_no_writer_and_can_be_repeated() {
    let mut ground = Ground::default();
    token(ground.acquire(0, Write, 1));
    let first = ground.at(1, Write, 1, Op::Downgrade { ttl: TTL });
    assert!(matches!(first, Outcome::Downgraded { listeners: UNCOUNTED, .. }), "{first:?}");
    let again = ground.at(2, Read, 1, Op::Downgrade { ttl: 2 * TTL });
    assert!(matches!(again, Outcome::Downgraded { listeners: NOBODY_TOLD, .. }), "{again:?}");
    token(ground.acquire(2, Read, 2));
    assert!(is_busy(&ground.acquire(2, Write, 3)));
    assert!(is_not_yours(&ground.at(2, Write, 1, Op::Renew { ttl: TTL })));
    assert!(is_not_yours(&ground.at(2, Write, 1, Op::Release)));
    assert_eq!(ground.holders(20_001), owners(&[1]));
    for stranger in [2, 3] {
        assert!(is_not_yours(&ground.at(20_001, Write, stranger, Op::Downgrade { ttl: TTL })));
    }
}

#[test]
fn a_downgrade_never_creates_and_never_shortens() {
    let mut ground = Ground::default();
    assert!(is_not_yours(&ground.at(0, Write, 1, Op::Downgrade { ttl: TTL })));
    token(ground.acquire(0, Write, 1));
    ground.at(0, Write, 1, Op::Downgrade { ttl: TTL / 10 });
    assert_eq!(ground.holders(9_999), owners(&[1]));
    assert!(is_not_yours(&ground.at(10_000, Read, 1, Op::Downgrade { ttl: TTL })));
}

#[test]
fn a_read_release_ends_a_hold_whose_downgrade_was_not_executed() {
    let mut ground = Ground::default();
    token(ground.acquire(0, Write, 1));
    assert!(is_not_yours(&ground.at(0, Read, 2, Op::Release)));
    assert!(matches!(ground.at(0, Read, 1, Op::Release), Outcome::Released { listeners: UNCOUNTED, .. }));
    assert!(is_not_yours(&ground.at(0, Write, 1, Op::Downgrade { ttl: TTL })));
    token(ground.acquire(0, Write, 2));
}

#[test]
fn tokens_rise_from_readers_to_writers_and_back() {
    let mut ground = Ground::default();
    let mut tokens = Vec::new();
    for (n, kind) in (0..).zip([Write, Read, Write, Read, Read, Write]) {
        tokens.push(token(ground.acquire(n, kind, n)));
        if n != 3 {
            ground.at(n, kind, n, Op::Release);
        } else {
            tokens.push(token(ground.acquire(n, kind, 100)));
            ground.at(n, kind, 100, Op::Release);
            ground.at(n, kind, n, Op::Release);
        }
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn families_of_one_name_exclude_each_other_and_kinds_keep_to_their_family() {
    let mut ground = Ground::default();
    token(ground.acquire(0, Read, 1));
    let plain = LockKey::new("", "a").unwrap();
    let call = |key: &Arc<LockKey>, kind| {
        Call::new(key.clone(), kind, Op::Acquire { ttl: TTL }, owner(2), Instant::from_nanos(u64::MAX))
    };
    assert!(matches!(ground.0.execute(&call(&plain, Read), moment(0)), Outcome::Failed(_)));
    assert!(matches!(ground.0.execute(&call(&key("a"), HoldKind::Exclusive), moment(0)), Outcome::Failed(_)));
    let excluded = ground.0.execute(&call(&plain, HoldKind::Exclusive), moment(0));
    assert!(matches!(excluded, Outcome::Busy { .. }), "{excluded:?}");
    assert_eq!(ground.holders(0), owners(&[1]));
    let nobody_downgrades = Call::new(
        plain,
        HoldKind::Exclusive,
        Op::Downgrade { ttl: TTL },
        owner(2),
        Instant::from_nanos(u64::MAX),
    );
    assert!(matches!(ground.0.execute(&nobody_downgrades, moment(0)), Outcome::Failed(_)));
}

#[test]
fn a_peer_writes() {
    let mut ground = Ground::default();
    let peer = PeerHold { owner: "a:b:c".into(), count: 3, ttl: None };
    ground.0.put_peer(key("a"), peer, moment(0).server);
    let reply = ground.acquire(u32::MAX.into(), Read, 1);
    assert!(matches!(reply, Outcome::Busy { remaining: Remaining::NoExpiry, .. }), "{reply:?}");
    assert_eq!(ground.holders(0), ["a:b:c"]);
    assert!(ground.0.force_release(&key("a"), moment(1).server));
    assert!(!ground.0.force_release(&key("a"), moment(1).server));
}

#[test]
fn locks_that_ran_out_are_swept_before_they_pile_up() {
    let mut table = Table::default();
    let ttl = Duration::from_millis(1);
    for n in 0..20_000 {
        let kind = if n % 2 == 0 { Read } else { Write };
        let name = key(&n.to_string());
        let call = Call::new(name, kind, Op::Acquire { ttl }, owner(n), Instant::from_nanos(u64::MAX));
        token(table.execute(&call, moment(n)));
    }
    assert!(table.stored() <= 2 + LEFTOVERS_MAX, "{}", table.stored());
}

/// Runs the same operations on a lock and on the simplest correct model: a list of (owner, whether it writes, expiry).
#[test]
fn a_read_write_lock_agrees_with_a_model() {
    for seed in 0..128_u64 {
        println!("seed {seed}");
        run_model(seed);
    }
}

#[derive(Default)]
struct Model(Vec<(u64, bool, u64)>);

impl Model {
    /// Executes one operation, and returns whether it took effect.
    fn execute(&mut self, now: u64, writes: bool, n: u64, op: Op) -> bool {
        self.0.retain(|(_, _, until)| now < *until);
        let until = now + op.ttl().map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap());
        let own = self.0.iter().position(|(owner, _, _)| *owner == n);
        let fits = own.filter(|place| self.0[*place].1 == writes);
        let (done, place) = match op {
            Op::Acquire { .. } => {
                let joins = own.is_none() && (self.0.is_empty() || !writes && !self.0[0].1);
                if joins {
                    self.0.push((n, writes, until));
                }
                (joins || fits.is_some(), fits)
            }
            Op::Renew { .. } => (fits.is_some(), fits),
            Op::Downgrade { .. } => {
                own.into_iter().for_each(|place| self.0[place].1 = false);
                (own.is_some(), own)
            }
            _ => {
                let ended = if writes { fits } else { own };
                if let Some(place) = ended {
                    self.0.remove(place);
                }
                (ended.is_some(), None)
            }
        };
        if let Some(place) = place {
            self.0[place].2 = self.0[place].2.max(until);
        }
        done
    }

    fn holders(&self, now: u64) -> Vec<String> {
        let mut holders: Vec<_> =
            self.0.iter().filter(|(_, _, until)| now < *until).map(|hold| hold.0).collect();
        holders.sort_unstable();
        owners(&holders)
    }
}

fn run_model(seed: u64) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let (mut ground, mut model, mut now) = (Ground::default(), Model::default(), 0);
    for step in 0..500 {
        now += draw(4);
        let (writes, n, ttl) = (draw(2) == 0, draw(3), Duration::from_millis(1 + draw(12)));
        let op = match draw(5) {
            0 | 1 => Op::Acquire { ttl },
            2 => Op::Renew { ttl },
            3 => Op::Downgrade { ttl },
            _ => Op::Release,
        };
        let told = format!("seed {seed}, step {step}, {op:?} of {n}, writes: {writes}, at {now} ms");
        let expected = model.execute(now, writes, n, op);
        let outcome = ground.at(now, if writes { Write } else { Read }, n, op);
        let done = !matches!(outcome, Outcome::Busy { .. } | Outcome::NotYours { .. });
        assert_eq!(done, expected, "{told}: {outcome:?}");
        assert_eq!(ground.holders(now), model.holders(now), "{told}");
    }
}
