//! A user without one right, or without two: a script that is refused leaves the keys as they were, and none without
//! expiry.

use std::path::Path;

use crate::{
    keyspace::{CHANNEL, Content, Keyspace, LOCK, timeout_key},
    model::{Model, OWNERS, Op, UNIT},
    ours,
    redisson::Version,
    resp::{Client, Reply},
    server::{Server, programs},
};

const COUNTER: &str = "redisson_lock_token:{L}";

/// The commands that the scripts use.
const COMMANDS: [&str; 16] = [
    "time", "hmget", "hexists", "hlen", "hgetall", "hset", "hdel", "pttl", "pexpire", "set", "get", "incr",
    "del", "publish", "eval", "evalsha",
];

/// What ours does to a state, by the owner that comes first.
type Act = fn(&mut Client) -> Reply;

const ACTS: [(&str, Act); 9] = [
    ("read", |client| ours::read_acquire(client, OWNERS[0], 5 * UNIT, ours::NEVER)),
    ("write", |client| ours::write_acquire(client, OWNERS[0], 5 * UNIT, ours::NEVER)),
    ("renew read", |client| ours::read_renew(client, OWNERS[0], 5 * UNIT, ours::NEVER)),
    ("release read", |client| ours::read_release(client, OWNERS[0])),
    ("release write", |client| ours::write_release(client, OWNERS[0])),
    ("downgrade", |client| ours::downgrade(client, OWNERS[0], 5 * UNIT, ours::NEVER)),
    ("force", ours::force_release),
    ("counter", |client| fenced(client, "counter")),
    ("hybrid", |client| fenced(client, "hybrid")),
];

fn fenced(client: &mut Client, mode: &str) -> Reply {
    let ttl = (5 * UNIT).to_string();
    client.eval(ours::FENCED_ACQUIRE, &[LOCK, COUNTER], &[&ttl, OWNERS[0], ours::NEVER, mode, "7"])
}

/// Free, read by others, read by the owner, by both, by one that is dead, written by the owner, by others.
fn states() -> Vec<Keyspace> {
    let after = |history: &[(usize, Op)]| {
        let end = history
            .iter()
            .fold(Model::default(), |model, (actor, op)| model.step(*actor, *op, Version::V4_7).unwrap().1);
        end.keyspace()
    };
    vec![
        after(&[]),
        after(&[(1, Op::Read(3))]),
        after(&[(0, Op::Read(3))]),
        after(&[(0, Op::Read(3)), (1, Op::Read(4))]),
        after(&[(0, Op::Read(3)), (1, Op::Read(4)), (1, Op::Expire)]),
        after(&[(0, Op::Write(3))]),
        after(&[(1, Op::Write(3))]),
        fenced_lock(),
    ]
}

fn fenced_lock() -> Keyspace {
    let mut all = Keyspace::default();
    let fields = [(OWNERS[0].to_owned(), "1".to_owned())];
    all.0.insert(LOCK.into(), (Content::Hash(fields.into()), Some(3 * UNIT)));
    all.0.insert(COUNTER.into(), (Content::Text("7".into()), None));
    all
}

/// The same, without what a refused command may have raised: expiries.
fn contents(keys: &Keyspace) -> Vec<(&String, &Content)> {
    keys.0.iter().map(|(key, (content, _))| (key, content)).collect()
}

fn check(admin: &mut Client, user: &mut Client, name: &str, act: Act, before: &Keyspace, told: &str) {
    before.write(admin);
    let reply = act(user);
    let left = Keyspace::read(admin);
    let told = format!("{name}, {told}, {before:?}: {reply:?} left {left:?}");
    let immortal: Vec<_> = left.immortal().into_iter().filter(|key| *key != COUNTER).collect();
    assert!(immortal.is_empty(), "{told}");
    let refused = match &reply {
        Reply::Error(_) => true,
        Reply::List(items) if name == "renew read" => {
            items[0].number() == 1 && ours::found(&reply)[0].is_err()
        }
        _ => false,
    };
    if refused {
        assert!(is_kept(before, &left), "{told}");
    }
    for (key, (_, was)) in &before.0 {
        let of_released = name.starts_with("release") || name == "force";
        assert!(of_released || left.left(key) >= was.map(|was| was - UNIT), "shortened {key}: {told}");
    }
}

/// Whether nothing has changed but for a timeout key that has an expiry and no field, which nobody looks at.
fn is_kept(before: &Keyspace, left: &Keyspace) -> bool {
    let mut left = left.clone();
    let own = timeout_key(OWNERS[0], 1);
    if !before.0.contains_key(&own) && left.left(&own).is_some() {
        left.0.remove(&own);
    }
    contents(before) == contents(&left)
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
        for (name, act) in ACTS {
            for before in &states {
                check(&mut admin, &mut user, name, act, before, &format!("{program:?} without {rules:?}"));
            }
        }
    }
}

fn without(command: &str) -> String {
    format!("-{command}")
}

#[test]
fn without_any_one_right_nothing_is_left_behind() {
    let singles: Vec<_> = COMMANDS.map(|command| vec![without(command)]).into();
    programs().iter().for_each(|program| check_users(program, &singles));
}

#[test]
fn without_any_two_rights_nothing_is_left_behind() {
    let pairs = COMMANDS.iter().enumerate().flat_map(|(place, one)| {
        COMMANDS[place + 1..].iter().map(|other| vec![without(one), without(other)])
    });
    check_users(Path::new("redis-server"), &pairs.collect::<Vec<_>>());
}

#[test]
fn without_a_right_to_some_of_the_keys_nothing_is_left_behind() {
    let only = |patterns: &[&str]| {
        let rules = patterns.iter().map(|pattern| format!("~{pattern}"));
        ["resetkeys".to_owned()].into_iter().chain(rules).collect::<Vec<_>>()
    };
    let missing = [
        only(&["L"]),
        only(&["{L}:*"]),
        only(&["redisson*"]),
        only(&["L", "redisson*"]),
        only(&["L", "{L}:a*"]),
    ];
    programs().iter().for_each(|program| check_users(program, &missing));
}

#[test]
fn without_a_right_to_the_channel_a_release_says_that_nobody_was_told() {
    let server = Server::start();
    let mut admin = server.client();
    let mut user = user_without(&server, &mut admin, 0, &["-publish".to_owned()]);
    assert_eq!(ours::write_acquire(&mut user, OWNERS[0], UNIT, ours::NEVER).code(), 1);
    assert_eq!(ours::write_release(&mut user, OWNERS[0]).list()[1].number(), -1);
    assert_eq!(ours::read_acquire(&mut user, OWNERS[0], UNIT, ours::NEVER).code(), 1);
    let told = user.eval(
        ours::READ_RELEASE,
        &[LOCK, &timeout_key(OWNERS[0], 1)],
        &[OWNERS[0], CHANNEL, ours::PUBLISH, "1"],
    );
    assert_eq!(told.list()[1].number(), -1);
    assert!(Keyspace::read(&mut admin).0.is_empty());
}
