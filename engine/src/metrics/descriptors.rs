//! Every metric: its name, kind, unit, labels and meaning. The only place; exporters, dashboards and the documentation
//! are held against it.
//!
//! No label holds the name of a lock or an owner. `class` is bounded by
//! [`CLASSES_MAX`](super::CLASSES_MAX); the values of the others are listed here, but for `node` (the addresses
//! of the topology), `backend` (the transport's name) and `version`.

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Descriptor {
    /// Its name as Prometheus shows it.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it means.
    pub help: &'static str,
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Only rises.
    Counter,
    /// A state of this moment, read when it is asked for.
    Gauge,
    /// A distribution; these are the upper bounds of its buckets, the last one, infinity, left out.
    Histogram(&'static [f64]),
}

/// What a metric is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A count, or a share of one.
    None,
    /// Seconds.
    Seconds,
}

/// One label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// All its values; empty if they come from outside.
    pub values: &'static [&'static str],
}

impl Descriptor {
    /// Whether it has the label `class`.
    pub(crate) const fn has_class(&self) -> bool {
        !self.labels.is_empty()
            && self.labels[0].name.len() == CLASS.name.len()
            && self.labels[0].values.is_empty()
            && self.labels[0].name.as_bytes()[0] == CLASS.name.as_bytes()[0]
    }

    /// How many combinations the labels have whose values are known beforehand.
    pub(crate) const fn combinations(&self) -> usize {
        let (mut combinations, mut label) = (1, 0);
        while label < self.labels.len() {
            if !self.labels[label].values.is_empty() {
                combinations *= self.labels[label].values.len();
            }
            label += 1;
        }
        combinations
    }

    /// The values of those labels in a combination. The last label varies fastest.
    pub(crate) fn values_of(&self, combination: usize) -> Vec<&'static str> {
        let mut rest = combination;
        let known = self.labels.iter().rev().filter(|label| !label.values.is_empty());
        let mut values: Vec<_> = known
            .map(|label| {
                let value = label.values[rest % label.values.len()];
                rest /= label.values.len();
                value
            })
            .collect();
        values.reverse();
        values
    }

    /// The name for OpenTelemetry, chosen so that its translation gives [`name`](Self::name) exactly: translators put a
    /// `_total` behind a counter and `_seconds` behind the unit `s`.
    pub fn otel_name(&self) -> String {
        let bare = self.name.strip_prefix(PREFIX).unwrap_or(self.name);
        let bare = match self.kind {
            Kind::Counter => bare.strip_suffix("_total").unwrap_or(bare),
            Kind::Gauge | Kind::Histogram(_) => bare,
        };
        let bare = match self.unit {
            Unit::Seconds => bare.strip_suffix("_seconds").unwrap_or(bare),
            Unit::None => bare,
        };
        format!("leasehold.{bare}")
    }
}

