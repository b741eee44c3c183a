//! Fair locks against a real server: what is left on it, who is told, whatever is refused.

use std::{collections::BTreeSet, time::Duration};

use leasehold::{
    Engine, EngineConfig,
    key::{Family, LockKey},
    owner::{Owner, OwnerMint},
    routing::topology::NodeId,
    transport::{HoldKind::Fair, *},
};
use leasehold_redis::{Password, RedisTransport, Secret};

use crate::server::{SECOND, Server, TTL, open, soon, until};

/// A call for the lock with this name.
pub(crate) fn call(name: &str, op: Op, owner: Owner) -> Call {
    Call::new(LockKey::with_family("", name, Family::Fair).unwrap(), Fair, op, owner, soon())
}

pub(crate) fn terms() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_millis(1_500))
}

pub(crate) fn queue() -> Op {
    Op::Queue { ttl: TTL, place: terms() }
}

async fn queued(lane: &dyn Lane, name: &str, owner: Owner) -> Outcome {
    lane.call_one(call(name, queue(), owner)).await
}

async fn beats(lane: &dyn Lane, name: &str, owners: &[Owner]) -> Vec<Outcome> {
    let batch = owners.iter().map(|owner| call(name, Op::Beat { place: terms() }, *owner));
    let answered = lane.call(NodeId(0), batch.collect()).await;
    assert_eq!(answered.iter().map(|call| call.owner).collect::<Vec<_>>(), owners);
    answered.into_iter().map(|call| call.outcome).collect()
}

async fn released(lane: &dyn Lane, name: &str, owner: Owner) -> Outcome {
    lane.call_one(call(name, Op::Release, owner)).await
}

fn is_granted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Granted { .. })
}

fn ahead_of(outcome: &Outcome) -> u32 {
    let Outcome::Queued { ahead, .. } = outcome else { panic!("{outcome:?}") };
    *ahead
}

#[tokio::test]
async fn what_a_fair_lock_leaves_on_the_server() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    let [first, second, third] = [(); 3].map(|()| mint.mint());
    assert!(is_granted(&queued(&*lane, "k", first).await));
    assert_eq!(server.cli(&["hgetall", "k"]), format!("{first}\n1"));
    assert_eq!(server.cli(&["dbsize"]), "1", "no line without places");
    assert_eq!(ahead_of(&queued(&*lane, "k", second).await), 0);
    assert_eq!(ahead_of(&queued(&*lane, "k", third).await), 1);
    assert_eq!(
        server.cli(&["lrange", "redisson_lock_queue:{k}", "0", "-1"]),
        format!("{second}\n{third}"),
        "the line is Redisson's"
    );
    let keys: BTreeSet<_> = server.cli(&["keys", "*"]).lines().map(str::to_owned).collect();
    let wanted = ["k", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "{k}:leasehold_alive"];
    assert_eq!(keys, wanted.map(str::to_owned).into());
    for key in &keys {
        assert!(server.cli(&["pttl", key]).parse::<i64>().unwrap() > 0, "{key} has an expiry");
    }
    let outcome = lane.call_one(call("k", Op::Acquire { ttl: TTL }, mint.mint())).await;
    assert!(matches!(outcome, Outcome::Busy { remaining: Remaining::For(_), .. }), "{outcome:?}");
    let seen = lane.inspect(&call("k", Op::Release, first).key).await.unwrap();
    let holds: Vec<_> = seen.holds.iter().map(|hold| (hold.owner.clone(), hold.count, hold.mode)).collect();
    assert_eq!(holds, [(first.to_string(), 1, LockMode::Fair)]);
    assert_eq!(seen.line, [second.to_string(), third.to_string()]);
    let renewal = call("k", Op::Renew { ttl: TTL * 2 }, first);
    let renewed = lane.call(NodeId(0), vec![renewal]).await.remove(0).outcome;
    assert!(matches!(renewed, Outcome::Renewed { .. }), "{renewed:?}");
    for owner in [third, first, second] {
        let outcome = released(&*lane, "k", owner).await;
        assert!(matches!(outcome, Outcome::Released { .. }), "{owner}: {outcome:?}");
        assert!(matches!(released(&*lane, "k", owner).await, Outcome::NotYours { .. }), "{owner} again");
    }
    assert_eq!(server.cli(&["dbsize"]), "0");
}

