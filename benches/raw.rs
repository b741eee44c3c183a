//! What the server itself can do: the limits that everything is measured against.

use std::{process::Command, time::Instant};

use leasehold_tests::harness::raw_client::RawClient;

pub(crate) const ACQUIRE: &str = include_str!("../transports/redis/scripts/acquire.lua");
pub(crate) const RELEASE: &str = include_str!("../transports/redis/scripts/release.lua");
pub(crate) const FAR: &str = "9007199254740991";

/// Acquires and releases one after the other over one blocking socket: the median round trip in µs.
pub(crate) fn round_trip_micros(port: u16, times: usize) -> f64 {
    let mut client = RawClient::connect(port).expect("a connection");
    let (acquire, release) = (load(&mut client, ACQUIRE), load(&mut client, RELEASE));
    let mut micros = Vec::with_capacity(2 * times);
    for _ in 0..times {
        let begin = Instant::now();
        client.command(&["EVALSHA", &acquire, "1", "raw", "30000", "raw:1", FAR]).expect("a reply");
        let between = Instant::now();
        client
            .command(&["EVALSHA", &release, "1", "raw", "raw:1", "redisson_lock__channel:{raw}"])
            .expect("a reply");
        micros.push((between - begin).as_secs_f64() * 1e6);
        micros.push(between.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}

/// `raw(c, P)` of the performance page: pairs a second, one lock a command, by redis-benchmark.
pub(crate) fn pairs_per_second(port: u16, clients: usize, pipeline: usize, requests: usize) -> f64 {
    let mut client = RawClient::connect(port).expect("a connection");
    let (acquire, release) = (load(&mut client, ACQUIRE), load(&mut client, RELEASE));
    let run = |arguments: &[&str]| benchmark(port, clients, pipeline, requests, arguments);
    let acquires = run(&["EVALSHA", &acquire, "1", "raw:__rand_int__", "30000", "raw:1", FAR]);
    let releases =
        run(&["EVALSHA", &release, "1", "raw:__rand_int__", "raw:1", "redisson_lock__channel:{raw}"]);
    client.command(&["FLUSHALL"]).expect("a reply");
    1.0 / (1.0 / acquires + 1.0 / releases)
}

pub(crate) fn load(client: &mut RawClient, script: &str) -> String {
    let sha = client.command(&["SCRIPT", "LOAD", script]).expect("a reply");
    sha.text().expect("a digest").to_string()
}

fn benchmark(port: u16, clients: usize, pipeline: usize, requests: usize, command: &[&str]) -> f64 {
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(["-p", &port.to_string(), "-c", &clients.to_string(), "-P", &pipeline.to_string()]);
    benchmark.args(["-n", &requests.to_string(), "-r", "100000", "--csv"]).args(command);
    let out = benchmark.output().expect("redis-benchmark is installed: apt-get install redis-tools");
    let text = String::from_utf8_lossy(&out.stdout);
    let last = text.lines().last().expect("a line of figures");
    // The command itself may hold commas; the figures are the last fields.
    let figures: Vec<&str> = last.split("\",\"").collect();
    figures[1].trim_matches('"').parse().unwrap_or_else(|_| panic!("no figure in {last}"))
}
