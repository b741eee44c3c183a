//! The same programs on sentinels and on a cluster, with the ready files and with TLS and passwords.

use std::fmt::Display;

use leasehold_tests::harness::{
    certificates::{Certificates, Identity},
    cluster::RedisCluster,
    sentinel::RedisSentinel,
    server_tls::ServerTls,
};

use crate::{
    config::{CLUSTER, FileFor, SENTINEL},
    fleet::FLEET,
    program::run,
};

fn runs_on(file: &FileFor) {
    let few = [
        "--config",
        file.path(),
        "--seconds",
        "1",
        "--leases",
        "20",
        "--contenders",
        "4",
        "--keys",
        "2",
        "--json",
    ];
    let ended = run(FLEET, &few).expect_code(0);
    assert_eq!(ended.json()["held_max"], 20, "{}", ended.stderr);
    let ended = run(env!("CARGO_BIN_EXE_quickstart"), &["--config", file.path()]).expect_code(0);
    assert!(ended.stdout.contains("others get it now: false"), "{}", ended.stdout);
}

fn with_ports(ready: &str, from: u16, ports: impl Iterator<Item = u16>) -> FileFor {
    FileFor::ports(ready, &(from..).zip(ports).collect::<Vec<_>>())
}

/// The whole of what a file may say about getting in.
fn guarded(topology: &str, addresses: &[impl Display], certificates: &Certificates) -> FileFor {
    let addresses: Vec<_> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    FileFor::of(&format!(
        "[redis]\naddresses = [{}]\npassword = \"hunter2\"\n{topology}\n[redis.tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        addresses.join(", "),
        certificates.authority(),
        certificates.certificate(Identity::Client),
        certificates.key(Identity::Client),
    ))
}

#[test]
fn the_ready_file_of_sentinels() {
    let deployment = RedisSentinel::start().expect("sentinels");
    runs_on(&with_ports(SENTINEL, 26379, deployment.sentinels().iter().map(|sentinel| sentinel.port())));
}

#[test]
fn the_ready_file_of_a_cluster() {
    let cluster = RedisCluster::start().expect("a cluster");
    runs_on(&with_ports(CLUSTER, 7000, cluster.ports().into_iter()));
}

#[test]
fn sentinels_with_passwords_and_tls() {
    let certificates = Certificates::new().expect("certificates");
    let tls = ServerTls::new(&certificates).asks_clients();
    let builder = RedisSentinel::builder().tls(&tls).password("hunter2").sentinel_password("hunter2-other");
    let deployment = builder.start().expect("sentinels");
    let topology =
        "topology = \"sentinel\"\nservice_name = \"leasehold\"\nsentinel_password = \"hunter2-other\"";
    runs_on(&guarded(topology, &deployment.sentinel_addresses(), &certificates));
}

#[test]
fn a_cluster_with_password_and_tls() {
    let certificates = Certificates::new().expect("certificates");
    let tls = ServerTls::new(&certificates).asks_clients();
    let cluster = RedisCluster::builder().tls(&tls).password("hunter2").start().expect("a cluster");
    runs_on(&guarded("topology = \"cluster\"", &cluster.addresses(), &certificates));
}
