//! Prometheus and OpenTelemetry show the same metrics under the same names with the same values: one engine is
//! scraped, and sends to a real receiver of OTLP, VictoriaMetrics, at the same moment of a clock that stands still.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use leasehold::{Engine, EngineConfig, Job, Leader, NotHeld, metrics::prometheus::Collector};
use leasehold_examples::otlp;
use leasehold_memory::{MemoryTransport, Restart};
use leasehold_tests::harness::{
    polling::{found_within, holds_within},
    port::free_port,
};
use prometheus::{Registry, TextEncoder};
use serde_json::Value;

use crate::program::Program;

/// A value by metric name and labels.
type Series = (String, BTreeMap<String, String>);
type Values = BTreeMap<Series, f64>;

/// A receiver, ended by its process id.
struct Receiver {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
}

impl Receiver {
    fn start() -> Self {
        let (port, data) = (free_port().expect("a port"), tempfile::tempdir().expect("a directory"));
        let mut command = Command::new(PROGRAM);
        command.arg(format!("-httpListenAddr=127.0.0.1:{port}"));
        command.arg("-opentelemetry.usePrometheusNaming").arg("-search.latencyOffset=0s");
        command.arg(format!("-storageDataPath={}", data.path().display()));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("{PROGRAM}: {error}; tests/harness/victoria_metrics.sh"));
        let receiver = Self { child, port, _data: data };
        found_within(PATIENCE, || get(port, "/health").filter(|body| body == "OK")).expect("it starts");
        receiver
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/opentelemetry/v1/metrics", self.port)
    }

    /// The latest value of each of our series.
    fn values(&self) -> Values {
        let body =
            get(self.port, "/api/v1/export?match[]={__name__=~%22leasehold_.*%22}").unwrap_or_default();
        body.lines().map(value_of).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn value_of(line: &str) -> ((String, BTreeMap<String, String>), f64) {
    let series: Value = serde_json::from_str(line).expect("a line of JSON");
    let labels = series["metric"].as_object().expect("labels").iter();
    let mut labels: BTreeMap<_, _> =
        labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    let name = labels.remove("__name__").expect("a name");
    labels.retain(|name, _| OURS.contains(&name.as_str())); // the others are of the resource
    let values = series["values"].as_array().expect("values");
    ((name, labels), values.last().and_then(Value::as_f64).expect("a number"))
}

fn scraped(text: &str) -> Values {
    text.lines().filter(|line| !line.starts_with('#')).map(sample_of).collect()
}

// `name{label="value",...} number`; no value of ours has a quote or a comma in it.
fn sample_of(line: &str) -> ((String, BTreeMap<String, String>), f64) {
    let (series, number) = line.rsplit_once(' ').expect("a number at the end");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
    let labels = labels.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect();
    ((name.to_owned(), labels), number.parse().expect("a number"))
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// Some of everything: waits, losses, renewals, a timeout, two classes, a leader, a job.
async fn some_life(engine: &Engine, memory: &MemoryTransport) {
    let orders = engine.lock("orders:1").class("orders");
    let held = orders.acquire().await.expect("free");
    let leader = Leader::of(engine.lock("leader").class("leaders"));
    let leads = tokio::spawn(leader.run(|_term| std::future::pending::<Result<(), NotHeld>>()));
    let job = Job::new(engine, "job", Duration::from_secs(60)).class("jobs");
    job.run_if_due(async |lease| lease.ensure_held()).await.expect("it runs");
    orders.clone().wait(Duration::from_millis(70)).acquire().await.expect_err("held");
    let next = tokio::spawn(orders.acquire());
    tokio::time::sleep(Duration::from_secs(25)).await;
    held.release().await.expect("ours");
    next.await.expect("no panic").expect("free").release().await.expect("ours");
    let lost = engine.lock("jobs:1").class("jobs").acquire().await.expect("free");
    memory.restart(Restart::DataLost);
    lost.lost().await;
    let _held = engine.lock("jobs:2").class("jobs").acquire().await.expect("free");
    tokio::time::sleep(Duration::from_secs(12)).await;
    // The exporter reads on a thread of its own, where the engine's paused clock is another: no lease has an age then.
    leads.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn both_exporters_give_the_same_names_and_values() {
    let (receiver, memory) = (Receiver::start(), MemoryTransport::new());
    let mut config = EngineConfig::default();
    config.hot_lock_names = true;
    let builder = Engine::builder(memory.clone()).config(config).on_current_runtime().metrics();
    let engine = builder.build().await.expect("an engine");
    let (registry, metrics) = (Registry::new(), engine.metrics().expect("built with metrics"));
    registry.register(Box::new(Collector::new(metrics.clone()))).expect("valid names");
    let url = receiver.url();
    let provider = std::thread::spawn(move || otlp::send(&metrics, &url).expect("a good URL"));
    let provider = provider.join().expect("no panic");
    some_life(&engine, &memory).await;

    // No await from here on: the engine's clock stands still.
    let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    provider.force_flush().expect("received");
    let scraped = scraped(&text);
    let is_empty_histogram = |(name, labels): &Series| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let labels =
            || labels.iter().filter(|(name, _)| *name != "le").map(|(a, b)| (a.clone(), b.clone())).collect();
        base.is_some_and(|base| scraped.get(&(format!("{base}_count"), labels())) == Some(&0.0))
    };
    // A bucket that is as full as the one before need not be sent.
    let is_sent = |series: &Series| !is_empty_histogram(series) && !series.0.ends_with("_bucket");
    let is_wrong = |series: &Series, value: f64, sent: &Values| match sent.get(series) {
        Some(other) => !is_empty_histogram(series) && (value - other).abs() > 1e-9 * value.abs().max(1.0),
        None => is_sent(series),
    };
    let (mut sent, mut wrong) = (Values::new(), Vec::new());
    // The receiver shows what it was sent part by part, and in a slow run what it was sent a minute after the begin.
    let all_arrived = holds_within(PATIENCE, || {
        sent = receiver.values();
        let all = scraped.iter().filter(|(series, value)| is_wrong(series, **value, &sent));
        wrong = all.map(|(series, value)| (series.clone(), *value, sent.get(series).copied())).collect();
        wrong.is_empty()
    });
    assert!(all_arrived, "scraped, and not sent so: {wrong:?}");

    let compared =
        scraped.keys().filter(|series| sent.contains_key(*series) && !is_empty_histogram(series)).count();
    assert!(compared > SERIES_MIN, "{compared}");
    let hot = (HOT.to_owned(), [("lock".to_owned(), "orders:1".to_owned())].into());
    assert!(scraped[&hot] > 20.0 && sent.contains_key(&hot), "{scraped:?}");
    let strange: Vec<_> = sent.keys().filter(|series| !scraped.contains_key(series)).collect();
    assert!(strange.is_empty(), "sent only: {strange:?}");
    let _ = std::thread::spawn(move || provider.shutdown()).join();
}

#[test]
fn fleet_serves_and_sends_its_metrics() {
    let receiver = Receiver::start();
    let url = receiver.url();
    let line = ["--leases", "50", "--contenders", "8", "--keys", "2", "--seconds", "3"];
    let line = [&line[..], &["--metrics", "127.0.0.1:0", "--otlp", &url, "--json"]].concat();
    let mut fleet = Program::start(env!("CARGO_BIN_EXE_fleet"), &line);
    let said = fleet.until_stderr(|line| line.starts_with("metrics: "));
    let port = said.split([':', '/']).nth(5).and_then(|port| port.parse().ok()).expect("a port");
    let held = found_within(PATIENCE, || {
        let health: Value = serde_json::from_str(&get(port, "/health")?).ok()?;
        (health["held"].as_u64()? >= 50).then_some(health)
    });
    assert_eq!(held.expect("all held")["connected"], true);
    let names =
        |values: Values| values.into_keys().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>();
    // The metric that names locks has no series before the first caller has waited.
    let scraped = || Some(names(scraped(&get(port, "/metrics")?))).filter(|names| names.contains(HOT));
    let scraped = found_within(PATIENCE, scraped).expect("a lock is contended");
    assert!(get(port, "/").expect("served").contains("/metrics"));
    fleet.end().expect_code(0);
    let sent = found_within(PATIENCE, || Some(names(receiver.values())).filter(|names| !names.is_empty()));
    let sent = sent.expect("sent at the end");
    let strange: Vec<_> = sent.difference(&scraped).collect();
    assert!(strange.is_empty(), "{strange:?}");
    for name in ["leasehold_acquire_total", "leasehold_acquire_wait_seconds_bucket", "leasehold_held"] {
        assert!(scraped.contains(name) && sent.contains(name), "{name} in {sent:?}");
    }
}

const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../target/servers/victoria-metrics/victoria-metrics");
const OURS: [&str; 20] = [
    "lock",
    "class",
    "composition",
    "counter",
    "outcome",
    "reason",
    "source",
    "result",
    "operation",
    "error",
    "thread",
    "backend",
    "node",
    "version",
    "le",
    "kind",
    "type",
    "listener",
    "end",
    "engine_label",
];
const HOT: &str = "leasehold_hot_lock_wait_seconds";
const SERIES_MIN: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);
