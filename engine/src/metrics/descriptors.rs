//! Every metric: its name, kind, unit, labels and meaning. Exporters, dashboards and the documentation follow this
//! table, and tests compare them with it.
//!
//! No label holds an owner. The name of a lock is a label of `leasehold_hot_lock_wait_seconds` only, which has no series
//! without [`EngineConfig::hot_lock_names`](crate::EngineConfig::hot_lock_names), and then at most
//! [`HOT_LOCK_NAMES_MAX`](super::HOT_LOCK_NAMES_MAX). Each metric of a lock has the labels `class`, bounded by
//! [`CLASSES_MAX`](super::CLASSES_MAX), and `kind`, one of [`LockKind::ALL`]. The values of the other labels are listed
//! here, except for `lock` (a name), `node` (an address of the topology), `backend` (the name of the transport),
//! `version` and `engine_label`.

use super::{CompositionOutcome, JobEnd, LockKind, TermEnd};

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Descriptor {
    /// The name of the metric, as Prometheus shows it.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [Label],
    /// The meaning, as exporters show it.
    pub help: &'static str,
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A number that only rises.
    Counter,
    /// A state, read at the moment of the scrape.
    Gauge,
    /// A distribution, with the upper bounds of its buckets; the last bound, infinity, is left out.
    Histogram(&'static [f64]),
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A count, or a ratio.
    None,
    /// Seconds.
    Seconds,
}

/// One label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// The name of the label.
    pub name: &'static str,
    /// All values of the label; empty if they are not known beforehand.
    pub values: &'static [&'static str],
}

impl Descriptor {
    /// Whether the metric belongs to a lock: it has the labels `class` and `kind`.
    pub(crate) const fn is_of_lock(&self) -> bool {
        !self.labels.is_empty() && is_same(self.labels[0].name, CLASS.name)
    }

    /// How many combinations the listed label values have, `kind` left out: each class and kind has cells of its own.
    pub(crate) const fn combinations(&self) -> usize {
        let (mut combinations, mut label) = (1, 0);
        while label < self.labels.len() {
            if self.labels[label].is_combined() {
                combinations *= self.labels[label].values.len();
            }
            label += 1;
        }
        combinations
    }

    /// The values of those labels in a combination. The last label varies fastest.
    pub(crate) fn values_of(&self, combination: usize) -> Vec<&'static str> {
        let mut rest = combination;
        let combined = self.labels.iter().rev().filter(|label| label.is_combined());
        let mut values: Vec<_> = combined
            .map(|label| {
                let value = label.values[rest % label.values.len()];
                rest /= label.values.len();
                value
            })
            .collect();
        values.reverse();
        values
    }

    /// The name for OpenTelemetry. Its translation to Prometheus gives [`name`](Self::name) exactly: translators append
    /// `_total` to a counter and `_seconds` to the unit `s`.
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

impl Label {
    // Not `kind`: it selects the cells, as the class does.
    const fn is_combined(&self) -> bool {
        !self.values.is_empty() && !is_same(self.name, KIND.name)
    }
}

