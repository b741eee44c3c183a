//! What the scripts publish, and to how many.

use crate::{
    keyspace::{CHANNEL, LOCK, timeout_key},
    model::{OWNERS, UNIT},
    ours,
    resp::{Client, Reply},
    server::{Server, programs},
};

/// A client that hears the channel.
fn listener(server: &Server, command: &str) -> Client {
    let mut client = server.client();
    client.ok(&[command, CHANNEL]);
    client
}

/// The next message, and the one after it, ...
fn heard(listener: &mut Client, count: usize) -> Vec<String> {
    (0..count).map(|_| listener.read().list()[2].text()).collect()
}

fn reached(reply: &Reply) -> i64 {
    assert_eq!(reply.code(), 1, "{reply:?}");
    reply.list()[1].number()
}

#[test]
fn each_end_is_told_by_the_rule_of_its_channel() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let (mut client, mut ear) = (server.client(), listener(&server, "SUBSCRIBE"));
        let [one, two, _] = OWNERS;
        ours::read_acquire(&mut client, one, UNIT, ours::NEVER);
        ours::read_acquire(&mut client, two, UNIT, ours::NEVER);
        assert_eq!(reached(&ours::read_release(&mut client, one)), -1, "the lock is not free");
        assert_eq!(reached(&ours::read_release(&mut client, two)), 1);
        client.ok(&["PUBLISH", CHANNEL, "mark"]);
        assert_eq!(heard(&mut ear, 2), ["0", "mark"]);

        ours::write_acquire(&mut client, one, UNIT, ours::NEVER);
        assert_eq!(reached(&ours::write_release(&mut client, one)), 1);
        assert_eq!(heard(&mut ear, 2), ["1", "0"]);

        ours::write_acquire(&mut client, one, UNIT, ours::NEVER);
        assert_eq!(reached(&ours::downgrade(&mut client, one, UNIT, ours::NEVER)), 1);
        assert_eq!(heard(&mut ear, 2), ["1", "0"]);
        assert_eq!(reached(&ours::downgrade(&mut client, one, UNIT, ours::NEVER)), -1, "told before");
        assert_eq!(reached(&ours::force_release(&mut client)), 1);
        assert_eq!(heard(&mut ear, 2), ["1", "0"]);

        // A release of a lease whose downgrade was never executed is that of a writer.
        ours::write_acquire(&mut client, one, UNIT, ours::NEVER);
        assert_eq!(reached(&ours::read_release(&mut client, one)), 1);
        assert_eq!(heard(&mut ear, 2), ["1", "0"]);
        // What does not end a hold tells nobody.
        ours::read_release(&mut client, one);
        ours::write_release(&mut client, one);
        ours::downgrade(&mut client, one, UNIT, ours::NEVER);
        ours::force_release(&mut client);
        client.ok(&["PUBLISH", CHANNEL, "mark"]);
        assert_eq!(heard(&mut ear, 1), ["mark"]);
    }
}

/// The readers that are left have died: the lock is free with the last that lives.
#[test]
fn the_last_living_reader_frees_the_lock() {
    let server = Server::start();
    let (mut client, mut ear) = (server.client(), listener(&server, "SUBSCRIBE"));
    for owner in OWNERS {
        ours::read_acquire(&mut client, owner, UNIT, ours::NEVER);
    }
    client.ok(&["DEL", &timeout_key(OWNERS[1], 1), &timeout_key(OWNERS[2], 1)]);
    assert_eq!(reached(&ours::read_release(&mut client, OWNERS[0])), 1);
    assert_eq!(heard(&mut ear, 1), ["0"]);
    assert_eq!(client.ok(&["DBSIZE"]).number(), 0);
}

#[test]
fn both_kinds_of_channel_are_told_and_counted() {
    for program in programs() {
        if program.to_string_lossy().contains("6.2") {
            continue;
        }
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        let (mut classic, mut sharded) = (listener(&server, "SUBSCRIBE"), listener(&server, "SSUBSCRIBE"));
        let owner = OWNERS[0];
        ours::write_acquire(&mut client, owner, UNIT, ours::NEVER);
        let reply = client.eval(ours::WRITE_RELEASE, &[LOCK], &[owner, CHANNEL, "both"]);
        assert_eq!(reached(&reply), 2);
        ours::read_acquire(&mut client, owner, UNIT, ours::NEVER);
        let keys = [LOCK, &timeout_key(owner, 1)];
        assert_eq!(reached(&client.eval(ours::READ_RELEASE, &keys, &[owner, CHANNEL, "spublish", "1"])), 1);
        ours::write_acquire(&mut client, owner, UNIT, ours::NEVER);
        let args = [&UNIT.to_string(), owner, ours::NEVER, CHANNEL, "both"];
        assert_eq!(reached(&client.eval(ours::DOWNGRADE, &keys, &args)), 2);
        assert_eq!(reached(&client.eval(ours::FORCE_RELEASE, &[LOCK], &[CHANNEL, "both", "1"])), 2);
        assert_eq!(heard(&mut classic, 6), ["1", "0", "1", "0", "1", "0"]);
        assert_eq!(heard(&mut sharded, 7), ["1", "0", "0", "1", "0", "1", "0"]);
    }
}
