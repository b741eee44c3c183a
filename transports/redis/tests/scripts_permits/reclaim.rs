//! F9: a semaphore that was left alone with very many expired permits. Redisson's scripts fail at 8,000.

use crate::{
    ours::{self, NEVER},
    resp::Client,
    server::Server,
    state::{DEADLINES, PERMITS, State},
};

const MANY: usize = 100_000;
const LEFT: i64 = 50_000;

fn left_alone(client: &mut Client) {
    let dead: Vec<_> = [ours::ids(1, MANY / 2), ours::ids(4, MANY / 2)].concat();
    for ids in dead.chunks(16 * 1_000) {
        let mut words: Vec<&[u8]> = vec![b"ZADD", DEADLINES.as_bytes()];
        ids.chunks(16).for_each(|id| words.extend([b"1".as_slice(), id]));
        client.ok(&words);
    }
    client.ok(&["SET", PERMITS, "0"]);
}

#[test]
fn an_acquire_reclaims_a_thousand_or_as_many_as_it_wants() {
    let server = Server::start();
    let mut client = server.client();
    left_alone(&mut client);
    assert_eq!(ours::count(&mut client).list()[1].number(), MANY as i64);
    assert_eq!(ours::acquire(&mut client, &ours::ids(2, 1), LEFT, NEVER).code(), 1);
    assert_eq!(State::read(&mut client).available, Some(999));
    assert_eq!(ours::acquire(&mut client, &ours::ids(3, 20_000), LEFT, NEVER).code(), 1);
    let state = State::read(&mut client);
    assert_eq!((state.available, state.total()), (Some(999), MANY as i64));
    assert_eq!(ours::release(&mut client, &ours::ids(3, 20_000)).code(), 1);
    assert_eq!(State::read(&mut client).total(), MANY as i64);
    assert_eq!(ours::force_release(&mut client).code(), 1);
    assert_eq!(State::read(&mut client), State::new(MANY as i64, &[]));
}

#[test]
fn a_hundred_thousand_expired_permits_come_back_a_thousand_with_each_acquire() {
    let server = Server::start();
    let mut client = server.client();
    left_alone(&mut client);
    let mine = ours::ids(2, MANY / 1_000);
    for (taken, id) in (1..).zip(mine.chunks(16)) {
        assert_eq!(ours::acquire(&mut client, id, LEFT, NEVER).code(), 1);
        let available = client.ok(&["GET", PERMITS]).text();
        assert_eq!(available, (999 * taken).to_string());
        let stored = client.ok(&["ZCARD", DEADLINES]).number();
        assert_eq!(stored, MANY as i64 - 999 * taken);
    }
    let state = State::read(&mut client);
    assert_eq!((state.held.len(), state.total()), (MANY / 1_000, MANY as i64), "none is expired any more");
}

#[test]
fn the_largest_hold_is_granted_again_renewed_and_released() {
    let server = Server::start();
    let mut client = server.client();
    let all = ours::ids(0, 65_535);
    client.ok(&["SET", PERMITS, "65535"]);
    for ttl in [LEFT, 2 * LEFT] {
        assert_eq!(ours::acquire(&mut client, &all, ttl, NEVER).code(), 1);
    }
    let found = ours::found(&ours::renew(&mut client, &all, 4 * LEFT, NEVER))[0].clone();
    assert!(found.is_ok_and(|left| left > LEFT));
    assert!(State::read(&mut client).held.values().all(|left| *left > 3 * LEFT));
    assert_eq!(ours::release(&mut client, &all).code(), 1);
    assert_eq!(State::read(&mut client), State::new(65_535, &[]));
}
