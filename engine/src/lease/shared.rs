//! The state that a lease shares with the renewal scheduler. The atomics are here, except for one that few leases need
//! (`cold`).
//!
//! The deadline only rises, until a reader has seen it pass; from then on it is fixed. The phase only goes held ⇄
//! jeopardy → ended, and an ended lease stays ended. The caller whose change to ended succeeds is the caller that
//! reports the end. The holder reads deadline and phase itself, so the answer needs no running task of the engine.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    cold::ColdState,
    state::{self, LeaseState, LossReason},
    stored_kind::{self, StoredKind},
    unanswered::UnansweredSends,
    unconfirmed_owner::{ReleaseDue, UnconfirmedOwner},
};
use crate::{
    clock::Instant,
    fencing::FencingToken,
    guard,
    key::LockKey,
    metrics::LabelSet,
    owner::Owner,
    routing::topology::ClockId,
    span::Span,
    transport::{HoldKind, TransportError},
};

/// What a caller asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The kind of the hold.
    pub(crate) kind: HoldKind,
    /// How long the server keeps the lock unless it is renewed.
    pub(crate) ttl: Duration,
    /// Whether the lease is renewed.
    pub(crate) renewed: bool,
    /// For how long the lease is renewed at most.
    pub(crate) max_hold: Option<Duration>,
    /// The labels of the lease's metrics.
    pub(crate) labels: LabelSet,
}

impl Terms {
    /// Whether both ask for the same hold. The labels are those of the caller.
    pub(crate) fn is_like(self, other: Self) -> bool {
        Self { labels: other.labels, ..self } == other
    }
}

/// A grant as the server answered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    /// When the answered command was sent, and until when the server could execute it.
    pub(crate) sent: Instant,
    pub(crate) execute_by: Instant,
    /// When the answer was received, and on which server's clock it was given.
    pub(crate) received: Instant,
    pub(crate) clock: ClockId,
    /// Of a fenced lock: how many tokens above this one are left for the next holders of the grant.
    pub(crate) reserved_tokens: u16,
}

/// The result of taking a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The lease's first holder took it.
    First,
    /// A further holder of the same scope took it.
    Again,
    /// The lease had ended, or its deadline had passed.
    TooLate,
}

/// One lease, shared by its holders, the key's entry and the renewal scheduler.
#[derive(Debug)]
pub(crate) struct LeaseCore {
    pub(crate) key: Arc<LockKey>,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    ttl: Span,
    granted_as: StoredKind,
    renewed: bool,
    pub(crate) granted_at: Instant,
    /// The clock of the server that granted the lease.
    pub(crate) granted_by: ClockId,
    deadline: AtomicU64,
    gone_by: AtomicU64,
    ticket: AtomicU64,
    holds: AtomicU32,
    /// The phase, the marks, and the number of the labels.
    phase: AtomicU16,
    cold: OnceLock<Box<ColdState>>,
}

impl LeaseCore {
    pub(crate) fn new(
        key: Arc<LockKey>,
        terms: Terms,
        grant: Granted,
        open: UnansweredSends,
        holds: u32,
    ) -> Self {
        let Terms { kind, ttl, renewed, max_hold, labels } = terms;
        let cold = OnceLock::new();
        let permits = stored_kind::permits_of(kind);
        let reserved_tokens = grant.reserved_tokens;
        if max_hold.is_some() || permits.is_some() || !open.is_closed() || reserved_tokens > 0 {
            let state = ColdState::new(max_hold, permits, open).with_reserved_tokens(reserved_tokens);
            cold.get_or_init(|| Box::new(state));
        }
        Self {
            key,
            owner: grant.owner,
            token: grant.token,
            ttl: ttl.into(),
            granted_as: kind.into(),
            renewed,
            granted_at: grant.received,
            granted_by: grant.clock,
            deadline: AtomicU64::new(storable_deadline(grant.sent, ttl)),
            gone_by: AtomicU64::new(forgotten_by(grant.execute_by, ttl).as_nanos()),
            ticket: AtomicU64::new(NO_TICKET),
            holds: AtomicU32::new(holds),
            phase: AtomicU16::new(HELD | marks_of(labels)), // neither TAKEN nor AWAITED
            cold,
        }
    }