/// Whether two texts are the same, at compile time.
pub(crate) const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut byte = 0;
    while byte < one.len() {
        if one[byte] != other[byte] {
            return false;
        }
        byte += 1;
    }
    true
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
pub const ALL: &[Descriptor] = &[
    ACQUIRE_STARTED,
    ACQUIRES,
    ACQUIRE_WAIT,
    ACQUIRE_CONTENDED,
    ACQUIRE_ATTEMPTS,
    GRANTS_WITHOUT_CALLER,
    COMPOSITION_ACQUIRES,
    HOLD,
    HELD,
    WAITERS,
    WAITERS_MAX,
    CONTENDED,
    OLDEST_WAITER,
    OLDEST_HOLD,
    HOT_LOCK_WAIT,
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
    UNSENT_CALLS,
    SILENT_NODES,
    TTL_SURPRISES,
    PEERS_WITHOUT_EXPIRY,
    PLACES_LOST,
    COUNTER_CALLS,
    COUNTER_WAIT,
    ELECTIONS,
    LEADING,
    TERMS_BEGUN,
    TERMS_ENDED,
    JOB_RUNS,
    SUBSCRIPTIONS,
    SUBSCRIPTION_GAPS,
    GROUP_COMMIT_SIZE,
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
    &[CLASS, KIND],
    "Acquire calls begun. Equals the sum of leasehold_acquire_total and leasehold_waiters.",
);
pub(crate) const ACQUIRES: Descriptor = counter(
    "leasehold_acquire_total",
    &[CLASS, KIND, ACQUIRE_OUTCOME],
    "Acquire calls ended, by outcome: acquired (a lease was returned), reentrant (the caller shares a hold of its \
     scope), busy (try_acquire found the lock held), timeout (the wait ended while the lock was known to be \
     held), cancelled (the caller was dropped while it waited), error (no definite answer, refused, a limit, or \
     shutdown).",
);
pub(crate) const ACQUIRE_WAIT: Descriptor = seconds(
    "leasehold_acquire_wait_seconds",
    &[CLASS, KIND, WAIT_OUTCOME],
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    "Time from the acquire call to its lease, or to the end of its wait.",
);
pub(crate) const ACQUIRE_CONTENDED: Descriptor = counter(
    "leasehold_acquire_contended_total",
    &[CLASS, KIND],
    "Leases returned that the first ask did not get. Divided by acquired: the contention ratio.",
);
pub(crate) const ACQUIRE_ATTEMPTS: Descriptor = counter(
    "leasehold_acquire_attempts_total",
    &[CLASS, KIND],
    "Times the engine asked the server for a lock. Divided by acquired: the requests that one lease costs.",
);
pub(crate) const GRANTS_WITHOUT_CALLER: Descriptor = counter(
    "leasehold_grants_without_caller_total",
    &[],
    "Grants that no caller took, and that were given back.",
);
pub(crate) const COMPOSITION_ACQUIRES: Descriptor = counter(
    "leasehold_composition_acquire_total",
    &[COMPOSITION, COMPOSITION_OUTCOME],
    "Acquire calls of multi locks and of locks of a quorum ended, by outcome: acquired, busy (try_acquire found the \
     lock held), timeout (the wait ended while the lock was known to be held), cancelled (the caller was dropped \
     while it waited), error (no definite answer, refused, a limit, a lost member, or shutdown). Their members count \
     as acquires of their own. Counted by the engine of the first member.",
);

// --- holding and waiting ---

pub(crate) const HOLD: Descriptor = seconds(
    "leasehold_hold_seconds",
    &[CLASS, KIND],
    &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0],
    "Time from the grant to the release or the loss. The rate of its sum is the mean number of locks held.",
);
pub(crate) const HELD: Descriptor = gauge("leasehold_held", &[CLASS, KIND], "Leases held now.");
pub(crate) const WAITERS: Descriptor = gauge("leasehold_waiters", &[CLASS, KIND], "Callers waiting now.");
pub(crate) const WAITERS_MAX: Descriptor = gauge(
    "leasehold_waiters_max",
    &[CLASS, KIND],
    "Callers waiting now for the lock that has the most of them.",
);
pub(crate) const CONTENDED: Descriptor =
    gauge("leasehold_contended", &[CLASS, KIND], "Locks with at least one waiting caller in this process.");
