//! The rights that the README lists are enough for everything on each topology, and no server was asked for more. Each of
//! them that is missing is named at start: by the error of `build()`, or by the audit.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use leasehold::{AuditLevel, Engine};
use leasehold_redis::{Address, NoticeKind, Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::{
    changed,
    harness::{
        cluster::RedisCluster,
        node::Node,
        raw_client::RawClient,
        redis_server::RedisServer,
        sentinel::{RedisSentinel, SERVICE},
        server_version::ServerVersion,
    },
};

use crate::{
    lanes::Lanes,
    tour::{PREFIX, tour},
};

/// What the README says a user must be allowed: for all, what a cluster needs besides, what read/write locks do, and what
/// fenced locks do.
fn documented(user: &str) -> Vec<Vec<String>> {
    let readme = include_str!("../../transports/redis/README.md");
    let rules = readme.lines().filter_map(|line| line.strip_prefix(&format!("ACL SETUSER {user} ")));
    let rules: Vec<Vec<String>> = rules
        .map(|rule| rule.split_whitespace().map(|word| word.replace(">secret", ">hunter2")).collect())
        .collect();
    assert!(!rules.is_empty(), "{user}");
    rules
}

/// For exclusive and fenced locks on servers that are no cluster.
fn documented_without_cluster() -> Vec<String> {
    let rules = documented("leasehold");
    [rules[0].clone(), with("~redisson_lock_token:*", &rules)].concat()
}

/// For exclusive and fenced locks on a cluster.
fn documented_on_cluster() -> Vec<String> {
    let rules = documented("leasehold");
    [rules[0].clone(), with("+asking", &rules), with("~redisson_lock_token:*", &rules)].concat()
}

/// The rule that has this right.
fn with(right: &str, rules: &[Vec<String>]) -> Vec<String> {
    let rule = rules.iter().find(|rule| rule.iter().any(|word| word == right));
    rule.unwrap_or_else(|| panic!("{right} is in a rule of the README")).clone()
}

/// Connections to all servers of a kind, as somebody who may do everything.
struct Admin(Vec<RawClient>);

impl Admin {
    fn of(nodes: &[Arc<Node>]) -> Self {
        Self(nodes.iter().map(|node| node.client().expect("a connection")).collect())
    }

    fn grant(&mut self, user: &str, rule: &[String]) {
        let words = ["ACL", "SETUSER", user].into_iter().chain(rule.iter().map(String::as_str));
        let words: Vec<&str> = words.collect();
        for server in &mut self.0 {
            let granted = server.command(&words).expect("a reply");
            assert!(granted.is_ok(), "{words:?}: {granted:?}");
        }
    }

    /// What was asked for in vain, as the servers have logged it.
    fn denied(&mut self) -> BTreeSet<String> {
        let logs = self.0.iter_mut().map(|server| server.command(&["ACL", "LOG"]).expect("a reply"));
        let entries: Vec<Vec<String>> =
            logs.flat_map(|log| log.items().iter().map(|entry| entry.texts()).collect::<Vec<_>>()).collect();
        entries.iter().filter_map(|entry| Some(entry.get(object(entry)? + 1)?.clone())).collect()
    }

    /// The audit looks at settings and at the channels that clients listen to if it may, and says so if it may not.
    fn has_denied_nothing_but_questions_of_the_audit(&mut self) {
        let (denied, optional) = (self.denied(), ["config", "pubsub|channels", "pubsub|shardchannels"]);
        assert!(
            denied.iter().all(|object| optional.iter().any(|right| object.starts_with(right))),
            "{denied:?}"
        );
    }
}

fn object(entry: &[String]) -> Option<usize> {
    entry.iter().position(|word| word == "object")
}

fn secret() -> Option<Password> {
    Some(Password::Value(Secret::new("hunter2")))
}

fn logged_in(config: RedisConfig) -> RedisConfig {
    changed(config, |new| {
        new.username = Some("leasehold".into());
        new.password = secret();
    })
}

/// Without each right in turn: it is named at start.
async fn each_missing_is_named(admin: &mut Admin, rule: &[String], login: impl Fn(&str) -> RedisConfig) {
    let mut named = [0, 0];
    for right in rule.iter().filter(|right| right.starts_with(['+', '~', '&'])) {
        let user = format!("without{}", right.replace(['+', '|', '~', '&', '*'], "-"));
        let others: Vec<String> = rule.iter().filter(|other| *other != right).cloned().collect();
        admin.grant(&user, &others);
        let (place, said) = said_at_start(login(&user)).await;
        assert!(is_named(right, &said), "{right}: {said}");
        named[place] += 1;
    }
    println!("of missing rights {} were named by build() and {} by the audit", named[0], named[1]);
    assert_eq!(named[0] + named[1], rule.iter().filter(|right| right.starts_with(['+', '~', '&'])).count());
}

fn is_named(right: &str, said: &str) -> bool {
    let bare = right.trim_start_matches('+').trim_end_matches('*');
    match right.starts_with('+') {
        // As the audit says it, or as the server does.
        true => said.split([' ', ',', ';']).any(|word| word == right || word == format!("'{bare}'")),
        false => said.contains(bare),
    }
}

/// By whom, and what.
async fn said_at_start(config: RedisConfig) -> (usize, String) {
    let builder = Engine::builder(RedisTransport::new(config)).name_prefix(PREFIX);
    match builder.unavailable_after(Duration::from_secs(2)).build().await {
        Err(error) => (0, error.to_string()),
        Ok(engine) => {
            let report = engine.audit().await;
            let is_it = |subject, level| match subject {
                "rights" => level == AuditLevel::Error,
                "fenced_rights" => level == AuditLevel::Warn,
                _ => false,
            };
            let faults = report.findings().iter().filter(|finding| is_it(finding.subject, finding.level));
            let found: Vec<String> = faults.map(|fault| fault.found.clone()).collect();
            assert!(!found.is_empty(), "{report}");
            (1, found.join("; "))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_on_a_single_server() {
    for version in ServerVersion::ALL {
        let server = RedisServer::builder().version(version).start().expect("a server");
        let mut admin = Admin(vec![server.client().expect("a connection")]);
        admin.grant("leasehold", &documented_without_cluster());
        tour(&logged_in(RedisConfig::single("127.0.0.1", server.port()))).await;
        admin.has_denied_nothing_but_questions_of_the_audit();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_that_is_missing_on_a_single_server_is_named_at_start() {
    let server = RedisServer::start().expect("a server");
    let mut admin = Admin(vec![server.client().expect("a connection")]);
    let config = logged_in(RedisConfig::single("127.0.0.1", server.port()));
    let login = |user: &str| changed(config.clone(), |new| new.username = Some(user.into()));
    each_missing_is_named(&mut admin, &documented_without_cluster(), login).await;
}

/// Users of the same rights on servers and sentinels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_with_sentinels_and_each_missing_is_named_at_start() {
    let deployment = RedisSentinel::start().expect("servers");
    let (mut servers, mut sentinels) = (Admin::of(deployment.servers()), Admin::of(deployment.sentinels()));
    let (of_servers, of_sentinels) = (&documented_without_cluster(), &documented("sentinel")[0]);
    servers.grant("leasehold", of_servers);
    sentinels.grant("sentinel", of_sentinels);
    let addresses = deployment.sentinel_addresses();
    let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
    let config = changed(logged_in(RedisConfig::sentinel(addresses, SERVICE)), |new| {
        new.sentinel_username = Some("sentinel".into());
        new.sentinel_password = secret();
    });
    tour(&config).await;
    servers.has_denied_nothing_but_questions_of_the_audit();
    assert_eq!(sentinels.denied(), BTreeSet::new());
    let login = |user: &str| changed(config.clone(), |new| new.username = Some(user.into()));
    each_missing_is_named(&mut servers, of_servers, login).await;
    let login = |user: &str| changed(config.clone(), |new| new.sentinel_username = Some(user.into()));
    each_missing_is_named(&mut sentinels, of_sentinels, login).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_on_a_cluster_and_each_missing_is_named_at_start() {
    for version in [ServerVersion::Debian, ServerVersion::Valkey91] {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let mut admin = Admin::of(&cluster.nodes());
        let rule = documented_on_cluster();
        admin.grant("leasehold", &rule);
        let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
        let config = logged_in(RedisConfig::cluster(nodes));
        tour(&config).await;
        on_the_way(&cluster, &config).await;
        admin.has_denied_nothing_but_questions_of_the_audit();
        // Classic and sharded notices, so that each right is needed.
        let both = changed(config, |new| new.notices = NoticeKind::Both);
        tour(&both).await;
        let login = |user: &str| changed(both.clone(), |new| new.username = Some(user.into()));
        each_missing_is_named(&mut admin, &rule, login).await;
    }
}

/// Before Redis 7 there are no sharded notices, and no right to ask for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_the_documented_rights_are_enough_for_notices_on_a_cluster_of_6_2() {
    let recipe = RedisCluster::builder().version(ServerVersion::Redis62).replicas_each(0);
    let cluster = recipe.start().expect("a cluster");
    let mut admin = Admin::of(&cluster.nodes());
    let mut rule = documented_on_cluster();
    rule.retain(|right| !SINCE_7.iter().any(|since_7| right.starts_with(since_7)));
    admin.grant("leasehold", &rule);
    let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
    tour(&logged_in(RedisConfig::cluster(nodes))).await;
}

/// As the README says what to leave out before Redis 7.
const SINCE_7: [&str; 4] = ["+ssubscribe", "+sunsubscribe", "+spublish", "+pubsub"];

/// A lock whose slot is being moved is asked for at both ends.
async fn on_the_way(cluster: &RedisCluster, config: &RedisConfig) {
    let lanes = Lanes::open(config.clone()).await;
    let hold = lanes.held("locks:moves").await;
    let slot = hold.key.slot().number();
    let source = cluster.master_of(slot).expect("a master");
    let masters = cluster.masters().expect("masters");
    let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
    let migration = cluster.begin_migration(slot, target).expect("begun");
    migration.move_key(b"locks:moves").expect("moved");
    assert!(lanes.is_renewed(&[&hold]).await);
    assert!(lanes.is_released(&hold).await);
    migration.finish().expect("finished");
}
