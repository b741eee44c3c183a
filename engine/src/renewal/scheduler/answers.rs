//! Applies the answer to a renewal to its lease. Pure, like the scheduler.

use std::time::Duration;

use super::{DowngradeStep, Event, Record, Scheduler, Stage, TICK, due_tick, number};
use crate::{
    clock::Instant,
    lease::state::LossReason,
    renewal::{batch_outcomes::BatchOutcomes, manual::ManualOutcome, ttl_check::TtlExpectation},
    routing::topology::Topology,
    transport::{Call, Effect, ErrorKind, HoldKind, Op, Outcome, ServerTime, TransportError},
};

impl Scheduler {
    /// Applies the answers of a batch that was sent at `sent`. An answer with another epoch than the node's present
    /// epoch counts as unknown. Returns `true` if some renewals were too late for the first time and are to be sent
    /// again in this tick.
    pub(crate) fn handle_answers(
        &mut self,
        answers: &[Call],
        sent: Instant,
        now: Instant,
        topology: &Topology,
        counts: &mut BatchOutcomes,
    ) -> bool {
        let mut again = false;
        for member in answers {
            counts.turn_to(self.records.get(member.ticket).map(|record| record.lease.labels()));
            again |= self.handle_answer(member, sent, now, topology, counts);
        }
        again
    }

    fn handle_answer(
        &mut self,
        member: &Call,
        sent: Instant,
        now: Instant,
        topology: &Topology,
        counts: &mut BatchOutcomes,
    ) -> bool {
        let stale = |at: ServerTime| !topology.is_current(at.clock);
        match member.outcome {
            Outcome::Renewed { at, .. }
            | Outcome::Downgraded { at, .. }
            | Outcome::NotYours { at }
            | Outcome::TooLate { at }
                if stale(at) =>
            {
                let error = TransportError::unknown(
                    ErrorKind::Unreachable,
                    at,
                    "answered by a server that is not the present one",
                );
                counts.count_failed(&error);
                self.handle_failure(member, &error, now);
            }
            Outcome::Renewed { found, at } if matches!(member.op, Op::Renew { .. }) => {
                counts.count_renewed();
                if matches!(member.kind, HoldKind::Read) {
                    self.handle_downgraded(member.ticket); // the server knows a read hold
                }
                let left = self.handle_renewed(member, Some((found, at)), sent, now, topology);
                left.into_iter().for_each(|share| counts.note_margin(share));
            }
            Outcome::Downgraded { .. } if matches!(member.op, Op::Downgrade { .. }) => {
                counts.count_renewed();
                self.handle_downgraded(member.ticket);
                let left = self.handle_renewed(member, None, sent, now, topology);
                left.into_iter().for_each(|share| counts.note_margin(share));
            }
            Outcome::NotYours { .. } if self.may_be_downgraded(member) => self.renew_as_reader(member.ticket),
            Outcome::NotYours { .. } => {
                counts.count_not_ours();
                self.lose(member.ticket, LossReason::NotOurs);
            }
            Outcome::TooLate { .. } => {
                counts.count_too_late();
                return self.handle_too_late(member.ticket, now);
            }
            Outcome::Failed(ref error) => {
                counts.count_failed(error);
                self.handle_failure(member, error, now);
            }
            ref out_of_place => {
                let error = out_of_place.out_of_place(member.op);
                counts.count_failed(&error);
                self.handle_failure(member, &error, now);
            }
        }
        false
    }

    fn renew_as_reader(&mut self, ticket: u64) {
        if let Some(record) = self.records.get_mut(ticket) {
            record.downgrade = DowngradeStep::RenewAsReader;
        }
        self.make_ready(ticket);
    }

    // The renewal has found no write hold. A downgrade without an answer may have been executed before.
    fn may_be_downgraded(&self, member: &Call) -> bool {
        let is_write_renewal =
            matches!(member.kind, HoldKind::Write) && matches!(member.op, Op::Renew { .. });
        let wants = |record: &Record| record.lease.wants_downgrade();
        is_write_renewal && self.records.get(member.ticket).is_some_and(wants)
    }