#[tokio::test]
async fn a_release_tells_the_head_alone_and_nobody_passes_it() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    let [holder, head, other] = [(); 3].map(|()| mint.mint());
    queued(&*lane, "k", holder).await;
    let key = call("k", Op::Release, holder).key;
    let mut turns = Vec::new();
    for owner in [head, other] {
        queued(&*lane, "k", owner).await;
        let mut turn = lane.watch_turn(&key, owner);
        while !turn.observe().in_force {
            turn.changed().await;
        }
        turns.push(turn);
    }
    let before: Vec<_> = turns.iter_mut().map(|turn| turn.observe().notices).collect();
    let outcome = released(&*lane, "k", holder).await;
    assert!(matches!(outcome, Outcome::Released { listeners: Some(1), .. }), "{outcome:?}");
    while turns[0].observe().notices == before[0] {
        turns[0].changed().await;
    }
    assert_eq!(ahead_of(&queued(&*lane, "k", other).await), 1);
    let passing = lane.call_one(call("k", Op::Acquire { ttl: TTL }, mint.mint())).await;
    assert!(matches!(passing, Outcome::Busy { .. }), "{passing:?}");
    let found = beats(&*lane, "k", &[head, other, holder]).await;
    assert!(
        matches!(
            found[..],
            [Outcome::Turn { .. }, Outcome::Queued { ahead: 1, .. }, Outcome::NotYours { .. }]
        ),
        "{found:?}"
    );
    assert!(is_granted(&queued(&*lane, "k", head).await));
    assert_eq!(turns[1].observe().notices, before[1], "only the head is told");
}

#[tokio::test]
async fn a_thousand_places_are_beaten_in_four_commands() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    queued(&*lane, "k", mint.mint()).await;
    let owners: Vec<_> = (0..1_000).map(|_| mint.mint()).collect();
    for owner in &owners {
        queued(&*lane, "k", *owner).await;
    }
    beats(&*lane, "k", &owners).await;
    server.cli(&["config", "resetstat"]);
    let found = beats(&*lane, "k", &owners).await;
    let ahead: Vec<_> = found.iter().map(ahead_of).collect();
    assert_eq!(ahead, (0..1_000).collect::<Vec<_>>());
    let stats = server.cli(&["info", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    assert!(line.contains("calls=4,"), "{line}");
    println!("{line}");
}

#[tokio::test]
async fn a_forced_release_ends_the_hold_and_keeps_the_line() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    let [holder, head] = [(); 2].map(|()| mint.mint());
    queued(&*lane, "k", holder).await;
    queued(&*lane, "k", head).await;
    let key = call("k", Op::Release, holder).key;
    assert!(lane.force_release(&key).await.unwrap());
    assert!(!lane.force_release(&key).await.unwrap());
    assert!(matches!(beats(&*lane, "k", &[head]).await[..], [Outcome::Turn { .. }]));
    assert!(matches!(released(&*lane, "k", holder).await, Outcome::NotYours { .. }));
    assert!(is_granted(&queued(&*lane, "k", head).await));
}

/// A late command of a caller that has gone, and keys of another type.
#[tokio::test]
async fn a_late_call_and_a_foreign_key_change_nothing() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    server.cli(&["set", "foreign", "text"]);
    server.cli(&["set", "redisson_lock_queue:{line}", "text"]);
    for name in ["foreign", "line"] {
        let owner = mint.mint();
        for op in [queue(), Op::Beat { place: terms() }, Op::Release] {
            let outcome = lane.call(NodeId(0), vec![call(name, op, owner)]).await.remove(0).outcome;
            let is_refused = outcome.error().is_some() || matches!(outcome, Outcome::NotYours { .. });
            assert!(is_refused, "{name}, {op:?}: {outcome:?}");
        }
        assert!(lane.force_release(&call(name, Op::Release, owner).key).await.is_err() || name == "line");
    }
    assert_eq!(server.cli(&["get", "foreign"]), "text");
    assert_eq!(server.cli(&["get", "redisson_lock_queue:{line}"]), "text");
    let keys: BTreeSet<_> = server.cli(&["keys", "*"]).lines().map(str::to_owned).collect();
    assert_eq!(keys, ["foreign".to_owned(), "redisson_lock_queue:{line}".into()].into());
}

