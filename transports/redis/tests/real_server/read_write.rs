//! Read/write locks against a real server: what is left on it, whatever is refused.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::{
    key::{Family, LockKey},
    owner::{Owner, OwnerMint},
    routing::topology::NodeId,
    transport::{HoldKind::*, *},
};
use leasehold_redis::{Password, RedisTransport, Secret};
use serde_json::Value;

use crate::server::{SECOND, Server, TTL, open, renewal, soon};

/// A call for the lock with this name.
fn call(name: &str, kind: HoldKind, op: Op, owner: Owner) -> Call {
    let key = LockKey::with_family("", name, Family::ReadWrite).unwrap();
    Call::new(key, kind, op, owner, soon())
}

async fn granted(lane: &dyn Lane, name: &str, kind: HoldKind, owner: Owner) -> Call {
    let call = call(name, kind, Op::Acquire { ttl: TTL }, owner);
    let outcome = lane.call_one(call.clone()).await;
    assert!(matches!(outcome, Outcome::Granted { .. }), "{outcome:?}");
    call
}

async fn renewed(lane: &dyn Lane, of: &Call) -> Outcome {
    lane.call(NodeId(0), vec![renewal(of, TTL * 2)]).await.remove(0).outcome
}

fn downgrade(of: &Call) -> Call {
    Call::new(of.key.clone(), of.kind, Op::Downgrade { ttl: TTL }, of.owner, soon())
}

fn release(of: &Call, kind: HoldKind) -> Call {
    Call::new(of.key.clone(), kind, Op::Release, of.owner, soon())
}

#[tokio::test]
async fn what_a_read_write_lock_leaves_on_the_server() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let writer = granted(&*lane, "k", Write, mint.mint()).await;
    assert_eq!(server.cli(&["hgetall", "k"]), format!("mode\nwrite\n{}:write\n1", writer.owner));
    assert_eq!(server.cli(&["dbsize"]), "1");
    assert!(matches!(lane.call_one(downgrade(&writer)).await, Outcome::Downgraded { .. }));
    let timeout_key = format!("{{k}}:{}:rwlock_timeout:1", writer.owner);
    assert_eq!(server.cli(&["get", &timeout_key]), "1");
    let reader = granted(&*lane, "k", Read, mint.mint()).await;
    let fields: BTreeSet<_> = server.cli(&["hkeys", "k"]).lines().map(str::to_owned).collect();
    assert_eq!(fields, ["mode".into(), writer.owner.to_string(), reader.owner.to_string()].into());
    assert_eq!(server.cli(&["hget", "k", "mode"]), "read");
    for of in [&writer, &reader] {
        let of = call("k", Read, of.op, of.owner);
        let outcome = renewed(&*lane, &of).await;
        assert!(matches!(outcome, Outcome::Renewed { found, .. } if found > TTL - SECOND), "{outcome:?}");
    }
    for key in server.cli(&["keys", "*"]).lines() {
        assert!(server.cli(&["ttl", key]).parse::<u64>().unwrap() > TTL.as_secs() + 1, "{key}");
    }
    assert!(matches!(lane.call_one(release(&writer, Read)).await, Outcome::Released { listeners: None, .. }));
    let last = lane.call_one(release(&reader, Read)).await;
    assert!(matches!(last, Outcome::Released { listeners: Some(0), .. }), "{last:?}");
    assert_eq!(server.cli(&["dbsize"]), "0");
}

/// A hash of another kind of lock is shown as it is, and holds up everybody.
#[tokio::test]
async fn a_plain_lock_of_the_same_name_is_in_the_way_and_is_shown() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    server.cli(&["hset", "k", "u:1", "1"]);
    server.cli(&["pexpire", "k", "60000"]);
    for kind in [Read, Write] {
        let outcome = lane.call_one(call("k", kind, Op::Acquire { ttl: TTL }, mint.mint())).await;
        assert!(matches!(outcome, Outcome::Busy { remaining: Remaining::For(_), .. }), "{outcome:?}");
    }
    let seen = lane.inspect(&call("k", Read, Op::Release, mint.mint()).key).await.unwrap();
    assert_eq!((seen.holds.len(), seen.holds[0].count, &*seen.holds[0].owner), (1, 1, "u:1"));
    assert_eq!(server.cli(&["hgetall", "k"]), "u:1\n1");
}