const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Descriptor {
    Descriptor { name, kind: Kind::Counter, unit: Unit::None, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Descriptor {
    Descriptor { name, kind: Kind::Gauge, unit: Unit::None, labels, help }
}

const fn age(name: &'static str, labels: &'static [Label], help: &'static str) -> Descriptor {
    Descriptor { name, kind: Kind::Gauge, unit: Unit::Seconds, labels, help }
}

const fn seconds(
    name: &'static str,
    labels: &'static [Label],
    bounds: &'static [f64],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind: Kind::Histogram(bounds), unit: Unit::Seconds, labels, help }
}

const fn spread(
    name: &'static str,
    labels: &'static [Label],
    bounds: &'static [f64],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, kind: Kind::Histogram(bounds), unit: Unit::None, labels, help }
}

const fn label(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values }
}

/// All metrics, in the order in which they are shown.
pub const ALL: [Descriptor; 46] = [
    ACQUIRE_STARTED,
    ACQUIRES,
    ACQUIRE_WAIT,
    ACQUIRE_CONTENDED,
    ACQUIRE_ATTEMPTS,
    GRANTS_WITHOUT_CALLER,
    HOLD,
    HELD,
    WAITERS,
    WAITERS_MAX,
    CONTENDED,
    OLDEST_WAITER,
    OLDEST_HOLD,
    WAKEUPS,
    WAKEUP_TO_ACQUIRE,
    RELEASES,
    LEASES_LOST,
    LEASE_LOST_DETECTED,
    LEASE_JEOPARDY,
    IN_JEOPARDY,
    RENEWALS,
    RENEW,
    RENEW_BATCH_SIZE,
    RENEW_MARGIN,
    RENEW_LATENESS,
    ATTEMPTS_UNKNOWN,
    OWNERS_CLOSING,
    TTL_SURPRISES,
    PEERS_WITHOUT_EXPIRY,
    SUBSCRIPTIONS,
    SUBSCRIPTION_GAPS,
    BACKEND_COMMAND,
    BACKEND_ERRORS,
    BACKEND_RECONNECTS,
    BACKEND_REDIRECTS,
    BACKEND_UP,
    BACKEND_CONNECTED,
    TOPOLOGY_EPOCH,
    CLOCK_OFFSET,
    RUNTIME_STALL,
    CLASSES,
    CLASSES_OVERFLOW,
    TELEMETRY_DROPPED,
    LEASES_MAX,
    CALLERS_MAX,
    BUILD_INFO,
];

// --- getting locks ---

pub(crate) const ACQUIRE_STARTED: Descriptor = counter(
    "leasehold_acquire_started_total",
    &[CLASS],
    "Acquire calls begun. Equals the sum of leasehold_acquire_total and leasehold_waiters.",
);
pub(crate) const ACQUIRES: Descriptor = counter(
    "leasehold_acquire_total",
    &[CLASS, ACQUIRE_OUTCOME],
    "Acquire calls that ended: acquired (a lease was returned), reentrant (it shares a hold of its scope), busy (it \
     only tried, and the lock is held), timeout (its wait ended, and the lock was known to be held meanwhile), cancelled \
     (dropped while it waited), error (no definite answer, refused, a limit, shutdown).",
);
pub(crate) const ACQUIRE_WAIT: Descriptor = seconds(
    "leasehold_acquire_wait_seconds",
    &[CLASS, WAIT_OUTCOME],
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    "From the acquire call to its lease, or to the end of its patience.",
);
pub(crate) const ACQUIRE_CONTENDED: Descriptor = counter(
    "leasehold_acquire_contended_total",
    &[CLASS],
    "Leases returned that were not to be had at the first ask. Divided by acquired: the acquire ratio.",
);
pub(crate) const ACQUIRE_ATTEMPTS: Descriptor = counter(
    "leasehold_acquire_attempts_total",
    &[CLASS],
    "Times the server was asked for a lock. Divided by acquired: what waiting costs the server.",
);
pub(crate) const GRANTS_WITHOUT_CALLER: Descriptor = counter(
    "leasehold_grants_without_caller_total",
    &[],
    "Grants that found no caller waiting any more and were given back.",
);

// --- holding and waiting ---

pub(crate) const HOLD: Descriptor = seconds(
    "leasehold_hold_seconds",
    &[CLASS],
    &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0],
    "From the grant to the release or loss. The rate of its sum is the mean number of locks held.",
);
pub(crate) const HELD: Descriptor = gauge("leasehold_held", &[CLASS], "Leases held now.");
pub(crate) const WAITERS: Descriptor = gauge("leasehold_waiters", &[CLASS], "Callers waiting now.");
pub(crate) const WAITERS_MAX: Descriptor =
    gauge("leasehold_waiters_max", &[CLASS], "Most callers waiting now for any single lock.");
pub(crate) const CONTENDED: Descriptor =
    gauge("leasehold_contended", &[CLASS], "Locks that at least one caller of this process waits for now.");
