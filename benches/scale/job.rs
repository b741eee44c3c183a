//! What a contestant is to do, and what it tells.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{arrival::Arrival, size::ScaleSize};
use crate::usage::Usage;

/// Who holds the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Contestant {
    /// The engine.
    Ours,
    /// One task a lease, one script a renewal.
    Naive,
}

/// How the locks are called. All names have 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Names {
    /// In as many slots as there are.
    Random,
    /// A thousand hash tags.
    Tagged,
}

impl Job {
    /// From one renewal to the next.
    pub(super) fn period(&self) -> Duration {
        Duration::from_millis(self.size.ttl_ms) / 3
    }
}

impl Names {
    pub(super) fn name(self, number: usize) -> String {
        // A multiplication spreads neighbours over the slots.
        let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match self {
            Names::Random => format!("lease:{mixed:016x}:{number:09}"),
            Names::Tagged => format!("{{t{:03}}}:{mixed:016x}:{number:09}", number % 1_000),
        }
    }
}

/// What a contestant is to do.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) contestant: Contestant,
    pub(super) arrival: Arrival,
    /// Of the servers, or `memory`.
    pub(super) url: String,
    pub(super) size: ScaleSize,
    pub(super) names: Names,
}

/// What a contestant tells of itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) window: Usage,
    pub(super) renewals: f64,
    pub(super) lost: f64,
    pub(super) late_ms: f64,
    pub(super) nearest: f64,
    pub(super) bytes_a_lease: f64,
    pub(super) taken_seconds: f64,
}

/// Said when the window begins and when it ends.
pub(super) const BEGIN: &str = "begin";
pub(super) const END: &str = "end";
