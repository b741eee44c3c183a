//! `leasehold top --metrics`: engines in this process export their metrics as a service does.

use std::time::Duration;

use leasehold::{Engine, EngineConfig, metrics::prometheus::Collector};
use leasehold_memory::MemoryTransport;
use leasehold_tests::harness::port::free_port;
use prometheus::{Registry, TextEncoder};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use crate::program::{Ended, Program};

/// A service with one engine, and the address of its metrics.
struct Service {
    runtime: Runtime,
    engine: Engine,
    url: String,
}

impl Service {
    fn start(hot_lock_names: bool) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (engine, url) = runtime.block_on(async {
            let mut config = EngineConfig::default();
            (config.name_prefix, config.hot_lock_names) = ("app:".to_owned(), hot_lock_names);
            let builder = Engine::builder(MemoryTransport::new()).config(config).metrics();
            let engine = builder.build().await.expect("an engine");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}/metrics", listener.local_addr().expect("bound"));
            tokio::spawn(serve(listener, registry(&engine)));
            (engine, url)
        });
        Self { runtime, engine, url }
    }

    /// A caller waits for so long, in vain.
    fn wait_for(&self, name: &str, millis: u64) {
        self.runtime.block_on(async {
            let _held = self.engine.lock(name).acquire().await.expect("free");
            let lock = self.engine.lock(name).wait(Duration::from_millis(millis));
            lock.acquire().await.expect_err("held");
        });
    }
}

fn registry(engine: &Engine) -> Registry {
    let registry = Registry::new();
    let collector = Collector::new(engine.metrics().expect("built with metrics"));
    registry.register(Box::new(collector)).expect("valid names");
    registry
}

async fn serve(listener: TcpListener, registry: Registry) {
    while let Ok((stream, _)) = listener.accept().await {
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let _ = answer(stream, &text).await; // a client that has gone
    }
}

async fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(&mut stream).lines();
    let is_there = lines.next_line().await?.is_some_and(|line| line.starts_with("GET /metrics "));
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let (status, body) = if is_there { ("200 OK", text) } else { ("404 Not Found", "") };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

/// Looks once at these addresses. No server is named.
fn once(urls: &[&str], more: &[&str]) -> Ended {
    let metrics = urls.iter().flat_map(|url| ["--metrics", url]);
    let arguments: Vec<_> =
        ["top", "--once"].into_iter().chain(metrics).chain(more.iter().copied()).collect();
    Program::start_with(&[], &arguments).end()
}

#[test]
fn the_waits_of_two_processes_are_added_by_name() {
    let (one, other) = (Service::start(true), Service::start(true));
    one.wait_for("orders:\"42\"", 300);
    other.wait_for("orders:\"42\"", 300);
    other.wait_for("report", 50);
    let seen = once(&[&one.url, &other.url], &["--json"]).expect_code(0).document();
    let locks = seen["locks"].as_array().expect("a list");
    let names: Vec<_> = locks.iter().map(|lock| &lock["name"]).collect();
    assert_eq!(names, ["orders:\"42\"", "report"], "{seen}");
    let waited = locks[0]["waited_ms"].as_u64().expect("a number");
    assert!(waited >= 600 && locks[0]["processes"] == 2 && seen["processes"] == 2, "{seen}");
    assert_eq!(seen["not_read"], serde_json::json!([]), "{seen}");
    let text = once(&[&one.url, &other.url], &["--limit", "1", "ord*"]).expect_code(0).stdout;
    assert!(text.starts_with("2 of 2 processes read, 1 locks with waits"), "{text}");
    assert!(text.contains("\"orders:\\\"42\\\"\"") && !text.contains("report"), "{text}");
}

#[test]
fn without_names_it_says_how_to_get_them() {
    let service = Service::start(false);
    service.wait_for("private", 50);
    let text = once(&[&service.url], &[]).expect_code(0).stdout;
    assert!(text.contains("set hot_lock_names = true in [engine]") && !text.contains("private"), "{text}");
}

#[test]
fn a_process_that_cannot_be_read_is_named_and_the_others_are_shown() {
    let service = Service::start(true);
    service.wait_for("report", 50);
    let dead = format!("http://127.0.0.1:{}/metrics", free_port().expect("a port"));
    let ended = once(&[&dead, &service.url], &["--json"]).expect_code(75);
    let seen = ended.document();
    assert_eq!(
        (&seen["locks"][0]["name"], &seen["not_read"][0]["url"]),
        (&"report".into(), &dead.as_str().into())
    );
    let error = ended.event("error");
    let said = error["error"].as_str().expect("text");
    assert_eq!(said, "the list is incomplete: 1 of 2 processes could not be read");
    assert_eq!(
        seen["not_read"][0]["error"],
        "Connection refused; check that a process exports its metrics at this address"
    );
    let lost = service.url.replace("/metrics", "/lost");
    let ended = once(&[&lost], &[]).expect_code(75);
    assert!(ended.stdout.contains(&format!("not read: {lost}: ")) && ended.stdout.contains("404 Not Found"));
    assert_eq!(ended.stderr, "leasehold: the list is incomplete: 1 of 1 processes could not be read\n");
}

#[test]
fn it_looks_again_and_tells_of_a_process_that_ends() {
    let service = Service::start(true);
    let top = Program::start_with(&[], &["top", "--interval", "100ms", "--metrics", &service.url]);
    top.until_text("1 of 1 processes read, 0 locks");
    service.wait_for("report", 50);
    top.until_text("\"report\"");
    service.runtime.shutdown_background();
    top.until_text(&format!("not read: {}: ", service.url));
    top.signal(Signal::TERM);
    top.end();
}

#[test]
fn addresses_that_cannot_be_read_are_refused_with_the_remedy() {
    for (url, remedy) in [
        ("https://a:9464/metrics", "https is not supported; write http://HOST:PORT/metrics"),
        ("a:9464", "is no http address; write http://HOST:PORT/metrics"),
        ("http://u:hunter2@a:9464", "a user and a password are not supported"),
    ] {
        let said = once(&[url], &[]).expect_code(64).stderr;
        assert!(said.contains("--metrics <URL>") && said.contains(remedy), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let both = once(&["http://127.0.0.1:1"], &["--url", "redis://127.0.0.1"]).expect_code(64).stderr;
    assert!(both.contains("--metrics cannot be combined with --config or --url"), "{both}");
    let rate = once(&["http://127.0.0.1:1"], &["--rate", "5"]).expect_code(64).stderr;
    assert!(rate.contains("cannot be used with"), "{rate}");
}
