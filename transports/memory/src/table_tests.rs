use leasehold::{
    owner::Owner,
    routing::topology::{ClockId, NodeId},
    transport::Hold as SeenHold,
};

use super::*;
use crate::by_key::LEFTOVERS_MAX;

const TTL: Duration = Duration::from_secs(10);

pub(super) fn moment(millis: u64) -> Moment {
    let clock = ClockId { node: NodeId(0), epoch: 0 };
    let server = ServerTime { micros: 7_000_000 + millis * 1000, clock };
    Moment { ours: Instant::from_nanos(millis * 1_000_000), server }
}

fn key(name: &str) -> Arc<LockKey> {
    LockKey::new("", name).unwrap()
}

pub(super) fn owner(n: u64) -> Owner {
    Owner::new(Default::default(), n)
}

fn acquire(name: &str, n: u64, ttl: Duration) -> Call {
    let execute_by = Instant::from_nanos(u64::MAX);
    Call::new(key(name), HoldKind::Exclusive, Op::Acquire { ttl }, owner(n), execute_by)
}

fn renewal(name: &str, n: u64, ttl: Duration) -> Call {
    let execute_by = Instant::from_nanos(u64::MAX);
    Call::new(key(name), HoldKind::Exclusive, Op::Renew { ttl }, owner(n), execute_by)
}

fn release(name: &str, n: u64) -> Call {
    Call::new(key(name), HoldKind::Exclusive, Op::Release, owner(n), Instant::default())
}

pub(super) fn token(reply: Outcome) -> FencingToken {
    match reply {
        Outcome::Granted { token, .. } => token,
        _ => panic!("{reply:?}"),
    }
}

fn remaining(table: &Table, name: &str, millis: u64) -> Option<Remaining> {
    let seen = table.inspect(&key(name), moment(millis).server);
    (!seen.holds.is_empty()).then_some(seen.remaining)
}

#[test]
fn a_hold_ends_at_its_expiry_and_not_a_microsecond_before() {
    let mut table = Table::default();
    token(table.execute(&acquire("a", 1, TTL), moment(0)));
    assert_eq!(remaining(&table, "a", 9_999), Some(Remaining::For(Duration::from_millis(1))));
    assert!(matches!(table.execute(&acquire("a", 2, TTL), moment(9_999)), Outcome::Busy { .. }));
    token(table.execute(&acquire("a", 2, TTL), moment(10_000)));
}

#[test]
fn tokens_rise_inside_one_microsecond_and_when_the_clock_steps_back() {
    let mut table = Table::default();
    let times = [5_000, 5_000, 5_000, 1_000, 5_000, 6_000];
    let tokens: Vec<_> = (0..)
        .zip(times)
        .map(|(n, at)| token(table.execute(&acquire(&format!("{n}"), n, TTL), moment(at))))
        .collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(
        tokens[5],
        FencingToken::at_server_micros(moment(6_000).server.micros),
        "the clock's own as soon as it can be"
    );
}

#[test]
fn neither_a_second_acquire_nor_a_renewal_shortens() {
    let mut table = Table::default();
    token(table.execute(&acquire("a", 1, TTL), moment(0)));
    token(table.execute(&acquire("a", 1, TTL / 10), moment(1)));
    let answer = table.execute(&renewal("a", 1, TTL / 10), moment(2));
    assert!(matches!(answer, Outcome::Renewed { found, .. } if found == TTL - Duration::from_millis(2)));
    assert_eq!(remaining(&table, "a", 2), Some(Remaining::For(TTL - Duration::from_millis(2))));
}

#[test]
fn execute_by_itself_is_in_time_and_a_nanosecond_later_is_not() {
    let mut table = Table::default();
    let limit = moment(5).ours;
    let late = Moment { ours: limit + Duration::from_nanos(1), ..moment(5) };
    let request = acquire("a", 1, TTL).with_execute_by(limit);
    assert!(matches!(table.execute(&request, late), Outcome::TooLate { .. }));
    token(table.execute(&request, moment(5)));
    let member = renewal("a", 1, 2 * TTL).with_execute_by(limit);
    assert!(matches!(table.execute(&member, late), Outcome::TooLate { .. }));
    assert_eq!(remaining(&table, "a", 5), Some(Remaining::For(TTL)));
    assert!(matches!(table.execute(&member, moment(5)), Outcome::Renewed { .. }));
}

