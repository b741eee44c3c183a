//! All metrics of an engine, read at one moment, for exporters and for code of the user.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Classes, Elections, LabelSet, LockKind, LockLabels, Numbers,
    descriptors::{self, ALL, Descriptor, Kind},
    live::{Live, LockLive},
};
use crate::{inner::Inner, log, transport::ClockReading};

/// The metrics of one engine; see [`Engine::metrics`](crate::Engine::metrics). The reader keeps no engine alive.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Engine, metrics::Value};
/// use leasehold_memory::MemoryTransport;
///
/// let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
/// let Some(metrics) = engine.metrics() else { return Err("built without metrics".into()) };
/// for family in metrics.read() {
///     for sample in family.samples {
///         if let Value::Number(number) = sample.value {
///             println!("{}{:?} {number}", family.descriptor.name, sample.labels);
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Metrics {
    pub(super) numbers: Arc<Numbers>,
    classes: Arc<Classes>,
    elections: Arc<Elections>,
    inner: Weak<Inner>,
    pub(super) backend: &'static str,
}

/// One metric with all its values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Family {
    /// The metric's name, kind, unit, labels and help.
    pub descriptor: &'static Descriptor,
    /// The metric's values, one for each combination of labels.
    pub samples: Vec<Sample>,
}

/// One value with its labels.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The values of the labels, in the order of the descriptor's labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// A number, or a distribution over buckets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// The value of a counter or gauge.
    Number(f64),
    /// The values of a histogram.
    Distribution(Distribution),
}

/// How many values fell into each bucket of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// The number of values in each bucket alone. The last bucket is that of infinity.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

impl Metrics {
    pub(crate) fn new(numbers: Arc<Numbers>, inner: &Arc<Inner>) -> Self {
        let (classes, backend) = (inner.events.classes.clone(), inner.capabilities.name);
        let elections = inner.events.elections.clone();
        Self { numbers, classes, elections, inner: Arc::downgrade(inner), backend }
    }