#[tokio::test]
async fn out_of_memory_refuses_new_holds_and_nothing_else() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let reader = granted(&*lane, "r", Read, mint.mint()).await;
    let writer = granted(&*lane, "w", Write, mint.mint()).await;
    let other = granted(&*lane, "o", Write, mint.mint()).await;
    server.cli(&["config", "set", "maxmemory", "1"]);
    for (name, kind) in [("r", Read), ("new", Read), ("new", Write)] {
        let outcome = lane.call_one(call(name, kind, Op::Acquire { ttl: TTL }, mint.mint())).await;
        let error = outcome.error().unwrap_or_else(|| panic!("{kind}: {outcome:?}"));
        assert_eq!((error.kind, error.effect), (ErrorKind::NotReady, Effect::None), "{error}");
    }
    for hold in [&reader, &writer] {
        let outcome = renewed(&*lane, hold).await;
        assert!(matches!(outcome, Outcome::Renewed { .. }), "{outcome:?}");
    }
    let outcome = lane.call_one(downgrade(&writer)).await;
    assert!(matches!(outcome, Outcome::Downgraded { .. }), "{outcome:?}");
    for (hold, kind) in [(&reader, Read), (&writer, Read), (&other, Write)] {
        let outcome = lane.call_one(release(hold, kind)).await;
        assert!(matches!(outcome, Outcome::Released { .. }), "{outcome:?}");
    }
    assert_eq!(server.cli(&["dbsize"]), "0");
}

/// Every right that the scripts use. `evalsha` and `eval` go together: with one of them the other is asked for.
const RIGHTS: [&str; 15] = [
    "evalsha", "eval", "time", "hmget", "hexists", "hlen", "hgetall", "hset", "hdel", "pttl", "pexpire",
    "set", "del", "publish", "get",
];

#[tokio::test]
async fn no_right_and_no_pair_of_rights_that_is_missing_leaves_a_key_of_a_read_write_lock_without_expiry() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    // The script of each operation is known on the connection, so that `evalsha` alone is needed.
    let pairs =
        RIGHTS.iter().enumerate().flat_map(|(n, one)| RIGHTS[n..].iter().map(move |other| [*one, *other]));
    for (n, missing) in pairs.enumerate() {
        let held = granted(&*lane, &format!("w{n}"), Write, mint.mint()).await;
        let read = granted(&*lane, &format!("r{n}"), Read, mint.mint()).await;
        let beside = granted(&*lane, &format!("r{n}"), Read, mint.mint()).await;
        server.cli(&["acl", "setuser", "default", &format!("-{}", missing[0]), &format!("-{}", missing[1])]);
        let acquire = |kind| call(&format!("new{n}-{kind}"), kind, Op::Acquire { ttl: TTL }, mint.mint());
        let (new_read, new_write) = (acquire(Read), acquire(Write));
        let mut outcomes = Vec::new();
        for call in [new_read.clone(), new_write.clone(), downgrade(&held)] {
            outcomes.push(lane.call_one(call).await);
        }
        outcomes.push(renewed(&*lane, &read).await);
        outcomes.push(renewed(&*lane, &held).await);
        for call in [release(&read, Read), release(&held, Write), release(&new_read, Read)] {
            outcomes.push(lane.call_one(call).await);
        }
        for error in outcomes.iter().filter_map(Outcome::error) {
            assert_eq!((error.kind, error.effect), (ErrorKind::Denied, Effect::None), "{missing:?}: {error}");
        }
        server.cli(&["acl", "setuser", "default", "+@all"]);
        for name in server.cli(&["keys", "*"]).lines() {
            assert_ne!(server.cli(&["ttl", name]), "-1", "{missing:?} left {name}");
        }
        let still = renewed(&*lane, &beside).await;
        assert!(matches!(still, Outcome::Renewed { .. }), "{missing:?}: {still:?}");
        server.cli(&["flushall"]);
    }
}