pub(crate) const OLDEST_WAITER: Descriptor = age(
    "leasehold_oldest_waiter_seconds",
    &[CLASS, KIND],
    "Wait so far of the caller that has waited longest; 0 if no caller waits.",
);
pub(crate) const OLDEST_HOLD: Descriptor = age(
    "leasehold_oldest_hold_seconds",
    &[CLASS, KIND],
    "Age of the oldest lease held now; 0 if no lease is held.",
);
pub(crate) const HOT_LOCK_WAIT: Descriptor = age(
    "leasehold_hot_lock_wait_seconds",
    &[LOCK],
    "Time that all callers together waited for this lock: the whole length of the waits that ended in the last one to \
     two minutes. Only the ten locks of an engine with the longest time, and none unless hot_lock_names is set.",
);
pub(crate) const WAKEUPS: Descriptor = counter(
    "leasehold_wakeups_total",
    &[CLASS, KIND, WAKEUP_SOURCE, WAKEUP_RESULT],
    "Asks after the first ask of a wait, by source: notice (the lock was released), turn (this process released \
     it just before), expiry (the ttl of the holder ended), safety_poll (a regular check), poll (the next poll of \
     a spin lock), resync (notices may have been missed), retry (no answer before); and by result: acquired, lost_race (another owner was faster, \
     or the lock was still held), unanswered.",
);
pub(crate) const WAKEUP_TO_ACQUIRE: Descriptor = seconds(
    "leasehold_wakeup_to_acquire_seconds",
    &[CLASS, KIND],
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0],
    "Time from the notice of a release to the grant, where the first ask after the notice got the lock.",
);
pub(crate) const RELEASES: Descriptor = counter(
    "leasehold_release_total",
    &[CLASS, KIND, RELEASE_OUTCOME],
    "Leases released, by outcome: released, dropped (the lease was dropped), handed_off (the next caller of the same \
     engine got the lock without a command), already_lost (the server did not know the owner as holder), \
     released_or_lost (only a repeated release was answered), unknown (no answer; the engine repeats the release in \
     the background).",
);

// --- losing ---

pub(crate) const LEASES_LOST: Descriptor = counter(
    "leasehold_leases_lost_total",
    &[CLASS, KIND, LOSS_REASON],
    "Leases lost, by reason: expired (no renewal was confirmed in time), not_ours (the server does not know the \
     owner as holder), max_hold (held for max_hold), shutdown, renewal_stopped (the renewal thread stopped).",
);
pub(crate) const LEASE_LOST_DETECTED: Descriptor = seconds(
    "leasehold_lease_lost_detected_seconds",
    &[],
    &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0],
    "Time from the deadline of a lease to the report of its loss, for leases that their deadline ended. The \
     server keeps the lock for the margin longer than the deadline.",
);
pub(crate) const LEASE_JEOPARDY: Descriptor = counter(
    "leasehold_lease_jeopardy_total",
    &[CLASS, KIND],
    "Times a lease got into jeopardy: a renewal was not confirmed, or another server answers for the lock.",
);
pub(crate) const IN_JEOPARDY: Descriptor =
    gauge("leasehold_in_jeopardy", &[CLASS, KIND], "Leases held now that are in jeopardy.");

// --- renewing ---

