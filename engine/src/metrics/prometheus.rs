//! The engine's metrics for a Prometheus registry of the service. Needs the feature `prometheus`.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use leasehold::{Engine, metrics::prometheus::Collector};
//! use leasehold_memory::MemoryTransport;
//!
//! let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
//! let registry = prometheus::Registry::new();
//! registry.register(Box::new(Collector::new(engine.metrics().expect("built with metrics"))))?;
//! # assert!(registry.gather().iter().any(|family| family.name() == "leasehold_build_info"));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

use prometheus::{
    core::Desc,
    proto::{self, LabelPair, MetricFamily, MetricType},
};

use super::{
    Distribution, Family, Metrics, Sample, Value,
    descriptors::{ALL, Descriptor, Kind},
};

/// Collects all metrics of one engine for a Prometheus registry. Two engines in one registry need a label that tells
/// them apart: give each a registry of its own, with constant labels.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Engine, metrics::prometheus::Collector};
/// use leasehold_memory::MemoryTransport;
///
/// let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
/// let Some(metrics) = engine.metrics() else { return Err("built without metrics".into()) };
/// let labels = [("engine".to_owned(), "orders".to_owned())].into();
/// let registry = prometheus::Registry::new_custom(None, Some(labels))?;
/// registry.register(Box::new(Collector::new(metrics)))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Collector {
    metrics: Metrics,
    descs: Vec<Desc>,
}

impl Collector {
    /// Makes a collector of these metrics.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, descs: ALL.iter().filter_map(desc).collect() }
    }
}

impl prometheus::core::Collector for Collector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let families = self.metrics.read();
        families.into_iter().filter(|family| !family.samples.is_empty()).map(family_of).collect()
    }
}

// The names and labels are valid: a test registers all of them.
fn desc(descriptor: &Descriptor) -> Option<Desc> {
    let labels = descriptor.labels.iter().map(|label| label.name.to_owned()).collect();
    Desc::new(descriptor.name.into(), descriptor.help.into(), labels, Default::default()).ok()
}

fn family_of(family: Family) -> MetricFamily {
    let descriptor = family.descriptor;
    let mut out = MetricFamily::default();
    out.set_name(descriptor.name.into());
    out.set_help(descriptor.help.into());
    out.set_field_type(match descriptor.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram(_) => MetricType::HISTOGRAM,
    });
    out.set_metric(family.samples.into_iter().map(|sample| metric_of(descriptor, sample)).collect());
    out
}

fn metric_of(descriptor: &Descriptor, sample: Sample) -> proto::Metric {
    let mut labels: Vec<_> = descriptor.labels.iter().zip(sample.labels).map(pair_of).collect();
    labels.sort_by(|a, b| a.name().cmp(b.name()));
    let mut metric = proto::Metric::from_label(labels);
    match (descriptor.kind, sample.value) {
        (Kind::Histogram(bounds), Value::Distribution(values)) => {
            metric.set_histogram(histogram_of(bounds, &values));
        }
        (Kind::Counter, Value::Number(number)) => {
            let mut counter = proto::Counter::default();
            counter.set_value(number);
            metric.set_counter(counter);
        }
        (_, Value::Number(number)) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(number);
            metric.set_gauge(gauge);
        }
        (_, Value::Distribution(_)) => unreachable!("only a histogram has a distribution"),
    }
    metric
}

fn pair_of((label, value): (&super::descriptors::Label, String)) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(label.name.into());
    pair.set_value(value);
    pair
}

fn histogram_of(bounds: &[f64], values: &Distribution) -> proto::Histogram {
    let mut so_far = 0;
    let bucket = |(bound, count): (&f64, &u64)| {
        so_far += count;
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(so_far);
        bucket
    };
    let buckets = bounds.iter().zip(&values.counts).map(bucket).collect();
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(values.count());
    histogram.set_sample_sum(values.sum);
    histogram
}
