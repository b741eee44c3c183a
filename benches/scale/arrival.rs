//! When leases are taken: it decides how renewals lie in time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How leases come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Arrival {
    /// As fast as the servers grant them. One task a lease renews in the same bursts ever after.
    Burst,
    /// Evenly over one renewal period, as those of a service that has run for a while.
    Even,
}

impl Arrival {
    /// How they were taken, as the table says it.
    pub(super) fn told(self) -> &'static str {
        match self {
            Arrival::Burst => "in a burst",
            Arrival::Even => "evenly",
        }
    }

    /// Waits until lease `number` of `leases` is to be taken.
    pub(super) async fn wait(self, began: Instant, number: usize, leases: usize, period: Duration) {
        let Arrival::Even = self else { return };
        let at = began + period.mul_f64(number as f64 / leases as f64);
        tokio::time::sleep_until(at.into()).await;
    }
}
