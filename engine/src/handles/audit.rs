//! The audit: the facts about servers and settings that may cause the loss of a lock, each with a remedy.

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    error::Invalid,
    inner::Inner,
    lease::state,
    shown_time::ShownTime,
    transport::{AuditContext, AuditLevel, Finding},
};

/// The findings of [`Engine::audit`](crate::Engine::audit), the worst first.
///
/// `Display` writes one line for each finding: level, subject, server, what was found, what to do. `error` means that
/// locks do not work, or are lost, with the present settings. `warn` means that a failure is possible one day, or that
/// a fact could not be read. `info` states a fact. A service that wants to be sure does not start if
/// [`worst`](Self::worst) is `Some(AuditLevel::Error)`.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let report = engine.audit().await;
/// for finding in report.findings() {
///     println!("{} {}: {}", finding.level.as_str(), finding.subject, finding.remedy);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    findings: Vec<Finding>,
}

impl AuditReport {
    pub(crate) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| {
            (b.level, a.subject, &a.server).cmp(&(a.level, b.subject, &b.server)) // a stable order to read and compare
        });
        Self { findings }
    }

    /// All findings, the worst first.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The level of the worst finding. `None`: the audit found nothing.
    pub fn worst(&self) -> Option<AuditLevel> {
        self.findings.first().map(|finding| finding.level)
    }
}

impl fmt::Display for AuditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// Runs the audit on the calls thread, where the lane lives.
pub(crate) async fn run(inner: Arc<Inner>) -> AuditReport {
    if let Err(forked) = inner.process.check() {
        return AuditReport::new(vec![elsewhere(&forked)]);
    }
    let (sender, found) = tokio::sync::oneshot::channel();
    inner.spawn({
        let inner = inner.clone();
        async move { drop(sender.send(look(&inner).await)) }
    });
    AuditReport::new(match inner.process.here(found).await {
        Ok(found) => found.unwrap_or_else(|_| vec![not_running()]),
        Err(forked) => vec![elsewhere(&forked)],
    })
}

async fn look(inner: &Inner) -> Vec<Finding> {
    let Some(lane) = inner.calls.lane() else { return vec![not_connected(inner)] };
    let ttl = inner.config.ttl();
    let terms = AuditContext {
        name_prefix: inner.config.name_prefix.clone(),
        ttl,
        margin: state::margin(ttl),
        restart_grace: inner.config.restart_grace(),
    };
    let patience = inner.config.command_timeout() * STEPS_MAX;
    match tokio::time::timeout(patience, lane.audit(terms)).await {
        Ok(findings) => findings,
        Err(_) => vec![not_in_time(patience)],
    }
}

fn not_connected(inner: &Inner) -> Finding {
    let last_error = inner.calls.last_error();
    Finding::new(AuditLevel::Error, "connection", format!("no server was reached: {last_error}"), "see there")
}

fn not_in_time(patience: Duration) -> Finding {
    let found = format!("the servers did not answer within {}", ShownTime(patience));
    Finding::new(AuditLevel::Error, "connection", found, "look at the servers' load and at the network")
}

fn elsewhere(forked: &Invalid) -> Finding {
    Finding::new(AuditLevel::Error, "engine", forked.to_string(), "see there")
}

fn not_running() -> Finding {
    Finding::new(AuditLevel::Error, "engine", "the engine has ended", "build another one")
}

/// A transport audits in a few steps, each of which may take one command timeout.
const STEPS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: AuditLevel, subject: &'static str, server: &str) -> Finding {
        Finding::new(level, subject, "so it is", "leave it").of(server)
    }

    #[test]
    fn the_worst_comes_first_and_the_order_is_stable() {
        let report = AuditReport::new(vec![
            finding(AuditLevel::Info, "version", "b:1"),
            finding(AuditLevel::Error, "role", "a:1"),
            finding(AuditLevel::Info, "version", "a:1"),
            finding(AuditLevel::Warn, "eviction", ""),
        ]);
        let lines = "error role a:1: so it is; leave it\nwarn eviction: so it is; leave it\n\
                     info version a:1: so it is; leave it\ninfo version b:1: so it is; leave it\n";
        assert_eq!(report.to_string(), lines);
        assert_eq!(report.worst(), Some(AuditLevel::Error));
        assert_eq!(AuditReport::default().worst(), None);
    }
}
