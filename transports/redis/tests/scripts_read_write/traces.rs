//! What live clients of Redisson left on a server, against Redisson's scripts as `redisson.rs` has them, and against ours.

use serde_json::Value;

use crate::{
    keyspace::{Content, Keyspace},
    ours,
    redisson::{self, Version},
    resp::{Client, Reply},
    server::Server,
};

const READ_WRITE: [(Version, &str); 2] = [
    (Version::V3_27, include_str!("traces/rw-3.27.2.json")),
    (Version::V4_7, include_str!("traces/rw-4.7.0.json")),
];
const FENCED: [(Version, &str); 2] = [
    (Version::V3_27, include_str!("traces/fenced-3.27.2.json")),
    (Version::V4_7, include_str!("traces/fenced-4.7.0.json")),
];

/// Times of the traces are prolonged by this, so that a slow machine changes nothing.
const SCALE: i64 = 100;
/// States are compared in these: a trace tells times to a second or two.
const UNIT: i64 = 2_500 * SCALE;

const PLACEHOLDERS: [(&str, &str); 7] = [
    ("<c1>", "11111111-1111-4111-8111-111111111111"),
    ("<c2>", "22222222-2222-4222-8222-222222222222"),
    ("<t1>", "61"),
    ("<t2>", "62"),
    ("<u1>", "71"),
    ("<req>", "00112233445566778899aabbccddeeff"),
    ("<latchTtl>", "16000"),
];

fn filled(text: &str) -> String {
    PLACEHOLDERS.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value))
}

fn steps(trace: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(trace).unwrap()["steps"].as_array().unwrap().clone()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|item| filled(item.as_str().unwrap())).collect()
}

/// The state behind a step, with its times prolonged.
fn state(step: &Value) -> Keyspace {
    let entries = step["state"].as_object().unwrap().iter().map(|(key, entry)| {
        let content = match &entry["value"] {
            Value::String(text) => Content::Text(filled(text)),
            fields => Content::Hash(
                fields
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(field, value)| (filled(field), filled(value.as_str().unwrap())))
                    .collect(),
            ),
        };
        (filled(key), (content, entry["ttl"].as_i64().map(|left| left * SCALE)))
    });
    Keyspace(entries.collect())
}

/// Runs what a client of Redisson has sent. Times of locks are prolonged.
fn replay(client: &mut Client, version: Version, sent: &Value) {
    let command = sent[0].as_str().unwrap();
    if command != "EVALSHA" {
        let words = strings(sent);
        if matches!(command, "DEL" | "HGET" | "HEXISTS" | "PTTL" | "GET") {
            client.ok(&words);
        }
        return;
    }
    let (keys, mut args) = (strings(&sent[1]), strings(&sent[2]));
    let fenced = keys.get(1).is_some_and(|key| key.starts_with("redisson_lock_token"));
    let (script, lease) = match (keys.len(), args.len()) {
        (2, 3) => (redisson::READ_LOCK, Some(0)),
        (2, 2) if fenced => (redisson::FENCED_LOCK, Some(0)),
        (1, 2) if args[1].ends_with(":write") => (redisson::WRITE_LOCK, Some(0)),
        (1, 2) => (redisson::PLAIN_LOCK, Some(0)),
        (5, 4) => (redisson::read_unlock_of(version), None),
        (3, 5) if args[0] == "1" => (redisson::write_unlock_of(version), Some(1)),
        (3, 5) => (redisson::UNLOCK, Some(1)),
        (2, 2) if keys[1].starts_with("redisson_rwlock") => (redisson::FORCE_UNLOCK, None),
        (2, 2) => (redisson::PLAIN_FORCE_UNLOCK, None),
        (1, 0) => return,
        other => panic!("{other:?}: {sent}"),
    };
    if let Some(place) = lease {
        args[place] = (args[place].parse::<i64>().unwrap() * SCALE).to_string();
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let reply = client.eval(script, &keys, &args);
    assert!(reply.error().is_none(), "{sent}: {reply:?}");
}

#[test]
fn redissons_scripts_here_leave_what_live_clients_left() {
    let server = Server::start();
    let mut client = server.client();
    for (version, trace) in READ_WRITE.into_iter().chain(FENCED) {
        client.ok(&["FLUSHALL"]);
        for (number, step) in steps(trace).iter().enumerate() {
            step["sent"].as_array().into_iter().flatten().for_each(|sent| replay(&mut client, version, sent));
            let left = Keyspace::read(&mut client).in_units(UNIT);
            assert_eq!(left, state(step).in_units(UNIT), "{version:?} step {number}: {}", step["call"]);
        }
    }
}

/// What a step of a trace asks of ours, if it is something that ours does: our owners never hold twice.
fn ask_ours(client: &mut Client, before: &Keyspace, call: &Value) -> Option<Reply> {
    let thread = call["thread"].as_str()?;
    let process = if thread.starts_with('t') { "<c1>" } else { "<c2>" };
    let owner = filled(&format!("{process}:<{thread}>"));
    let writer = format!("{owner}:write");
    let fields = match before.0.get("L") {
        Some((Content::Hash(fields), _)) => fields.clone(),
        _ => Default::default(),
    };
    let holds = [fields.get(&owner), fields.get(&writer)];
    let free = fields.is_empty();
    let ttl = call["leaseMs"].as_i64().unwrap_or(30_000) * SCALE;
    match (call["op"].as_str()?, call["kind"].as_str()?, holds) {
        ("lock" | "tryLock", "read", [None, None]) => {
            Some(ours::read_acquire(client, &owner, ttl, ours::NEVER))
        }
        ("lock" | "tryLock", "write", [_, None]) => {
            Some(ours::write_acquire(client, &owner, ttl, ours::NEVER))
        }
        ("unlock", "read", [Some(count), None]) if count == "1" => Some(ours::read_release(client, &owner)),
        ("unlock", "write", [None, Some(count)]) if count == "1" => Some(ours::write_release(client, &owner)),
        ("forceUnlock", _, _) if !free => Some(ours::force_release(client)),
        _ => None,
    }
}

#[test]
fn ours_leaves_what_live_clients_of_redisson_left() {
    let server = Server::start();
    let mut client = server.client();
    let mut compared = 0;
    for (version, trace) in READ_WRITE {
        let steps = steps(trace);
        let mut before = Keyspace::default();
        for (number, step) in steps.iter().enumerate() {
            let (call, after) = (&step["call"], state(step));
            // Another call of the trace has changed something beside this one, or has failed.
            let alone = step.get("completed").is_none() && step.get("throws").is_none();
            // Redisson ends a lock of the other mode only.
            let refused = call["op"] == "forceUnlock" && step["result"] == false;
            before.write(&mut client);
            if alone && !refused && ask_ours(&mut client, &before, call).is_some() {
                let mut both = [Keyspace::read(&mut client).in_units(UNIT), after.in_units(UNIT)];
                if call["op"] == "forceUnlock" {
                    // Redisson leaves the timeout keys to expire.
                    both.iter_mut()
                        .for_each(|keys| keys.0.retain(|key, _| !key.contains(":rwlock_timeout:")));
                }
                let [left, wanted] = both;
                let lease_differs = WITHOUT_LEASE.contains(&number);
                if !lease_differs {
                    assert_eq!(left, wanted, "{version:?} step {number}: {call}");
                    compared += 1;
                }
            }
            before = after;
        }
    }
    assert!(compared >= 40, "{compared}");
}

/// Steps of a call without a lease: the lease is then one that the client had in mind from an earlier call.
const WITHOUT_LEASE: [usize; 1] = [44];