#[tokio::test]
async fn the_rule_of_the_readme_for_read_write_locks_is_enough() {
    let server = Server::start();
    let readme = include_str!("../../README.md");
    let rules: Vec<_> =
        readme.lines().filter_map(|line| line.strip_prefix("ACL SETUSER leasehold ")).collect();
    for rule in [rules[0], rules[2]] {
        let rule = rule.replace(">secret", ">hunter2");
        let words: Vec<_> = rule.split(' ').collect();
        assert_eq!(server.cli(&[&["acl", "setuser", "leasehold"], &words[..]].concat()), "OK");
    }
    let mut config = server.config();
    (config.username, config.password) =
        (Some("leasehold".into()), Some(Password::Value(Secret::new("hunter2"))));
    let transport = RedisTransport::new(config);
    let lane = open(&transport, LanePurpose::Calls).await.unwrap();
    let mint = OwnerMint::new();
    let writer = granted(&*lane, "locks:k", Write, mint.mint()).await;
    let mut watch = lane.watch(&writer.key);
    while !watch.observe().in_force {
        watch.changed().await;
    }
    assert!(matches!(renewed(&*lane, &writer).await, Outcome::Renewed { .. }));
    let outcome = lane.call_one(downgrade(&writer)).await;
    assert!(matches!(outcome, Outcome::Downgraded { listeners: Some(1), .. }), "{outcome:?}");
    let reader = granted(&*lane, "locks:k", Read, mint.mint()).await;
    assert!(matches!(renewed(&*lane, &reader).await, Outcome::Renewed { .. }));
    assert_eq!(lane.inspect(&reader.key).await.unwrap().holds.len(), 2);
    for hold in [&writer, &reader] {
        assert!(matches!(lane.call_one(release(hold, Read)).await, Outcome::Released { .. }));
    }
    assert!(!lane.force_release(&reader.key).await.unwrap());
    let mut terms = AuditContext::new(TTL);
    terms.name_prefix = "locks:".into();
    assert!(server.cli(&["acl", "log"]).is_empty(), "{}", server.cli(&["acl", "log"]));
    let of_locks = async || {
        let findings = lane.audit(terms.clone()).await;
        findings.into_iter().find(|finding| finding.subject == "read_write_rights")
    };
    assert_eq!(of_locks().await, None);
    server.cli(&["acl", "setuser", "leasehold", "-hmget"]);
    let finding = of_locks().await.expect("a finding");
    assert_eq!((finding.level, finding.found.contains("+hmget")), (AuditLevel::Info, true), "{finding:?}");
}

/// Times of the traces are prolonged by this, so that a slow machine changes nothing.
const SCALE: i64 = 100;
/// States are compared in these: a trace tells times to a second or two.
const UNIT: i64 = 2_500 * SCALE;
const TRACES: [&str; 2] = [
    include_str!("../scripts_read_write/traces/rw-3.27.2.json"),
    include_str!("../scripts_read_write/traces/rw-4.7.0.json"),
];

/// All keys: what each holds, and what is left of it in units.
type State = BTreeMap<String, (Vec<String>, i64)>;

