//! Keys of another type, and hashes that are no lock, stay as they are.

use crate::{
    keyspace::{CHANNEL, Keyspace, LOCK, timeout_key},
    model::{OWNERS, UNIT},
    ours, redisson,
    resp::{Client, Reply},
    server::{Server, programs},
};

const COUNTER: &str = "redisson_lock_token:{L}";

fn all(client: &mut Client) -> Vec<Reply> {
    let owner = OWNERS[0];
    let fenced = [&UNIT.to_string(), owner, ours::NEVER, "counter", "0"];
    vec![
        ours::read_acquire(client, owner, UNIT, ours::NEVER),
        ours::write_acquire(client, owner, UNIT, ours::NEVER),
        ours::read_release(client, owner),
        ours::write_release(client, owner),
        ours::downgrade(client, owner, UNIT, ours::NEVER),
        ours::force_release(client),
        ours::inspect(client),
        client.eval(ours::FENCED_ACQUIRE, &[LOCK, COUNTER], &fenced),
    ]
}

#[test]
fn a_key_of_another_type_is_left_alone() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        for command in [&["SET", LOCK, "text"][..], &["RPUSH", LOCK, "a", "b"], &["ZADD", LOCK, "1", "a"]] {
            client.ok(&["DEL", LOCK]);
            client.ok(command);
            let before = Keyspace::read(&mut client);
            for reply in all(&mut client) {
                assert!(reply.error().is_some_and(|text| text.contains("WRONGTYPE")), "{reply:?}");
            }
            let renewed = ours::read_renew(&mut client, OWNERS[0], UNIT, ours::NEVER);
            assert!(
                ours::found(&renewed)[0].as_ref().is_err_and(|text| text.contains("WRONGTYPE")),
                "{renewed:?}"
            );
            assert_eq!(Keyspace::read(&mut client), before);
        }
    }
}

#[test]
fn a_hash_that_is_no_read_write_lock_is_not_force_released() {
    let server = Server::start();
    let mut client = server.client();
    let odd: [&[&str]; 4] = [
        &["mode", "dark"],
        &["mode", "read", "colour", "blue"],
        &["a:1", "1"],
        &["mode", "write", "a:1", "one"],
    ];
    for fields in odd {
        client.ok(&["DEL", LOCK]);
        client.ok(&[&["HSET", LOCK], fields].concat());
        let before = Keyspace::read(&mut client);
        let reply = ours::force_release(&mut client);
        assert!(reply.error().is_some_and(|text| text.starts_with("WRONGTYPE")), "{fields:?}: {reply:?}");
        assert_eq!(Keyspace::read(&mut client), before, "{fields:?}");
    }
}

#[test]
fn l6_a_release_by_force_leaves_no_timeout_key_of_either_side() {
    let server = Server::start();
    let mut client = server.client();
    for is_read_write in ["1", "0"] {
        ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        (0..3).for_each(|_| drop(redisson::read_lock(&mut client, "java:-7", UNIT)));
        client.ok(&["HSET", LOCK, "odd:1", "4000000000"]);
        assert_eq!(Keyspace::read(&mut client).0.len(), 5);
        let forced = client.eval(ours::FORCE_RELEASE, &[LOCK], &[CHANNEL, ours::PUBLISH, is_read_write]);
        assert_eq!((forced.code(), Keyspace::read(&mut client)), (1, Keyspace::default()), "{is_read_write}");
    }
}

/// As one with 70 readers, and one with a count that no lock has.
#[test]
fn a_read_release_looks_through_no_more_than_a_few_readers() {
    let server = Server::start();
    let mut client = server.client();
    for crowd in
        [&(0..70).map(|n| (format!("x:{n}"), "1")).collect::<Vec<_>>(), &vec![("x:1".into(), "4000000000")]]
    {
        client.ok(&["FLUSHALL"]);
        ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        for (field, count) in crowd {
            client.ok(&["HSET", LOCK, field, count]);
        }
        assert_eq!(
            ours::read_release(&mut client, OWNERS[0]).list()[..2],
            [Reply::Number(1), Reply::Number(-1)]
        );
        let left = Keyspace::read(&mut client);
        assert_eq!(left.0.keys().collect::<Vec<_>>(), [LOCK]);
        assert!(left.left(LOCK).is_some_and(|left| left > UNIT / 2));
    }
}

