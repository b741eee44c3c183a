//! Locks of a quorum, and multi locks, over three and five real servers that are killed, stopped and restarted.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold::{AcquireError, Engine, LossReason, MultiError, MultiLock, Quorum, QuorumLock};
use leasehold_tests::harness::{
    checkers::overlaps,
    raw_client::RawClient,
    recorder::{Window, boot_ns},
    redis_server::RedisServer,
    stall::no_stall_excuses,
};

use crate::fixture::{SECOND, builder, until};

/// Servers that keep every hold through a kill.
fn servers(count: usize) -> Vec<RedisServer> {
    (0..count).map(|_| RedisServer::builder().append_only().start().expect("a server")).collect()
}

/// On two threads together.
async fn engines(servers: &[RedisServer], grace: Duration) -> Vec<Engine> {
    let mut engines: Vec<Engine> = Vec::new();
    for server in servers {
        let builder = builder(&server.url()).restart_grace(grace).ttl(6 * SECOND).command_timeout(SECOND / 2);
        let builder = match engines.first() {
            Some(first) => builder.threads_of(first),
            None => builder,
        };
        engines.push(builder.build().await.expect("an engine"));
    }
    engines
}

/// A process on servers that forget nothing.
async fn process(servers: &[RedisServer]) -> QuorumLock {
    Quorum::over(engines(servers, Duration::ZERO).await).expect("a quorum").lock("k")
}

fn texts(server: &RedisServer, command: &[&str]) -> Vec<String> {
    server.client().expect("a connection").command(command).expect("a reply").texts()
}

fn is_free(server: &RedisServer) -> bool {
    texts(server, &["KEYS", "*"]).is_empty()
}

fn everything_published(server: &RedisServer) -> RawClient {
    let mut ear = server.client().expect("a connection");
    assert_eq!(ear.command(&["PSUBSCRIBE", "*"]).expect("a reply").texts(), ["psubscribe", "*"]);
    ear
}

#[tokio::test]
async fn on_each_server_of_a_quorum_lies_the_plain_lock_and_nothing_else() {
    let servers = servers(3);
    let process = process(&servers).await;
    let mut ears: Vec<_> = servers.iter().map(everything_published).collect();
    let lease = process.acquire().await.expect("a lease");
    until("all three hold it", || lease.tally().held == 3).await;
    for server in &servers {
        assert_eq!(texts(server, &["KEYS", "*"]), ["k"]);
        let content = texts(server, &["HGETALL", "k"]);
        let (client, number) = content[0].split_once(':').expect("an owner");
        assert!(content.len() == 2 && content[1] == "1" && client.len() == 36, "{content:?}");
        assert!(number.parse::<u64>().is_ok(), "{content:?}");
        let ttl = server.client().unwrap().command(&["PTTL", "k"]).unwrap().integer().unwrap();
        assert!(ttl > 0 && ttl <= 6_000, "{ttl}");
    }
    lease.release().await.expect("held to the end");
    until("each server is free", || servers.iter().all(is_free)).await;
    for ear in &mut ears {
        assert_eq!(
            ear.read().expect("a message").texts(),
            ["pmessage", "*", "redisson_lock__channel:{k}", "0"]
        );
    }
}

#[tokio::test]
async fn a_server_that_is_killed_costs_no_quorum_and_joins_again() {
    let mut servers = servers(3);
    let (process, other) = (process(&servers).await, process(&servers).await);
    let lease = process.acquire().await.expect("a lease");
    until("all three hold it", || lease.tally().held == 3).await;
    servers[0].kill().expect("killed");
    let (begun, mut most) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < 8 * SECOND {
        assert!(lease.is_held());
        let asked = Instant::now();
        assert!(other.try_acquire().await.expect("a majority answers").is_none());
        most = most.max(asked.elapsed());
        tokio::time::sleep(SECOND / 4).await;
    }
    assert_eq!(lease.tally().held, 2, "the hold of the killed server is over");
    servers[0].restart().expect("restarted");
    until("it has joined again", || lease.tally().held == 3).await;
    lease.release().await.expect("held to the end");
    let next = other.wait(5 * SECOND).acquire().await.expect("free");
    next.release().await.expect("held to the end");
    assert!(most < 3 * SECOND, "a dead server delays no answer: {most:?}");
}

#[tokio::test]
async fn with_a_majority_killed_the_lease_is_lost_by_its_deadline_and_nobody_gets_it() {
    let mut servers = servers(5);
    let (process, other) = (process(&servers).await, process(&servers).await);
    let lease = process.acquire().await.expect("a lease");
    until("all five hold it", || lease.tally().held == 5).await;
    servers[..3].iter_mut().for_each(|server| server.kill().expect("killed"));
    let killed = Instant::now();
    let reason = tokio::time::timeout(20 * SECOND, lease.lost()).await.expect("told");
    assert_eq!(reason, LossReason::Expired);
    assert!(killed.elapsed() < 9 * SECOND, "{:?}", killed.elapsed());
    let refused = other.clone().wait(2 * SECOND).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
    until("the rest is given back", || servers[3..].iter().all(is_free)).await;
    servers[..3].iter_mut().for_each(|server| server.restart().expect("restarted"));
    let next = other.wait(20 * SECOND).acquire().await.expect("free again");
    assert!(!lease.is_held(), "it is lost for good");
    next.release().await.expect("held to the end");
}

