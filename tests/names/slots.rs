//! The slot of every name, as a real server computes it.

use std::collections::BTreeSet;

use leasehold::key::LockKey;
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer, seed::seed};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

#[test]
fn the_slot_of_any_name_is_the_servers() {
    let server = RedisServer::builder().option("--cluster-enabled", "yes").start().expect("a server");
    let mut client = server.client().expect("a connection");
    let names = names(&mut StdRng::seed_from_u64(seed()));
    assert!(names.len() >= NAMES);
    for some in names.iter().collect::<Vec<_>>().chunks(1_000) {
        for ((prefix, name), slot) in some.iter().zip(slots(&mut client, some)) {
            let key = LockKey::new(prefix, name).expect("a name");
            assert_eq!(i64::from(key.slot().number()), slot, "{prefix:?} {name:?}");
        }
    }
}

fn slots(client: &mut RawClient, names: &[&(String, String)]) -> Vec<i64> {
    let ask = |(prefix, name): &&(String, String)| {
        vec!["CLUSTER".to_owned(), "KEYSLOT".into(), format!("{prefix}{name}")]
    };
    let replies = client.pipeline(&names.iter().map(ask).collect::<Vec<_>>()).expect("replies");
    replies.iter().map(|reply| reply.integer().unwrap_or_else(|| panic!("a slot, not {reply:?}"))).collect()
}

/// Different ones, each with the prefix that stands before it.
fn names(rng: &mut StdRng) -> BTreeSet<(String, String)> {
    let mut names: BTreeSet<_> = ODD.iter().map(|name| (String::new(), (*name).to_owned())).collect();
    while names.len() < NAMES + ODD.len() {
        let prefix = if rng.random_bool(0.2) { text(rng, 0) } else { String::new() };
        names.insert((prefix, text(rng, 1)));
    }
    names
}

/// Half of all signs are braces.
fn text(rng: &mut StdRng, least: usize) -> String {
    let sign = |rng: &mut StdRng| match rng.random_range(0..8) {
        0 | 1 => '{',
        2 | 3 => '}',
        4 | 5 => *SIGNS.choose(rng).expect("signs"),
        _ => rng.random(),
    };
    (0..rng.random_range(least..24)).map(|_| sign(rng)).collect()
}

const NAMES: usize = 10_000;
const SIGNS: [char; 10] = ['a', 'Z', '7', ':', ' ', '\0', '\n', 'ü', '鐘', '🔒'];
const ODD: [&str; 14] = [
    "{", "}", "{}", "{}x", "x{}y{z}", "a{b", "a}b", "}{", "{a}{b}", "{{a}}", "a{b}c", "{\0}", "{鐘}ü",
    "a{{b}",
];
