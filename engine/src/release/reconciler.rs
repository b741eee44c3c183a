//! The owners that are closed in the background: their release is repeated until a server has answered it at a time at
//! which no send of theirs can be executed any more. The rule is in `lease/unanswered.rs`; the promise is S5.
//!
//! # When
//! At once, then when the last send is too late to be executed, then with back-off. A release without an answer does not
//! count for the back-off: it waits in the outbox of its node, which gets one release each 50 ms until it answers anything
//! (`dispatch/permit_queue`), or until the topology changes, which shows that a node is connected again.
//!
//! # Callers
//! The caller of a release waits here for at most one command timeout (`told`). After that its owner stays.
//!
//! # A server that no longer answers for the key
//! An unanswered send to server X is closed by an answer of X itself, given later than the send's latest execution
//! time. X cannot give that answer if X is gone, if X has another run now, or if the key's slot was moved away. Then
//! another server Y answers the releases, and times of X and Y are never compared. So X counts as gone for this key,
//! and the sends to X are closed once their latest execution time and the ttl have passed on the engine's clock, when
//! - X's run is not the present one (failover, restart, removal), or
//! - X does not serve the key's slot, or
//! - another present server has answered the release just sent, whatever the topology says. Then X has redirected the
//!   release, or the transport has done so on behalf of X: a server whose slot is in migration answers ASK for keys
//!   that it does not have. The topology may be out of date, and a migration may be left half done for ever.
//!
//! Why that is enough: a server executes nothing for a slot that it does not serve, and nothing for a key that it has
//! handed over while its slot is in migration, so what is queued in X's sockets does nothing there. What X did execute
//! before has moved with the slot, where a release finds it (`may_hold` ends with an answer of any present server), or
//! has run out with its ttl. *The slot moves back to X in time*: X serves it, counts as there, and gives its word.
//! *It moves back afterwards*: X's own clock has passed the latest execution time then, and X checks it. The one
//! assumption beyond those for a present X is that of a server that is gone: X's clock was not set back by more than
//! ttl and margin meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::told::Awaited;
use crate::{
    clock::Instant,
    core::Core,
    guard,
    key::LockKey,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
        unconfirmed_owner::{ReleaseDue, UnconfirmedOwner},
    },
    metrics::EngineEvent,
    routing::topology::ClockId,
    transport::{HoldKind, Outcome, TransportError},
};

/// The owners that are being closed.
#[derive(Debug)]
pub(crate) struct Reconciler {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    due: BTreeMap<ReleaseDue, OpenOwner>,
    /// The owners whose release is in flight, or waits for a permit of their node.
    in_flight: BTreeMap<u64, Arc<LockKey>>,
    /// The callers that wait for the release of an owner, by the end of their time.
    awaited: BTreeMap<ReleaseDue, Awaited>,
    topology_epoch: Option<u64>,
    next: u64,
    is_closed: bool,
}

/// An owner that is being closed.
#[derive(Debug)]
pub(super) struct OpenOwner {
    number: u64,
    pub(super) key: Arc<LockKey>,
    pub(super) closing: UnconfirmedOwner,
    /// The number of releases that a server has answered, or refused for good.
    tries: u32,
    /// The server that answered the last release, if a server did.
    answered_by: Option<ClockId>,
    /// When the last release was sent.
    pub(super) sent: Instant,
    /// How many releases got no answer although the node answered other requests. A node may answer for one slot and not for
    /// another.
    in_vain: u32,
    /// Until when the caller of the release waits, if there is one.
    awaited_until: Option<Instant>,
}

/// The outcome of sending a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    /// A present server has answered the release, or refuses it for good.
    Answered,
    /// No present server has answered the release. `node_answers`: the node has answered other requests.
    Unanswered { node_answers: bool },
}

impl Exchanged {
    pub(super) fn of(reply: &Result<Outcome, TransportError>, node_answers: bool) -> Self {
        match reply {
            Ok(reply) if reply.at().is_some() => Self::Answered,
            Err(last_error) if last_error.kind.is_final() => Self::Answered,
            Ok(_) | Err(_) => Self::Unanswered { node_answers },
        }
    }
}

