//! What live clients of Redisson left on a server, against what our scripts leave.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    ours::{self, NEVER},
    resp::Client,
    server::Server,
    state::{DEADLINES, NO_LEASE, PERMITS, State},
};

const TRACES: [(&str, &str); 2] = [
    ("3.27.2", include_str!("traces/permits-3.27.2.json")),
    ("4.7.0", include_str!("traces/permits-4.7.0.json")),
];

/// Times of the traces are prolonged by this, so that a slow machine changes nothing.
const SCALE: i64 = 100;
/// States are compared in these: a trace tells times to a second or two.
const UNIT: i64 = 2_500 * SCALE;

/// The permit of a placeholder such as `<hex32:p1>`, `<raw16:p1>` or `$p1`.
fn id(placeholder: &str) -> Option<Vec<u8>> {
    let name = placeholder.trim_start_matches("<hex32:").trim_start_matches("<raw16:");
    let name = name.trim_start_matches('$').trim_end_matches('>');
    name.starts_with('p').then(|| format!("{name:.<16}").into_bytes())
}

fn ids(value: &Value) -> Option<Vec<u8>> {
    let of_many = |many: &Vec<Value>| many.iter().map(|one| id(one.as_str()?)).collect::<Option<Vec<_>>>();
    match value {
        Value::String(one) => id(one),
        Value::Array(many) => of_many(many).map(|all| all.concat()).filter(|ids| !ids.is_empty()),
        _ => None,
    }
}

/// `<t+20000>`, or the deadline of a permit without lease time. What is short has run out in a pause.
fn left(text: &str, paused: bool) -> i64 {
    let Some(ms) = text.strip_prefix("<t+").and_then(|rest| rest.strip_suffix('>')) else {
        assert_eq!(text.parse(), Ok(NO_LEASE));
        return NO_LEASE;
    };
    let ms: i64 = ms.parse().unwrap();
    if paused && ms <= 2_000 { -5 } else { ms * SCALE }
}

/// The state behind a step, with its times prolonged.
fn state(step: &Value, paused: bool) -> State {
    let entries = step["state"].as_object().unwrap();
    let available = entries.get(PERMITS).map(|entry| entry["value"].as_str().unwrap().parse().unwrap());
    let held: BTreeMap<_, _> = entries
        .get(DEADLINES)
        .and_then(|entry| entry["value"].as_object())
        .into_iter()
        .flatten()
        .map(|(member, score)| (id(member).unwrap(), left(score.as_str().unwrap(), paused)))
        .collect();
    State { available, held }
}

/// What a step of a trace asks of ours, with its outcome. `None`: ours does no such thing.
fn ask_ours(client: &mut Client, step: &Value) -> Option<bool> {
    let call = &step["call"];
    let lease = || call["leaseMs"].as_i64().map(|ms| ms * SCALE);
    match call["op"].as_str()? {
        "acquire" | "tryAcquire" => {
            let count = usize::try_from(call["n"].as_i64().unwrap_or(1)).unwrap();
            let wanted = ids(&step["result"]);
            // A permit without lease time is one that ours never takes.
            let ttl = if wanted.is_some() { lease()? } else { SCALE };
            let wanted_ids = wanted.clone().unwrap_or_else(|| ours::ids(9, count));
            let granted = ours::acquire(client, &wanted_ids, ttl, NEVER).code() == 1;
            assert_eq!(granted, wanted.is_some(), "{call}");
            Some(granted)
        }
        "release" | "tryRelease" => {
            let released = ours::release(client, &ids(call.get("permit").or(call.get("permits"))?)?).code();
            Some(released == 1)
        }
        "availablePermits" => {
            let shown = ours::count(client).list()[1].number();
            assert_eq!(Some(shown), step["result"].as_i64(), "{call}");
            None // Redisson reclaims here
        }
        _ => None,
    }
}

/// 4.7.0 gives none of several back if one is unknown; 3.27.2 and ours give back those that are there.
fn is_whole(call: &Value) -> bool {
    call.get("permits").is_none_or(|permits| ids(permits).is_some())
}

#[test]
fn ours_leaves_what_live_clients_of_redisson_left() {
    let server = Server::start();
    let mut client = server.client();
    let mut compared = 0;
    for (version, trace) in TRACES {
        let trace = serde_json::from_str::<Value>(trace).unwrap();
        let mut before = State::default();
        for (number, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
            let paused = step.get("pauseMs").is_some();
            // Another call of the trace has changed something beside this one, or waits.
            let alone = step.get("completed").is_none() && step.get("pending").is_none();
            before.write(&mut client);
            if alone && is_whole(&step["call"]) && ask_ours(&mut client, step).is_some() {
                let (left, wanted) = (State::read(&mut client), state(step, false));
                assert_eq!(
                    left.in_units(UNIT),
                    wanted.in_units(UNIT),
                    "{version} {number}: {}",
                    step["call"]
                );
                compared += 1;
            }
            before = state(step, paused);
        }
    }
    assert!(compared >= 20, "{compared}");
}
