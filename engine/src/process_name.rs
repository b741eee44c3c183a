//! The names of this program and of its host, from the operating system.

use std::{env, ffi::OsStr, path::PathBuf};

use crate::label::EngineLabel;

/// The label of an engine whose settings have none: `program@host`.
pub(crate) fn label() -> EngineLabel {
    EngineLabel::of(&program(), &host())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_str().unwrap_or(UNKNOWN).to_owned()
}

#[cfg(windows)]
fn host() -> String {
    env::var("COMPUTERNAME").unwrap_or_else(|_| UNKNOWN.to_owned())
}

fn program() -> String {
    let path = env::current_exe().ok().or_else(|| env::args_os().next().map(PathBuf::from));
    let name = path.as_deref().and_then(|path| path.file_stem()).and_then(OsStr::to_str);
    name.unwrap_or(UNKNOWN).to_owned()
}

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_and_host_are_named() {
        let label = label();
        let (program, host) = label.as_str().split_once('@').unwrap();
        assert!(program.starts_with("leasehold") && !host.is_empty(), "{label}");
    }
}