pub(crate) const OLDEST_WAITER: Descriptor = age(
    "leasehold_oldest_waiter_seconds",
    &[CLASS],
    "How long the caller has waited who waits longest; 0 if none waits.",
);
pub(crate) const OLDEST_HOLD: Descriptor = age(
    "leasehold_oldest_hold_seconds",
    &[CLASS],
    "How long the lease has been held that is held longest; 0 if none is.",
);
pub(crate) const WAKEUPS: Descriptor = counter(
    "leasehold_wakeups_total",
    &[CLASS, WAKEUP_SOURCE, WAKEUP_RESULT],
    "Asks that were not the first one, by what led to them: notice (the lock was released), turn (right behind a \
     release of our own), expiry (the holder's time was over), safety_poll, resync (notices may have been missed), \
     retry; and by what came of them: acquired, lost_race (somebody was faster, or it was idle), unanswered.",
);
pub(crate) const WAKEUP_TO_ACQUIRE: Descriptor = seconds(
    "leasehold_wakeup_to_acquire_seconds",
    &[CLASS],
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0],
    "From the notice that a lock was released to having it, where the first ask behind the notice got it.",
);
pub(crate) const RELEASES: Descriptor = counter(
    "leasehold_release_total",
    &[CLASS, RELEASE_OUTCOME],
    "Leases given back, by answer: released, dropped (released by dropping the lease), already_lost, \
     released_or_lost, unknown (no answer; repeated in the background).",
);

// --- losing ---

pub(crate) const LEASES_LOST: Descriptor = counter(
    "leasehold_leases_lost_total",
    &[CLASS, LOSS_REASON],
    "Leases lost: expired (no renewal was confirmed in time), not_ours (the server says so), max_hold, shutdown, \
     renewal_stopped (the thread that renews stood still).",
);
pub(crate) const LEASE_LOST_DETECTED: Descriptor = seconds(
    "leasehold_lease_lost_detected_seconds",
    &[],
    &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0],
    "From the deadline of a lease to the report of its loss, where the deadline ended it. The server keeps the lock \
     for the margin longer.",
);
pub(crate) const LEASE_JEOPARDY: Descriptor = counter(
    "leasehold_lease_jeopardy_total",
    &[CLASS],
    "Times a lease got into jeopardy: a renewal was not confirmed, or the server is another one.",
);
pub(crate) const IN_JEOPARDY: Descriptor =
    gauge("leasehold_in_jeopardy", &[CLASS], "Leases held now that are in jeopardy.");

// --- renewing ---

pub(crate) const RENEWALS: Descriptor = counter(
    "leasehold_renewals_total",
    &[CLASS, RENEWAL_RESULT],
    "Renewals of single leases: renewed, not_ours, too_late (it reached the server after its latest execution time), \
     or why there was no answer. One that no connected node takes is not sent and counts as unreachable, once for each \
     time it is due.",
);
pub(crate) const RENEW: Descriptor = seconds(
    "leasehold_renew_seconds",
    &[BACKEND, RESULT],
    COMMAND_BOUNDS,
    "One renewal batch, sent to answered; error: no member of it was answered.",
);
pub(crate) const RENEW_BATCH_SIZE: Descriptor = spread(
    "leasehold_renew_batch_size",
    &[BACKEND],
    &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0],
    "Leases in one renewal batch.",
);
pub(crate) const RENEW_MARGIN: Descriptor = spread(
    "leasehold_renew_margin_ratio",
    &[CLASS],
    &[0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.66, 0.75, 0.9],
    "Share of the ttl that was left to the deadline when a renewal was confirmed. Near 0: leases are about to be lost.",
);
pub(crate) const RENEW_LATENESS: Descriptor = seconds(
    "leasehold_renew_lateness_seconds",
    &[],
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0],
    "How late a batch of renewals is sent, measured by the one of it that was due first.",
);
pub(crate) const ATTEMPTS_UNKNOWN: Descriptor = counter(
    "leasehold_attempts_unknown_total",
    &[OPERATION],
    "Requests that may or may not have been executed.",
);
pub(crate) const OWNERS_CLOSING: Descriptor = gauge(
    "leasehold_owners_closing",
    &[],
    "Owners whose release is repeated in the background, because something of them may still be on a server.",
);
pub(crate) const TTL_SURPRISES: Descriptor = counter(
    "leasehold_ttl_surprises_total",
    &[CLASS],
    "Renewals that found a ttl that cannot be: the server's clock stepped, or another hand changed the lock.",
);
pub(crate) const PEERS_WITHOUT_EXPIRY: Descriptor = counter(
    "leasehold_peers_without_expiry_total",
    &[],
    "Locks found to be held by somebody else without expiry.",
);