#[tokio::test]
async fn a_server_that_stands_still_delays_no_acquire() {
    let mut servers = servers(3);
    let process = process(&servers).await;
    process.acquire().await.expect("a lease").release().await.expect("released");
    servers[1].stop().expect("stopped");
    for _ in 0..3 {
        let asked = Instant::now();
        let lease = process.acquire().await.expect("a lease");
        assert!(asked.elapsed() < SECOND, "{:?}", asked.elapsed());
        lease.release().await.expect("two confirm");
    }
    servers[1].cont().expect("continued");
    until("what it executed late is given back", || servers.iter().all(is_free)).await;
}

#[tokio::test]
async fn a_server_that_restarts_empty_grants_nothing_within_the_grace() {
    let mut servers: Vec<_> = (0..3).map(|_| RedisServer::start().expect("a server")).collect();
    let grace = 6 * SECOND;
    let quorums = [engines(&servers, grace).await, engines(&servers, grace).await];
    let [holder, other] = quorums.map(|engines| Quorum::over(engines).expect("a quorum").lock("k"));
    let lease =
        holder.wait(20 * SECOND).acquire().await.expect("a lease once the servers are up for the grace");
    until("all three hold it", || lease.tally().held == 3).await;
    servers[0].kill().expect("killed");
    servers[0].restart().expect("restarted");
    let restarted = Instant::now();
    let refused = other.clone().wait(4 * SECOND).acquire().await;
    assert!(refused.is_err() && restarted.elapsed() < 6 * SECOND, "{refused:?}");
    assert!(lease.is_held());
    until("it has joined again", || lease.tally().held == 3).await;
    assert!(restarted.elapsed() >= 5 * SECOND, "{:?}", restarted.elapsed());
    lease.release().await.expect("held to the end");
}

#[tokio::test]
async fn two_members_that_reach_one_server_refuse_to_lock() {
    let servers = servers(2);
    let mut engines = engines(&servers, Duration::ZERO).await;
    engines.push(builder(&servers[1].url()).restart_grace(Duration::ZERO).build().await.expect("an engine"));
    let refused = Quorum::over(engines).expect("three engines").lock("k").acquire().await;
    match refused {
        Err(AcquireError::Invalid(told)) => assert_eq!(told.value, "members 1 and 2 have reached one server"),
        told => panic!("{told:?}"),
    }
    assert!(servers.iter().all(is_free));
}

async fn contend(lock: QuorumLock, process: u32, end: Instant, windows: Arc<Mutex<Vec<Window>>>) {
    for round in 0.. {
        if Instant::now() >= end {
            return;
        }
        let Ok(lease) = lock.clone().wait(2 * SECOND).acquire().await else { continue };
        let (from_ns, mut until_ns) = (boot_ns(), boot_ns());
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let looked = boot_ns();
            until_ns = if lease.is_held() { looked } else { until_ns };
        }
        let holder = format!("{process} {round}");
        windows.lock().unwrap().push(Window {
            key: "k".into(),
            holder,
            process,
            token: 0,
            from_ns,
            until_ns,
        });
        drop(lease.release().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_contenders_exclude_each_other_while_a_minority_of_five_servers_is_killed_and_restarted() {
    let mut servers = servers(5);
    let (windows, end) = (Arc::new(Mutex::new(vec![])), Instant::now() + 12 * SECOND);
    let mut tasks = Vec::new();
    for number in 0..4 {
        let lock = process(&servers).await;
        tasks.push(tokio::spawn(contend(lock, number, end, windows.clone())));
    }
    for victim in 0.. {
        if Instant::now() + 3 * SECOND >= end {
            break;
        }
        for place in [victim % 5, (victim + 2) % 5] {
            servers[place].kill().expect("killed");
        }
        tokio::time::sleep(SECOND / 2).await;
        for place in [victim % 5, (victim + 2) % 5] {
            servers[place].restart().expect("restarted");
        }
        tokio::time::sleep(SECOND).await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let windows = std::mem::take(&mut *windows.lock().unwrap());
    no_stall_excuses(|| assert_eq!(overlaps(&windows).violations, []));
    let holders = overlaps(&windows).holders;
    assert!(holders >= 20, "{holders} leases: {windows:?}");
    until("nothing stays held", || servers.iter().all(is_free)).await;
}

#[tokio::test]
async fn a_multi_lock_whose_server_is_killed_is_lost_and_the_other_server_is_free() {
    let mut servers = servers(2);
    let mut engines = Vec::new();
    for (server, id) in servers.iter().zip(["x", "y"]) {
        let builder = builder(&server.url()).id(id).ttl(3 * SECOND).command_timeout(SECOND / 2);
        engines.push(builder.build().await.expect("an engine"));
    }
    let lock = MultiLock::of(engines.iter().map(|engine| engine.lock("k")));
    let lease = lock.acquire().await.expect("a lease");
    assert!(!servers.iter().any(is_free));
    servers[1].kill().expect("killed");
    let reason = tokio::time::timeout(20 * SECOND, lease.lost()).await.expect("told");
    assert_eq!(reason, LossReason::Expired);
    until("the other one is released", || is_free(&servers[0])).await;
    let refused = lock.wait(SECOND).acquire().await;
    assert!(
        matches!(&refused, Err(MultiError::Member { place: 1, error: AcquireError::Unavailable { .. }, .. })),
        "{refused:?}"
    );
    until("nothing stays held", || is_free(&servers[0])).await;
}