pub(crate) const RENEWALS: Descriptor = counter(
    "leasehold_renewals_total",
    &[CLASS, KIND, RENEWAL_RESULT],
    "Renewals of single leases, by result: renewed, not_ours, too_late (the renewal reached the server after its \
     latest execution time), or the error of a renewal without an answer. A renewal that no connected node takes \
     is not sent and counts as unreachable, once each time it is due.",
);
pub(crate) const RENEW: Descriptor = seconds(
    "leasehold_renew_seconds",
    &[BACKEND, RESULT],
    COMMAND_BOUNDS,
    "Time of one renewal batch, from the sending to the answer; error: no member of the batch was answered.",
);
pub(crate) const RENEW_BATCH_SIZE: Descriptor = spread(
    "leasehold_renew_batch_size",
    &[BACKEND],
    &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0],
    "Leases in one renewal batch.",
);
pub(crate) const RENEW_MARGIN: Descriptor = spread(
    "leasehold_renew_margin_ratio",
    &[CLASS, KIND],
    &[0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.66, 0.75, 0.9],
    "Share of the ttl that was left to the deadline when a renewal was confirmed. Near 0: leases are about to be \
     lost.",
);
pub(crate) const RENEW_LATENESS: Descriptor = seconds(
    "leasehold_renew_lateness_seconds",
    &[],
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0],
    "How late a renewal batch is sent, by the member that was due first.",
);
pub(crate) const ATTEMPTS_UNKNOWN: Descriptor = counter(
    "leasehold_attempts_unknown_total",
    &[OPERATION],
    "Requests without an answer that a server may have executed.",
);
pub(crate) const OWNERS_CLOSING: Descriptor = gauge(
    "leasehold_owners_closing",
    &[],
    "Owners that the engine releases in the background, because a server may still hold something of theirs.",
);
pub(crate) const UNSENT_CALLS: Descriptor = gauge(
    "leasehold_unsent_calls",
    &[],
    "Acquires and releases that wait for their node before they are sent: it has calls to answer, or is silent.",
);
pub(crate) const SILENT_NODES: Descriptor = gauge(
    "leasehold_silent_nodes",
    &[],
    "Nodes that have answered nothing since a call was sent that had no answer in time. Each gets one call at a time.",
);
pub(crate) const TTL_SURPRISES: Descriptor = counter(
    "leasehold_ttl_surprises_total",
    &[CLASS, KIND],
    "Renewals that found a ttl that is not possible: the server's clock stepped, or another client changed the \
     lock.",
);
pub(crate) const PEERS_WITHOUT_EXPIRY: Descriptor =
    counter("leasehold_peers_without_expiry_total", &[], "Locks of other clients found without expiry.");
pub(crate) const PLACES_LOST: Descriptor = counter(
    "leasehold_places_lost_total",
    &[],
    "Places in the line of a fair lock that the server did not know any more. Their callers went to the end of the \
     line.",
);

// --- semaphores, latches and totals of permits ---

pub(crate) const COUNTER_CALLS: Descriptor = counter(
    "leasehold_counter_calls_total",
    &[COUNTER, COUNT_OUTCOME],
    "Calls on semaphores, latches and totals of permits ended, by outcome: done, busy (try_acquire found too few \
     permits), timeout (the wait ended in vain), error (it did not count), unknown (it may have counted), cancelled \
     (the future was dropped).",
);
pub(crate) const COUNTER_WAIT: Descriptor = seconds(
    "leasehold_counter_wait_seconds",
    &[COUNTER],
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    "Time of a call on a semaphore, a latch or a total of permits that was done, from the call to its end.",
);

// --- leaders and jobs ---

pub(crate) const ELECTIONS: Descriptor = gauge(
    "leasehold_elections",
    &[CLASS, KIND],
    "Elections that this engine has candidates in: locks that a Leader campaigns for or leads with now. Shown for \
     classes that had a candidate.",
);
pub(crate) const LEADING: Descriptor = gauge(
    "leasehold_leading",
    &[CLASS, KIND],
    "Elections in which a candidate of this engine leads now: its term has begun, and its lease is held.",
);
pub(crate) const TERMS_BEGUN: Descriptor =
    counter("leasehold_terms_begun_total", &[CLASS, KIND], "Terms that candidates of this engine have won.");
pub(crate) const TERMS_ENDED: Descriptor = counter(
    "leasehold_terms_ended_total",
    &[CLASS, KIND, TERM_END],
    "Terms of this engine's candidates ended, by how: finished (the work returned), resigned, lost (the lease was \
     lost), shutdown (of the engine), dropped (the candidate was dropped, or its work panicked).",
);
pub(crate) const JOB_RUNS: Descriptor = counter(
    "leasehold_job_runs_total",
    &[CLASS, KIND, JOB_OUTCOME],
    "Tries to run a job ended, by outcome: ran, unconfirmed (done, but perhaps not under the lock until the end), \
     failed (the work returned an error), stopped (it took longer than at_most_for), lost (the lease was lost, \
     also by a shutdown), dropped (the caller was dropped, or the work panicked); and, where the work did not start: already_ran (not \
     due), running (another caller ran it), error (no definite answer, refused, a limit, or shutdown). Shown for \
     classes that had a job.",
);

