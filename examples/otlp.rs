//! Sends an engine's metrics by OTLP, over HTTP: what a service does in its `main`.

use ::opentelemetry::metrics::MeterProvider;
use leasehold::{Metrics, metrics::opentelemetry};
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
};

use crate::Trouble;

/// Sends the metrics to `url`, for example `http://127.0.0.1:4318/v1/metrics`, as often as the environment variable
/// `OTEL_METRIC_EXPORT_INTERVAL` says (milliseconds; by default once a minute), and at the provider's `shutdown`.
///
/// # Errors
/// What is wrong with the URL. A receiver that cannot be reached is none: the next time may be better.
pub fn send(metrics: &Metrics, url: &str) -> Result<SdkMeterProvider, Trouble> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .build()?;
    let provider = SdkMeterProvider::builder()
        .with_resource(Resource::builder().with_service_name("fleet").build())
        .with_reader(PeriodicReader::builder(exporter).build())
        .build();
    opentelemetry::install(metrics, &provider.meter("leasehold"));
    Ok(provider)
}