    /// Reads all metrics: the gauges at this moment, the counters since the engine was built. The call visits all keys
    /// of the engine, so it is meant for a scrape every few seconds. After the engine has ended, the gauges have no
    /// samples.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).metrics().build().await?;
    /// let families = engine.metrics().map(|metrics| metrics.read()).unwrap_or_default();
    /// let held = families.iter().find(|family| family.descriptor.name == "leasehold_held");
    /// assert!(held.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self) -> Vec<Family> {
        let gauges = self.inner.upgrade().filter(|inner| !inner.process.is_forked());
        let gauges = gauges.map(|inner| (Live::of(&inner), inner));
        let gauges = gauges.as_ref().map(|(live, inner)| Gauges { live, inner });
        ALL.iter().map(|descriptor| self.family(descriptor, gauges.as_ref())).collect()
    }

    fn family(&self, descriptor: &'static Descriptor, gauges: Option<&Gauges<'_>>) -> Family {
        let samples = match (descriptor.kind, gauges) {
            (Kind::Counter, Some(gauges)) if *descriptor == descriptors::BACKEND_REDIRECTS => {
                gauges.redirects(descriptor, self.backend)
            }
            (Kind::Counter, Some(gauges)) if *descriptor == descriptors::TELEMETRY_DROPPED => {
                gauges.dropped(descriptor, self.backend)
            }
            (Kind::Counter | Kind::Histogram(_), _) => self.counted(descriptor),
            (Kind::Gauge, Some(gauges)) => self.gauged(descriptor, gauges),
            (Kind::Gauge, None) => Vec::new(),
        };
        Family { descriptor, samples }
    }

    fn counted(&self, descriptor: &'static Descriptor) -> Vec<Sample> {
        let locks: Vec<Option<LockLabels<'_>>> =
            if descriptor.is_of_lock() { self.locks(descriptor).map(Some).collect() } else { vec![None] };
        let each = |lock| {
            (0..descriptor.combinations()).map(move |combination| Sample {
                labels: labels(self.backend, descriptor, lock, combination),
                value: self.value(descriptor, lock, combination),
            })
        };
        locks.into_iter().flat_map(each).collect()
    }

    // Every class is shown as exclusive from the start, so that rare series begin at 0; as another kind once it has
    // locks of that kind, so that the number of series grows with use and not with the number of kinds.
    fn locks<'a>(&'a self, of: &'a Descriptor) -> impl Iterator<Item = LockLabels<'a>> {
        let sets = self
            .classes
            .iter()
            .flat_map(|class| LockKind::ALL.iter().map(|kind| LabelSet { class: class.id(), kind: *kind }));
        let locks = sets.map(|set| self.classes.labels(set));
        let shown = locks.filter(|lock| lock.kind == LockKind::Exclusive || self.numbers.has(*lock));
        shown.filter(|lock| self.has_recipe(of, *lock))
    }

    /// Whether locks with these labels have the recipe that the metric is of. Most classes have none, and no series.
    fn has_recipe(&self, of: &Descriptor, lock: LockLabels<'_>) -> bool {
        match *of {
            descriptors::ELECTIONS
            | descriptors::LEADING
            | descriptors::TERMS_BEGUN
            | descriptors::TERMS_ENDED => self.elections.has_leader(lock.set()),
            descriptors::JOB_RUNS => self.elections.has_job(lock.set()),
            _ => true,
        }
    }

    fn value(&self, descriptor: &Descriptor, lock: Option<LockLabels<'_>>, combination: usize) -> Value {
        match descriptor.kind {
            Kind::Histogram(_) => {
                let read = self.numbers.read(descriptor, lock, combination);
                Value::Distribution(Distribution { counts: read.counts, sum: read.sum })
            }
            Kind::Counter | Kind::Gauge if *descriptor == descriptors::CLASSES_OVERFLOW => {
                Value::Number(self.classes.overflows() as f64)
            }
            Kind::Counter | Kind::Gauge => {
                Value::Number(self.numbers.count(descriptor, lock, combination) as f64)
            }
        }
    }

    fn gauged(&self, descriptor: &'static Descriptor, gauges: &Gauges<'_>) -> Vec<Sample> {
        if descriptor.is_of_lock() {
            let sample = |lock: LockLabels<'_>| Sample {
                labels: labels(self.backend, descriptor, Some(lock), 0),
                value: Value::Number(gauges.of_lock(descriptor, gauges.live.of_lock(lock))),
            };
            return self.locks(descriptor).map(sample).collect();
        }
        match *descriptor {
            descriptors::BACKEND_UP => return gauges.nodes(self.backend),
            descriptors::CLOCK_OFFSET => return gauges.clocks(self.backend),
            descriptors::HOT_LOCK_WAIT => return gauges.hot_locks(),
            _ => {}
        }
        let value = Value::Number(gauges.of_engine(descriptor, &self.classes));
        let label = |label: &descriptors::Label| match *label {
            descriptors::VERSION => env!("CARGO_PKG_VERSION").to_owned(),
            descriptors::ENGINE_LABEL => gauges.inner.label.to_string(),
            _ => self.backend.to_owned(),
        };
        vec![Sample { labels: descriptor.labels.iter().map(label).collect(), value }]
    }
}

/// The values of a metric's labels, in the order of the labels.
pub(super) fn labels(
    backend: &str,
    descriptor: &Descriptor,
    lock: Option<LockLabels<'_>>,
    combination: usize,
) -> Vec<String> {
    let mut known = descriptor.values_of(combination).into_iter();
    let value = |label: &descriptors::Label| match (*label, lock) {
        (descriptors::CLASS, Some(lock)) => lock.class.name().to_owned(),
        (descriptors::KIND, Some(lock)) => lock.kind.as_str().to_owned(),
        (descriptors::BACKEND, _) => backend.to_owned(),
        _ => known.next().unwrap_or_default().to_owned(),
    };
    descriptor.labels.iter().map(value).collect()
}

/// The tables that gauges are read from.
struct Gauges<'a> {
    live: &'a Live,
    inner: &'a Inner,
}

