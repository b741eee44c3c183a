//! The deadline of a request. Its `execute_by` is translated to server time here, at the moment at which the
//! command is sent.

use leasehold::{
    clock::Instant,
    transport::{ErrorKind, ServerTime, TransportError},
};
use tokio::sync::SemaphorePermit;

use super::node_connection::Connection;

/// The deadline of a request on our clock, and the server time after which the server does not execute it.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// The deadline on our clock.
    pub(super) until: Instant,
    pub(crate) not_after: ServerTime,
}

impl Connection {
    /// Waits for a permit to send, at most until `until`.
    ///
    /// # Errors
    /// `NotReady` if `in_flight_max` requests are still in flight at `until`, `Unreachable` if the connection is
    /// lost. Neither request had an effect.
    pub(crate) async fn permit(&self, until: Instant) -> Result<SemaphorePermit<'_>, TransportError> {
        if let Ok(permit) = self.in_flight.try_acquire() {
            return Ok(permit);
        }
        let turn = tokio::time::timeout(until - self.now(), self.in_flight.acquire());
        match turn.await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(self
                .without_effect(ErrorKind::Unreachable, "the connection was lost before the request's turn")),
            Err(_elapsed) => {
                Err(self
                    .without_effect(ErrorKind::NotReady, "`in_flight_max` requests are in flight already"))
            }
        }
    }

    /// Translates `execute_by` to server time, as of now.
    ///
    /// # Errors
    /// `TimedOut` if `execute_by` has passed, `NotReady` if the server's clock was not read in the last minute.
    pub(crate) fn limit(&self, execute_by: Instant) -> Result<Limit, TransportError> {
        let now = self.now();
        if execute_by <= now {
            return Err(self.without_effect(ErrorKind::TimedOut, "its deadline passed before it was sent"));
        }
        let not_after = self.at(self.translate(execute_by, now)?);
        Ok(Limit { until: execute_by, not_after })
    }

    /// The deadline of a request that has none of its own: the command timeout from now.
    pub(super) fn timeout(&self) -> Instant {
        self.now() + self.terms.command_timeout
    }

    /// The limit of a request that is sent now, is answered by `until`, and may be executed at any time. Its
    /// `not_after` is the current server time.
    ///
    /// # Errors
    /// `NotReady` if the server's clock was not read in the last minute.
    pub(super) fn sent_now(&self, until: Instant) -> Result<Limit, TransportError> {
        let now = self.now();
        Ok(Limit { until, not_after: self.at(self.translate(now, now)?) })
    }

    fn translate(&self, moment: Instant, now: Instant) -> Result<u64, TransportError> {
        let translated = self.with_offset(|offset| offset.translate(moment, now));
        translated.ok_or_else(|| {
            self.without_effect(ErrorKind::NotReady, "the server's clock was not read for a minute")
        })
    }
}
