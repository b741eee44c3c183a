//! Keys of another type stay as they are; permits of peers are shown and kept.

use crate::{
    ours::{self, NEVER},
    resp::{Client, Reply},
    server::{Server, programs},
    state::{DEADLINES, NO_LEASE, PERMITS, State},
};

const LEFT: i64 = 50_000;

fn all(client: &mut Client) -> Vec<Reply> {
    let own = ours::ids(0, 2);
    vec![
        ours::acquire(client, &own, LEFT, NEVER),
        ours::release(client, &own),
        ours::inspect(client),
        ours::count(client),
        ours::force_release(client),
    ]
}

fn dump(client: &mut Client) -> Vec<Reply> {
    [PERMITS, DEADLINES].map(|key| client.ok(&["DUMP", key])).into()
}

#[test]
fn a_key_of_another_type_is_left_alone() {
    let odd: [&[&str]; 5] = [
        &["SET", PERMITS, "text"],
        &["RPUSH", PERMITS, "a"],
        &["HSET", PERMITS, "a", "1"],
        &["SET", DEADLINES, "text"],
        &["SADD", DEADLINES, "a"],
    ];
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        for command in odd {
            client.ok(&["FLUSHALL"]);
            client.ok(&["SET", PERMITS, "4"]);
            client.ok(&["DEL", command[1]]);
            client.ok(command);
            let before = dump(&mut client);
            for (place, reply) in all(&mut client).iter().enumerate() {
                let told = format!("{program:?} {command:?} {place}: {reply:?}");
                assert!(reply.error().is_some_and(|text| text.contains("WRONGTYPE")), "{told}");
            }
            assert_eq!(dump(&mut client), before, "{command:?}");
        }
        let renewed = ours::renew(&mut client, &ours::ids(0, 2), LEFT, NEVER);
        assert!(ours::found(&renewed)[0].as_ref().is_err_and(|text| text.contains("WRONGTYPE")));
    }
}

/// Redisson's permit without a lease time ends by a release only.
#[test]
fn a_peers_permit_without_lease_time_stays_and_nobody_waits_for_it() {
    let server = Server::start();
    let mut client = server.client();
    let (peer, own) = (ours::ids(7, 1), ours::ids(0, 1));
    State::new(0, &[(&peer, NO_LEASE)]).write(&mut client);
    let busy = ours::acquire(&mut client, &own, LEFT, NEVER);
    assert_eq!(busy.list()[..2], [Reply::Number(0), Reply::Number(-2)]);
    assert_eq!(ours::inspect(&mut client).list()[1], Reply::Number(-1));
    client.ok(&["INCR", PERMITS]);
    assert_eq!(ours::acquire(&mut client, &own, LEFT, NEVER).code(), 1);
    let left = |client: &mut Client| ours::acquire(client, &ours::ids(1, 1), LEFT, NEVER).list()[1].number();
    assert!((1..=LEFT + 1).contains(&left(&mut client)));
    assert_eq!(ours::release(&mut client, &own).code(), 1);
    assert_eq!(State::read(&mut client), State::new(1, &[(&peer, NO_LEASE)]));
}

#[test]
fn inspect_shows_the_ids_of_what_has_not_expired() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(
        ours::inspect(&mut client).list()[1..],
        [Reply::Number(-2), Reply::List(vec![]), Reply::Number(0), Reply::Number(0)]
    );
    let (own, dead) = (ours::ids(0, 2), ours::ids(1, 3));
    State::new(2, &[(&own, LEFT), (&dead, -5)]).write(&mut client);
    let seen = ours::inspect(&mut client);
    let [_, left, holds, available, held] = seen.list() else { panic!("{seen:?}") };
    assert!((1..=LEFT).contains(&left.number()), "{seen:?}");
    assert_eq!((available.number(), held.number()), (5, 2), "three have expired: {seen:?}");
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let shown: Vec<_> = holds.list().chunks(3).map(|hold| (hold[0].text(), hold[1].text())).collect();
    assert_eq!(shown, [(hex(&own[..16]), "1".into()), (hex(&own[16..]), "1".into())]);
    assert!(holds.list().chunks(3).all(|hold| (1..=LEFT).contains(&hold[2].number())), "{seen:?}");
    assert_eq!(ours::count(&mut client).list()[1], Reply::Number(5));
    assert_eq!(State::read(&mut client).held.len(), 5, "a look reclaims nothing");
}

/// As Redisson does.
#[test]
fn the_deadlines_expire_with_the_semaphore() {
    let server = Server::start();
    let mut client = server.client();
    client.ok(&["SET", PERMITS, "2", "PX", "60000"]);
    assert_eq!(ours::acquire(&mut client, &ours::ids(0, 1), LEFT, NEVER).code(), 1);
    let left = client.ok(&["PTTL", DEADLINES]).number();
    assert!((1..=60_000).contains(&left), "{left}");
    assert!(client.ok(&["PTTL", PERMITS]).number() > 0, "the semaphore keeps its own");
}
