//! `leasehold doctor`.

use leasehold::{AuditLevel, AuditReport};
use leasehold_redis::ConfigFile;
use serde_json::{Value, json};

use crate::{
    arguments::{Doctor, Level},
    exit,
    failure::Failure,
    output::{Output, counted},
    servers,
};

pub(crate) async fn doctor(doctor: Doctor, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let engine = servers::engine(configuration, output).await?;
    let report = engine.audit().await;
    output.result(&text(&report), &document(&report))?;
    Ok(if fails(report.worst(), doctor.fail_on) { exit::NO } else { exit::SUCCESS })
}

fn text(report: &AuditReport) -> String {
    let of = |level| report.findings().iter().filter(move |finding| finding.level == level);
    let count = |level, noun| counted(of(level).map(|_| 1).sum(), noun);
    format!("{report}{}, {}", count(AuditLevel::Error, "error"), count(AuditLevel::Warn, "warning"))
}

fn document(report: &AuditReport) -> Value {
    json!({ "worst": report.worst(), "findings": report.findings() })
}

fn fails(worst: Option<AuditLevel>, fail_on: Level) -> bool {
    let least = match fail_on {
        Level::Error => AuditLevel::Error,
        Level::Warn => AuditLevel::Warn,
    };
    worst.is_some_and(|worst| worst >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_decides_the_exit_code() {
        assert!(!fails(None, Level::Warn) && !fails(Some(AuditLevel::Info), Level::Warn));
        assert!(fails(Some(AuditLevel::Warn), Level::Warn) && !fails(Some(AuditLevel::Warn), Level::Error));
        assert!(fails(Some(AuditLevel::Error), Level::Error));
    }
}
