//! The fenced lock: its tokens rise, and belong to a grant.

use crate::{
    keyspace::{Content, Keyspace, LOCK},
    model::{OWNERS, UNIT},
    ours, redisson,
    resp::{Client, Reply},
    server::{Server, programs},
};

const COUNTER: &str = "redisson_lock_token:{L}";
const CHANNEL: &str = "redisson_lock__channel:{L}";
const RELEASE: &str = include_str!("../../scripts/release.lua");
const PEER: &str = OWNERS[2];

fn acquire(client: &mut Client, owner: &str, ttl: i64, mode: &str) -> Reply {
    reserve(client, owner, ttl, mode, 0)
}

fn reserve(client: &mut Client, owner: &str, ttl: i64, mode: &str, tokens: u16) -> Reply {
    let values = [&ttl.to_string(), owner, ours::NEVER, mode, &tokens.to_string()];
    client.eval(ours::FENCED_ACQUIRE, &[LOCK, COUNTER], &values)
}

/// The token of a grant.
fn token(reply: &Reply) -> i64 {
    assert_eq!(reply.code(), 1, "{reply:?}");
    reply.list()[1].number()
}

fn release(client: &mut Client, owner: &str) {
    assert_eq!(client.eval(RELEASE, &[LOCK], &[owner, CHANNEL, ours::PUBLISH]).code(), 1);
}

fn server_micros(client: &mut Client) -> i64 {
    let time = client.ok(&["TIME"]);
    let part = |place: usize| time.list()[place].text().parse::<i64>().unwrap();
    part(0) * 1_000_000 + part(1)
}

fn peer_locks(client: &mut Client) -> Reply {
    client.eval(redisson::FENCED_LOCK, &[LOCK, COUNTER], &[&UNIT.to_string(), PEER])
}

fn peer_unlocks(client: &mut Client) {
    let keys = [LOCK, CHANNEL, "redisson_unlock_latch:{L}:00"];
    client.eval(redisson::UNLOCK, &keys, &["0", "30000", PEER, "PUBLISH", "16000"]);
    client.ok(&["DEL", keys[2]]);
}

#[test]
fn a_counter_counts_grants_and_a_repeat_has_the_same_token() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        for wanted in 1..=3 {
            assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "counter")), wanted);
            assert_eq!(token(&acquire(&mut client, OWNERS[0], 3 * UNIT, "counter")), wanted);
            assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "counter")), wanted);
            let held = acquire(&mut client, OWNERS[1], UNIT, "counter");
            assert!(held.code() == 0 && held.list()[1].number() > 2 * UNIT, "{held:?}");
            let left = Keyspace::read(&mut client);
            assert_eq!(left.0[COUNTER], (Content::Text(wanted.to_string()), None), "{program:?}");
            let fields = [(OWNERS[0].to_owned(), "1".to_owned())];
            assert_eq!(left.0[LOCK].0, Content::Hash(fields.into()));
            assert!(left.left(LOCK).is_some_and(|left| left > 2 * UNIT));
            release(&mut client, OWNERS[0]);
        }
    }
}

#[test]
fn a_hybrid_token_is_above_the_servers_time_and_above_every_other() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        let mut last = server_micros(&mut client);
        for _ in 0..20 {
            let next = token(&acquire(&mut client, OWNERS[0], UNIT, "hybrid"));
            assert!(next > last, "{program:?}: {next} behind {last}");
            assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "hybrid")), next);
            assert_eq!(client.ok(&["GET", COUNTER]).text(), next.to_string());
            release(&mut client, OWNERS[0]);
            last = next;
        }
        // As if the server's clock had been set back by a year, and as after a client that counts.
        let ahead = last + 31_536_000_000_000;
        client.ok(&["SET", COUNTER, &ahead.to_string()]);
        assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "hybrid")), ahead + 1);
        release(&mut client, OWNERS[0]);
        assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "counter")), ahead + 2);
        assert_eq!(client.ok(&["GET", COUNTER]).text(), (ahead + 2).to_string());
    }
}

#[test]
fn reserved_tokens_are_below_those_of_every_later_grant_also_of_redisson() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        for mode in ["counter", "hybrid"] {
            let mine = token(&reserve(&mut client, OWNERS[0], UNIT, mode, 100));
            assert_eq!(token(&reserve(&mut client, OWNERS[0], UNIT, mode, 100)), mine, "{mode}: a repeat");
            assert_eq!(client.ok(&["GET", COUNTER]).text(), (mine + 100).to_string());
            release(&mut client, OWNERS[0]);
            let theirs = peer_locks(&mut client).list()[1].number();
            assert_eq!(theirs, mine + 101, "{program:?} {mode}");
            peer_unlocks(&mut client);
            let next = token(&acquire(&mut client, OWNERS[1], UNIT, "counter"));
            assert_eq!(next, mine + 102);
            release(&mut client, OWNERS[1]);
        }
    }
}

