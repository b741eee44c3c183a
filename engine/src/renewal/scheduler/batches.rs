//! Forms batches of the leases that are ready. Pure, like the scheduler.
//!
//! A batch is filled from the queue of its node. So the lease with the earliest deadline is sent first, and a batch is
//! sent full whenever enough leases are ready for its node.

use std::time::Duration;

use super::{DowngradeStep, Ready, Scheduler, Stage, TICK_NANOS};
use crate::{
    clock::Instant,
    lease::shared::LeaseCore,
    metrics::LabelSet,
    renewal::{batch::Batch, batch_outcomes::BatchOutcomes},
    routing::topology::{Node, NodeId, Topology},
    transport::{Call, ErrorKind, HoldKind, Op, TransportError},
};

impl Scheduler {
    /// The batches of ready leases to be sent at `now`: the earliest deadline first, at most `free(node)` batches per
    /// node. A lease that is not sent stays ready, and its deadline stays in the wheel. A lease that no connected node
    /// serves is in jeopardy, and counts as one failed renewal each time it becomes due.
    pub(crate) fn take_batches(
        &mut self,
        now: Instant,
        topology: &Topology,
        free: impl Fn(NodeId) -> usize,
        counts: &mut BatchOutcomes,
    ) -> Vec<Batch> {
        self.regroup(now, topology, counts);
        self.place_readied(now, topology, counts);
        let mut batches = Vec::new();
        for node in topology.nodes().iter().filter(|node| node.connected) {
            let full = std::iter::repeat_with(|| self.take_batch(now, node)).take(free(node.id));
            batches.extend(full.take_while(|batch| !batch.members.is_empty()));
        }
        batches
    }

    // Tickets of leases that have ended stay in the queue until the queue is regrouped, at the latest when they are
    // more than half of the queue.
    fn regroup(&mut self, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        let most = 2 * self.len() + GONE_MIN;
        if self.ready.is_grouped_by(topology) && self.ready.len() <= most {
            return;
        }
        let Self { ready, records, .. } = self;
        let is_ready = |ticket| records.get(ticket).is_some_and(|record| record.stage == Stage::Ready);
        for stranded in ready.regroup(topology, |one| is_ready(one.ticket)) {
            self.strand(stranded, now, topology, counts);
        }
    }

    fn place_readied(&mut self, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        let Self { ready, readied, .. } = self;
        let stranded: Vec<Ready> = readied.drain(..).filter_map(|one| ready.push(one, topology)).collect();
        stranded.into_iter().for_each(|one| self.strand(one, now, topology, counts));
    }

    // No connected node serves the slot of the lease.
    fn strand(&mut self, ready: Ready, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        let Some(labels) = self.enter_jeopardy_unsent(ready.ticket, now) else { return };
        let node = topology.serving(ready.slot).map(|node| node.id);
        let why = "no connected node serves the slot of the lease";
        counts.turn_to(Some(labels));
        counts.count_failed(&TransportError::without_effect(ErrorKind::Unreachable, node, why));
    }

    /// Puts a ready lease in jeopardy. Returns the lease's labels, unless the lease is no longer to be renewed.
    fn enter_jeopardy_unsent(&mut self, ticket: u64, now: Instant) -> Option<LabelSet> {
        let record = self.records.get(ticket).filter(|record| record.stage == Stage::Ready)?;
        let lease = record.lease.clone();
        self.enter_jeopardy(ticket);
        let is_wanted = self.manual.is_any(ticket) || lease.wants_downgrade() || lease.wants_renewal(now);
        is_wanted.then_some(lease.labels())
    }

    fn take_batch(&mut self, now: Instant, node: &Node) -> Batch {
        let mut latest = Duration::ZERO;
        let mut ready = std::mem::take(&mut self.ready);
        let batch = ready.pop_batch(node, |one| {
            let (renewal, late) = self.send(one.ticket, now)?;
            latest = latest.max(late);
            Some(renewal)
        });
        self.ready = ready;
        if !batch.members.is_empty() {
            self.lateness.push(latest);
        }
        batch
    }

    /// Makes the renewal of a ready lease that is sent at `now`, and returns how late that renewal is. `None`: the
    /// lease has ended, or is no longer to be renewed.
    fn send(&mut self, ticket: u64, now: Instant) -> Option<(Call, Duration)> {
        let record = self.records.get_mut(ticket).filter(|record| record.stage == Stage::Ready)?;
        let (lease, manual) = (&record.lease, &mut self.manual);
        // The lease may have been ready for long. If it is not sent, the wheel has its deadline.
        let is_wanted = manual.is_any(ticket) || lease.wants_downgrade() || lease.wants_renewal(now);
        let goes_out = lease.is_held(now) && is_wanted && lease.forbid_hand_off();
        record.stage = if goes_out { Stage::InFlight } else { Stage::Idle };
        let late = now - start_of(record.due);
        let downgrade = lease.wants_downgrade().then(|| std::mem::take(&mut record.downgrade));
        goes_out.then(|| {
            let renewal = renewal(lease, downgrade, manual.send(ticket), now, self.command_timeout);
            (renewal.with_ticket(ticket), late)
        })
    }

    /// The lateness of each batch since the last call: the lateness of the batch's most overdue renewal.
    pub(crate) fn take_lateness(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.lateness)
    }
}

fn renewal(
    lease: &LeaseCore,
    downgrade: Option<DowngradeStep>,
    requested: Option<Duration>,
    now: Instant,
    command_timeout: Duration,
) -> Call {
    let ttl = requested.map_or(lease.ttl(), |requested| requested.max(lease.ttl()));
    let execute_by = now + command_timeout.min(lease.ttl() / 6);
    lease.note_send(execute_by, ttl);
    let (kind, op) = match downgrade {
        None => (lease.kind(), Op::Renew { ttl }),
        Some(DowngradeStep::Downgrade) => (HoldKind::Write, Op::Downgrade { ttl }),
        Some(DowngradeStep::RenewAsWriter) => (HoldKind::Write, Op::Renew { ttl }),
        Some(DowngradeStep::RenewAsReader) => (HoldKind::Read, Op::Renew { ttl }),
    };
    Call::new(lease.key.clone(), kind, op, lease.owner, execute_by)
}

fn start_of(tick: u64) -> Instant {
    Instant::from_nanos(tick.saturating_mul(TICK_NANOS))
}

/// The number of ended leases in the queue up to which regrouping is not worth its cost.
const GONE_MIN: usize = 1_000;

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
