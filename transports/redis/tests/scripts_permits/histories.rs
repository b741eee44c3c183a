//! Random histories of three owners, of peers and of time, against the model.

use crate::{
    model::{COUNTS, Model, Op, UNIT, ids_of},
    ours::{self, NEVER, PASSED},
    resp::Client,
    server::{Server, programs},
    state::{DEADLINES, PERMITS, State},
};

/// Xorshift.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn op(&mut self) -> Op {
        let units = 1 + i64::try_from(self.below(5)).unwrap();
        match self.below(12) {
            0..=4 => Op::Acquire(units),
            5 | 6 => Op::Renew(units),
            7 | 8 => Op::Release,
            9 => Op::Expire,
            10 => Op::TakeAway,
            _ if self.below(4) == 0 => Op::ForceRelease,
            _ => Op::Add(units - 3),
        }
    }
}

/// The same as the model does. Returns the code of the reply.
fn act(client: &mut Client, owner: usize, op: Op) -> i64 {
    let ids = ids_of(owner);
    match op {
        Op::Acquire(units) => ours::acquire(client, &ids, units * UNIT, NEVER).code(),
        Op::Renew(units) => renew(client, &ids, units),
        Op::Release => ours::release(client, &ids).code(),
        Op::Expire => {
            for id in ids.chunks(16) {
                client.ok(&[b"ZADD", DEADLINES.as_bytes(), b"XX", b"1", id]);
            }
            1
        }
        Op::TakeAway => {
            let removed = client.ok(&[b"ZREM", DEADLINES.as_bytes(), &ids[..16]]).number();
            client.ok(&["INCRBY", PERMITS, &removed.to_string()]);
            removed
        }
        Op::ForceRelease => ours::force_release(client).code(),
        Op::Add(permits) => {
            client.ok(&["INCRBY", PERMITS, &permits.to_string()]);
            1
        }
    }
}

fn renew(client: &mut Client, ids: &[u8], units: i64) -> i64 {
    let found = ours::found(&ours::renew(client, ids, units * UNIT, NEVER))[0].clone().unwrap();
    if found == -2 { -2 } else { 1 }
}

fn check(client: &mut Client, seed: u64) {
    client.ok(&["FLUSHALL"]);
    let (mut chance, mut model) = (Chance(seed), Model::default());
    assert_eq!(model.step(0, Op::Add(5)), act(client, 0, Op::Add(5)));
    for step in 0..40 {
        let owner = usize::try_from(chance.below(COUNTS.len() as u64)).unwrap();
        let op = chance.op();
        let told = format!("seed {seed} step {step}: {op:?} by {owner}, {model:?}");
        too_late(client, owner, &told);
        let (expected, done) = (model.step(owner, op), act(client, owner, op));
        assert_eq!(done, expected, "{told}");
        assert_eq!(State::read(client).in_units(UNIT), model.state(), "{told}");
        let shown = ours::count(client).list()[1].number();
        assert_eq!(shown, model.available() + model.expired(), "{told}");
    }
}

/// Nothing is done past the latest time.
fn too_late(client: &mut Client, owner: usize, told: &str) {
    let before = State::read(client).in_units(UNIT);
    let ids = ids_of(owner);
    for reply in [ours::acquire(client, &ids, 9 * UNIT, PASSED), ours::renew(client, &ids, 9 * UNIT, PASSED)]
    {
        assert_eq!(reply.code(), 2, "{told}: {reply:?}");
    }
    assert_eq!(State::read(client).in_units(UNIT), before, "{told}");
}

#[test]
fn random_histories_are_those_of_the_model() {
    let first = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let first: u64 = first.unwrap_or_else(|| u64::from(std::process::id()) * 1_000 + 1);
    println!("first seed {first}");
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        (first..first + 60).for_each(|seed| check(&mut client, seed));
    }
}