    fn handle_downgraded(&mut self, ticket: u64) {
        let wants = |record: &&Record| record.lease.wants_downgrade();
        let Some(record) = self.records.get(ticket).filter(wants) else { return };
        record.lease.confirm_downgrade();
        self.events.push(Event::Downgraded(record.lease.clone()));
    }

    /// `found`: the ttl that the renewal found, if the answer says so. Returns the share of the ttl that was left before
    /// the deadline; `None` if the answer came too late to count.
    fn handle_renewed(
        &mut self,
        member: &Call,
        found: Option<(Duration, ServerTime)>,
        sent: Instant,
        now: Instant,
        topology: &Topology,
    ) -> Option<f64> {
        let record = self.records.get_mut(member.ticket)?;
        let lease = record.lease.clone();
        let (before, ttl) = (record.baseline, member.op.ttl().unwrap_or(lease.ttl()));
        record.baseline = match found {
            Some((found, _)) => TtlExpectation::after(ttl, found, sent, now),
            None => TtlExpectation::new(sent, now, ttl),
        };
        (record.stage, record.too_late, record.retry_at_once) = (Stage::Idle, 0, false);
        let left = lease.deadline() - now;
        if left.is_zero() || !lease.confirm(sent, ttl) {
            self.lose(member.ticket, lease.reason_at_deadline());
            return None;
        }
        let due = self.next_tick(&lease, sent, now, topology);
        self.note_due(member.ticket, due);
        self.wheel.insert(number(member.ticket), due);
        self.answer_sent_requests(member.ticket, &ManualOutcome::Renewed);
        if lease.wants_downgrade() {
            self.handle_downgrade(&lease); // it began while this renewal was in flight
        }
        if let Some((found, at)) = found.filter(|(found, _)| !before.expects(*found, sent, now)) {
            let (expected, clock) = (before.expected(sent, now), at.clock);
            self.events.push(Event::FoundTtl { lease, found, expected, clock });
        }
        Some(left.as_secs_f64() / ttl.as_secs_f64())
    }

    fn handle_too_late(&mut self, ticket: u64, now: Instant) -> bool {
        let Some(record) = self.records.get_mut(ticket) else { return false };
        record.too_late = record.too_late.saturating_add(1);
        let first = record.too_late == 1;
        if first {
            self.make_ready(ticket);
        } else {
            record.stage = Stage::Idle;
            record.due = due_tick(now); // fires at the next tick
            self.wheel.insert(number(ticket), due_tick(now));
        }
        first
    }

    fn handle_failure(&mut self, member: &Call, error: &TransportError, now: Instant) {
        let Some(record) = self.records.get_mut(member.ticket) else { return };
        let lease = record.lease.clone();
        (record.stage, record.too_late) = (Stage::Idle, 0);
        let retry_at_once = std::mem::take(&mut record.retry_at_once);
        let is_refused = (error.kind, error.effect) == (ErrorKind::NotReady, Effect::None);
        if is_refused && matches!(member.op, Op::Downgrade { .. }) {
            record.downgrade = DowngradeStep::RenewAsWriter;
        }
        if error.kind == ErrorKind::WrongType && error.effect == Effect::None {
            return self.lose(member.ticket, LossReason::NotOurs); // the key holds a value that is no lock
        }
        if error.effect != Effect::None {
            let ttl = member.op.ttl().unwrap_or(lease.ttl());
            record.baseline.note_unanswered(ttl);
            lease.note_unanswered(error, member.execute_by, ttl);
        }
        if retry_at_once {
            self.make_ready(member.ticket); // the failure belongs to the former server
        } else {
            let retry = (now + retry_after(lease.ttl())).min(lease.deadline());
            self.wheel.insert(number(member.ticket), due_tick(retry));
            self.note_due(member.ticket, due_tick(retry));
        }
        self.enter_jeopardy(member.ticket);
        self.answer_sent_requests(member.ticket, &ManualOutcome::Failed(error.clone()));
    }
}

/// The pause before a failed renewal is sent again: several attempts fit before the deadline, and a dead node does not
/// get a flood of commands.
fn retry_after(ttl: Duration) -> Duration {
    (ttl / 30).clamp(TICK, Duration::from_secs(1))
}
