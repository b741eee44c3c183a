//! The engine's metrics for an OpenTelemetry meter of the service. Needs the feature `opentelemetry`, and the version
//! 0.33 of the crate `opentelemetry`.
//!
//! Counters and gauges are observable instruments over the same numbers that [`Metrics::read`] reads. Histograms have
//! no observable form, so the engine also records each value in a histogram of the meter, with the same bounds. Call
//! [`install`] right after the engine is built, before the first lock is acquired. A histogram without a value is not
//! exported.
//!
//! The names translate to the names of the Prometheus metrics, so one dashboard serves both.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Histogram, Meter},
};

use super::{
    Family, LabelSet, LockLabels, Metrics, Value,
    descriptors::{ALL, Descriptor, Kind, Unit},
    numbers::Listener,
    reading,
};
use crate::clock::{Clock, Instant};

/// Registers all metrics with a meter. `false`: these metrics are registered with a meter already.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Engine, metrics::opentelemetry};
/// use leasehold_memory::MemoryTransport;
///
/// let meter = ::opentelemetry::global::meter("my-service");
/// let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
/// if let Some(metrics) = engine.metrics() {
///     assert!(opentelemetry::install(&metrics, &meter)); // before the first lock is asked for
/// }
/// # Ok(())
/// # }
/// ```
pub fn install(metrics: &Metrics, meter: &Meter) -> bool {
    let histograms =
        ALL.iter().filter_map(|descriptor| Some((descriptor.name, histogram(meter, descriptor)?)));
    let recorded = Recorded {
        backend: metrics.backend,
        histograms: histograms.collect(),
        attributes: RwLock::default(),
    };
    if !metrics.numbers.listen(Arc::new(recorded)) {
        return false;
    }
    let reading = Arc::new(Reading { metrics: metrics.clone(), last: Mutex::default() });
    for (number, descriptor) in ALL.iter().enumerate() {
        observe(meter, number, descriptor, reading.clone());
    }
    true
}

fn histogram(meter: &Meter, descriptor: &Descriptor) -> Option<Histogram<f64>> {
    let Kind::Histogram(bounds) = descriptor.kind else { return None };
    let builder = meter.f64_histogram(descriptor.otel_name()).with_description(descriptor.help);
    let builder = if let Some(unit) = unit(descriptor) { builder.with_unit(unit) } else { builder };
    Some(builder.with_boundaries(bounds.to_vec()).build())
}

fn observe(meter: &Meter, number: usize, descriptor: &'static Descriptor, reading: Arc<Reading>) {
    let name = descriptor.otel_name();
    match descriptor.kind {
        Kind::Counter => {
            let builder = meter.u64_observable_counter(name).with_description(descriptor.help);
            let look = move |out: &dyn AsyncInstrument<u64>| {
                reading.tell(number, |value, attributes| out.observe(value as u64, attributes));
            };
            let _ = builder.with_callback(look).build();
        }
        Kind::Gauge => {
            let builder = meter.f64_observable_gauge(name).with_description(descriptor.help);
            let builder = if let Some(unit) = unit(descriptor) { builder.with_unit(unit) } else { builder };
            let look = move |out: &dyn AsyncInstrument<f64>| {
                reading.tell(number, |value, attributes| out.observe(value, attributes));
            };
            let _ = builder.with_callback(look).build();
        }
        Kind::Histogram(_) => {}
    }
}

// Never "1": some translators append `_ratio` to the name for it.
fn unit(descriptor: &Descriptor) -> Option<&'static str> {
    match descriptor.unit {
        Unit::Seconds => Some("s"),
        Unit::None => None,
    }
}

fn attributes(descriptor: &Descriptor, labels: &[String]) -> Vec<KeyValue> {
    let labels = descriptor.labels.iter().zip(labels);
    labels.map(|(label, value)| KeyValue::new(label.name, value.clone())).collect()
}

/// One reading for all instruments of a collection, so that they show the same moment.
struct Reading {
    metrics: Metrics,
    last: Mutex<Option<(Instant, Arc<Vec<Family>>)>>,
}

impl Reading {
    fn tell(&self, number: usize, mut observe: impl FnMut(f64, &[KeyValue])) {
        let families = self.present();
        let Family { descriptor, samples } = &families[number];
        for sample in samples {
            match &sample.value {
                Value::Number(value) => observe(*value, &attributes(descriptor, &sample.labels)),
                Value::Distribution(_) => {}
            }
        }
    }

    fn present(&self) -> Arc<Vec<Family>> {
        let now = Clock::Boot.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, families)) if now - *at < ONE_COLLECTION => families.clone(),
            _ => {
                let families = Arc::new(self.metrics.read());
                *last = Some((now, families.clone()));
                families
            }
        }
    }
}

type Attributes = HashMap<(&'static str, Option<LabelSet>, usize), Arc<[KeyValue]>>;

/// Records each value of a histogram in the meter. `Numbers` owns the recorder, so it must not keep `Numbers` alive.
struct Recorded {
    backend: &'static str,
    histograms: HashMap<&'static str, Histogram<f64>>,
    attributes: RwLock<Attributes>,
}

impl Recorded {
    fn attributes(
        &self,
        metric: &'static Descriptor,
        lock: Option<LockLabels<'_>>,
        combination: usize,
    ) -> Arc<[KeyValue]> {
        let key = (metric.name, lock.map(LockLabels::set), combination);
        let known = self.attributes.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let labels = reading::labels(self.backend, metric, lock, combination);
            let made: Arc<[KeyValue]> = attributes(metric, &labels).into();
            self.attributes.write().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
            made
        })
    }
}

impl Listener for Recorded {
    fn heard(
        &self,
        metric: &'static Descriptor,
        lock: Option<LockLabels<'_>>,
        combination: usize,
        value: f64,
    ) {
        if let Some(histogram) = self.histograms.get(metric.name) {
            histogram.record(value, &self.attributes(metric, lock, combination));
        }
    }
}

const ONE_COLLECTION: Duration = Duration::from_millis(10);