#[test]
fn inspect_shows_each_hold_with_its_own_time() {
    let server = Server::start();
    let mut client = server.client();
    let free = ours::inspect(&mut client);
    assert_eq!(free.list()[1..], [Reply::Number(-2), Reply::Number(0), Reply::List(Vec::new())]);
    ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
    ours::read_acquire(&mut client, OWNERS[1], 3 * UNIT, ours::NEVER);
    client.ok(&["HSET", LOCK, "dead:1", "2"]);
    let seen = ours::inspect(&mut client);
    let [_, left, mode, holds] = seen.list() else { panic!("{seen:?}") };
    assert!(left.number() > 2 * UNIT && mode.number() == 1, "{seen:?}");
    let of = |owner: &str| {
        let place = holds.list().chunks(3).find(|hold| hold[0].text() == owner).unwrap();
        (place[1].text(), place[2].number())
    };
    assert!(matches!(of(OWNERS[0]), (count, left) if count == "1" && left <= UNIT && left > 0), "{seen:?}");
    assert!(matches!(of(OWNERS[1]), (_, left) if left > 2 * UNIT), "{seen:?}");
    assert_eq!(of("dead:1"), ("2".to_owned(), -2));
    client.ok(&["FLUSHALL"]);
    ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
    let seen = ours::inspect(&mut client);
    assert_eq!(seen.list()[2], Reply::Number(2));
    assert_eq!(seen.list()[3].list()[0].text(), format!("{}:write", OWNERS[0]));
    assert!(!Keyspace::read(&mut client).0.contains_key(&timeout_key(OWNERS[0], 1)));
}

/// As Redisson does: a read hold gives an expiry to a lock that has lost it, and a writer gives none to what it does
/// not hold.
#[test]
fn a_lock_without_expiry_has_one_again_with_a_read_hold() {
    let server = Server::start();
    let mut client = server.client();
    client.ok(&["HSET", LOCK, "mode", "read", OWNERS[2], "1"]);
    let held = ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
    assert_eq!(held.list()[..2], [Reply::Number(0), Reply::Number(-1)]);
    assert_eq!(Keyspace::read(&mut client).immortal(), [LOCK]);
    assert_eq!(ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER).code(), 1);
    assert!(Keyspace::read(&mut client).immortal().is_empty());
}

/// As no client of ours leaves it, and a peer may: Redisson shortens its own write hold here.
#[test]
fn a_read_release_beside_a_writer_leaves_the_locks_expiry() {
    let server = Server::start();
    let mut client = server.client();
    let writer = format!("{}:write", OWNERS[2]);
    for timeout in [true, false] {
        client.ok(&["FLUSHALL"]);
        client.ok(&["HSET", LOCK, "mode", "write", &writer, "1", OWNERS[2], "1", OWNERS[0], "1"]);
        client.ok(&["PEXPIRE", LOCK, &(5 * UNIT).to_string()]);
        if timeout {
            client.ok(&["SET", &timeout_key(OWNERS[2], 1), "1", "PX", &UNIT.to_string()]);
        }
        let reply = ours::read_release(&mut client, OWNERS[0]);
        assert_eq!(reply.list()[..2], [Reply::Number(1), Reply::Number(-1)]);
        assert!(Keyspace::read(&mut client).left(LOCK) > Some(4 * UNIT));
        assert_eq!(client.ok(&["HGET", LOCK, &writer]).text(), "1");
    }
}