#[tokio::test]
async fn out_of_memory_refuses_new_places_and_nothing_else() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    let [holder, head, other, new] = [(); 4].map(|()| mint.mint());
    for owner in [holder, head, other] {
        queued(&*lane, "k", owner).await;
    }
    server.cli(&["config", "set", "maxmemory", "1"]);
    for name in ["k", "free"] {
        let outcome = queued(&*lane, name, new).await;
        let error = outcome.error().unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!((error.kind, error.effect), (ErrorKind::NotReady, Effect::None), "{error}");
    }
    assert!(matches!(
        beats(&*lane, "k", &[head, other]).await[..],
        [Outcome::Queued { ahead: 0, .. }, Outcome::Queued { ahead: 1, .. }]
    ));
    assert!(matches!(released(&*lane, "k", holder).await, Outcome::Released { .. }));
    assert!(matches!(beats(&*lane, "k", &[head]).await[..], [Outcome::Turn { .. }]));
    assert!(is_granted(&queued(&*lane, "k", head).await), "its place is its room");
    for owner in [other, head] {
        assert!(matches!(released(&*lane, "k", owner).await, Outcome::Released { .. }));
    }
    assert_eq!(server.cli(&["dbsize"]), "0");
}

/// Every right that the scripts use. `evalsha` and `eval` go together: with one of them the other is asked for.
const RIGHTS: [&str; 23] = [
    "evalsha",
    "time",
    "hexists",
    "hset",
    "hdel",
    "pttl",
    "pexpire",
    "publish",
    "llen",
    "lindex",
    "lrange",
    "lrem",
    "rpush",
    "zadd",
    "zcard",
    "zmscore",
    "zrange",
    "zrangebyscore",
    "zrank",
    "zrem",
    "zscore",
    "pexpireat",
    "persist",
];

#[tokio::test]
async fn no_right_and_no_pair_of_rights_that_is_missing_leaves_a_key_of_a_fair_lock_without_expiry() {
    let server = Server::start();
    let (lane, mint) = (server.calls().await, OwnerMint::new());
    let pairs =
        RIGHTS.iter().enumerate().flat_map(|(n, one)| RIGHTS[n..].iter().map(move |other| [*one, *other]));
    for (n, missing) in pairs.enumerate() {
        let [holder, head, other, new, gone] = [(); 5].map(|()| mint.mint());
        let (held, free) = (format!("held{n}"), format!("free{n}"));
        for owner in [holder, head, other] {
            queued(&*lane, &held, owner).await;
        }
        beats(&*lane, &held, &[head, other]).await;
        released(&*lane, &free, gone).await;
        server.cli(&["acl", "setuser", "default", &format!("-{}", missing[0]), &format!("-{}", missing[1])]);
        let mut outcomes = vec![queued(&*lane, &free, new).await, queued(&*lane, &held, new).await];
        outcomes.extend(beats(&*lane, &held, &[head, other]).await);
        outcomes.push(released(&*lane, &held, other).await);
        outcomes.push(released(&*lane, &held, holder).await);
        outcomes.push(queued(&*lane, &held, head).await);
        for error in outcomes.iter().filter_map(Outcome::error) {
            assert_eq!((error.kind, error.effect), (ErrorKind::Denied, Effect::None), "{missing:?}: {error}");
        }
        server.cli(&["acl", "setuser", "default", "+@all"]);
        for name in server.cli(&["keys", "*"]).lines() {
            assert_ne!(server.cli(&["ttl", name]), "-1", "{missing:?} left {name}");
        }
        // Whatever was refused: the line goes on.
        for owner in [other, holder] {
            released(&*lane, &held, owner).await;
        }
        let turn = queued(&*lane, &held, head).await;
        assert!(is_granted(&turn), "{missing:?}: {turn:?}");
        server.cli(&["flushall"]);
    }
}

