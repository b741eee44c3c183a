use std::{fmt, time::Duration};

/// What an audit of the servers needs to know of the engine.
#[derive(Clone, Debug)]
pub struct AuditContext {
    /// What is put before every lock name.
    pub name_prefix: String,
    /// The ttl of locks that name none.
    pub ttl: Duration,
    /// By how much a lease's deadline lies before the end of its ttl.
    pub margin: Duration,
    /// See `restart_grace_ms` of the engine's settings.
    pub restart_grace: Duration,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditLevel {
    /// As it is; good to know.
    Info,
    /// Something may go wrong one day, or could not be looked at.
    Warn,
    /// Locks do not work, or are lost, as it is set up now.
    Error,
}

/// One line of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub level: AuditLevel,
    /// What was looked at, a short fixed word: `version`, `role`, `eviction`.
    pub subject: &'static str,
    /// The server's address; empty if it concerns all.
    pub server: String,
    /// What was found.
    pub found: String,
    /// What to do; of an `Info`, what would change it.
    pub remedy: String,
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

    /// The same about one server.
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

/// `warn eviction 10.0.0.1:6379: maxmemory-policy is volatile-ttl; set it to noeviction`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level.as_str(), self.subject)?;
        if !self.server.is_empty() {
            write!(f, " {}", self.server)?;
        }
        write!(f, ": {}; {}", self.found, self.remedy)
    }
}