    /// How long the server keeps the lock unless it is renewed.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.get()
    }

    /// Whether the lease is renewed at all.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// The kind of the hold. A write lease that is downgraded is a read lease from the moment of the call.
    pub(crate) fn kind(&self) -> HoldKind {
        match self.granted_as {
            StoredKind::Write if self.is_downgraded() => HoldKind::Read,
            StoredKind::Permits => StoredKind::Permits.with(self.cold.get().and_then(|cold| cold.permits())),
            kind => kind.with(None),
        }
    }

    fn is_downgraded(&self) -> bool {
        self.cold.get().is_some_and(|cold| cold.is_downgraded())
    }

    /// The labels of the lease's metrics: those of the caller that took the lease first.
    pub(crate) fn labels(&self) -> LabelSet {
        LabelSet::of_index((self.phase.load(Ordering::Acquire) >> LABELS_SHIFT) as usize)
    }

    /// What the caller asked for.
    pub(crate) fn terms(&self) -> Terms {
        let max_hold = self.cold.get().and_then(|cold| cold.max_hold());
        Terms { kind: self.kind(), ttl: self.ttl(), renewed: self.renewed, max_hold, labels: self.labels() }
    }

    fn cold(&self) -> &ColdState {
        self.cold.get_or_init(Box::default)
    }

    /// The moment until which the holder may believe that the lock is held.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire) & !PASSED)
    }

    /// Records that a command sent at `sent` and asking for `ttl` was confirmed. Never moves the deadline back.
    /// `false`: a reader has already seen the deadline pass, so the confirmation changes nothing.
    pub(crate) fn confirm(&self, sent: Instant, ttl: Duration) -> bool {
        let deadline = storable_deadline(sent, ttl);
        let counts = self
            .deadline
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                (old < PASSED).then_some(old.max(deadline))
            })
            .is_ok();
        if counts {
            self.change_phase(|phase| (phase == JEOPARDY).then_some(HELD));
        }
        counts
    }

    /// Whether the holder may act at `now`, which is the present. Never `true` again after the first `false`.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        self.is_live() && !self.has_passed(now)
    }

    // A confirmation may arrive at the same time. So the reader that sees the deadline pass marks it in the same atomic
    // step, and later confirmations are refused.
    fn has_passed(&self, now: Instant) -> bool {
        let pass = |old| (old < PASSED && old <= now.as_nanos()).then_some(old | PASSED);
        match self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, pass) {
            Ok(_) => true,
            Err(deadline) => deadline >= PASSED,
        }
    }

    /// Whether the lease has not been ended yet. Its deadline may have passed all the same.
    pub(crate) fn is_live(&self) -> bool {
        self.phase() <= JEOPARDY
    }

    pub(crate) fn is_in_jeopardy(&self) -> bool {
        self.phase() == JEOPARDY
    }

    /// The state that the holder sees at `now`.
    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        let held = self.is_held(now); // read before the loss: a loss in between is reported with its own reason
        match (self.loss(), held) {
            (Some(reason), _) => LeaseState::Lost(reason),
            (None, false) => LeaseState::Lost(self.reason_at_deadline()),
            (None, true) if self.is_in_jeopardy() => LeaseState::Jeopardy,
            (None, true) => LeaseState::Held,
        }
    }

    /// The reason for a loss at the deadline.
    pub(crate) fn reason_at_deadline(&self) -> LossReason {
        let stopped = self.renewed_until() <= self.deadline();
        if stopped { LossReason::MaxHold } else { LossReason::Expired }
    }

    /// The reason, once the lease is lost. A released lease has none.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        REASONS.get((self.phase() as usize).checked_sub(LOST)?).copied()
    }

    /// Ends the lease as lost. `true`: this call ended it. The caller then reports the loss, and calls
    /// [`tell_change`](Self::tell_change) last.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let place = REASONS
            .iter()
            .position(|known| *known == reason)
            .expect("REASONS lists every reason but that of a forked child");
        self.end((LOST + place) as u16)
    }

    /// Claims the handling of the loss. `false`: another caller has handled it, or is handling it.
    pub(crate) fn claim_loss(&self) -> bool {
        self.phase.fetch_or(HANDLED, Ordering::AcqRel) & HANDLED == 0
    }

    /// Ends the lease as released. `false`: the lease had ended before.
    pub(crate) fn release(&self) -> bool {
        self.end(RELEASED)
    }

    /// Ends the lease as released, so that the next caller gets its grant. `false`: the grant stays with this holder,
    /// because the lease is in jeopardy, has ended, or [`forbid_hand_off`](Self::forbid_hand_off) came first.
    pub(crate) fn hand_off(&self) -> bool {
        let end = |old: u16| (old & (PHASE | STAYS) == HELD).then_some(old | RELEASED);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).is_ok()
    }

    /// Ends the lease as released if no holder has taken it. `false`: a holder has taken it, or it has ended.
    pub(crate) fn end_untaken(&self) -> bool {
        let end = |old: u16| {
            let is_untaken = old & TAKEN == 0 && old & PHASE <= JEOPARDY;
            is_untaken.then_some(old & MARKS | RELEASED)
        };
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).is_ok()
    }

    /// From now on the grant is not handed off: a renewal of it is about to be sent, or its key is about to be deleted.
    /// `false`: the lease has ended.
    pub(crate) fn forbid_hand_off(&self) -> bool {
        let stays = |old: u16| (old & PHASE <= JEOPARDY).then_some(old | STAYS);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, stays).is_ok()
    }

    /// The grant of a lease that was never renewed, as its next holder gets it at `now`: with the same deadline, and a
    /// higher token.
    pub(crate) fn grant_of_next_holder(&self, now: Instant) -> Granted {
        let (ttl, margin) = (self.ttl(), state::margin(self.ttl()));
        Granted {
            owner: self.owner,
            token: self.token.of_next_holder(),
            sent: self.sent(),
            execute_by: self.gone_by().before(ttl.saturating_add(margin)),
            received: now,
            clock: self.granted_by,
            reserved_tokens: self.reserved_tokens().saturating_sub(1),
        }
    }

    /// Of a fenced lock: how many tokens above its own are left for the next holders of the grant.
    pub(crate) fn reserved_tokens(&self) -> u16 {
        self.cold.get().map_or(0, |cold| cold.reserved_tokens())
    }

    /// When the command was sent that gave a lease that was never renewed.
    pub(crate) fn sent(&self) -> Instant {
        self.deadline().before(self.ttl().saturating_sub(state::margin(self.ttl())))
    }

    fn end(&self, phase: u16) -> bool {
        self.change_phase(|old| (old <= JEOPARDY).then_some(phase))
    }

    /// Wakes the callers that wait for the loss or for a downgrade. This runs wakers, which are user code, so it is never called under a
    /// lock of the engine.
    pub(crate) fn tell_change(&self) {
        if let Some(cold) = self.cold.get() {
            let _ = guard::call(|| cold.tell_change());
        }
    }

    fn phase(&self) -> u16 {
        self.phase.load(Ordering::Acquire) & !MARKS
    }

    // The mark bits stay as they are.
    fn change_phase(&self, change: impl Fn(u16) -> Option<u16>) -> bool {
        let change = |old: u16| change(old & !MARKS).map(|new| new | (old & MARKS));
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// Puts the lease in jeopardy. `true`: the lease was held and not in jeopardy before.
    pub(crate) fn enter_jeopardy(&self) -> bool {
        self.change_phase(|phase| (phase == HELD).then_some(JEOPARDY))
    }

    /// Resolves once the lease is lost. Never resolves for a lease that was released.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let ended = self.cold().changed();
            // A read-modify-write instead of a load: it orders this waiter against `end()`, so either `end()` finds the
            // registered waiter or this call sees the loss. No wake-up is lost.
            self.phase.fetch_or(0, Ordering::AcqRel);
            if let Some(reason) = self.loss() {
                return reason;
            }
            ended.await;
        }
    }

    /// As [`take_as`](Self::take_as), with the labels that the lease has.
    #[cfg(test)]
    pub(crate) fn take(&self, now: Instant) -> Taken {
        self.take_as(now, self.labels())
    }

    /// Takes the lease for its holder, if the lease is still held at `now` (promise S7). `max_hold` counts from here.
    /// `labels`: those of the caller. If it is the first, the lease counts under them, as its grant does.
    pub(crate) fn take_as(&self, now: Instant, labels: LabelSet) -> Taken {
        if !self.is_held(now) {
            return Taken::TooLate;
        }
        let taken = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            let taken = if old & TAKEN == 0 { old & !LABELS | TAKEN | marks_of(labels) } else { old };
            (old & !MARKS <= JEOPARDY).then_some(taken)
        });
        match taken {
            Err(_) => Taken::TooLate,
            Ok(before) if before & TAKEN != 0 => Taken::Again,
            Ok(_) => {
                self.cold.get().into_iter().for_each(|cold| cold.start_max_hold(now));
                Taken::First
            }
        }
    }

    fn renewed_until(&self) -> Instant {
        self.cold.get().map_or(Instant::from_nanos(u64::MAX), |cold| cold.renewed_until())
    }

    /// Whether a holder ever took the lease. Does not change any more once the lease has ended.
    pub(crate) fn was_taken(&self) -> bool {
        self.phase.load(Ordering::Acquire) & TAKEN != 0
    }

    /// Marks that the scheduler has a renewal that waits until a holder takes the lease. `false`: a holder has taken it
    /// already.
    pub(crate) fn await_taking(&self) -> bool {
        !self.was_taken() && self.phase.fetch_or(AWAITED, Ordering::AcqRel) & TAKEN == 0
    }

    /// Whether a renewal has waited for the lease to be taken. The holder reads this after it has taken the lease.
    pub(crate) fn is_awaited(&self) -> bool {
        self.phase.load(Ordering::Acquire) & AWAITED != 0
    }

    /// Whether the lease is to be renewed at `now`.
    pub(crate) fn wants_renewal(&self, now: Instant) -> bool {
        self.renewed && now < self.renewed_until()
    }

    /// The number of holders. Changed only under the lock of the key's entry.
    pub(crate) fn holds(&self) -> u32 {
        self.holds.load(Ordering::Acquire)
    }

    /// Adds a holder that asked for a hold of this kind.
    pub(crate) fn add_hold(&self, side: HoldKind) {
        self.holds.fetch_add(1, Ordering::AcqRel);
        self.add_readers(u32::from(self.only_reads(side)));
    }

    /// Records that so many of the holders only read.
    pub(crate) fn add_readers(&self, count: u32) {
        if count > 0 {
            self.cold().add_readers(count);
        }
    }

    /// Removes a holder that asked for a hold of this kind, and returns the number of holders that are left.
    pub(crate) fn remove_hold(&self, side: HoldKind) -> u32 {
        if self.only_reads(side) {
            self.cold().remove_reader();
        }
        self.holds.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// A holder of a write lease reads from now on. `false`: the holder does not write.
    pub(crate) fn turn_to_reading(&self, side: HoldKind) -> bool {
        let writes = (self.kind(), side) == (HoldKind::Write, HoldKind::Write);
        self.add_readers(u32::from(writes));
        writes
    }

    fn only_reads(&self, side: HoldKind) -> bool {
        (self.granted_as, side) == (StoredKind::Write, HoldKind::Read)
    }

    /// Makes a write lease a read lease if its last holder that writes has gone. `true`: the server must be told.
    pub(crate) fn leave_to_readers(&self) -> bool {
        let Some(cold) = self.cold.get().filter(|_| self.kind() == HoldKind::Write) else { return false };
        let is_left = self.holds() > 0 && cold.readers() == self.holds();
        if is_left {
            cold.begin_downgrade();
        }
        is_left
    }

    /// Whether a downgrade has begun that no server has confirmed.
    pub(crate) fn wants_downgrade(&self) -> bool {
        self.cold.get().is_some_and(|cold| cold.is_downgraded() && !cold.is_downgrade_confirmed())
    }

    /// Whether a server has confirmed a downgrade.
    pub(crate) fn is_downgrade_confirmed(&self) -> bool {
        self.cold.get().is_some_and(|cold| cold.is_downgrade_confirmed())
    }

    /// A server has confirmed the downgrade. [`tell_change`](Self::tell_change) wakes the holder that waits for it.
    pub(crate) fn confirm_downgrade(&self) {
        self.cold().confirm_downgrade();
    }

    /// Resolves once a server has confirmed the downgrade, or the lease is lost.
    pub(crate) async fn downgraded(&self) -> Result<(), LossReason> {
        loop {
            let changed = self.cold().changed();
            self.phase.fetch_or(0, Ordering::AcqRel); // see `lost`
            match self.loss() {
                Some(reason) => return Err(reason),
                None if !self.wants_downgrade() => return Ok(()),
                None => changed.await,
            }
        }
    }

    /// Records that a command of this owner is about to be sent, which asks for `ttl` and may be executed until
    /// `execute_by`.
    pub(crate) fn note_send(&self, execute_by: Instant, ttl: Duration) {
        self.gone_by.fetch_max(forgotten_by(execute_by, ttl).as_nanos(), Ordering::AcqRel);
    }

    /// The moment by which the server has certainly forgotten this owner if no further command is sent.
    pub(crate) fn gone_by(&self) -> Instant {
        Instant::from_nanos(self.gone_by.load(Ordering::Acquire))
    }

    /// Records that a send of this owner was not answered.
    pub(crate) fn note_unanswered(&self, error: &TransportError, execute_by: Instant, ttl: Duration) {
        if let crate::transport::Effect::Unknown { not_after } = error.effect {
            self.cold().open().add(not_after, execute_by, ttl);
        }
    }

    pub(crate) fn take_open(&self) -> UnansweredSends {
        self.cold.get().map(|cold| std::mem::take(&mut *cold.open())).unwrap_or_default()
    }

    /// The owner that must be closed after the lease has ended: its hold may still be on the server.
    pub(crate) fn to_closing(&self) -> UnconfirmedOwner {
        UnconfirmedOwner {
            kind: self.kind(),
            owner: self.owner,
            open: self.take_open(),
            may_hold: true,
            gone_by: self.gone_by(),
        }
    }

    /// The place of the lease's owner in the reconciler, once the lease was lost.
    pub(crate) fn closing(&self) -> Option<ReleaseDue> {
        self.cold.get()?.closing()
    }

    pub(crate) fn note_closing(&self, place: ReleaseDue) {
        self.cold().note_closing(place);
    }

    /// The lease's ticket in the renewal scheduler. Only the scheduler writes it.
    pub(crate) fn ticket(&self) -> Option<u64> {
        Some(self.ticket.load(Ordering::Relaxed)).filter(|ticket| *ticket != NO_TICKET)
    }

    pub(crate) fn set_ticket(&self, ticket: Option<u64>) {
        self.ticket.store(ticket.unwrap_or(NO_TICKET), Ordering::Relaxed);
    }
}

