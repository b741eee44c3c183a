//! A server that is out of memory grants nothing, and still renews and releases.

use crate::{
    ours::{self, NEVER},
    resp::Client,
    server::{Server, programs},
    state::State,
};

const LEFT: i64 = 50_000;

fn fill(client: &mut Client) {
    client.ok(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    client.ok(&["CONFIG", "SET", "maxmemory", "1"]);
}

/// On a server of each version that is out of memory with this state.
fn on_each_full(state: &State, check: impl Fn(&mut Client)) {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        state.write(&mut client);
        fill(&mut client);
        check(&mut client);
    }
}

#[test]
fn out_of_memory_nothing_is_granted_and_nothing_changes() {
    let (others, dead) = (ours::ids(1, 2), ours::ids(2, 2));
    for state in [State::new(3, &[]), State::new(1, &[(&others, LEFT), (&dead, -5)])] {
        on_each_full(&state, |client| {
            let reply = ours::acquire(client, &ours::ids(0, 2), LEFT, NEVER);
            assert!(reply.error().is_some_and(|text| text.contains("OOM")), "{reply:?}");
            assert_eq!(State::read(client).in_units(LEFT), state.in_units(LEFT));
        });
    }
}

#[test]
fn out_of_memory_what_is_held_is_granted_again_renewed_and_released() {
    let own = ours::ids(0, 3);
    on_each_full(&State::new(0, &[(&own, LEFT)]), |client| {
        assert_eq!(ours::acquire(client, &own, 2 * LEFT, NEVER).code(), 1);
        let found = ours::found(&ours::renew(client, &own, 4 * LEFT, NEVER))[0].clone();
        assert!(found.is_ok_and(|left| left > LEFT));
        assert!(State::read(client).held.values().all(|left| *left > 3 * LEFT));
        assert_eq!(ours::release(client, &own).code(), 1);
        assert_eq!(State::read(client), State::new(3, &[]));
    });
}

#[test]
fn out_of_memory_a_forced_release_works_and_too_few_are_reclaimed() {
    let (others, dead) = (ours::ids(1, 2), ours::ids(2, 2));
    on_each_full(&State::new(0, &[(&others, LEFT), (&dead, -5)]), |client| {
        assert_eq!(ours::acquire(client, &ours::ids(0, 3), LEFT, NEVER).code(), 0);
        assert_eq!(State::read(client).available, Some(2));
        assert_eq!(ours::force_release(client).code(), 1);
        assert_eq!(State::read(client), State::new(4, &[]));
    });
}
