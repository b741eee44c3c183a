//! What a command costs the server, whatever the length of the line: the commands inside the scripts are counted.

use std::collections::BTreeMap;

use crate::{
    model::name,
    ours::Scripts,
    ours::{KEYS, WAIT},
    resp::{Client, Reply},
    server::Server,
};

/// How often each command was called since the last time, the scripts' own among them.
fn spent(client: &mut Client) -> BTreeMap<String, u64> {
    let stats = client.ok(&["INFO", "commandstats"]).text();
    client.ok(&["CONFIG", "RESETSTAT"]);
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    lines
        .map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()))
        .filter(|(name, _)| {
            !name.starts_with("info") && !name.starts_with("config") && !name.starts_with("eval")
        })
        .collect()
}

/// The commands of a hand-over in a line of this length: the release, then the head's beat and its grant.
fn hand_over(length: usize) -> BTreeMap<String, u64> {
    let (server, scripts) = (Server::start(), Scripts::new());
    let mut client = server.client();
    let waiter = |n: usize| format!("00000001-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{n}");
    scripts.queue(&mut client, &name(0), 60_000);
    for n in 0..length {
        scripts.queue(&mut client, &waiter(n), 60_000);
    }
    // Each again: building the line has taken a while on a busy machine.
    let all: Vec<_> = (0..length).map(waiter).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    for some in all.chunks(250) {
        scripts.beat(&mut client, some, crate::ours::NEVER);
    }
    spent(&mut client);
    scripts.release(&mut client, &name(0));
    assert_eq!(crate::ours::places(&scripts.beat(&mut client, &[&waiter(0)], crate::ours::NEVER)), [-1]);
    let granted = scripts.queue(&mut client, &waiter(0), 60_000);
    assert_eq!(granted.code(), 1, "{granted:?}");
    spent(&mut client)
}

#[test]
fn a_hand_over_costs_the_same_with_three_waiters_and_with_a_thousand() {
    let (short, long) = (hand_over(3), hand_over(1_000));
    println!("{long:?}");
    assert_eq!(short, long);
    assert!(!long.contains_key("lrange") && !long.contains_key("lpos"), "nothing looks through the line");
    assert!(long.values().sum::<u64>() < 80, "{long:?}");
}

#[test]
fn a_beat_of_250_places_searches_the_line_twice() {
    let (server, scripts) = (Server::start(), Scripts::new());
    let mut client = server.client();
    let waiter = |n: usize| format!("00000001-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{n}");
    scripts.queue(&mut client, &name(0), 600_000);
    let all: Vec<_> = (0..1_000).map(waiter).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    for owner in &all {
        scripts.queue(&mut client, owner, 60_000);
    }
    scripts.beat(&mut client, &all, crate::ours::NEVER);
    spent(&mut client);
    let reply = scripts.beat(&mut client, &all[250..500], crate::ours::NEVER);
    assert_eq!(crate::ours::places(&reply), (250..500).collect::<Vec<_>>());
    let spent = spent(&mut client);
    assert_eq!((spent["zrank"], spent["zmscore"], spent["zadd"]), (2, 1, 1), "{spent:?}");
    assert!(spent.values().sum::<u64>() < 30, "{spent:?}");
}

/// The deadline that a follower of thousands has is none that a score or an expiry cannot have.
#[test]
fn the_deadlines_of_a_long_line_are_times_of_a_server() {
    let (server, scripts) = (Server::start(), Scripts::new());
    let mut client = server.client();
    scripts.queue(&mut client, &name(0), 60_000);
    client.ok(&["RPUSH", KEYS[1], "peer:1"]);
    client.ok(&["ZADD", KEYS[2], "1e300", "peer:1"]);
    for n in 1..5 {
        let reply = scripts.queue(&mut client, &name(n), 60_000);
        assert_eq!(reply.code(), 3, "{reply:?}");
    }
    let score = client.ok(&["ZSCORE", KEYS[2], &name(4)]).text().parse::<f64>().unwrap();
    assert!(score < 4e12, "{score}");
    assert!(matches!(client.ok(&["PTTL", KEYS[3]]), Reply::Number(left) if left > WAIT));
}
