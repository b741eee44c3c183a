//! L6: no task, thread or connection outlives its engine.

use std::{fs, sync::Arc, time::Duration};

use leasehold::Engine;
use leasehold_memory::{Fault, Faulty, MemoryTransport, Operation};
use leasehold_tests::harness::{
    deployment::{Deployment, Topology},
    node::Node,
    polling::holds_within,
};

use crate::fixture::{PATIENCE, block_on, transport};

#[tokio::test(start_paused = true)]
async fn l6_after_a_thousand_operations_under_faults_no_task_is_left() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    let engine = Engine::builder(transport).on_current_runtime().build().await.unwrap();
    let idle = tasks();
    for round in 0..1_000 {
        let fate = [Fault::LoseReply, Fault::LoseRequest, Fault::Repeat][round % 3];
        let operation =
            [Operation::Acquire, Operation::Release, Operation::Renew, Operation::Notice][round % 4];
        faults.on(operation).inject(fate);
        let lock = engine.lock(format!("{}", round % 7)).ttl(Duration::from_secs(1));
        let patience = Duration::from_millis(round as u64 % 400);
        if let Ok(Ok(lease)) = tokio::time::timeout(patience, lock.acquire()).await {
            tokio::time::sleep(patience).await;
            drop(lease);
        }
    }
    faults.clear();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let seen = engine.snapshot();
    assert_eq!((seen.held, seen.entries, seen.closing), (0, 0, 0), "{seen:?}");
    assert!(seen.granted > 300, "{seen:?}");
    assert_eq!(tasks(), idle);
    drop((engine, faults));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(tasks(), before);
}

#[test]
fn l6_threads_end_with_their_engines() {
    block_on(async {
        let mut engines = vec![];
        for _ in 0..100 {
            engines.push(Engine::builder(MemoryTransport::new()).build().await.unwrap());
        }
        // Other tests of this binary have a few engines at the same time.
        assert!(threads_of_ours() >= 200);
        let sharing = threads_of_ours();
        for number in 0..50 {
            let host = &engines[number];
            let builder = Engine::builder(MemoryTransport::new()).threads_of(host);
            engines.push(builder.build().await.unwrap());
        }
        assert!(threads_of_ours() < sharing + 50, "an engine on the threads of another has none");
        drop(engines);
        let ended = tokio::task::block_in_place(|| holds_within(PATIENCE, || threads_of_ours() < 150));
        assert!(ended, "{} threads", threads_of_ours());
    });
}

fn threads_of_ours() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("this machine is Linux").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    // That of the log lines belongs to the process, not to an engine.
    names.filter(|name| name.starts_with("leasehold-") && name.trim_end() != "leasehold-log").count()
}

#[test]
fn l6_connections_end_with_their_engines_however_those_end() {
    connections_end(Topology::Single);
}

#[test]
fn l6_connections_to_sentinels_and_their_servers_end_with_their_engines_however_those_end() {
    connections_end(Topology::Sentinel);
}

#[test]
fn l6_connections_to_a_cluster_end_with_their_engines_however_those_end() {
    connections_end(Topology::Cluster);
}

fn connections_end(topology: Topology) {
    let servers = Deployment::start(topology).expect("servers");
    block_on(async {
        let mut most = 0;
        for round in 0..12 {
            let engine = Engine::builder(transport(&servers.url())).build().await.unwrap();
            let lease = engine.lock("a").acquire().await.unwrap();
            most = most.max(connections(&servers));
            match round % 3 {
                0 => drop((engine, lease)),
                1 => drop((lease, engine)),
                _ => drop(engine.shutdown(Duration::from_secs(1)).await),
            }
        }
        println!("{topology:?}: at most {most} connections at once");
        assert!(most >= 3, "{most} connections seen");
        let closed = tokio::task::block_in_place(|| holds_within(PATIENCE, || connections(&servers) == 0));
        assert!(closed, "{} connections", connections(&servers));
        assert_eq!(servers.leftovers().expect("an answer"), []);
    });
}

/// Those of engines. Sentinels have names for theirs, replicas a flag, and who asks is seen asking.
fn connections(servers: &Deployment) -> usize {
    let not_ours = [" name=sentinel-", " flags=S", " flags=M", " cmd=client|list"];
    let on_one = |server: &Arc<Node>| {
        let list = server.command(&["CLIENT", "LIST"]).expect("a reply").text().expect("text");
        list.lines().filter(|line| !not_ours.iter().any(|other| line.contains(other))).count()
    };
    servers.everybody().iter().map(on_one).sum()
}
