//! `leasehold list`.

use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};
use rustix::process::Signal;

use crate::program::{Ended, Program, cluster, leasehold, until_held};

const OWNER: &str = "30c9b6e8-0000-4000-8000-000000000001:63";

fn names(ended: &Ended) -> Vec<String> {
    let mut names: Vec<_> =
        ended.documents().iter().map(|lock| lock["name"].as_str().expect("text").into()).collect();
    names.sort();
    names
}

fn put(client: &mut RawClient, arguments: &[&str]) {
    assert!(client.command(arguments).expect("a reply").error().is_none());
}

#[test]
fn locks_are_listed_and_other_keys_are_not() {
    let server = RedisServer::start().expect("a server");
    let mut client = server.client().expect("a connection");
    for number in 0..40 {
        put(&mut client, &["HSET", &format!("app:orders:{number}"), OWNER, "1"]);
    }
    put(&mut client, &["HSET", "app:rw", "mode", "write", &format!("{OWNER}:write"), "1"]);
    put(&mut client, &["PEXPIRE", "app:rw", "60000"]);
    put(&mut client, &["RPUSH", "redisson_lock_queue:{app:rw}", "a", "b"]);
    put(&mut client, &["HSET", "app:user:7", "name", "Ada"]);
    put(&mut client, &["SET", "app:text", "x"]);
    for from in (0..20_000).step_by(1_000) {
        let fields: Vec<String> =
            (from..from + 1_000).flat_map(|field| [format!("f{field}"), "1".into()]).collect();
        let large =
            ["HSET", "app:large"].into_iter().chain(fields.iter().map(String::as_str)).collect::<Vec<_>>();
        put(&mut client, &large);
    }

    let all = leasehold(&server.url(), &["list", "--json"]).expect_code(0);
    assert_eq!(all.documents().len(), 41, "{}", all.stdout);
    let few = leasehold(&server.url(), &["list", "app:orders:1?", "--json"]).expect_code(0);
    assert_eq!(names(&few), (10..20).map(|number| format!("app:orders:{number}")).collect::<Vec<_>>());
    let slow = leasehold(&server.url(), &["list", "--rate", "100", "--limit", "3"]).expect_code(0);
    assert_eq!(slow.stdout.lines().count(), 3, "{slow:?}");

    let none = leasehold(&server.url(), &["list", "app:zzz*"]).expect_code(0);
    assert!(none.stdout.is_empty() && none.stderr.contains("\"app:zzz*\""), "{none:?}");

    let lock = leasehold(&server.url(), &["list", "app:rw", "--json"]).expect_code(0).document();
    assert_eq!(
        (&lock["mode"], &lock["in_line"], &lock["holders"][0]["owner"]),
        (&"write".into(), &2.into(), &OWNER.into())
    );
    assert!(lock["remaining_ms"].as_u64().is_some_and(|left| left <= 60_000), "{lock}");
    let text = leasehold(&server.url(), &["list", "app:orders:7"]).expect_code(0).stdout;
    assert!(
        text.contains("no expiry") && text.contains("\"app:orders:7\"") && text.contains(OWNER),
        "{text}"
    );
}

#[test]
fn names_are_those_behind_the_prefix_of_the_configuration() {
    let server = RedisServer::start().expect("a server");
    let mut client = server.client().expect("a connection");
    put(&mut client, &["HSET", "a*:job", OWNER, "1"]);
    put(&mut client, &["HSET", "axy:job", OWNER, "1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leasehold.toml");
    let text =
        format!("[engine]\nname_prefix = \"a*:\"\n[redis]\naddresses = [\"127.0.0.1:{}\"]\n", server.port());
    std::fs::write(&file, text).expect("written");
    let list = Program::start_with(&[], &["--config", file.to_str().expect("UTF-8"), "list", "--json"]).end();
    assert_eq!(names(&list.expect_code(0)), ["job"]);
}

#[test]
fn every_master_of_a_cluster_is_scanned() {
    let names_of: Vec<String> = (0..12).map(|number| format!("list:{number}")).collect();
    let start = |name: &String| Program::start(cluster(), &["run", name, "--", "sleep", "600"]);
    let holders: Vec<_> = names_of.iter().map(start).collect();
    names_of.iter().for_each(|name| until_held(cluster(), name));
    let list = leasehold(cluster(), &["list", "list:*", "--json"]).expect_code(0);
    let servers: std::collections::BTreeSet<_> =
        list.documents().iter().map(|lock| lock["server"].to_string()).collect();
    let mut expected = names_of.clone();
    expected.sort();
    assert_eq!((names(&list), servers.len()), (expected, 3));
    holders.iter().for_each(|holder| holder.signal(Signal::TERM));
    holders.into_iter().for_each(|holder| drop(holder.end().expect_code(143)));
}

#[test]
fn a_missing_right_is_named() {
    let user = "app on >hunter2 ~* &* +@all -scan";
    let server = RedisServer::builder().acl_user(user).start().expect("a server");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    let ended = leasehold(&url, &["list"]).expect_code(77);
    assert!(ended.stderr.contains("scan") && !ended.stderr.contains("hunter2"), "{ended:?}");
}
