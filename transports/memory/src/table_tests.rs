use leasehold::routing::topology::{ClockId, NodeId};
use leasehold::transport::Fencing;

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn moment(millis: u64) -> Moment {
    let clock = ClockId { node: NodeId(0), epoch: 0 };
    let server = ServerTime { micros: 7_000_000 + millis * 1000, clock };
    Moment { ours: Instant::from_nanos(millis * 1_000_000), server }
}

fn key(name: &str) -> Arc<LockKey> {
    LockKey::new("", name).unwrap()
}

fn owner(n: u64) -> Owner {
    Owner::new(Default::default(), n)
}

fn acquire(name: &str, n: u64, ttl: Duration) -> Acquire {
    let execute_by = Instant::from_nanos(u64::MAX);
    Acquire { key: key(name), owner: owner(n), ttl, fencing: Fencing::ServerClock, execute_by }
}

fn renewal(name: &str, n: u64, ttl: Duration) -> Renewal {
    let execute_by = Instant::from_nanos(u64::MAX);
    Renewal { key: key(name), owner: owner(n), ttl, execute_by, ticket: 0, answer: RenewalAnswer::None }
}

fn release(name: &str, n: u64) -> Release {
    Release { key: key(name), owner: owner(n) }
}

fn token(reply: AcquireReply) -> FencingToken {
    match reply {
        AcquireReply::Granted { token, .. } => token,
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
    token(table.acquire(acquire("a", 1, TTL), moment(0)));
    assert_eq!(remaining(&table, "a", 9_999), Some(Remaining::For(Duration::from_millis(1))));
    assert!(matches!(table.acquire(acquire("a", 2, TTL), moment(9_999)), AcquireReply::Held { .. }));
    token(table.acquire(acquire("a", 2, TTL), moment(10_000)));
}

#[test]
fn tokens_rise_inside_one_microsecond_and_when_the_clock_steps_back() {
    let mut table = Table::default();
    let times = [5_000, 5_000, 5_000, 1_000, 5_000, 6_000];
    let tokens: Vec<_> = (0..)
        .zip(times)
        .map(|(n, at)| token(table.acquire(acquire(&format!("{n}"), n, TTL), moment(at))))
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
    token(table.acquire(acquire("a", 1, TTL), moment(0)));
    token(table.acquire(acquire("a", 1, TTL / 10), moment(1)));
    let answer = table.renew(&renewal("a", 1, TTL / 10), moment(2));
    assert!(
        matches!(answer, RenewalAnswer::Renewed { found, .. } if found == TTL - Duration::from_millis(2))
    );
    assert_eq!(remaining(&table, "a", 2), Some(Remaining::For(TTL - Duration::from_millis(2))));
}

#[test]
fn execute_by_itself_is_in_time_and_a_nanosecond_later_is_not() {
    let mut table = Table::default();
    let limit = moment(5).ours;
    let late = Moment { ours: limit + Duration::from_nanos(1), ..moment(5) };
    let request = Acquire { execute_by: limit, ..acquire("a", 1, TTL) };
    assert!(matches!(table.acquire(request.clone(), late), AcquireReply::TooLate { .. }));
    token(table.acquire(request, moment(5)));
    let member = Renewal { execute_by: limit, ..renewal("a", 1, 2 * TTL) };
    assert!(matches!(table.renew(&member, late), RenewalAnswer::TooLate { .. }));
    assert_eq!(remaining(&table, "a", 5), Some(Remaining::For(TTL)));
    assert!(matches!(table.renew(&member, moment(5)), RenewalAnswer::Renewed { .. }));
}

#[test]
fn nobody_ends_or_renews_what_is_not_theirs() {
    let mut table = Table::default();
    token(table.acquire(acquire("a", 1, TTL), moment(0)));
    assert!(!table.release(&release("a", 2), moment(1).server));
    assert!(matches!(table.renew(&renewal("a", 2, 2 * TTL), moment(1)), RenewalAnswer::NotYours { .. }));
    assert_eq!(remaining(&table, "a", 0), Some(Remaining::For(TTL)));
    assert!(table.release(&release("a", 1), moment(2).server));
    assert!(!table.release(&release("a", 1), moment(2).server));
    assert!(matches!(table.renew(&renewal("a", 1, TTL), moment(2)), RenewalAnswer::NotYours { .. }));
}

#[test]
fn a_peers_hold_may_lack_an_expiry_and_count_above_one() {
    let mut table = Table::default();
    let peer = PeerHold { owner: "a:b:c".into(), count: 3, ttl: None };
    table.put_peer(key("a"), peer, moment(0).server);
    let reply = table.acquire(acquire("a", 1, TTL), moment(u32::MAX.into()));
    assert!(matches!(reply, AcquireReply::Held { remaining: Remaining::NoExpiry, .. }), "{reply:?}");
    let seen = table.inspect(&key("a"), moment(0).server);
    assert_eq!(seen.holds, [SeenHold::new("a:b:c", 3)]);
    assert!(table.force_release(&key("a"), moment(1).server));
    assert!(!table.force_release(&key("a"), moment(1).server));
}

#[test]
fn holds_that_ran_out_are_swept_before_they_pile_up() {
    let mut table = Table::default();
    let ttl = Duration::from_millis(1);
    for n in 0..100_000 {
        token(table.acquire(acquire(&n.to_string(), n, ttl), moment(n)));
    }
    assert!(table.stored() <= 2 + LEFTOVERS_MAX, "{}", table.stored());
}

#[test]
fn a_sweep_takes_no_hold_that_lives() {
    let mut table = Table::default();
    for n in 0..5_000 {
        token(table.acquire(acquire(&format!("long-{n}"), n, TTL), moment(0)));
        token(table.acquire(acquire(&format!("short-{n}"), n, TTL / 1000), moment(0)));
    }
    for n in 0..5_000 {
        token(table.acquire(acquire(&format!("later-{n}"), n, TTL), moment(100)));
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
                let reply = table.acquire(acquire(&name, n, ttl), moment(now));
                (granted, matches!(reply, AcquireReply::Granted { .. }))
            }
            1 => {
                *slot = if own.is_some() { None } else { *slot };
                (own.is_some(), table.release(&release(&name, n), moment(now).server))
            }
            2 => {
                *slot = own.map(|_| (n, longer)).or(*slot);
                let answer = table.renew(&renewal(&name, n, ttl), moment(now));
                (own.is_some(), matches!(answer, RenewalAnswer::Renewed { .. }))
            }
            _ => {
                let held = slot.map(|(_, until)| Remaining::For(Duration::from_millis(until - now)));
                (true, held == remaining(&table, &name, now))
            }
        };
        assert_eq!(expected, seen, "seed {seed}, step {step}, {name}, owner {n}, at {now} ms");
    }
}
