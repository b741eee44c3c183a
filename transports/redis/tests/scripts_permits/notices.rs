//! What the scripts publish: the number that is available, if that is above zero and something has become free.

use crate::{
    ours::{self, NEVER},
    resp::{Client, Reply},
    server::{Server, programs},
    state::{CHANNEL, State},
};

const LEFT: i64 = 50_000;

struct Ear(Client);

impl Ear {
    fn new(server: &Server, command: &str) -> Self {
        let mut client = server.client();
        client.ok(&[command, CHANNEL]);
        Self(client)
    }

    fn heard(&mut self, client: &mut Client, expected: &[&str]) {
        client.ok(&["PUBLISH", CHANNEL, "mark"]);
        for payload in expected.iter().chain(&["mark"]) {
            assert_eq!(self.0.read().list()[2].text(), *payload);
        }
    }
}

#[test]
fn what_becomes_free_is_told_with_the_number_that_is_available() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let (mut client, mut ear) = (server.client(), Ear::new(&server, "SUBSCRIBE"));
        let (own, dead) = (ours::ids(0, 2), ours::ids(1, 3));
        State::new(5, &[]).write(&mut client);
        ours::acquire(&mut client, &own, LEFT, NEVER);
        ear.heard(&mut client, &[]);
        assert_eq!(ours::release(&mut client, &own).list()[..2], [Reply::Number(1), Reply::Number(1)]);
        ear.heard(&mut client, &["5"]);

        State::new(0, &[(&dead, -5)]).write(&mut client);
        ours::acquire(&mut client, &own, LEFT, NEVER);
        ear.heard(&mut client, &["1"]);
        State::new(0, &[(&dead, -5)]).write(&mut client);
        ours::acquire(&mut client, &ours::ids(0, 3), LEFT, NEVER);
        ear.heard(&mut client, &[]);
        State::new(0, &[(&dead, -5)]).write(&mut client);
        assert_eq!(ours::acquire(&mut client, &ours::ids(0, 4), LEFT, NEVER).code(), 0);
        ear.heard(&mut client, &["3"]);
        State::new(0, &[(&dead, -5)]).write(&mut client);
        assert_eq!(ours::release(&mut client, &dead).code(), 0);
        ear.heard(&mut client, &["3"]);

        State::new(1, &[(&own, LEFT), (&dead, -5)]).write(&mut client);
        ours::force_release(&mut client);
        ear.heard(&mut client, &["6"]);
        // What makes nothing available tells nobody.
        ours::force_release(&mut client);
        ours::release(&mut client, &own);
        State::new(-5, &[(&own, LEFT)]).write(&mut client);
        assert_eq!(ours::release(&mut client, &own).list()[..2], [Reply::Number(1), Reply::Number(-1)]);
        ear.heard(&mut client, &[]);
    }
}

#[test]
fn both_kinds_of_channel_are_told_and_counted() {
    for program in programs() {
        if program.to_string_lossy().contains("6.2") {
            continue;
        }
        let server = Server::start_program(&program, &[]);
        let mut client = server.client();
        let _ears = [Ear::new(&server, "SUBSCRIBE"), Ear::new(&server, "SSUBSCRIBE")];
        let own = ours::ids(0, 2);
        for (how, listeners) in [("publish", 1), ("spublish", 1), ("both", 2)] {
            State::new(0, &[(&own, LEFT)]).write(&mut client);
            let args = [&own[..], CHANNEL.as_bytes(), how.as_bytes()];
            let released = client.eval(ours::RELEASE, &ours::KEYS, &args);
            assert_eq!(released.list()[1], Reply::Number(listeners), "{how}");
            State::new(0, &[(&own, LEFT)]).write(&mut client);
            let forced = client.eval(ours::FORCE_RELEASE, &ours::KEYS, &[CHANNEL, how]);
            assert_eq!(forced.list()[1], Reply::Number(listeners), "{how}");
        }
    }
}