impl Gauges<'_> {
    fn of_lock(&self, descriptor: &Descriptor, live: &LockLive) -> f64 {
        match *descriptor {
            descriptors::HELD => live.held as f64,
            descriptors::IN_JEOPARDY => live.in_jeopardy as f64,
            descriptors::WAITERS => live.waiters as f64,
            descriptors::WAITERS_MAX => live.waiters_max as f64,
            descriptors::CONTENDED => live.contended as f64,
            descriptors::OLDEST_WAITER => live.oldest_waiter.as_secs_f64(),
            descriptors::OLDEST_HOLD => live.oldest_hold.as_secs_f64(),
            descriptors::ELECTIONS => live.elections as f64,
            descriptors::LEADING => live.leading as f64,
            _ => unreachable!("{} is no gauge of a lock", descriptor.name),
        }
    }

    fn of_engine(&self, descriptor: &Descriptor, classes: &Classes) -> f64 {
        let inner = self.inner;
        match *descriptor {
            descriptors::OWNERS_CLOSING => inner.events.totals.closing.value() as f64,
            descriptors::UNSENT_CALLS => inner.dispatcher.unsent_calls() as f64,
            descriptors::SILENT_NODES => inner.dispatcher.silent_nodes() as f64,
            descriptors::SUBSCRIPTIONS => self.live.subscriptions as f64,
            descriptors::BACKEND_CONNECTED => f64::from(inner.is_connected()),
            descriptors::TOPOLOGY_EPOCH => {
                inner.renewals.topology().map_or(0.0, |topology| topology.epoch() as f64)
            }
            descriptors::CLASSES => classes.iter().count() as f64,
            descriptors::LEASES_MAX => inner.config.leases_max as f64,
            descriptors::CALLERS_MAX => inner.config.waiters_max as f64,
            descriptors::BUILD_INFO => 1.0,
            _ => unreachable!("{} is no gauge of an engine", descriptor.name),
        }
    }

    // The nodes as the lane for renewals sees them.
    fn nodes(&self, backend: &str) -> Vec<Sample> {
        let topology = self.inner.renewals.topology().unwrap_or_default();
        let sample = |node: &crate::routing::topology::Node| Sample {
            labels: vec![backend.to_owned(), node.address.clone()],
            value: Value::Number(f64::from(node.connected)),
        };
        topology.nodes().iter().map(sample).collect()
    }

    // Names may be private, so there is none unless the settings want them.
    fn hot_locks(&self) -> Vec<Sample> {
        if !self.inner.config.hot_lock_names {
            return Vec::new();
        }
        let sample = |(name, waited): (Arc<str>, Duration)| Sample {
            labels: vec![name.to_string()],
            value: Value::Number(waited.as_secs_f64()),
        };
        self.inner.hot.hottest().into_iter().map(sample).collect()
    }

    // The sum of both lanes: each lane follows redirections by itself.
    fn redirects(&self, descriptor: &'static Descriptor, backend: &str) -> Vec<Sample> {
        let [calls, renewals] = [self.inner.calls.stats(), self.inner.renewals.stats()];
        let counts = [calls.moved + renewals.moved, calls.asked + renewals.asked];
        counters(descriptor, backend, counts)
    }

    fn dropped(&self, descriptor: &Descriptor, backend: &str) -> Vec<Sample> {
        counters(descriptor, backend, [self.inner.events.dropped(), log::dropped()])
    }

    // The clocks as the lane for renewals sees them.
    fn clocks(&self, backend: &str) -> Vec<Sample> {
        let (stats, wall) = (self.inner.renewals.stats(), self.inner.clock.wall_ahead_micros());
        let topology = self.inner.renewals.topology().unwrap_or_default();
        let sample = |clock: &ClockReading| {
            let labels = vec![backend.to_owned(), topology.node(clock.node)?.address.clone()];
            let ahead_micros = clock.ahead_micros.saturating_sub(wall);
            Some(Sample { labels, value: Value::Number(ahead_micros as f64 / 1e6) })
        };
        stats.clocks.iter().filter_map(sample).collect()
    }
}

fn counters<const N: usize>(descriptor: &Descriptor, backend: &str, counts: [u64; N]) -> Vec<Sample> {
    let sample = |(combination, count)| Sample {
        labels: labels(backend, descriptor, None, combination),
        value: Value::Number(count as f64),
    };
    counts.into_iter().enumerate().map(sample).collect()
}

impl Distribution {
    /// The number of all values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({})", self.backend)
    }
}
