//! What a lease and the renewal shard share: the atomics are here, but for one that few leases need.
//!
//! The deadline only rises, until somebody has seen it pass: then it stands for ever. The phase only goes held ⇄ jeopardy →
//! ended, and an ended lease stays ended; whoever wins the change to ended is the one who reports it. The holder reads both
//! itself, so it needs no task of ours to be alive.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    cold::ColdState,
    state::{self, LeaseState, LossReason},
    unanswered::UnansweredSends,
    unconfirmed_owner::{ReleaseDue, UnconfirmedOwner},
};
use crate::{
    clock::Instant, fencing::FencingToken, guard, key::LockKey, metrics::ClassId, owner::Owner,
    routing::topology::ClockId, span::Span, transport::TransportError,
};

/// What a caller asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// How long the server keeps the lock unless it is renewed.
    pub(crate) ttl: Duration,
    /// Whether it is renewed.
    pub(crate) renewed: bool,
    /// For how long it is renewed at most.
    pub(crate) max_hold: Option<Duration>,
    /// What it counts as.
    pub(crate) class: ClassId,
}

/// A grant as it came from the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    /// When the command that was answered was sent, and until when it could be executed.
    pub(crate) sent: Instant,
    pub(crate) execute_by: Instant,
    /// When the answer came, and whose it was.
    pub(crate) received: Instant,
    pub(crate) clock: ClockId,
}

/// What came of taking a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// By its first holder.
    First,
    /// By a further one of the same scope.
    Again,
    /// It had ended, or its deadline had passed.
    TooLate,
}