// --- the servers ---

pub(crate) const SUBSCRIPTIONS: Descriptor = gauge(
    "leasehold_subscriptions",
    &[BACKEND],
    "Locks waited for whose notices reach this process now. Others need none, for this process holds them, or are polled.",
);
pub(crate) const SUBSCRIPTION_GAPS: Descriptor = counter(
    "leasehold_subscription_gaps_total",
    &[BACKEND],
    "Times a waiting lock may have missed a notice, so that it was asked for.",
);
pub(crate) const BACKEND_COMMAND: Descriptor = seconds(
    "leasehold_backend_command_seconds",
    &[BACKEND, OPERATION, RESULT],
    COMMAND_BOUNDS,
    "One request as the engine sees it, from its sending to its answer.",
);
pub(crate) const BACKEND_ERRORS: Descriptor = counter(
    "leasehold_backend_errors_total",
    &[BACKEND, OPERATION, ERROR],
    "Requests without a definite answer, by what was wrong.",
);
pub(crate) const BACKEND_RECONNECTS: Descriptor = counter(
    "leasehold_backend_reconnects_total",
    &[BACKEND],
    "Nodes seen connected again after they were not.",
);
pub(crate) const BACKEND_REDIRECTS: Descriptor = counter(
    "leasehold_backend_redirects_total",
    &[BACKEND, REDIRECT],
    "Requests that were followed to another node: moved (it serves the slot now), ask (the key is on its way there).",
);
pub(crate) const BACKEND_UP: Descriptor =
    gauge("leasehold_backend_up", &[BACKEND, NODE], "Whether a checked connection to this node stands.");
pub(crate) const BACKEND_CONNECTED: Descriptor = gauge(
    "leasehold_backend_connected",
    &[BACKEND],
    "Whether every slot is served by a connected node: 0 means that some locks cannot be had.",
);
pub(crate) const TOPOLOGY_EPOCH: Descriptor =
    gauge("leasehold_topology_epoch", &[BACKEND], "Rises with every change of nodes, slots or connections.");

pub(crate) const CLOCK_OFFSET: Descriptor = age(
    "leasehold_clock_offset_seconds",
    &[BACKEND, NODE],
    "The clock of this node less that of this machine, by the shortest way back of a reply within a minute. What counts \
     is its steps, and how far nodes are apart that may follow each other: beyond the margin two may hold a lock.",
);

// --- this process ---

pub(crate) const RUNTIME_STALL: Descriptor = seconds(
    "leasehold_runtime_stall_seconds",
    &[THREAD],
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0],
    "How late a timer of the engine's threads fires. Explains losses by a process that was stopped or starved.",
);
pub(crate) const CLASSES: Descriptor =
    gauge("leasehold_classes", &[], "Lock classes known, default included.");
