//! A user without one right, or without two: a script that is refused takes no permit and loses none.

use std::path::Path;

use crate::{
    ours::{self, NEVER},
    resp::{Client, Reply},
    server::{Server, programs},
    state::State,
};

const LEFT: i64 = 50_000;

/// The commands that the scripts use.
const COMMANDS: [&str; 16] = [
    "time",
    "get",
    "incrby",
    "pttl",
    "zscore",
    "zadd",
    "zrem",
    "zrange",
    "zrangebyscore",
    "zcount",
    "zcard",
    "pexpire",
    "del",
    "publish",
    "eval",
    "evalsha",
];

/// What ours does for the first owner, who wants two.
type Act = fn(&mut Client) -> Reply;

const ACTS: [(&str, Act); 6] = [
    ("acquire", |client| ours::acquire(client, &ours::ids(0, 2), 2 * LEFT, NEVER)),
    ("renew", |client| ours::renew(client, &ours::ids(0, 2), 2 * LEFT, NEVER)),
    ("release", |client| ours::release(client, &ours::ids(0, 2))),
    ("force", ours::force_release),
    ("inspect", ours::inspect),
    ("count", ours::count),
];

/// Enough, too few, held by the owner, half of it, run out, of others, of others that have run out.
fn states() -> Vec<State> {
    let (own, others, dead) = (ours::ids(0, 2), ours::ids(1, 3), ours::ids(2, 3));
    vec![
        State::default(),
        State::new(4, &[]),
        State::new(1, &[]),
        State::new(1, &[(&own, LEFT)]),
        State::new(0, &[(&own[..16], LEFT), (&others, LEFT)]),
        State::new(4, &[(&own[..16], LEFT)]),
        State::new(0, &[(&own, -5), (&others, LEFT)]),
        State::new(0, &[(&others, LEFT), (&dead, -5)]),
        State::new(-4, &[(&others, LEFT), (&dead, -5)]),
        State::new(3, &[(&own, LEFT), (&others, LEFT), (&dead, -5)]),
    ]
}

fn check(admin: &mut Client, user: &mut Client, (name, act): (&str, Act), before: &State, told: &str) {
    before.write(admin);
    let reply = act(user);
    let left = State::read(admin);
    let told = format!("{name}, {told}, {before:?}: {reply:?} left {left:?}");
    assert_eq!(left.total(), before.total(), "a permit was lost or made: {told}");
    for (id, was) in &before.held {
        let now = left.held.get(id);
        let may_end = matches!(name, "force" | "release") || *was <= 0 || id[0] == 0 && name == "acquire";
        assert!(may_end || now.is_some_and(|now| *now >= was - LEFT / 2), "ended or shortened: {told}");
    }
    let took = left.held.keys().any(|id| !before.held.contains_key(id));
    assert!(!took || !is_refused(name, &reply), "took permits: {told}");
    if matches!(name, "force" | "release") && is_refused(name, &reply) {
        assert_eq!(left.in_units(LEFT), before.in_units(LEFT), "{told}");
    }
}

fn is_refused(name: &str, reply: &Reply) -> bool {
    match reply {
        Reply::Error(_) => true,
        Reply::List(items) if name == "renew" => items[0].number() == 1 && ours::found(reply)[0].is_err(),
        _ => false,
    }
}

/// A connection of a user who may do everything but this.
fn user_without(server: &Server, admin: &mut Client, number: usize, rules: &[String]) -> Client {
    let name = format!("user{number}");
    let words = ["ACL", "SETUSER", &name, "on", "nopass", "~*", "+@all"].map(str::to_owned);
    let words: Vec<String> = words.into_iter().chain(rules.iter().cloned()).collect();
    admin.ok(&words);
    // Redis 6.2 has a rule for channels too.
    admin.ok(&["ACL", "SETUSER", &name, "allchannels"]);
    let mut user = server.client();
    user.ok(&["AUTH", &name, "x"]);
    user
}

fn check_users(program: &Path, missing: &[Vec<String>]) {
    let server = Server::start_program(program, &[]);
    let mut admin = server.client();
    let states = states();
    for (number, rules) in missing.iter().enumerate() {
        let mut user = user_without(&server, &mut admin, number, rules);
        for act in ACTS {
            for before in &states {
                check(&mut admin, &mut user, act, before, &format!("{program:?} without {rules:?}"));
            }
        }
    }
}

fn without(command: &str) -> String {
    format!("-{command}")
}

#[test]
fn without_any_one_right_no_permit_is_taken_or_lost() {
    let singles: Vec<_> = COMMANDS.map(|command| vec![without(command)]).into();
    programs().iter().for_each(|program| check_users(program, &singles));
}

#[test]
fn without_any_two_rights_no_permit_is_taken_or_lost() {
    let pairs = COMMANDS.iter().enumerate().flat_map(|(place, one)| {
        COMMANDS[place + 1..].iter().map(|other| vec![without(one), without(other)])
    });
    check_users(Path::new("redis-server"), &pairs.collect::<Vec<_>>());
}

#[test]
fn without_a_right_to_some_of_the_keys_no_permit_is_taken_or_lost() {
    let only = |patterns: &[&str]| {
        let rules = patterns.iter().map(|pattern| format!("~{pattern}"));
        ["resetkeys".to_owned()].into_iter().chain(rules).collect::<Vec<_>>()
    };
    let missing = [only(&["L"]), only(&["{L}:*"]), only(&["other"])];
    programs().iter().for_each(|program| check_users(program, &missing));
}

#[test]
fn a_read_only_user_sees_and_changes_nothing() {
    let server = Server::start();
    let mut admin = server.client();
    let rules = ["-@all", "+@read", "+time", "+eval", "+evalsha"].map(str::to_owned);
    let mut user = user_without(&server, &mut admin, 0, &rules);
    for before in states() {
        before.write(&mut admin);
        assert!(ours::inspect(&mut user).error().is_none() && ours::count(&mut user).error().is_none());
        assert_eq!(State::read(&mut admin).in_units(LEFT), before.in_units(LEFT));
    }
}