#[test]
fn tokens_rise_across_redisson_and_ours() {
    let server = Server::start();
    let mut client = server.client();
    for mode in ["counter", "hybrid"] {
        let mut last = 0;
        for _ in 0..5 {
            let mine = token(&acquire(&mut client, OWNERS[0], UNIT, mode));
            assert!(mine > last);
            // Busy: what is left, and no token.
            assert_eq!(peer_locks(&mut client).list()[1], Reply::Number(-1));
            release(&mut client, OWNERS[0]);
            let theirs = peer_locks(&mut client).list().to_vec();
            assert!(theirs[0] == Reply::Number(-1) && theirs[1].number() == mine + 1, "{theirs:?}");
            assert_eq!(acquire(&mut client, OWNERS[1], UNIT, mode).code(), 0);
            // A re-entry of Redisson raises its token.
            last = peer_locks(&mut client).list()[1].number();
            assert_eq!(last, mine + 2);
            peer_unlocks(&mut client);
            peer_unlocks(&mut client);
        }
        client.ok(&["FLUSHALL"]);
    }
}

#[test]
fn after_redisson_has_deleted_the_counter_hybrid_recovers_and_a_holder_is_told() {
    let server = Server::start();
    let mut client = server.client();
    let first = token(&acquire(&mut client, OWNERS[0], UNIT, "hybrid"));
    client.ok(&["DEL", COUNTER]);
    let repeat = acquire(&mut client, OWNERS[0], UNIT, "hybrid");
    assert!(repeat.error().is_some_and(|text| text.starts_with("NOTOKEN")), "{repeat:?}");
    assert!(!Keyspace::read(&mut client).0.contains_key(COUNTER), "a repeat mints no token");
    // As Redisson's delete().
    client.ok(&["DEL", LOCK, COUNTER]);
    assert!(token(&acquire(&mut client, OWNERS[1], UNIT, "hybrid")) > first);
}

#[test]
fn a_late_fenced_acquire_does_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let args = [&UNIT.to_string(), OWNERS[0], ours::PASSED, "hybrid", "0"];
    assert_eq!(client.eval(ours::FENCED_ACQUIRE, &[LOCK, COUNTER], &args).code(), 2);
    assert!(Keyspace::read(&mut client).0.is_empty());
}

#[test]
fn a_lock_without_expiry_is_no_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.ok(&["HSET", LOCK, "somebody:1", "1"]);
    let held = acquire(&mut client, OWNERS[0], UNIT, "counter");
    assert_eq!(held.list()[..2], [Reply::Number(0), Reply::Number(-1)]);
    assert!(!Keyspace::read(&mut client).0.contains_key(COUNTER));
}

#[test]
fn a_counter_that_cannot_be_counted_up_refuses_the_grant() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        for odd in ["many", "-3", "1.5", "9007199254740991", "9223372036854775807", ""] {
            client.ok(&["SET", COUNTER, odd]);
            let before = Keyspace::read(&mut client);
            for mode in ["counter", "hybrid"] {
                let reply = acquire(&mut client, OWNERS[0], UNIT, mode);
                assert!(
                    reply.error().is_some_and(|text| text.starts_with("WRONGTOKEN")),
                    "{odd:?}: {reply:?}"
                );
                assert_eq!(Keyspace::read(&mut client), before, "{program:?}: {odd:?}");
            }
        }
        client.ok(&["SET", COUNTER, "9007199254740990"]);
        assert_eq!(token(&acquire(&mut client, OWNERS[0], UNIT, "counter")), 9_007_199_254_740_991);
        client.ok(&["DEL", LOCK, COUNTER]);
        client.ok(&["RPUSH", COUNTER, "a"]);
        let before = Keyspace::read(&mut client);
        for mode in ["counter", "hybrid"] {
            let reply = acquire(&mut client, OWNERS[0], UNIT, mode);
            assert!(reply.error().is_some_and(|text| text.contains("WRONGTYPE")), "{reply:?}");
        }
        assert_eq!(Keyspace::read(&mut client), before);
    }
}
