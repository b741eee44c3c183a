//! The scripts: constant text; names and values travel only as KEYS and ARGV.

use std::sync::LazyLock;

use fred::bytes_utils::Str;

/// A script with its digest, both ready to be sent without copying.
pub(crate) struct Script {
    pub(crate) source: Str,
    pub(crate) sha: Str,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source: Str::from_static(source), sha: fred::util::sha1_hash(source).into() }
    }
}

pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../scripts/acquire.lua")));
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../scripts/release.lua")));
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../scripts/renew.lua")));
pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../scripts/inspect.lua")));
pub(crate) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../scripts/force_release.lua")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_why_it_is_safe_to_run_twice() {
        for script in [&ACQUIRE, &RELEASE, &RENEW, &INSPECT, &FORCE_RELEASE] {
            assert!(script.source.contains("-- Safe to run twice:"), "{}", &*script.source);
            assert_eq!(script.sha.len(), 40);
        }
    }
}
