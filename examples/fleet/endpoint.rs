//! `/metrics` for Prometheus and `/health` for whoever watches the process, over the smallest HTTP that serves both.

use std::{io, net::SocketAddr, time::Duration};

use leasehold::{Engine, metrics::prometheus::Collector};
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::terminal;

/// Serves until the process ends.
pub(crate) async fn serve(engine: &Engine, address: SocketAddr) -> Result<(), String> {
    let cannot = |error: io::Error| format!("--metrics {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let registry = Registry::new();
    let metrics = engine.metrics().ok_or("the engine counts nothing")?;
    registry.register(Box::new(Collector::new(metrics))).map_err(|error| error.to_string())?;
    terminal::say(&format!("metrics: http://{address}/metrics and /health"));
    let engine = engine.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (registry, engine) = (registry.clone(), engine.clone());
            tokio::spawn(tokio::time::timeout(PATIENCE, async move {
                let _ = answer(stream, &registry, &engine).await; // who asked has gone
            }));
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, registry: &Registry, engine: &Engine) -> io::Result<()> {
    let path = requested(&mut stream).await?;
    let (code, kind, body) = match path.as_str() {
        "/metrics" => metrics(registry),
        "/health" => health(engine),
        _ => ("404 Not Found", "text/plain", "ask for /metrics or /health\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

// `GET /metrics?x HTTP/1.1`; the headers are read and not looked at.
async fn requested(stream: &mut TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let path = first.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
    Ok(path.unwrap_or_default().to_owned())
}

fn metrics(registry: &Registry) -> (&'static str, &'static str, String) {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ("200 OK", prometheus::TEXT_FORMAT, text),
        Err(error) => ("500 Internal Server Error", "text/plain", error.to_string()),
    }
}

/// Not connected is not healthy: some locks cannot be had.
fn health(engine: &Engine) -> (&'static str, &'static str, String) {
    let now = engine.snapshot();
    let hot = engine.most_contended().into_iter().take(HOT_MAX);
    let hot: Vec<_> = hot
        .map(
            |lock| json!({ "name": &*lock.name, "waits": lock.waits, "waited_s": lock.waited.as_secs_f64() }),
        )
        .collect();
    let body = json!({
        "connected": now.connected,
        "held": now.held,
        "jeopardy": now.jeopardy,
        "waiting": now.waiting,
        "oldest_waiting_s": now.oldest_waiting.map(|time| time.as_secs_f64()),
        "closing": now.closing,
        "granted": now.granted,
        "released": now.released,
        "lost": now.lost,
        "renewals": now.renewals,
        "renewals_failed": now.renewals_failed,
        "most_contended": hot,
    });
    let code = if now.connected { "200 OK" } else { "503 Service Unavailable" };
    (code, "application/json", format!("{body}\n"))
}

/// For one whole request.
const PATIENCE: Duration = Duration::from_secs(5);
const HOT_MAX: usize = 10;
