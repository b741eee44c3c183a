use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{foreign_text::ForeignText, lease::state::margin};

/// What an audit of the servers needs to know about the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditContext {
    /// The prefix of every lock name.
    pub name_prefix: String,
    /// The ttl of a lock that sets none itself.
    pub ttl: Duration,
    /// How much earlier than the end of its ttl the deadline of a lease is.
    pub margin: Duration,
    /// See `restart_grace_ms` of the engine's settings.
    pub restart_grace: Duration,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditLevel {
    /// Good to know; nothing to do.
    Info,
    /// Something may fail one day, or could not be checked.
    Warn,
    /// With the present setup locks do not work, or are lost.
    Error,
}

/// One line of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How serious the finding is.
    pub level: AuditLevel,
    /// What was checked, as a short fixed word: `version`, `role`, `eviction`.
    pub subject: &'static str,
    /// The server's address; empty if the finding is about all servers.
    pub server: String,
    /// What was found.
    pub found: String,
    /// What to do; for an `Info`, what would change the finding.
    pub remedy: String,
}

impl AuditContext {
    /// An engine with this ttl, its margin, no prefix and no restart grace; the fields change that.
    pub fn new(ttl: Duration) -> Self {
        Self { name_prefix: String::new(), ttl, margin: margin(ttl), restart_grace: Duration::ZERO }
    }
}

impl Finding {
    /// A finding about all servers.
    pub fn new(
        level: AuditLevel,
        subject: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level, subject, server: String::new(), found: found.into(), remedy: remedy.into() }
    }

    /// The same finding about one server.
    pub fn of(self, server: impl Into<String>) -> Self {
        Self { server: server.into(), ..self }
    }
}

impl AuditLevel {
    /// `info`, `warn` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            AuditLevel::Info => "info",
            AuditLevel::Warn => "warn",
            AuditLevel::Error => "error",
        }
    }
}

/// Format: `warn eviction 10.0.0.1:6379: maxmemory-policy is volatile-ttl; set it to noeviction`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level.as_str(), self.subject)?;
        if !self.server.is_empty() {
            write!(f, " {}", ForeignText(&self.server))?;
        }
        // A list of missing rights is longer than most texts.
        write!(f, ": {:.2000}; {:.2000}", ForeignText(&self.found), ForeignText(&self.remedy))
    }
}