pub(crate) const CLASSES_OVERFLOW: Descriptor = counter(
    "leasehold_classes_overflow_total",
    &[],
    "Lock handles whose class was one too many; they count as class _other.",
);
pub(crate) const TELEMETRY_DROPPED: Descriptor = counter(
    "leasehold_telemetry_dropped_total",
    &[LISTENER],
    "Events that the recorder, and log lines that the tracing subscriber of this process, were not told: too slow, or it panicked.",
);
pub(crate) const LEASES_MAX: Descriptor =
    gauge("leasehold_leases_max", &[], "How many leases this engine may hold.");
pub(crate) const CALLERS_MAX: Descriptor =
    gauge("leasehold_callers_max", &[], "How many callers may wait in this engine.");
pub(crate) const BUILD_INFO: Descriptor =
    gauge("leasehold_build_info", &[VERSION, BACKEND], "Always 1; tells the engine's version and transport.");

// --- labels ---

/// The class of a lock.
pub const CLASS: Label = label("class", &[]);
/// The transport's name.
pub const BACKEND: Label = label("backend", &[]);
/// A server's address.
pub const NODE: Label = label("node", &[]);
/// The crate's version.
pub const VERSION: Label = label("version", &[]);
/// What came of an acquire call.
pub const ACQUIRE_OUTCOME: Label =
    label("outcome", &["acquired", "reentrant", "busy", "timeout", "cancelled", "error"]);
/// What a wait ended with.
pub const WAIT_OUTCOME: Label = label("outcome", &["acquired", "timeout"]);
/// What came of a release.
pub const RELEASE_OUTCOME: Label =
    label("outcome", &["released", "dropped", "already_lost", "released_or_lost", "unknown"]);
/// Why a lease was lost.
pub const LOSS_REASON: Label =
    label("reason", &["expired", "not_ours", "max_hold", "shutdown", "renewal_stopped"]);
/// What led to an ask.
pub const WAKEUP_SOURCE: Label =
    label("source", &["notice", "turn", "expiry", "safety_poll", "resync", "retry"]);
/// What came of it.
pub const WAKEUP_RESULT: Label = label("result", &["acquired", "lost_race", "unanswered"]);
/// What came of a renewal.
pub const RENEWAL_RESULT: Label = label(
    "result",
    &[
        "renewed",
        "not_ours",
        "too_late",
        "unreachable",
        "timed_out",
        "not_ready",
        "denied",
        "wrong_type",
        "misconfigured",
        "protocol",
    ],
);
/// Whether there was an answer.
pub const RESULT: Label = label("result", &["ok", "error"]);
/// What a server was asked to do.
pub const OPERATION: Label = label("operation", &["acquire", "release", "renew"]);
/// Why a request went to another node.
pub const REDIRECT: Label = label("type", &["moved", "ask"]);
/// What was wrong.
pub const ERROR: Label = label(
    "error",
    &["unreachable", "timed_out", "not_ready", "denied", "wrong_type", "misconfigured", "protocol"],
);
/// Whose code was not told.
pub const LISTENER: Label = label("listener", &["recorder", "log"]);
/// Which of the engine's threads.
pub const THREAD: Label = label("thread", &["calls", "renewal"]);

const COMMAND_BOUNDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
const PREFIX: &str = "leasehold_";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_and_none_is_there_twice() {
        let mut names = HashSet::new();
        for metric in ALL {
            assert!(metric.name.starts_with(PREFIX) && names.insert(metric.name), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            assert_eq!(metric.name.ends_with("_seconds"), metric.unit == Unit::Seconds, "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn bounds_rise() {
        for metric in ALL {
            if let Kind::Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|a, b| a < b), "{}", metric.name);
            }
        }
    }

    // What a translator to Prometheus names does: dots to underscores, the unit and `_total` behind.
    #[test]
    fn names_of_opentelemetry_translate_to_the_same() {
        for metric in ALL {
            let unit = if metric.unit == Unit::Seconds { "_seconds" } else { "" };
            let total = if metric.kind == Kind::Counter { "_total" } else { "" };
            assert_eq!(metric.otel_name().replace('.', "_") + unit + total, metric.name);
        }
    }
}
