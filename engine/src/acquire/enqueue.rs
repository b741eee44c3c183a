//! Adds a caller to the queue of a key, and removes the caller when it leaves.

use std::{sync::Arc, time::Duration};

use super::{
    caller::{Caller, CallerId, Patience, ScopeId},
    driver::{self, Stepped},
    entry::ScopeView,
    fair_driver, first_ask,
    pending_grant::PendingGrant,
    reply_to::{Answer, ReplyTo},
    table::Slot,
};
use crate::{
    answers::{self, AnswerReceiver},
    clock::Instant,
    dispatch::permit::Permit,
    error::{AcquireError, Invalid},
    inner::Inner,
    key::{Family, LockKey},
    lease::shared::{LeaseCore, Terms},
    transport::HoldKind,
};

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: Arc<LockKey>,
    pub(crate) terms: Terms,
    pub(crate) asked: ExplicitTerms,
    pub(crate) patience: Patience,
    pub(crate) scope: Option<ScopeId>,
    pub(crate) joined: Instant,
}

/// The terms that the caller set explicitly. Inside a scope they must equal those of the outer lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExplicitTerms {
    pub(crate) ttl: Option<Duration>,
    pub(crate) no_renewal: bool,
    pub(crate) max_hold: Option<Duration>,
}

/// The outcome of queueing.
pub(crate) enum Enqueued {
    /// The caller is in the queue, and the receiver gets the answer.
    Queued(AnswerReceiver<Answer>, QueueGuard),
    /// The scope holds the lock already.
    Shared(PendingGrant),
    /// The lock is held, and the caller only tries.
    Held,
}

/// A caller's place in the queue. Dropping it removes the caller from the queue.
pub(crate) struct QueueGuard {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    id: CallerId,
    answered: bool,
}

/// What to do for the caller once the table is unlocked.
pub(crate) enum Next {
    Share(Arc<LeaseCore>),
    Held,
    Wait,
    /// The caller was dropped meanwhile; nothing was queued.
    Gone,
}

/// Queues a caller. `late`: how many of its grants it did not take in time. It is queued at the head then, and no limit refuses it.
///
/// # Errors
/// - `ShuttingDown`: the engine is shutting down.
/// - `LimitReached`: the engine is at one of its limits.
/// - `Lost`: the scope has lost the lock.
/// - `Invalid`: the terms contradict those of the scope.
pub(crate) fn join(inner: &Arc<Inner>, call: &Call, late: u8) -> Result<Enqueued, AcquireError> {
    let (reply_to, answer) = answers::channel();
    let id = CallerId(inner.next_id());
    match queue_up(inner, call, (id, &mut Some(ReplyTo::Own(reply_to))), late, None)? {
        Next::Share(lease) => {
            let Terms { kind, labels, .. } = call.terms;
            Ok(Enqueued::Shared(PendingGrant::new(lease, (kind, labels), inner.clone(), false)))
        }
        Next::Held => Ok(Enqueued::Held),
        Next::Wait | Next::Gone => Ok(Enqueued::Queued(
            answer,
            QueueGuard { inner: inner.clone(), key: call.key.clone(), id, answered: false },
        )),
    }
}

/// Queues a caller that has a `reply_to` already. The `reply_to` is taken only if the caller is queued. `permit`: a
/// place in the limit of bulk calls, held until the first definite answer.
///
/// # Errors
/// As [`join`].
pub(crate) fn queue_up(
    inner: &Arc<Inner>,
    call: &Call,
    (id, reply_to): (CallerId, &mut Option<ReplyTo>),
    late: u8,
    permit: Option<Permit>,
) -> Result<Next, AcquireError> {
    let mut serves = Serves::Nothing;
    let next = inner.table.with(&call.key, |slot| -> Result<Next, AcquireError> {
        inner.check_open()?;
        let terms = match admit(inner, call, slot, late)? {
            Admitted::Queue(terms) => terms,
            Admitted::Share(lease) => return Ok(Next::Share(lease)),
            Admitted::Held => return Ok(Next::Held),
        };
        // Checked under the lock: a call dropped concurrently is either never queued, or finds its caller to remove.
        let Some(reply_to) = reply_to.take_if(|reply_to| !reply_to.is_abandoned()) else {
            return Ok(Next::Gone);
        };
        let Call { patience, joined, scope, .. } = *call;
        inner.events.totals.callers.add(1);
        let side = call.terms.kind;
        if slot.entry.join(Caller { id, terms, side, patience, joined, scope, late, reply_to }) {
            slot.poke();
        }
        // A caller that was queued before, or that has waited for a permit, joined too long ago.
        let joined = (late == 0 && permit.is_none()).then_some(call.joined);
        serves = Serves::of(inner, call, slot, joined);
        Ok(Next::Wait)
    })?;
    match serves {
        Serves::Nothing => {}
        Serves::FirstAsk(step) => first_ask::begin(inner, &call.key, step, permit),
        Serves::Driver => driver::start(inner, &call.key, permit),
        Serves::FairDriver => fair_driver::start(inner, &call.key),
    }
    Ok(next)
}

/// What serves an entry from now on.
enum Serves {
    /// What serves it already.
    Nothing,
    FirstAsk(Stepped),
    Driver,
    FairDriver,
}