/// One lease, shared by its holders, the key's entry and its renewal shard.
#[derive(Debug)]
pub(crate) struct LeaseCore {
    pub(crate) key: Arc<LockKey>,
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    ttl: Span,
    pub(crate) class: ClassId,
    renewed: bool,
    pub(crate) granted_at: Instant,
    /// The server that granted it.
    pub(crate) granted_by: ClockId,
    deadline: AtomicU64,
    gone_by: AtomicU64,
    ticket: AtomicU64,
    holds: AtomicU32,
    phase: AtomicU8,
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
        let Terms { ttl, renewed, max_hold, class } = terms;
        let cold = OnceLock::new();
        if max_hold.is_some() || !open.is_closed() {
            cold.get_or_init(|| Box::new(ColdState::new(max_hold, open)));
        }
        Self {
            key,
            owner: grant.owner,
            token: grant.token,
            ttl: ttl.into(),
            class,
            renewed,
            granted_at: grant.received,
            granted_by: grant.clock,
            deadline: AtomicU64::new(storable_deadline(grant.sent, ttl)),
            gone_by: AtomicU64::new(forgotten_by(grant.execute_by, ttl).as_nanos()),
            ticket: AtomicU64::new(NO_TICKET),
            holds: AtomicU32::new(holds),
            phase: AtomicU8::new(HELD), // neither taken nor awaited
            cold,
        }
    }

    /// How long the server keeps it unless it is renewed.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.get()
    }

    /// Whether it is renewed at all.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// What was asked for.
    pub(crate) fn terms(&self) -> Terms {
        let max_hold = self.cold.get().and_then(|cold| cold.max_hold());
        Terms { ttl: self.ttl(), renewed: self.renewed, max_hold, class: self.class }
    }

    fn cold(&self) -> &ColdState {
        self.cold.get_or_init(Box::default)
    }

    /// Until when the holder may believe.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire) & !PASSED)
    }

    /// A command sent at `sent` and asking for `ttl` was confirmed. Never moves the deadline back. `false`: somebody
    /// has already seen the deadline pass, so it changes nothing.
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

    /// Whether the holder may act at `now`, which is the present. False for ever once it was false.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        self.is_live() && !self.has_passed(now)
    }

    // A confirmation may be on its way to us: whoever sees the deadline pass shuts it out in the same step.
    fn has_passed(&self, now: Instant) -> bool {
        let pass = |old| (old < PASSED && old <= now.as_nanos()).then_some(old | PASSED);
        match self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, pass) {
            Ok(_) => true,
            Err(deadline) => deadline >= PASSED,
        }
    }

    /// Whether nobody has ended it yet; its deadline may have passed all the same.
    pub(crate) fn is_live(&self) -> bool {
        self.phase() <= JEOPARDY
    }

    pub(crate) fn is_in_jeopardy(&self) -> bool {
        self.phase() == JEOPARDY
    }

    /// What the holder is told at `now`.
    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        let held = self.is_held(now); // before its loss is read: a loss in between is told with its own reason
        match (self.loss(), held) {
            (Some(reason), _) => LeaseState::Lost(reason),
            (None, false) => LeaseState::Lost(self.reason_at_deadline()),
            (None, true) if self.is_in_jeopardy() => LeaseState::Jeopardy,
            (None, true) => LeaseState::Held,
        }
    }

    /// Why a lease that ends at its deadline ends there.
    pub(crate) fn reason_at_deadline(&self) -> LossReason {
        let stopped = self.renewed_until() <= self.deadline();
        if stopped { LossReason::MaxHold } else { LossReason::Expired }
    }

    /// The reason, once it is lost. A released lease has none.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        REASONS.get(usize::from(self.phase()).checked_sub(LOST)?).copied()
    }

    /// Ends it as lost. `true`: this call did it, and reports it; at last by [`tell_end`](Self::tell_end).
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let place = REASONS.iter().position(|known| *known == reason).expect("REASONS lists every reason");
        self.end((LOST + place) as u8)
    }

    /// The caller handles its loss. `false`: another one did, or does.
    pub(crate) fn claim_loss(&self) -> bool {
        self.phase.fetch_or(HANDLED, Ordering::AcqRel) & HANDLED == 0
    }

    /// Ends it as released. `false`: it had ended before.
    pub(crate) fn release(&self) -> bool {
        self.end(RELEASED)
    }

    fn end(&self, phase: u8) -> bool {
        self.change_phase(|old| (old <= JEOPARDY).then_some(phase))
    }

    /// Wakes those who wait for the loss. Runs wakers, which are user code: never under a lock of ours.
    pub(crate) fn tell_end(&self) {
        if let Some(cold) = self.cold.get() {
            let _ = guard::call(|| cold.tell_end());
        }
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire) & !MARKS
    }

    // The marks stay as they are.
    fn change_phase(&self, change: impl Fn(u8) -> Option<u8>) -> bool {
        let change = |old: u8| change(old & !MARKS).map(|new| new | (old & MARKS));
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// A renewal got no answer. `true`: it was not in jeopardy before.
    pub(crate) fn enter_jeopardy(&self) -> bool {
        self.change_phase(|phase| (phase == HELD).then_some(JEOPARDY))
    }

    /// Resolves once the lease is lost. Never resolves for a lease that was released.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let ended = self.cold().ended();
            // Read by a write: either whoever ends the lease changes it behind this and finds who waits, or this sees it.
            self.phase.fetch_or(0, Ordering::AcqRel);
            if let Some(reason) = self.loss() {
                return reason;
            }
            ended.await;
        }
    }

    /// Its holder takes it, if it is still held at `now` (promise S7). From then on `max_hold` counts.
    pub(crate) fn take(&self, now: Instant) -> Taken {
        if !self.is_held(now) {
            return Taken::TooLate;
        }
        let taken = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            (old & !MARKS <= JEOPARDY).then_some(old | TAKEN)
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

    /// Whether a holder ever took it. Settled once the lease has ended.
    pub(crate) fn was_taken(&self) -> bool {
        self.phase.load(Ordering::Acquire) & TAKEN != 0
    }

    /// Its shard has a renewal for it that waits until a holder takes the lease. `false`: it was taken already.
    pub(crate) fn await_taking(&self) -> bool {
        !self.was_taken() && self.phase.fetch_or(AWAITED, Ordering::AcqRel) & TAKEN == 0
    }

    /// Whether a renewal has waited for the lease to be taken. Read by who takes it, after that.
    pub(crate) fn is_awaited(&self) -> bool {
        self.phase.load(Ordering::Acquire) & AWAITED != 0
    }

    /// Whether it is to be renewed at `now`.
    pub(crate) fn wants_renewal(&self, now: Instant) -> bool {
        self.renewed && now < self.renewed_until()
    }

    /// How many holders there are. Changed under the lock of the key's entry only.
    pub(crate) fn holds(&self) -> u32 {
        self.holds.load(Ordering::Acquire)
    }

    pub(crate) fn add_hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes one hold back and says how many are left.
    pub(crate) fn remove_hold(&self) -> u32 {
        self.holds.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// A command of this owner is about to be sent that asks for `ttl` and may be executed until `execute_by`.
    pub(crate) fn note_send(&self, execute_by: Instant, ttl: Duration) {
        self.gone_by.fetch_max(forgotten_by(execute_by, ttl).as_nanos(), Ordering::AcqRel);
    }

    /// When the server has certainly forgotten this owner if nothing more is sent.
    pub(crate) fn gone_by(&self) -> Instant {
        Instant::from_nanos(self.gone_by.load(Ordering::Acquire))
    }

    /// A send of this owner was not answered.
    pub(crate) fn note_unanswered(&self, error: &TransportError, execute_by: Instant, ttl: Duration) {
        if let crate::transport::Effect::Unknown { not_after } = error.effect {
            self.cold().open().add(not_after, execute_by, ttl);
        }
    }

    pub(crate) fn take_open(&self) -> UnansweredSends {
        self.cold.get().map(|cold| std::mem::take(&mut *cold.open())).unwrap_or_default()
    }

    /// What is left to be closed once the lease has ended: its hold may still be on the server.
    pub(crate) fn to_closing(&self) -> UnconfirmedOwner {
        UnconfirmedOwner {
            owner: self.owner,
            open: self.take_open(),
            may_hold: true,
            gone_by: self.gone_by(),
        }
    }

    /// Where the closer has it, once it was lost.
    pub(crate) fn closing(&self) -> Option<ReleaseDue> {
        self.cold.get()?.closing()
    }

    pub(crate) fn note_closing(&self, place: ReleaseDue) {
        self.cold().note_closing(place);
    }

    /// Its place in its renewal shard; written by the shard only.
    pub(crate) fn ticket(&self) -> Option<u64> {
        Some(self.ticket.load(Ordering::Relaxed)).filter(|ticket| *ticket != NO_TICKET)
    }

    pub(crate) fn set_ticket(&self, ticket: Option<u64>) {
        self.ticket.store(ticket.unwrap_or(NO_TICKET), Ordering::Relaxed);
    }
}

fn storable_deadline(sent: Instant, ttl: Duration) -> u64 {
    state::deadline(sent, ttl).as_nanos().min(PASSED - 1)
}

fn forgotten_by(execute_by: Instant, ttl: Duration) -> Instant {
    execute_by + ttl + state::margin(ttl)
}

/// The bit of a deadline that somebody has seen pass. Without it, 292 years.
const PASSED: u64 = 1 << 63;
const HELD: u8 = 0;
const JEOPARDY: u8 = 1;
const RELEASED: u8 = 2;
const LOST: usize = 3;
/// A holder has taken it.
const TAKEN: u8 = 0x80;
/// Its shard waits until a holder takes it.
const AWAITED: u8 = 0x40;
/// Its loss is being handled, or was.
const HANDLED: u8 = 0x20;
const MARKS: u8 = TAKEN | AWAITED | HANDLED;
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
        };
        Arc::new(LeaseCore::new(LockKey::new("", name).unwrap(), terms, grant, UnansweredSends::default(), 1))
    }

    const TERMS: Terms =
        Terms { ttl: Duration::from_secs(10), renewed: true, max_hold: None, class: ClassId::DEFAULT };

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
