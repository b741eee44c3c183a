//! Where the engine's metrics go: served for Prometheus, sent by OTLP, or both, as the options say. An option without
//! its feature has been refused before (`features.rs`).

use leasehold::Engine;
#[cfg(feature = "otlp")]
use leasehold_examples::otlp;
#[cfg(feature = "otlp")]
use opentelemetry_sdk::metrics::SdkMeterProvider as Provider;

#[cfg(feature = "metrics")]
use crate::endpoint;
use crate::options::Options;

/// What sends the metrics; without the feature `otlp`, nothing does.
#[cfg(not(feature = "otlp"))]
enum Provider {}

/// The metrics on their way.
pub(crate) struct Telemetry(Option<Provider>);

impl Telemetry {
    /// Before the first lock is asked for: what comes later than the metrics is in no histogram.
    pub(crate) async fn start(engine: &Engine, options: &Options) -> Result<Self, String> {
        serve(engine, options).await?;
        send(engine, options).await.map(Self)
    }

    /// Sends the last values.
    pub(crate) async fn end(self) {
        if let Some(provider) = self.0 {
            let _ = tokio::task::spawn_blocking(move || shut_down(provider)).await;
        }
    }
}

#[cfg(feature = "metrics")]
async fn serve(engine: &Engine, options: &Options) -> Result<(), String> {
    match options.metrics {
        Some(address) => endpoint::serve(engine, address).await,
        None => Ok(()),
    }
}

#[cfg(not(feature = "metrics"))]
async fn serve(_: &Engine, _: &Options) -> Result<(), String> {
    Ok(())
}

#[cfg(feature = "otlp")]
async fn send(engine: &Engine, options: &Options) -> Result<Option<Provider>, String> {
    let Some(url) = options.otlp.clone() else { return Ok(None) };
    let metrics = engine.metrics().ok_or("the engine counts nothing")?;
    // Its HTTP client is a blocking one and must not be made on a worker.
    let sending =
        tokio::task::spawn_blocking(move || otlp::send(&metrics, &url).map_err(|why| format!("{why:?}")));
    sending.await.map_err(|error| error.to_string())?.map(Some)
}

#[cfg(not(feature = "otlp"))]
async fn send(_: &Engine, _: &Options) -> Result<Option<Provider>, String> {
    Ok(None)
}

#[cfg(feature = "otlp")]
fn shut_down(provider: Provider) {
    let _ = provider.shutdown();
}

#[cfg(not(feature = "otlp"))]
fn shut_down(provider: Provider) {
    match provider {}
}
