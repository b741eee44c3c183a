//! What a test sees of a rule it has added.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rulebook::RuleRecord;
use crate::harness::polling::holds_within;
use crate::harness::resp::Value;

/// Tells how often a rule has fired, and delivers what it holds back. Dropping it changes nothing.
///
/// A fault of the reply, a repeated request and [`CutAfter`](super::Fault::CutAfter) count as fired when the server's
/// reply has come, so what they are about has been executed by then. The others count when the request is struck.
#[derive(Clone, Debug)]
pub struct RuleHandle {
    record: Arc<RuleRecord>,
    target_port: u16,
}

impl RuleHandle {
    pub(super) fn new(record: Arc<RuleRecord>, target_port: u16) -> Self {
        Self { record, target_port }
    }

    /// How often it has fired.
    pub fn fired(&self) -> u64 {
        *self.record.firings().borrow()
    }

    /// Whether it fires at least once before `within` is over. Blocks its thread.
    #[must_use]
    pub fn fired_within(&self, within: Duration) -> bool {
        self.fired_times_within(1, within)
    }

    /// Whether it has fired so often before `within` is over. Blocks its thread.
    #[must_use]
    pub fn fired_times_within(&self, times: u64, within: Duration) -> bool {
        holds_within(within, || self.fired() >= times)
    }

    /// Waits until it has fired so often; without a bound of its own.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_fired(&self, times: u64) {
        // The sender lives in the record we hold, so the only outcome is the count.
        let _ = self.record.firings().wait_for(|fired| *fired >= times).await;
    }

    /// Delivers all requests held back so far, oldest first, and returns what the server answered to each.
    ///
    /// They go out on the connection they were written to, which stays open towards the server when the client has
    /// closed its side; if the server has ended it, on a new one, which is not logged in. Blocks its thread.
    ///
    /// # Errors
    /// When an answer does not come before `within` is over. The requests are on their way nevertheless.
    pub fn deliver(&self, within: Duration) -> io::Result<Vec<Value>> {
        let deadline = Instant::now() + within;
        let sent: Vec<_> =
            self.record.take_held().into_iter().map(|held| held.send(self.target_port)).collect();
        sent.into_iter().map(|answer| answer?.before(deadline)).collect()
    }
}