impl OpenOwner {
    fn new(number: u64, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> Self {
        let (key, sent) = (key.clone(), Instant::default());
        Self { number, key, closing, tries: 0, answered_by: None, sent, in_vain: 0, awaited_until: None }
    }

    fn handle_reply(&mut self, reply: Option<&Outcome>) {
        let at = reply.and_then(Outcome::at);
        self.answered_by = at.map(|at| at.clock);
        if let Some(at) = at {
            self.closing.may_hold = false;
            self.closing.open.handle_release(self.sent, at);
        }
    }

    /// When the next release is due.
    fn next_due(&mut self, exchanged: Exchanged, now: Instant) -> Instant {
        match exchanged {
            Exchanged::Answered => {
                self.tries += 1;
                next_try(self, now)
            }
            Exchanged::Unanswered { node_answers: true } => {
                self.in_vain += 1;
                now.max(self.sent + back_off(self.in_vain - 1))
            }
            // The outbox of its node says when.
            Exchanged::Unanswered { node_answers: false } => now,
        }
    }

    fn awaited(&self) -> Option<ReleaseDue> {
        self.awaited_until.map(|until| (until, self.number))
    }
}

impl Reconciler {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), news: Notify::new() }
    }

    /// Takes over an owner. Its first release is due at once.
    pub(crate) fn add(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
        self.track(core, key, closing, core.clock.now());
    }

    /// Takes over the owner of a lost lease. The holder has the margin to notice the loss and to stop: `run` drops its
    /// work before anything is released. So the release is sent when the last holder has dropped the lease, or after
    /// the margin. A lease that the server does not know as ours needs no release, unless one of its sends may still be
    /// executed, or only some of its permits are gone.
    pub(crate) fn add_lost(&self, core: &Core, lease: &LeaseCore, reason: LossReason) {
        let mut closing = lease.to_closing();
        let may_have_rest = matches!(lease.kind(), HoldKind::Permits(permits) if permits.get() > 1);
        closing.may_hold = reason != LossReason::NotOurs || may_have_rest;
        if !closing.may_hold && closing.open.is_closed() {
            return;
        }
        let now = core.clock.now();
        let due = if lease.was_taken() { now + state::margin(lease.ttl()) } else { now };
        lease.note_closing(self.track(core, &lease.key, closing, due));
        if lease.holds() == 0 {
            self.expedite(core, lease); // the last holder has gone before the place was noted
        }
    }

    /// The last holder of a lost lease has gone, so the release of its owner is due at once.
    pub(crate) fn expedite(&self, core: &Core, lease: &LeaseCore) {
        let Some(place) = lease.closing() else { return };
        let mut waiting = self.lock();
        if let Some(owner) = waiting.due.remove(&place) {
            waiting.put(core.clock.now().min(place.0), owner);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn track(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner, due: Instant) -> ReleaseDue {
        core.events.record_engine(EngineEvent::Closing { begins: true });
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.put(due, OpenOwner::new(number, key, closing));
        drop(waiting);
        self.news.notify_one();
        (due, number)
    }

    /// Takes over an owner whose first release the caller of this method sends.
    pub(super) fn begin(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> OpenOwner {
        core.events.record_engine(EngineEvent::Closing { begins: true });
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.in_flight.insert(number, key.clone());
        OpenOwner::new(number, key, closing)
    }

    /// Takes over the owner of a release that got no definite answer and whose caller waits.
    pub(super) fn add_awaited(
        &self,
        core: &Core,
        key: &Arc<LockKey>,
        closing: UnconfirmedOwner,
        awaited: Awaited,
    ) {
        core.events.record_engine(EngineEvent::Closing { begins: true });
        let mut waiting = self.lock();
        waiting.next += 1;
        let mut owner = OpenOwner::new(waiting.next, key, closing);
        owner.awaited_until = Some(awaited.until);
        let refused = waiting.wait_for(&owner, awaited);
        waiting.put(core.clock.now(), owner);
        drop(waiting);
        guard::drop_each(refused);
        self.news.notify_one();
    }

    /// Answers callers whose time is over. Their owners stay. Returns whether there may be more of them.
    pub(super) fn answer_overdue(&self, now: Instant) -> bool {
        for _ in 0..ANSWERED_IN_A_ROW {
            match self.take_overdue(now) {
                Some(awaited) => awaited.give_up(now),
                None => return false,
            }
        }
        true
    }

    /// The epoch of the topology that was taken in last.
    pub(super) fn topology_epoch(&self) -> Option<u64> {
        self.lock().topology_epoch
    }

    fn take_overdue(&self, now: Instant) -> Option<Awaited> {
        let mut waiting = self.lock();
        let first = waiting.awaited.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// The engine has ended: no caller is answered any more.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let awaited = std::mem::take(&mut waiting.awaited);
        drop(waiting);
        guard::drop_each(awaited.into_values()); // wakes tasks of the user, whose wakers may panic
    }

    /// An owner that is due, and since when. Otherwise when to look again.
    pub(super) fn take_due(&self, core: &Core) -> Result<(Instant, OpenOwner), Option<Instant>> {
        let (epoch, now) = (core.calls.topology().map(|topology| topology.epoch()), core.clock.now());
        let mut waiting = self.lock();
        waiting.handle_topology(epoch, now);
        match waiting.due.first_entry() {
            Some(first) if first.key().0 <= now => {
                let ((due, number), owner) = first.remove_entry();
                waiting.in_flight.insert(number, owner.key.clone());
                Ok((due, owner))
            }
            _ => Err(waiting.next_look()),
        }
    }

    /// A send of an owner's release has ended. `reply`: `None` if the transport has panicked. The owner is now closed, or its
    /// next release becomes due.
    pub(super) fn finish(
        &self,
        core: &Core,
        mut owner: OpenOwner,
        reply: Option<Result<Outcome, TransportError>>,
        exchanged: Exchanged,
    ) {
        let now = core.clock.now();
        owner.handle_reply(reply.as_ref().and_then(|reply| reply.as_ref().ok()));
        let OpenOwner { key, closing, answered_by, .. } = &mut owner;
        closing.may_hold &= now <= closing.gone_by;
        let is_gone = |clock| {
            let serves = core.calls.is_serving(clock, key.slot());
            !serves || answered_by.is_some_and(|answered_by| answered_by != clock)
        };
        // Each send is closed by its own time. A later confirmation keeps the lock for longer, and no send open.
        closing.open.forget_gone(now, is_gone);
        let awaited = self.lock().note_reply(&owner, reply.as_ref(), exchanged);
        self.put_back(core, owner, exchanged, now);
        match (awaited, reply) {
            (Some(awaited), Some(Ok(reply))) => awaited.answer(reply, now),
            (Some(awaited), _) => awaited.give_up(now),
            (None, _) => {}
        }
    }

    fn put_back(&self, core: &Core, mut owner: OpenOwner, exchanged: Exchanged, now: Instant) {
        let mut waiting = self.lock();
        if !owner.closing.may_hold && owner.closing.open.is_closed() {
            waiting.in_flight.remove(&owner.number);
            drop(waiting);
            core.events.record_engine(EngineEvent::Closing { begins: false });
            return;
        }
        waiting.put(owner.next_due(exchanged, now), owner);
        drop(waiting);
        self.news.notify_one();
    }

    /// Resolves when an owner was added, or an owner may be due earlier than before.
    pub(super) async fn changed(&self) {
        self.news.notified().await;
    }

    /// The names of the locks whose owners are not closed.
    pub(crate) fn names(&self) -> Vec<Arc<LockKey>> {
        let waiting = self.lock();
        waiting.due.values().map(|owner| &owner.key).chain(waiting.in_flight.values()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn put(&mut self, due: Instant, owner: OpenOwner) {
        self.in_flight.remove(&owner.number);
        self.due.insert((due, owner.number), owner);
    }

    // Returns the caller if the engine has ended: the reconciler answers no caller then.
    fn wait_for(&mut self, owner: &OpenOwner, awaited: Awaited) -> Option<Awaited> {
        let Some(place) = owner.awaited().filter(|_| !self.is_closed) else { return Some(awaited) };
        self.awaited.insert(place, awaited);
        None
    }

    /// Returns the caller, if this reply decides what it is told.
    fn note_reply(
        &mut self,
        owner: &OpenOwner,
        reply: Option<&Result<Outcome, TransportError>>,
        exchanged: Exchanged,
    ) -> Option<Awaited> {
        let place = owner.awaited()?;
        let awaited = self.awaited.get_mut(&place)?;
        match reply {
            Some(Err(last_error)) => awaited.note_error(last_error),
            Some(Ok(_)) => {}
            None => awaited.unsure = true,
        }
        if exchanged == Exchanged::Answered { self.awaited.remove(&place) } else { None }
    }

    fn next_look(&self) -> Option<Instant> {
        let (due, end) = (self.due.first_key_value(), self.awaited.first_key_value());
        due.map(|((due, _), _)| *due).into_iter().chain(end.map(|((end, _), _)| *end)).min()
    }

    // A node that did not answer may be connected again, so failures until now do not count any more.
    fn handle_topology(&mut self, epoch: Option<u64>, now: Instant) {
        if std::mem::replace(&mut self.topology_epoch, epoch) == epoch {
            return;
        }
        let failed = self.due.iter().filter(|(_, owner)| owner.in_vain > 0).map(|(place, _)| *place);
        for place in failed.collect::<Vec<_>>() {
            if let Some(mut owner) = self.due.remove(&place) {
                owner.in_vain = 0;
                self.put(now.min(place.0), owner);
            }
        }
    }
}

// At once, then when the last send is too late to be executed, then with back-off.
fn next_try(owner: &OpenOwner, now: Instant) -> Instant {
    let back_off = now + back_off(owner.tries);
    match owner.closing.open.execute_by() {
        Some(last) if last + SLACK > now && !owner.closing.may_hold => last + SLACK,
        Some(last) if last + SLACK > now => back_off.min(last + SLACK),
        Some(_) | None => back_off,
    }
}

fn back_off(tries: u32) -> Duration {
    (BACKOFF_MIN * 2u32.saturating_pow(tries.min(12))).min(BACKOFF_MAX)
}

/// How many callers are answered in a row. Then the other tasks of the calls thread run.
const ANSWERED_IN_A_ROW: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long after the latest execution time a release is due. Such a release closes the owner at the first try.
const SLACK: Duration = Duration::from_millis(20);