fn marks_of(labels: LabelSet) -> u16 {
    (labels.index() as u16) << LABELS_SHIFT
}

fn storable_deadline(sent: Instant, ttl: Duration) -> u64 {
    state::deadline(sent, ttl).as_nanos().min(PASSED - 1)
}

fn forgotten_by(execute_by: Instant, ttl: Duration) -> Instant {
    execute_by + ttl + state::margin(ttl)
}

/// The bit that marks a deadline which a reader has seen pass. The remaining 63 bits of nanoseconds reach 292 years.
const PASSED: u64 = 1 << 63;
const HELD: u16 = 0;
const JEOPARDY: u16 = 1;
const RELEASED: u16 = 2;
const LOST: usize = 3;
/// A holder has taken the lease.
const TAKEN: u16 = 0x20;
/// The scheduler waits until a holder takes the lease.
const AWAITED: u16 = 0x10;
/// The loss is being handled, or was handled.
const HANDLED: u16 = 0x08;
/// The grant stays with its holder.
const STAYS: u16 = 0x40;
const PHASE: u16 = !MARKS;
const MARKS: u16 = STAYS | TAKEN | AWAITED | HANDLED | LABELS;
/// The number of the labels: a mark that only the first holder changes.
const LABELS: u16 = 0x1ff << LABELS_SHIFT;
const LABELS_SHIFT: u16 = 7;
const REASONS: [LossReason; 5] = [
    LossReason::Expired,
    LossReason::NotOurs,
    LossReason::MaxHold,
    LossReason::Shutdown,
    LossReason::RenewalStopped,
];
const NO_TICKET: u64 = u64::MAX;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::owner::OwnerMint;

    pub(crate) fn core(name: &str, terms: Terms, sent: Instant) -> Arc<LeaseCore> {
        let grant = Granted {
            owner: OwnerMint::new().mint(),
            token: FencingToken::at_server_micros(1),
            sent,
            execute_by: sent + Duration::from_secs(1),
            received: sent + Duration::from_millis(1),
            clock: ClockId { node: crate::routing::topology::NodeId(0), epoch: 1 },
            reserved_tokens: 2,
        };
        Arc::new(LeaseCore::new(LockKey::new("", name).unwrap(), terms, grant, UnansweredSends::default(), 1))
    }

    const TERMS: Terms = Terms {
        kind: crate::transport::HoldKind::Exclusive,
        ttl: Duration::from_secs(10),
        renewed: true,
        max_hold: None,
        labels: LabelSet::DEFAULT,
    };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn p12_a_lease_is_small() {
        assert!(size_of::<LeaseCore>() <= 112, "{}", size_of::<LeaseCore>());
    }

    #[test]
    fn s2_held_ends_at_the_deadline_by_the_clock_alone() {
        let lease = core("a", TERMS, at(0));
        assert!(lease.is_held(at(9_499)) && !lease.is_held(at(9_500)));
        assert_eq!(lease.state(at(9_500)), LeaseState::Lost(LossReason::Expired));
    }

    #[test]
    fn s2_the_deadline_never_moves_back() {
        let lease = core("a", TERMS, at(5_000));
        lease.confirm(at(1_000), Duration::from_secs(10));
        assert_eq!(lease.deadline(), at(14_500));
    }

    #[test]
    fn s2_an_ended_lease_stays_ended() {
        let lease = core("a", TERMS, at(0));
        assert!(lease.lose(LossReason::NotOurs));
        lease.confirm(at(9_000), Duration::from_secs(10));
        assert!(!lease.is_held(at(1)) && !lease.release() && !lease.lose(LossReason::Expired));
        assert_eq!(lease.loss(), Some(LossReason::NotOurs));
    }

    #[test]
    fn s2_who_saw_the_deadline_pass_never_sees_it_held_again() {
        let lease = core("a", TERMS, at(0));
        assert!(lease.is_held(at(9_499)) && !lease.is_held(at(9_500)));
        assert!(!lease.confirm(at(9_400), Duration::from_secs(10)));
        assert!(!lease.is_held(at(9_501)) && lease.deadline() == at(9_500));
        let forever = core("a", Terms { ttl: Duration::MAX, ..TERMS }, at(0));
        assert!(forever.is_held(at(1_000_000_000)) && forever.confirm(at(1), Duration::MAX));
    }

    #[test]
    fn max_hold_counts_from_the_moment_the_lease_is_taken() {
        let lease = core("a", Terms { max_hold: Some(Duration::from_secs(3)), ..TERMS }, at(0));
        assert!(lease.wants_renewal(at(1_000_000)), "not taken yet");
        lease.take(at(2_000));
        assert!(lease.wants_renewal(at(4_999)) && !lease.wants_renewal(at(5_000)));
        assert_eq!(lease.reason_at_deadline(), LossReason::MaxHold);
    }

    #[test]
    fn s7_a_lease_is_not_taken_after_its_deadline() {
        let lease = core("a", TERMS, at(0));
        assert_eq!((lease.take(at(9_500)), lease.was_taken()), (Taken::TooLate, false));
        assert_eq!(lease.take(at(1)), Taken::TooLate, "nor by who reads an older clock");
        let lease = core("b", TERMS, at(0));
        assert_eq!((lease.take(at(1)), lease.take(at(2))), (Taken::First, Taken::Again));
        lease.enter_jeopardy();
        lease.confirm(at(3), Duration::from_secs(10));
        assert!(lease.release() && lease.was_taken());
        assert_eq!(lease.take(at(4)), Taken::TooLate);
    }

    #[test]
    fn s7_a_lease_that_was_taken_back_is_not_taken_and_one_that_was_taken_is_not_taken_back() {
        let (back, taken) = (core("a", TERMS, at(0)), core("b", TERMS, at(0)));
        assert!(back.end_untaken() && !back.end_untaken() && !back.release());
        assert_eq!((back.take(at(1)), back.loss(), back.was_taken()), (Taken::TooLate, None, false));
        assert_eq!(
            (taken.take(at(1)), taken.end_untaken(), taken.is_held(at(2))),
            (Taken::First, false, true)
        );
    }

    #[test]
    fn s8_a_grant_is_handed_off_once_and_not_while_it_is_in_doubt_or_renewed() {
        let lease = core("a", TERMS, at(0));
        lease.take(at(1));
        assert!(
            lease.hand_off() && !lease.hand_off() && !lease.release() && !lease.lose(LossReason::NotOurs)
        );
        assert!(!lease.is_live() && lease.loss().is_none() && !lease.forbid_hand_off());
        let lease = core("b", TERMS, at(0));
        lease.enter_jeopardy();
        assert!(!lease.hand_off());
        lease.confirm(at(1), Duration::from_secs(10));
        assert!(lease.forbid_hand_off() && !lease.hand_off() && lease.is_live() && lease.release());
    }

    #[test]
    fn s2_the_next_holder_of_a_grant_has_its_deadline_and_is_forgotten_when_it_is() {
        let lease = core("a", TERMS, at(7));
        let grant = lease.grant_of_next_holder(at(500));
        let next = LeaseCore::new(lease.key.clone(), TERMS, grant, UnansweredSends::default(), 1);
        assert_eq!((next.deadline(), next.gone_by()), (lease.deadline(), lease.gone_by()));
        assert_eq!((next.owner, next.granted_at, next.sent()), (lease.owner, at(500), at(7)));
        assert!(next.token > lease.token);
        assert_eq!((lease.reserved_tokens(), next.reserved_tokens()), (2, 1));
    }

    #[test]
    fn a_loss_is_told_with_its_own_reason_from_the_first_moment() {
        let leases: Vec<_> = (0..1_000).map(|_| core("a", TERMS, at(0))).collect();
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let mut told = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (number, lease) in leases.iter().enumerate() {
                    while begun.load(Ordering::Acquire) <= number {
                        std::thread::yield_now();
                    }
                    lease.lose(LossReason::NotOurs);
                }
            });
            for (number, lease) in leases.iter().enumerate() {
                begun.store(number + 1, Ordering::Release);
                let states = std::iter::from_fn(|| Some(lease.state(at(1))));
                told.extend(states.skip_while(|state| *state == LeaseState::Held).take(1));
            }
        });
        let own = LeaseState::Lost(LossReason::NotOurs); // long before their deadlines
        assert_eq!(told.iter().filter(|state| **state != own).count(), 0);
    }

    #[tokio::test]
    async fn lost_resolves_also_for_who_comes_late() {
        let lease = core("a", TERMS, at(0));
        lease.lose(LossReason::Shutdown);
        assert_eq!(lease.lost().await, LossReason::Shutdown);
    }
}
