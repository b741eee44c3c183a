//! `leasehold who`.

use leasehold_tests::harness::{cluster::RedisCluster, raw_client::RawClient, redis_server::RedisServer};

use crate::program::{Program, cluster, leasehold, server, until_held};

#[test]
fn the_connections_of_the_holder_are_shown() {
    for (url, servers) in [(server(), 1), (cluster(), 3)] {
        let _holder = Program::start(url, &["run", "who:held", "--", "sleep", "600"]);
        until_held(url, "who:held");
        let owners = leasehold(url, &["who", "who:held", "--json"]).expect_code(0).document();
        let owner = &owners["owners"][0];
        assert_eq!(
            (&owner["holds"], &owners["connections_unknown"]),
            (&true.into(), &serde_json::Value::Null)
        );
        let connections = owner["connections"].as_array().expect("a list");
        // Of each server: calls, renewals and notices.
        assert_eq!(connections.len(), 3 * servers, "{owners}");
        assert!(
            connections.iter().all(|one| one["address"].as_str().expect("text").starts_with("127.0.0.1:"))
        );
        let label = connections[0]["label"].as_str().expect("a label");
        assert!(
            label.starts_with("leasehold@") && connections.iter().all(|one| one["label"] == label),
            "{owners}"
        );
        let text = leasehold(url, &["who", "who:held"]).expect_code(0).stdout;
        assert!(text.contains(&format!(", {label}")), "{text}");
        assert!(text.contains("held by") && text.contains("leasehold-renewals, open for"), "{text}");
    }
}

#[test]
fn an_owner_leads_to_its_process_without_a_lock() {
    for url in [server(), cluster()] {
        let _holder = Program::start(url, &["run", "who:owner", "--", "sleep", "600"]);
        until_held(url, "who:owner");
        let held = leasehold(url, &["who", "who:owner", "--json"]).expect_code(0).document();
        let (owner, known) = (&held["owners"][0]["owner"], &held["owners"][0]["connections"]);
        let owner = owner.as_str().expect("an owner");
        let client = leasehold(url, &["who", "--owner", owner, "--json"]).expect_code(0).document();
        let addresses = |of: &serde_json::Value| {
            let all = of.as_array().expect("a list").iter();
            all.map(|one| one["address"].to_string()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(addresses(&client["connections"]), addresses(known));
        let text = leasehold(url, &["who", "--owner", owner]).expect_code(0).stdout;
        assert!(text.contains("leasehold-renewals, open for") && text.contains("leasehold@"), "{text}");
    }
    let unknown = leasehold(server(), &["who", "--owner", "30c9b6e8:63"]).expect_code(0).stdout;
    assert!(unknown.contains("no connection names this owner"), "{unknown}");
    assert!(leasehold(server(), &["who"]).expect_code(64).stderr.contains("--owner"));
    for owner in ["", " ", "c-1 c-2"] {
        let ended = leasehold(server(), &["who", "--owner", owner]).expect_code(64);
        assert!(ended.stderr.contains("--owner") && ended.stdout.is_empty(), "{ended:?}");
    }
    leasehold(server(), &["who", "a", "--owner", "b:1"]).expect_code(64);
}

#[test]
fn of_a_java_client_only_the_id_is_known() {
    let port = server().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let mut client = RawClient::connect(port).expect("a connection");
    client.command(&["HSET", "who:java", "30c9b6e8-0000-4000-8000-000000000001:63", "1"]).expect("a reply");
    let text = leasehold(server(), &["who", "who:java"]).expect_code(0).stdout;
    assert!(text.contains("000000000001:63") && text.contains("as Redisson"), "{text}");
}

#[test]
fn without_the_right_to_client_list_the_rest_is_shown() {
    let user = "app on >hunter2 ~* &* +@all -client|list";
    let server = RedisServer::builder().acl_user(user).start().expect("a server");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    let _holder = Program::start(&url, &["run", "job", "--", "sleep", "600"]);
    until_held(&url, "job");
    let owners = leasehold(&url, &["who", "job", "--json"]).expect_code(0).document();
    assert!(owners["connections_unknown"].as_str().is_some_and(|why| why.contains("NOPERM")), "{owners}");
    assert_eq!(owners["owners"][0]["connections"], serde_json::Value::Null);
}

#[test]
fn a_master_that_cannot_be_asked_makes_the_answer_incomplete() {
    let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    cluster.nodes()[2].kill().expect("killed");
    let ended = leasehold(&cluster.url(), &["who", "--owner", "30c9b6e8:63"]).expect_code(75);
    assert!(ended.stdout.starts_with("client 30c9b6e8"), "{ended:?}");
    assert!(ended.stderr.contains("the list of connections is incomplete: "), "{ended:?}");
}

#[test]
fn of_permits_nobody_is_known() {
    let command = ["run", "who:permits", "--kind", "permits", "--limit", "2", "--", "sleep", "600"];
    let _holder = Program::start(server(), &command);
    until_held(server(), "who:permits");
    let text = leasehold(server(), &["who", "who:permits"]).expect_code(0).stdout;
    assert!(text.contains("does not tell which clients") && text.contains("1 held"), "{text}");
}
