//! The sends of one owner that were never answered, and the moment after which none of them can be executed any more.
//! Pure.
//!
//! An owner with such a send is *open*. An open owner closes when a release of it has been answered by the same server,
//! at a server time later than the latest execution time of each of its unanswered sends; only server times are
//! compared. If the server is gone for good, the owner closes once the latest execution time and the ttl have passed on
//! the engine's clock.

use std::time::Duration;

use crate::{clock::Instant, routing::topology::ClockId, transport::ServerTime};

/// The unanswered sends of one owner: the latest send for each server clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnansweredSends {
    latest: Vec<UnansweredSend>,
}

#[derive(Clone, Copy, Debug)]
struct UnansweredSend {
    not_after: ServerTime,
    execute_by: Instant,
    ttl: Duration,
}

impl UnansweredSends {
    /// Adds a send that was not answered. It may be executed until `not_after`, which the engine estimates to be
    /// `execute_by` on its own clock.
    pub(crate) fn add(&mut self, not_after: ServerTime, execute_by: Instant, ttl: Duration) {
        let send = UnansweredSend { not_after, execute_by, ttl };
        match self.latest.iter_mut().find(|open| open.not_after.clock == not_after.clock) {
            Some(open) => open.merge(send),
            None => self.latest.push(send),
        }
    }

    /// A release was answered at this server time: no older send can be executed after it.
    pub(crate) fn handle_release(&mut self, at: ServerTime) {
        self.latest.retain(|open| at.is_after(open.not_after) != Some(true));
    }

    /// Forgets the sends to servers that are gone for good, once the leases of those sends have run out.
    pub(crate) fn forget_gone(&mut self, now: Instant, is_gone: impl Fn(ClockId) -> bool) {
        self.latest.retain(|open| !(is_gone(open.not_after.clock) && now > open.execute_by + open.ttl));
    }

    /// Whether no send is left that could be executed late.
    pub(crate) fn is_closed(&self) -> bool {
        self.latest.is_empty()
    }

    /// The moment on the engine's clock at which the last of the sends should be too late to be executed.
    pub(crate) fn execute_by(&self) -> Option<Instant> {
        self.latest.iter().map(|open| open.execute_by).max()
    }
}

impl UnansweredSend {
    fn merge(&mut self, other: UnansweredSend) {
        self.not_after.micros = self.not_after.micros.max(other.not_after.micros);
        self.execute_by = self.execute_by.max(other.execute_by);
        self.ttl = self.ttl.max(other.ttl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::topology::NodeId;

    const TTL: Duration = Duration::from_secs(5);

    fn time(epoch: u32, micros: u64) -> ServerTime {
        ServerTime { micros, clock: ClockId { node: NodeId(0), epoch } }
    }

    #[test]
    fn s5_only_a_release_after_the_latest_execution_time_closes() {
        let mut open = UnansweredSends::default();
        open.add(time(1, 100), Instant::from_nanos(1), TTL);
        open.add(time(1, 300), Instant::from_nanos(3), TTL);
        open.add(time(1, 200), Instant::from_nanos(2), TTL);
        open.handle_release(time(1, 300));
        assert!(!open.is_closed());
        open.handle_release(time(1, 301));
        assert!(open.is_closed());
    }

    #[test]
    fn s5_another_servers_clock_closes_nothing() {
        let mut open = UnansweredSends::default();
        open.add(time(1, 100), Instant::from_nanos(0), TTL);
        open.handle_release(time(2, 1_000_000));
        assert!(!open.is_closed());
        open.forget_gone(Instant::from_nanos(0) + TTL, |clock| clock.epoch == 1);
        assert!(!open.is_closed(), "its lease may still run");
        open.forget_gone(Instant::from_nanos(1) + TTL, |_| false);
        assert!(!open.is_closed(), "the server is still there");
        open.forget_gone(Instant::from_nanos(1) + TTL, |clock| clock.epoch == 1);
        assert!(open.is_closed());
    }
}
