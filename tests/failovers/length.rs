//! How long the tests run: short in `cargo test`, at full length with `LEASEHOLD_LONG=1`.

use std::time::Duration;

use leasehold_tests::harness::length::is_long;

/// How often the fault is repeated, each time on a fresh deployment.
pub(crate) fn rounds() -> usize {
    if is_long() { 5 } else { 1 }
}

/// How long there is work before a fault, and after its end.
pub(crate) fn stretch() -> Duration {
    if is_long() { Duration::from_secs(20) } else { Duration::from_secs(3) }
}

/// How long a slot stays half moved: every lease is renewed meanwhile, which the longest ttl of 5 s wants after 1.7 s.
pub(crate) fn dwell() -> Duration {
    if is_long() { Duration::from_secs(10) } else { Duration::from_millis(1_800) }
}