impl Serves {
    /// Marks the entry as driven. Behind a release that is not answered, a task asks: the ask of this thread could overtake
    /// the release of another one. `joined`: when the caller joined, if that was just now.
    fn of(inner: &Inner, call: &Call, slot: &mut Slot, joined: Option<Instant>) -> Self {
        if std::mem::replace(&mut slot.driven, true) {
            return Self::Nothing;
        }
        match call.key.family() {
            Family::Fair => Self::FairDriver,
            _ if slot.releases > 0 => Self::Driver,
            _ => Self::FirstAsk(first_ask::step(inner, &call.key, slot, joined)),
        }
    }
}

/// Removes a caller that no longer waits for its answer from the queue.
pub(crate) fn leave(inner: &Inner, key: &Arc<LockKey>, id: CallerId) {
    let left = inner.table.with(key, |slot| {
        let caller = slot.entry.depart(id);
        slot.poke();
        caller
    });
    if left.is_some() {
        inner.events.totals.callers.sub(1);
    }
}

enum Admitted {
    Queue(Terms),
    Share(Arc<LeaseCore>),
    Held,
}

fn admit(inner: &Inner, call: &Call, slot: &Slot, late: u8) -> Result<Admitted, AcquireError> {
    match call.scope.map_or(ScopeView::Absent, |scope| slot.entry.scope_view(scope)) {
        ScopeView::Holds(lease) => {
            call.check_against(lease.terms())?;
            lease.add_hold(call.terms.kind);
            Ok(Admitted::Share(lease))
        }
        ScopeView::Lost(lease) => Err(AcquireError::Lost(lease.loss().unwrap_or(lease.reason_at_deadline()))),
        ScopeView::Queued(terms) => {
            call.check_against(terms)?;
            check_limits(inner, call, late)?;
            Ok(Admitted::Queue(Terms { labels: call.terms.labels, ..terms }))
        }
        ScopeView::Absent => admit_newcomer(inner, call, slot, late),
    }
}

fn admit_newcomer(inner: &Inner, call: &Call, slot: &Slot, late: u8) -> Result<Admitted, AcquireError> {
    let (kind, now) = (call.terms.kind, || inner.clock.now());
    if kind == HoldKind::Read && call.scope.is_none() {
        if let Some(lease) = slot.entry.joinable(call.terms, now()) {
            lease.add_hold(kind);
            return Ok(Admitted::Share(lease.clone()));
        }
    }
    let is_known_held = || {
        let pace = inner.pace(call.key.slot());
        slot.entry.is_known_held_to_newcomers(kind, now(), &pace)
    };
    if call.patience == Patience::Try && is_known_held() {
        return Ok(Admitted::Held);
    }
    check_limits(inner, call, late).map(|()| Admitted::Queue(call.terms))
}

// A caller that was late was admitted before.
fn check_limits(inner: &Inner, call: &Call, late: u8) -> Result<(), AcquireError> {
    if late > 0 { Ok(()) } else { inner.check_limits(call.key.slot()) }
}

impl Call {
    // A writer may read, with its own hold. A writer waits until no other owner reads, so a scope that reads would wait
    // for itself. A share of any other kind's hold would have a token that the resource cannot compare.
    fn check_against(&self, outer: Terms) -> Result<(), AcquireError> {
        match (self.terms.kind, outer.kind) {
            (HoldKind::Write, HoldKind::Read) => return Err(AcquireError::WouldDeadlock),
            (HoldKind::Read, HoldKind::Write) => return self.asked.check_against(outer),
            (wanted, held) if wanted == held => return self.asked.check_against(outer),
            _ => {}
        }
        let remedy = format!(
            "this scope holds or wants the lock with kind = {}; use the same kind in one scope, or another name",
            outer.kind
        );
        Err(Invalid::new("kind", self.terms.kind, remedy).into())
    }
}

impl ExplicitTerms {
    fn check_against(self, outer: Terms) -> Result<(), AcquireError> {
        let remedy =
            |outer: String| format!("this scope holds or wants the lock with {outer}; leave it out here");
        if let Some(ttl) = self.ttl.filter(|ttl| *ttl != outer.ttl) {
            return Err(Invalid::new(
                "ttl",
                format_args!("{ttl:?}"),
                remedy(format!("ttl = {:?}", outer.ttl)),
            )
            .into());
        }
        if self.no_renewal && outer.renewed {
            return Err(Invalid::new("no_renewal", true, remedy("renewal".into())).into());
        }
        if let Some(time) = self.max_hold.filter(|time| Some(*time) != outer.max_hold) {
            let outer = remedy(format!("max_hold = {:?}", outer.max_hold));
            return Err(Invalid::new("max_hold", format_args!("{time:?}"), outer).into());
        }
        Ok(())
    }
}

impl QueueGuard {
    /// The caller has its answer and is no longer in the queue. So dropping the guard removes nothing.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        if !self.answered && !self.inner.process.is_forked() {
            leave(&self.inner, &self.key, self.id);
        }
    }
}

impl From<Invalid> for AcquireError {
    fn from(invalid: Invalid) -> Self {
        AcquireError::Invalid(invalid)
    }
}