// --- the servers ---

pub(crate) const SUBSCRIPTIONS: Descriptor = gauge(
    "leasehold_subscriptions",
    &[BACKEND],
    "Locks with waiting callers whose notices reach this process now. Other locks need none, because this process \
     holds them, or are polled.",
);
pub(crate) const SUBSCRIPTION_GAPS: Descriptor = counter(
    "leasehold_subscription_gaps_total",
    &[BACKEND],
    "Times a lock with waiting callers may have missed a notice. The engine asks for the lock instead.",
);
pub(crate) const GROUP_COMMIT_SIZE: Descriptor = spread(
    "leasehold_group_commit_size",
    &[BACKEND],
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1000.0],
    "Acquires and releases of exclusive locks that were sent to a node together. Calls that were sent alone are not \
     counted here.",
);
pub(crate) const BACKEND_COMMAND: Descriptor = seconds(
    "leasehold_backend_command_seconds",
    &[BACKEND, OPERATION, RESULT],
    COMMAND_BOUNDS,
    "Time of one request, from the sending to the answer, as the engine sees it.",
);
pub(crate) const BACKEND_ERRORS: Descriptor = counter(
    "leasehold_backend_errors_total",
    &[BACKEND, OPERATION, ERROR],
    "Requests without a definite answer, by error.",
);
pub(crate) const BACKEND_RECONNECTS: Descriptor = counter(
    "leasehold_backend_reconnects_total",
    &[BACKEND],
    "Times a disconnected node was connected again.",
);
pub(crate) const BACKEND_REDIRECTS: Descriptor = counter(
    "leasehold_backend_redirects_total",
    &[BACKEND, REDIRECT],
    "Requests that followed a redirection to another node: moved (the node serves the slot now), ask (the key is \
     moving there).",
);
pub(crate) const BACKEND_UP: Descriptor =
    gauge("leasehold_backend_up", &[BACKEND, NODE], "1 if a checked connection to this node stands, else 0.");
pub(crate) const BACKEND_CONNECTED: Descriptor = gauge(
    "leasehold_backend_connected",
    &[BACKEND],
    "1 if a connected node serves every slot, else 0: the process cannot get some locks.",
);
pub(crate) const TOPOLOGY_EPOCH: Descriptor = gauge(
    "leasehold_topology_epoch",
    &[BACKEND],
    "Number that rises with every change of nodes, slots or connections.",
);

pub(crate) const CLOCK_OFFSET: Descriptor = age(
    "leasehold_clock_offset_seconds",
    &[BACKEND, NODE],
    "Clock of this node minus the clock of this machine, measured by the fastest reply within a minute. Steps \
     matter, and the difference between nodes that may take over from each other: beyond the margin of a lease \
     two owners may hold a lock.",
);

// --- this process ---

pub(crate) const RUNTIME_STALL: Descriptor = seconds(
    "leasehold_runtime_stall_seconds",
    &[THREAD],
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0],
    "How late a timer of an engine thread fires. Explains losses by a process that was stopped or had too little \
     CPU.",
);
pub(crate) const CLASSES: Descriptor =
    gauge("leasehold_classes", &[], "Lock classes known, default included.");
pub(crate) const CLASSES_OVERFLOW: Descriptor = counter(
    "leasehold_classes_overflow_total",
    &[],
    "Lock handles whose class was refused, because 64 classes were known or the name is not valid; they count as \
     class _other.",
);
pub(crate) const TELEMETRY_DROPPED: Descriptor = counter(
    "leasehold_telemetry_dropped_total",
    &[LISTENER],
    "Events that the recorder missed, and log lines that the tracing subscriber of this process missed, because \
     it was too slow or panicked.",
);
pub(crate) const LEASES_MAX: Descriptor =
    gauge("leasehold_leases_max", &[], "Limit of leases that this engine may hold.");
