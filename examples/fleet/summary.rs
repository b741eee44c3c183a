//! What the run came to: for people, for programs, and as an exit code.

use std::collections::BTreeMap;

use leasehold::Snapshot;
use serde_json::{Value, json};

use crate::{
    crew::{Crew, millis, now},
    options::Place,
    stop::Reason,
    tally::Counts,
    windows::Findings,
};

pub(crate) struct Summary<'a> {
    crew: &'a Crew,
    reason: &'a Reason,
    counts: Counts,
    engine: Snapshot,
    findings: Findings,
    seconds: f64,
    /// Locks that may still be on the server.
    unconfirmed: usize,
    log_trouble: Option<String>,
}

impl<'a> Summary<'a> {
    /// To be made when everything has ended.
    pub(crate) fn of(crew: &'a Crew, reason: &'a Reason, unconfirmed: usize) -> Self {
        let (counts, engine) = (crew.tally.counts(), crew.engine.snapshot());
        let (findings, seconds) = (crew.windows.findings(now()), crew.tally.seconds(now()));
        let log_trouble = crew.log.flush();
        Self { crew, reason, counts, engine, findings, seconds, unconfirmed, log_trouble }
    }

    pub(crate) fn print(&self) {
        println!("{}", self.text());
        for fault in self.faults() {
            println!("NOT WELL: {fault}");
        }
        if self.crew.options.json {
            println!("{}", self.json());
        }
    }

    /// Whether the run deserves exit code 0.
    pub(crate) fn is_good(&self) -> bool {
        self.faults().is_empty()
    }

    fn faults(&self) -> Vec<String> {
        let (counts, findings, options) = (&self.counts, &self.findings, &self.crew.options);
        let missing = (options.leases as u64).saturating_sub(counts.kept_max);
        let to_the_end = matches!(self.reason, Reason::TimeUp);
        let mut faults: Vec<_> = self.kind_faults().collect();
        let of_all_kinds = [
            (findings.overlapping > 0, format!("{} windows overlap", findings.overlapping)),
            (findings.out_of_order > 0, format!("{} {TOKENS_FALL}", findings.out_of_order)),
            (counts.lost > 0 && !options.allow_loss, format!("{} leases were lost", counts.lost)),
            (
                missing > 0 && to_the_end && !options.allow_loss,
                format!(
                    "{missing} of {} leases were never held at once; allow more --seconds",
                    options.leases
                ),
            ),
            (
                self.unconfirmed > 0 && !options.allow_loss,
                format!("{} releases were not confirmed; their ttl ends them", self.unconfirmed),
            ),
            (
                self.log_trouble.is_some(),
                format!("the log has gaps: {}", self.log_trouble.as_deref().unwrap_or_default()),
            ),
        ];
        faults.extend(of_all_kinds.into_iter().filter(|(found, _)| *found).map(|(_, fault)| fault));
        faults
    }

    // A failover may forget an operation of a semaphore or a latch that was answered.
    fn kind_faults(&self) -> impl Iterator<Item = String> {
        let faults = if self.crew.options.allow_loss { BTreeMap::new() } else { self.crew.faults.counts() };
        faults.into_iter().map(|(fault, count)| format!("{fault} ({count} times)"))
    }

    fn overlaps(&self) -> u64 {
        self.findings.overlapping + self.findings.out_of_order
    }

    fn transport(&self) -> &'static str {
        match self.crew.options.place {
            Place::Memory => "memory",
            Place::Url(_) | Place::File(_) => "redis",
        }
    }

    fn text(&self) -> String {
        let (counts, engine, findings) = (&self.counts, &self.engine, &self.findings);
        let turns = self.crew.waits.count();
        let wait =
            |share| self.crew.waits.quantile_ms(share).map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
        format!(
            "fleet on {}, {}, {:.1} s\n\
             leases     {} of {} held at once\n\
             contenders {} turns on {} keys, {:.0} a second; waited p50 {}, p99 {}\n\
             granted    {}: {} released, {} lost, {} releases unanswered; {} acquires failed\n\
             renewals   {} confirmed, {} not; {} times in jeopardy\n\
             overlaps   {} windows, {} tokens out of order; {} other faults",
            self.transport(),
            self.crew.options.kind,
            self.seconds,
            counts.kept_max,
            self.crew.options.leases,
            turns,
            self.crew.options.keys,
            turns as f64 / self.seconds,
            wait(0.5),
            wait(0.99),
            counts.granted,
            counts.released,
            counts.lost,
            counts.unanswered,
            counts.failed,
            engine.renewals,
            engine.renewals_failed,
            engine.jeopardies,
            findings.overlapping,
            findings.out_of_order,
            self.crew.faults.counts().values().sum::<u64>(),
        )
    }

    fn json(&self) -> Value {
        let (counts, engine, options) = (&self.counts, &self.engine, &self.crew.options);
        json!({
            "transport": self.transport(),
            "kind": options.kind,
            "leases": options.leases,
            "contenders": options.contenders,
            "keys": options.keys,
            "hold_ms": millis(options.hold),
            "ttl_ms": options.ttl.map(millis),
            "seconds": rounded(self.seconds),
            "interrupted": matches!(self.reason, Reason::Interrupted(_)),
            "held_max": counts.kept_max,
            "granted": counts.granted,
            "released": counts.released,
            "lost": counts.lost,
            "releases_unanswered": counts.unanswered,
            "releases_unconfirmed": self.unconfirmed,
            "acquires_failed": counts.failed,
            "contender_grants": self.crew.waits.count(),
            "renewals": engine.renewals,
            "renewals_failed": engine.renewals_failed,
            "jeopardies": engine.jeopardies,
            "asks": engine.asks,
            "wait_ms_p50": self.crew.waits.quantile_ms(0.5).map(rounded),
            "wait_ms_p99": self.crew.waits.quantile_ms(0.99).map(rounded),
            "overlaps": self.overlaps(),
            "overlapping_windows": self.findings.overlapping,
            "tokens_out_of_order": self.findings.out_of_order,
            "faults": self.crew.faults.counts(),
        })
    }
}

/// Tokens come from the clock of the server that grants.
const TOKENS_FALL: &str = "tokens are out of order: two held a lock, or the clock of a master stepped back, or it was \
    followed by one whose clock is behind (see the audit, `clock`)";

fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}
