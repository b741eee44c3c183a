//! The HTTP service tells a client whether the lock is held or the servers are down.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use leasehold::Engine;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;

use crate::program::Program;

/// The answer to a request: its status line and headers in lower case, and its body.
fn asked(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    answer.to_lowercase()
}

/// The service, and where it listens.
fn started(arguments: &[&str]) -> (Program, String) {
    let mut program = Program::start(env!("CARGO_BIN_EXE_guarded_handler"), arguments);
    let line = program.until_stderr(|line| line.starts_with("curl "));
    let (_, url) = line.split_once("http://").expect("a URL");
    (program, url.split('/').next().expect("an address").to_owned())
}

const SHIP: &str = "POST /orders/42/ship";

#[tokio::test]
async fn held_is_409_and_an_outage_is_503() {
    let mut server = RedisServer::start().expect("a server");
    let url = server.url();
    let (program, address) = started(&["--url", &url]);
    assert!(asked(&address, SHIP).starts_with("http/1.1 200 "));

    let transport = RedisTransport::from_url(&url).expect("a URL");
    let other = Engine::builder(transport).build().await.expect("the server answers");
    let lease = other.lock("orders:42").acquire().await.expect("it is free");
    let held = asked(&address, SHIP);
    assert!(held.starts_with("http/1.1 409 ") && held.contains("\r\nretry-after: 1\r\n"), "{held}");
    lease.release().await.expect("it is held");
    assert!(asked(&address, SHIP).starts_with("http/1.1 200 "));

    server.kill().expect("it runs");
    let down = asked(&address, SHIP);
    assert!(down.starts_with("http/1.1 503 ") && down.contains("\r\nretry-after: 1\r\n"), "{down}");
    assert!(!down.contains(&server.port().to_string()), "the client is told a server's address: {down}");
    assert!(asked(&address, "GET /ready").starts_with("http/1.1 503 "));
    program.interrupt();
    program.end().expect_code(0);
}

#[test]
fn it_ends_cleanly_in_memory() {
    let (program, address) = started(&[]);
    assert!(asked(&address, "GET /ready").starts_with("http/1.1 200 "));
    assert!(asked(&address, SHIP).ends_with("order 42 is shipped\n"));
    program.interrupt();
    let ended = program.end().expect_code(0);
    assert!(ended.stderr.contains("0 leases released, 0 not confirmed"), "{}", ended.stderr);
}