#[tokio::test]
async fn the_rule_of_the_readme_for_fair_locks_is_enough() {
    let server = Server::start();
    let readme = include_str!("../../README.md");
    let mut rules = readme.lines().filter_map(|line| line.strip_prefix("ACL SETUSER leasehold "));
    let (base, of_fair) = (rules.next().unwrap(), rules.find(|rule| rule.contains("queue")).unwrap());
    for rule in [base, of_fair] {
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
    let [holder, head, other] = [(); 3].map(|()| mint.mint());
    for owner in [holder, head, other] {
        queued(&*lane, "locks:k", owner).await;
    }
    let key = call("locks:k", Op::Release, holder).key;
    let mut turn = lane.watch_turn(&key, head);
    while !turn.observe().in_force {
        turn.changed().await;
    }
    // A place of a peer, so that every command is used.
    server.cli(&["rpush", "redisson_lock_queue:{locks:k}", "peer:1"]);
    server.cli(&["zadd", "redisson_lock_timeout:{locks:k}", "1", "gone:1"]);
    beats(&*lane, "locks:k", &[head, other]).await;
    let outcome = released(&*lane, "locks:k", holder).await;
    assert!(matches!(outcome, Outcome::Released { listeners: Some(1), .. }), "{outcome:?}");
    assert!(is_granted(&queued(&*lane, "locks:k", head).await));
    assert!(matches!(released(&*lane, "locks:k", other).await, Outcome::Released { .. }));
    assert!(lane.force_release(&key).await.unwrap());
    assert!(server.cli(&["acl", "log"]).is_empty(), "{}", server.cli(&["acl", "log"]));
    let mut terms = AuditContext::new(TTL);
    terms.name_prefix = "locks:".into();
    let of_fair = async || {
        let findings = lane.audit(terms.clone()).await;
        findings.into_iter().find(|finding| finding.subject == "fair_rights")
    };
    assert_eq!(of_fair().await, None);
    server.cli(&["acl", "setuser", "leasehold", "-zmscore"]);
    let finding = of_fair().await.expect("a finding");
    assert_eq!((finding.level, finding.found.contains("+zmscore")), (AuditLevel::Info, true), "{finding:?}");
}

#[tokio::test]
async fn callers_of_two_engines_are_served_in_the_order_of_their_arrival() {
    let server = Server::start();
    let mut engines = Vec::new();
    for _ in 0..2 {
        engines
            .push(Engine::builder(server.transport()).config(EngineConfig::default()).build().await.unwrap());
    }
    let first = engines[0].fair_lock("k").acquire().await.unwrap();
    let (served, mut served_of) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..40 {
        let (acquire, served) = (engines[n % 2].fair_lock("k").wait(SECOND * 30).acquire(), served.clone());
        tokio::spawn(async move {
            let lease = acquire.await.unwrap();
            served.send(n).unwrap();
            lease.release().await.unwrap();
        });
        let length = (n + 1).to_string();
        until(async || (server.cli(&["llen", "redisson_lock_queue:{k}"]) == length).then_some(())).await;
    }
    server.cli(&["config", "resetstat"]);
    first.release().await.unwrap();
    let mut order = Vec::new();
    for _ in 0..40 {
        order.push(served_of.recv().await.unwrap());
    }
    assert_eq!(order, (0..40).collect::<Vec<_>>());
    until(async || (server.cli(&["dbsize"]) == "0").then_some(())).await;
    let stats = server.cli(&["info", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    println!("40 grants: {line}");
    let calls: u32 = line.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(calls <= 4 * 40, "{line}");
}
