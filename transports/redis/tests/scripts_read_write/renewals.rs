//! Renewals of many read holds in one command, in its three forms.

use crate::{
    keyspace::{Keyspace, LOCK, timeout_key},
    model::{OWNERS, UNIT},
    ours::{self, NEVER, PASSED, found, pack, split},
    resp::{Client, Reply},
    server::{Server, programs},
};

/// Names of locks: in braces, with braces, and with a character of many bytes.
const NAMES: [&str; 5] = ["a", "{b}:x", "c", "d-ü", "e{f}"];

fn timeout_of(lock: &str, owner: &str) -> String {
    let tagged = if lock.contains('{') { lock.to_owned() } else { format!("{{{lock}}}") };
    format!("{tagged}:{owner}:rwlock_timeout:1")
}

fn acquire(client: &mut Client, lock: &str, owner: &str, ttl: i64) {
    let keys = [lock, &timeout_of(lock, owner)];
    assert_eq!(client.eval(ours::READ_ACQUIRE, &keys, &[&ttl.to_string(), owner, NEVER]).code(), 1);
}

/// All names by one owner, declared.
fn declared(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    let keys: Vec<String> =
        NAMES.iter().flat_map(|lock| [lock.to_string(), timeout_of(lock, owner)]).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (head, number) = split(owner);
    let args: [&[u8]; 4] =
        [limit.as_bytes(), &ttl.to_string().into_bytes(), head.as_bytes(), &pack(&[number; NAMES.len()])];
    client.eval(ours::READ_RENEW, &keys, &args)
}

/// All names by one owner, without declaring them.
fn across_slots(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    let (head, number) = split(owner);
    let pairs: Vec<&str> = NAMES.iter().flat_map(|lock| [*lock, number]).collect();
    let args: [&[u8]; 4] = [limit.as_bytes(), &ttl.to_string().into_bytes(), head.as_bytes(), &pack(&pairs)];
    client.eval(ours::READ_RENEW_ACROSS_SLOTS, &[], &args)
}

fn left(client: &mut Client, key: &str) -> i64 {
    client.ok(&["PTTL", key]).number()
}

/// A hold, one whose timeout key has expired, one without a field, one without an expiry, one of another type.
fn check_each_member(client: &mut Client, renew: fn(&mut Client, &str, i64, &str) -> Reply) {
    let owner = OWNERS[0];
    for lock in &NAMES[..4] {
        acquire(client, lock, owner, UNIT);
    }
    client.ok(&["DEL", &timeout_of(NAMES[1], owner)]);
    client.ok(&["DEL", NAMES[2]]);
    client.ok(&["PERSIST", NAMES[3]]);
    client.ok(&["PERSIST", &timeout_of(NAMES[3], owner)]);
    client.ok(&["SET", NAMES[4], "no lock"]);
    assert_eq!(renew(client, owner, 2 * UNIT, PASSED).code(), 2);
    assert!(left(client, NAMES[0]) <= UNIT);
    let reply = renew(client, owner, 2 * UNIT, NEVER);
    let found = found(&reply);
    assert!(matches!(found[0], Ok(before) if before > 0 && before <= UNIT), "{found:?}");
    assert_eq!(found[1..4], [Ok(-2), Ok(-2), Ok(-1)]);
    assert!(matches!(&found[4], Err(text) if text.contains("WRONGTYPE")), "{found:?}");
    for lock in [NAMES[0], NAMES[3]] {
        assert!(left(client, lock) > UNIT && left(client, &timeout_of(lock, owner)) > UNIT, "{lock}");
    }
    assert!(left(client, NAMES[1]) <= UNIT, "nothing is done for a hold that is over");
    assert_eq!(left(client, &timeout_of(NAMES[1], owner)), -2, "and nothing is created");
    assert_eq!(left(client, NAMES[2]), -2);
    // Never shortened.
    renew(client, owner, UNIT, NEVER);
    assert!(left(client, NAMES[0]) > UNIT && left(client, &timeout_of(NAMES[0], owner)) > UNIT);
}

#[test]
fn a_batch_answers_each_member() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        check_each_member(&mut server.client(), declared);
    }
}

#[test]
fn a_batch_across_slots_answers_each_member() {
    for program in programs() {
        if program.to_string_lossy().contains("6.2") {
            continue;
        }
        let server = Server::start_program(&program, &["--cluster-enabled", "yes"]);
        let mut client = server.client();
        let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let words: Vec<&str> =
            ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        client.ok(&words);
        while !client.ok(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
            std::thread::yield_now();
        }
        check_each_member(&mut client, across_slots);
    }
}

/// What is found is the lesser of both: a peer may have shortened the lock.
#[test]
fn a_renewal_finds_the_lesser_time_and_raises_both() {
    let server = Server::start();
    let mut client = server.client();
    let (owner, timeout) = (OWNERS[0], timeout_key(OWNERS[0], 1));
    for (of_lock, of_timeout) in [(1, 2), (2, 1)] {
        client.ok(&["FLUSHALL"]);
        ours::read_acquire(&mut client, owner, UNIT, NEVER);
        client.ok(&["PEXPIRE", LOCK, &(of_lock * UNIT).to_string()]);
        client.ok(&["PEXPIRE", &timeout, &(of_timeout * UNIT).to_string()]);
        let reply = ours::read_renew(&mut client, owner, 3 * UNIT, NEVER);
        assert!(matches!(found(&reply)[..], [Ok(before)] if before <= UNIT), "{reply:?}");
        let after = Keyspace::read(&mut client);
        assert!(after.left(LOCK) > Some(2 * UNIT) && after.left(&timeout) > Some(2 * UNIT), "{after:?}");
    }
}

#[test]
fn a_timeout_key_alone_is_renewed_and_never_created() {
    let server = Server::start();
    let mut client = server.client();
    let timeout = timeout_key(OWNERS[0], 1);
    let renew = |client: &mut Client, limit: &str| {
        client.eval(ours::READ_RENEW_TIMEOUT, &[&timeout], &[limit, &(2 * UNIT).to_string()])
    };
    assert_eq!(found(&renew(&mut client, NEVER)), [Ok(-2)]);
    assert!(Keyspace::read(&mut client).0.is_empty());
    ours::read_acquire(&mut client, OWNERS[0], UNIT, NEVER);
    assert_eq!(renew(&mut client, PASSED).code(), 2);
    assert!(left(&mut client, &timeout) <= UNIT);
    assert!(matches!(found(&renew(&mut client, NEVER))[..], [Ok(before)] if before <= UNIT));
    assert!(left(&mut client, &timeout) > UNIT && left(&mut client, LOCK) <= UNIT);
}
