//! The sends of one owner that were never answered, and the moment after which none of them can be executed any more.
//! Pure.
//!
//! An owner with such a send is *open*. An open owner closes when a release of it has been answered by the same server,
//! at a server time later than the latest execution time of each of its unanswered sends; only server times are
//! compared. If the server is gone for good, the owner closes once the latest execution time and the ttl have passed on
//! the engine's clock.
//!
//! A transport that fails during a call (it panics, or its runtime ends) does not say which server may execute the call,
//! nor until when by the clock of that server. Such a call is *lost*. Its owner closes when a release has been answered that
//! was sent after the call's latest execution time by the engine's clock.

use std::time::Duration;

use crate::{clock::Instant, routing::topology::ClockId, transport::ServerTime};

/// The unanswered sends of one owner: the latest send for each server clock, and a lost one.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnansweredSends {
    latest: Vec<UnansweredSend>,
}

#[derive(Clone, Copy, Debug)]
struct UnansweredSend {
    /// `None`: the call is lost.
    not_after: Option<ServerTime>,
    execute_by: Instant,
    ttl: Duration,
}

impl UnansweredSends {
    /// Adds a send that was not answered. It may be executed until `not_after`, which the engine estimates to be
    /// `execute_by` on its own clock.
    pub(crate) fn add(&mut self, not_after: ServerTime, execute_by: Instant, ttl: Duration) {
        let is_of_clock = |open: &&mut UnansweredSend| open.clock() == Some(not_after.clock);
        match self.latest.iter_mut().find(is_of_clock) {
            Some(open) => open.merge(not_after, execute_by, ttl),
            None => self.latest.push(UnansweredSend { not_after: Some(not_after), execute_by, ttl }),
        }
    }

    /// Adds the call whose outcome the transport has lost.
    pub(crate) fn add_lost(&mut self, execute_by: Instant, ttl: Duration) {
        self.latest.push(UnansweredSend { not_after: None, execute_by, ttl });
    }

    /// A release that was sent at this moment was answered at this server time: no older send can be executed after it.
    pub(crate) fn handle_release(&mut self, sent: Instant, at: ServerTime) {
        self.latest.retain(|open| match open.not_after {
            Some(not_after) => at.is_after(not_after) != Some(true),
            None => sent <= open.execute_by,
        });
    }

    /// Forgets the sends to servers that are gone for good, and lost calls, once the leases of those sends have run out.
    pub(crate) fn forget_gone(&mut self, now: Instant, is_gone: impl Fn(ClockId) -> bool) {
        self.latest.retain(|open| !(open.clock().is_none_or(&is_gone) && now > open.execute_by + open.ttl));
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
    fn clock(&self) -> Option<ClockId> {
        self.not_after.map(|not_after| not_after.clock)
    }

    fn merge(&mut self, not_after: ServerTime, execute_by: Instant, ttl: Duration) {
        if let Some(own) = &mut self.not_after {
            own.micros = own.micros.max(not_after.micros);
        }
        self.execute_by = self.execute_by.max(execute_by);
        self.ttl = self.ttl.max(ttl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::topology::NodeId;

    const TTL: Duration = Duration::from_secs(5);
    const SENT: Instant = Instant::from_nanos(1);

    fn time(epoch: u32, micros: u64) -> ServerTime {
        ServerTime { micros, clock: ClockId { node: NodeId(0), epoch } }
    }

    #[test]
    fn s5_only_a_release_after_the_latest_execution_time_closes() {
        let mut open = UnansweredSends::default();
        open.add(time(1, 100), Instant::from_nanos(1), TTL);
        open.add(time(1, 300), Instant::from_nanos(3), TTL);
        open.add(time(1, 200), Instant::from_nanos(2), TTL);
        open.handle_release(SENT, time(1, 300));
        assert!(!open.is_closed());
        open.handle_release(SENT, time(1, 301));
        assert!(open.is_closed());
    }

    #[test]
    fn s5_only_a_release_that_was_sent_after_a_lost_calls_time_closes() {
        let (mut open, last) = (UnansweredSends::default(), Instant::from_nanos(3));
        open.add_lost(last, TTL);
        assert_eq!(open.execute_by(), Some(last));
        open.handle_release(last, time(1, 1_000_000));
        assert!(!open.is_closed(), "the call may be executed after that release");
        let mut forgotten = open.clone();
        forgotten.forget_gone(last + TTL, |_| true);
        assert!(!forgotten.is_closed(), "its lease may still run");
        forgotten.forget_gone(last + TTL + Duration::from_nanos(1), |_| false);
        assert!(forgotten.is_closed(), "whichever server it was, its lease has run out");
        open.handle_release(last + Duration::from_nanos(1), time(2, 1));
        assert!(open.is_closed());
    }

    #[test]
    fn s5_another_servers_clock_closes_nothing() {
        let mut open = UnansweredSends::default();
        open.add(time(1, 100), Instant::from_nanos(0), TTL);
        open.handle_release(SENT, time(2, 1_000_000));
        assert!(!open.is_closed());
        open.forget_gone(Instant::from_nanos(0) + TTL, |clock| clock.epoch == 1);
        assert!(!open.is_closed(), "its lease may still run");
        open.forget_gone(Instant::from_nanos(1) + TTL, |_| false);
        assert!(!open.is_closed(), "the server is still there");
        open.forget_gone(Instant::from_nanos(1) + TTL, |clock| clock.epoch == 1);
        assert!(open.is_closed());
    }
}