/// The owners that stand for the threads of a trace.
struct Owners([(&'static str, Owner); 3]);

impl Owners {
    fn filled(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (place, owner)| text.replace(place, &owner.to_string()))
    }

    fn of(&self, thread: &str) -> Option<Owner> {
        self.0.iter().find(|(place, _)| place.ends_with(&format!("<{thread}>"))).map(|(_, owner)| *owner)
    }

    /// The state behind a step of the trace; `None` if it has a key without expiry, or of a thread that is not ours.
    fn state(&self, step: &Value) -> Option<State> {
        let mut state = State::new();
        for (key, entry) in step["state"].as_object()? {
            let content = match &entry["value"] {
                Value::String(text) => vec![self.filled(text)],
                fields => {
                    let fields = fields.as_object()?.iter();
                    fields
                        .map(|(field, value)| self.filled(&format!("{field}={}", value.as_str().unwrap())))
                        .collect()
                }
            };
            state.insert(self.filled(key), (content, entry["ttl"].as_i64()? * SCALE));
        }
        let is_filled = |text: &String| !text.contains('<');
        let all = state.iter().all(|(key, (content, _))| is_filled(key) && content.iter().all(is_filled));
        all.then_some(state)
    }
}

fn write(server: &Server, state: &State) {
    server.cli(&["flushall"]);
    for (key, (content, left)) in state {
        let fields: Vec<&str> = content.iter().flat_map(|entry| entry.split('=')).collect();
        if fields.len() == 1 {
            server.cli(&["set", key, fields[0]]);
        } else {
            server.cli(&[&["hset", key], &fields[..]].concat());
        }
        server.cli(&["pexpire", key, &left.to_string()]);
    }
}

fn read(server: &Server) -> State {
    let keys = server.cli(&["keys", "*"]);
    let entry = |key: &str| {
        let content = match server.cli(&["type", key]).as_str() {
            "hash" => {
                let fields = server.cli(&["hgetall", key]);
                let fields: Vec<&str> = fields.lines().collect();
                fields.chunks(2).map(|pair| pair.join("=")).collect()
            }
            _ => vec![server.cli(&["get", key])],
        };
        (key.to_owned(), (content, server.cli(&["pttl", key]).parse().unwrap()))
    };
    keys.lines().filter(|key| !key.is_empty()).map(entry).collect()
}

fn in_units(state: &State) -> State {
    let rounded = |(key, (content, left)): (&String, &(Vec<String>, i64))| {
        let mut content = content.clone();
        content.sort();
        (key.clone(), (content, (left + UNIT - 1).div_euclid(UNIT)))
    };
    state.iter().map(rounded).collect()
}

/// What a step of a trace asks of ours, if ours does such a thing: our owners never hold twice.
fn asked(call_of_trace: &Value, before: &State, owners: &Owners) -> Option<Call> {
    let owner = owners.of(call_of_trace["thread"].as_str()?)?;
    let fields = before.get("L").map(|(fields, _)| fields.clone()).unwrap_or_default();
    let has =
        |entry: String| fields.iter().any(|field| *field == entry || field.starts_with(&format!("{entry}=")));
    let (reads, writes) = (has(owner.to_string()), has(format!("{owner}:write")));
    let millis = u64::try_from(call_of_trace["leaseMs"].as_i64()? * SCALE).unwrap();
    let acquire = Op::Acquire { ttl: std::time::Duration::from_millis(millis) };
    match (call_of_trace["op"].as_str()?, call_of_trace["kind"].as_str()?) {
        ("lock" | "tryLock", "read") if !reads && !writes => Some(call("L", Read, acquire, owner)),
        ("lock" | "tryLock", "write") if !writes => Some(call("L", Write, acquire, owner)),
        _ => None,
    }
}

fn released(call_of_trace: &Value, before: &State, owners: &Owners) -> Option<Call> {
    let owner = owners.of(call_of_trace["thread"].as_str()?)?;
    let (fields, _) = before.get("L")?;
    let has = |entry: String| fields.iter().any(|field| field.starts_with(&format!("{entry}=")));
    let once = |entry: String| fields.contains(&format!("{entry}=1"));
    let (reads, writes) = (owner.to_string(), format!("{owner}:write"));
    match (call_of_trace["op"].as_str()?, call_of_trace["kind"].as_str()?) {
        ("unlock", "read") if once(reads.clone()) && !has(writes.clone()) => {
            Some(call("L", Read, Op::Release, owner))
        }
        ("unlock", "write") if once(writes) && !has(reads) => Some(call("L", Write, Op::Release, owner)),
        _ => None,
    }
}

/// Whatever a client of Redisson did first: where both do the same, they leave the same.
#[tokio::test]
async fn a_call_leaves_what_live_clients_of_redisson_left() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let owners = Owners(["<c1>:<t1>", "<c1>:<t2>", "<c2>:<u1>"].map(|place| (place, mint.mint())));
    let mut compared = 0;
    for trace in TRACES {
        let trace: Value = serde_json::from_str(trace).unwrap();
        let mut before = Some(State::new());
        for (number, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
            let after = owners.state(step);
            let alone = step.get("completed").is_none() && step.get("throws").is_none();
            if let (Some(before), Some(after), true) = (&before, &after, alone) {
                let calls = [asked(&step["call"], before, &owners), released(&step["call"], before, &owners)];
                for call in calls.into_iter().flatten() {
                    write(&server, before);
                    let outcome = lane.call_one(call).await;
                    assert_eq!(
                        in_units(&read(&server)),
                        in_units(after),
                        "step {number}: {step}: {outcome:?}"
                    );
                    compared += 1;
                }
            }
            before = after;
        }
    }
    assert!(compared >= 30, "{compared}");
}