#[test]
fn nobody_ends_or_renews_what_is_not_theirs() {
    let mut table = Table::default();
    token(table.execute(&acquire("a", 1, TTL), moment(0)));
    assert!(matches!(table.execute(&release("a", 2), moment(1)), Outcome::NotYours { .. }));
    assert!(matches!(table.execute(&renewal("a", 2, 2 * TTL), moment(1)), Outcome::NotYours { .. }));
    assert_eq!(remaining(&table, "a", 0), Some(Remaining::For(TTL)));
    assert!(matches!(table.execute(&release("a", 1), moment(2)), Outcome::Released { .. }));
    assert!(matches!(table.execute(&release("a", 1), moment(2)), Outcome::NotYours { .. }));
    assert!(matches!(table.execute(&renewal("a", 1, TTL), moment(2)), Outcome::NotYours { .. }));
}

#[test]
fn a_peers_hold_may_lack_an_expiry_and_count_above_one() {
    let mut table = Table::default();
    let peer = PeerHold { owner: "a:b:c".into(), count: 3, ttl: None };
    table.put_peer(key("a"), peer, moment(0).server);
    let reply = table.execute(&acquire("a", 1, TTL), moment(u32::MAX.into()));
    assert!(matches!(reply, Outcome::Busy { remaining: Remaining::NoExpiry, .. }), "{reply:?}");
    let seen = table.inspect(&key("a"), moment(0).server);
    assert_eq!(seen.holds, [SeenHold::new("a:b:c", 3).with_remaining(Remaining::NoExpiry)]);
    assert!(table.force_release(&key("a"), moment(1).server));
    assert!(!table.force_release(&key("a"), moment(1).server));
}

#[test]
fn holds_that_ran_out_are_swept_before_they_pile_up() {
    let mut table = Table::default();
    let ttl = Duration::from_millis(1);
    for n in 0..100_000 {
        token(table.execute(&acquire(&n.to_string(), n, ttl), moment(n)));
    }
    assert!(table.stored() <= 2 + LEFTOVERS_MAX, "{}", table.stored());
}

#[test]
fn a_sweep_takes_no_hold_that_lives() {
    let mut table = Table::default();
    for n in 0..5_000 {
        token(table.execute(&acquire(&format!("long-{n}"), n, TTL), moment(0)));
        token(table.execute(&acquire(&format!("short-{n}"), n, TTL / 1000), moment(0)));
    }
    for n in 0..5_000 {
        token(table.execute(&acquire(&format!("later-{n}"), n, TTL), moment(100)));
    }
    assert!((0..5_000).all(|n| remaining(&table, &format!("long-{n}"), 100).is_some()));
}

/// Runs the same operations on the table and on the simplest correct model: a list of (key, owner, expiry).
#[test]
fn the_table_agrees_with_a_model() {
    for seed in 0..64_u64 {
        println!("seed {seed}");
        run_model(seed);
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
    let (mut table, mut model, mut now) = (Table::default(), [None::<(u64, u64)>; 3], 0);
    for step in 0..500 {
        now += draw(4);
        let (k, n, ttl) = (draw(3), draw(3), 1 + draw(12));
        let name = format!("key-{k}");
        let slot = &mut model[usize::try_from(k).unwrap()];
        *slot = slot.filter(|(_, until)| now < *until);
        let own = slot.filter(|(owner, _)| *owner == n);
        let longer = own.map_or(0, |(_, until)| until).max(now + ttl);
        let ttl = Duration::from_millis(ttl);
        let (expected, seen) = match draw(4) {
            0 => {
                let granted = slot.is_none() || own.is_some();
                *slot = if granted { Some((n, longer)) } else { *slot };
                let reply = table.execute(&acquire(&name, n, ttl), moment(now));
                (granted, matches!(reply, Outcome::Granted { .. }))
            }
            1 => {
                *slot = if own.is_some() { None } else { *slot };
                let reply = table.execute(&release(&name, n), moment(now));
                (own.is_some(), matches!(reply, Outcome::Released { .. }))
            }
            2 => {
                *slot = own.map(|_| (n, longer)).or(*slot);
                let answer = table.execute(&renewal(&name, n, ttl), moment(now));
                (own.is_some(), matches!(answer, Outcome::Renewed { .. }))
            }
            _ => {
                let held = slot.map(|(_, until)| Remaining::For(Duration::from_millis(until - now)));
                (true, held == remaining(&table, &name, now))
            }
        };
        assert_eq!(expected, seen, "seed {seed}, step {step}, {name}, owner {n}, at {now} ms");
    }
}
