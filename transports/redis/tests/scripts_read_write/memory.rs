//! A server that is out of memory grants nothing, and still renews, downgrades and releases.

use crate::{
    keyspace::{Keyspace, LOCK},
    model::{OWNERS, UNIT},
    ours,
    resp::{Client, Reply},
    server::{Server, programs},
};

fn fill(client: &mut Client) {
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    client.ok(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn empty(client: &mut Client) {
    client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    client.ok(&["FLUSHALL"]);
}

fn is_refused(reply: &Reply) -> bool {
    reply.error().is_some_and(|text| text.contains("OOM"))
}

#[test]
fn out_of_memory_nothing_is_granted_and_nothing_left() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        fill(&mut client);
        let fenced = [&UNIT.to_string(), OWNERS[0], ours::NEVER, "hybrid", "0"];
        for reply in [
            ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER),
            ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER),
            client.eval(ours::FENCED_ACQUIRE, &[LOCK, "redisson_lock_token:{L}"], &fenced),
        ] {
            assert!(is_refused(&reply), "{program:?}: {reply:?}");
        }
        client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(Keyspace::read(&mut client), Keyspace::default(), "{program:?}");
    }
}

#[test]
fn out_of_memory_a_hold_is_granted_again_renewed_downgraded_and_released() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        fill(&mut client);
        assert_eq!(
            ours::read_acquire(&mut client, OWNERS[0], 2 * UNIT, ours::NEVER).code(),
            1,
            "{program:?}"
        );
        let renewed = ours::read_renew(&mut client, OWNERS[0], 3 * UNIT, ours::NEVER);
        assert!(ours::found(&renewed)[0].as_ref().is_ok_and(|left| *left > UNIT), "{program:?}: {renewed:?}");
        assert_eq!(ours::read_release(&mut client, OWNERS[0]).code(), 1, "{program:?}");
        empty(&mut client);
        ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        fill(&mut client);
        assert_eq!(
            ours::write_acquire(&mut client, OWNERS[0], 2 * UNIT, ours::NEVER).code(),
            1,
            "{program:?}"
        );
        let renewed = ours::write_renew(&mut client, OWNERS[0], 3 * UNIT, ours::NEVER);
        assert!(ours::found(&renewed)[0].as_ref().is_ok_and(|left| *left > UNIT), "{program:?}: {renewed:?}");
        assert_eq!(ours::downgrade(&mut client, OWNERS[0], UNIT, ours::NEVER).code(), 1, "{program:?}");
        assert_eq!(ours::read_release(&mut client, OWNERS[0]).code(), 1, "{program:?}");
        empty(&mut client);
        ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        fill(&mut client);
        assert_eq!(ours::write_release(&mut client, OWNERS[0]).code(), 1, "{program:?}");
        empty(&mut client);
        ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER);
        fill(&mut client);
        assert_eq!(ours::force_release(&mut client).code(), 1, "{program:?}");
    }
}