pub(crate) const CALLERS_MAX: Descriptor =
    gauge("leasehold_callers_max", &[], "Limit of callers that may wait in this engine.");
pub(crate) const BUILD_INFO: Descriptor = gauge(
    "leasehold_build_info",
    &[VERSION, BACKEND, ENGINE_LABEL],
    "Always 1, one series for each engine; its labels are the engine's version, the transport and the engine's label.",
);

// --- labels ---

/// The class of a lock.
pub const CLASS: Label = label("class", &[]);
/// The kind of a lock: exclusive, fenced, spin, read, write, fair or permits.
pub const KIND: Label = label("kind", &LockKind::NAMES);
/// The name of a lock, without the engine's `name_prefix`.
pub const LOCK: Label = label("lock", &[]);
/// The name of the transport.
pub const BACKEND: Label = label("backend", &[]);
/// The address of a server.
pub const NODE: Label = label("node", &[]);
/// The version of the crate.
pub const VERSION: Label = label("version", &[]);
/// The label of the engine, `service@host` by default; see [`Engine::label`](crate::Engine::label).
pub const ENGINE_LABEL: Label = label("engine_label", &[]);
/// How an acquire call ended.
pub const ACQUIRE_OUTCOME: Label =
    label("outcome", &["acquired", "reentrant", "busy", "timeout", "cancelled", "error"]);
/// What a call was made on.
pub const COUNTER: Label = label("counter", &["semaphore", "latch", "permits"]);
/// How a call on a semaphore, a latch or a total of permits ended.
pub const COUNT_OUTCOME: Label =
    label("outcome", &["done", "busy", "timeout", "cancelled", "unknown", "error"]);
/// How a wait ended.
pub const WAIT_OUTCOME: Label = label("outcome", &["acquired", "timeout"]);
/// The answer to a release.
pub const RELEASE_OUTCOME: Label =
    label("outcome", &["released", "dropped", "handed_off", "already_lost", "released_or_lost", "unknown"]);
/// Why a lease was lost.
pub const LOSS_REASON: Label =
    label("reason", &["expired", "not_ours", "max_hold", "shutdown", "renewal_stopped"]);
/// The cause of an ask.
pub const WAKEUP_SOURCE: Label =
    label("source", &["notice", "turn", "expiry", "safety_poll", "poll", "resync", "retry"]);
/// The result of an ask.
pub const WAKEUP_RESULT: Label = label("result", &["acquired", "lost_race", "unanswered"]);
/// The result of a renewal.
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
/// What a composition is composed as.
pub const COMPOSITION: Label = label("composition", &["multi", "quorum"]);
/// How the acquire of a composition ended.
pub const COMPOSITION_OUTCOME: Label = label("outcome", &CompositionOutcome::NAMES);
/// How a term of a leader ended.
pub const TERM_END: Label = label("end", &TermEnd::NAMES);
/// How a try to run a job ended.
pub const JOB_OUTCOME: Label = label("outcome", &JobEnd::NAMES);
/// Whether a request was answered.
pub const RESULT: Label = label("result", &["ok", "error"]);
/// What a server was asked to do.
pub const OPERATION: Label = label("operation", &["acquire", "release", "renew", "count", "beat"]);
/// Why a request went to another node.
pub const REDIRECT: Label = label("type", &["moved", "ask"]);
/// The kind of error.
pub const ERROR: Label = label(
    "error",
    &["unreachable", "timed_out", "not_ready", "denied", "wrong_type", "misconfigured", "protocol"],
);
/// The user code that missed events: the recorder, or the log's subscriber.
pub const LISTENER: Label = label("listener", &["recorder", "log"]);
/// The thread of the engine.
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
