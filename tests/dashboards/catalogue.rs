//! What can be asked for: the engine's metrics as Prometheus stores them, and what the rules record.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::metrics::descriptors::{ALL, Descriptor, Kind, Label};

use crate::{expression, rules};

/// The labels a series has, and the metric it belongs to.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) labels: BTreeSet<String>,
    pub(crate) metric: Option<Descriptor>,
    /// Whether only its growth means something.
    pub(crate) grows: bool,
}

pub(crate) type Catalogue = BTreeMap<String, Series>;

/// What processes export.
pub(crate) fn exported() -> Catalogue {
    ALL.iter().flat_map(stored_as).collect()
}

/// The same, and what the rules record.
pub(crate) fn with_recorded() -> Catalogue {
    let mut known = exported();
    for rule in rules::recording() {
        let labels = expression::check(&rule.expression, &known).labels;
        known.insert(rule.name, Series { labels, metric: None, grows: false });
    }
    known
}

fn stored_as(metric: &Descriptor) -> Vec<(String, Series)> {
    let counts = !matches!(metric.kind, Kind::Gauge);
    let series = |suffix: &str, more: &[&str]| {
        let own = metric.labels.iter().map(|label| label.name);
        let labels = own.chain(["job", "instance"]).chain(more.iter().copied()).map(str::to_owned).collect();
        (format!("{}{suffix}", metric.name), Series { labels, metric: Some(*metric), grows: counts })
    };
    match metric.kind {
        Kind::Counter | Kind::Gauge => vec![series("", &[])],
        Kind::Histogram(_) => vec![series("_bucket", &["le"]), series("_sum", &[]), series("_count", &[])],
        other => panic!("{} is a {other:?}, which this test does not know", metric.name),
    }
}

impl Series {
    /// The label of that name, if the metric has it.
    pub(crate) fn label(&self, name: &str) -> Option<Label> {
        let labels = self.metric.map_or(&[][..], |metric| metric.labels);
        labels.iter().find(|label| label.name == name).copied()
    }

    /// Whether some value of `le` is a bound of it.
    pub(crate) fn has_bound(&self, le: &str) -> bool {
        let bounds = match self.metric.map(|metric| metric.kind) {
            Some(Kind::Histogram(bounds)) => bounds,
            _ => &[],
        };
        le == "+Inf" || bounds.iter().any(|bound| bound.to_string() == le)
    }
}
