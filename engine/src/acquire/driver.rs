//! The driver of one key's entry, for as long as the entry has callers: sends the asks, sleeps, listens for notices,
//! and answers callers as the entry decides. One task per entry, on the calls thread.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tracing::Level;

use super::{
    bulk_limiter::BulkPermit,
    caller::{Caller, Leaving},
    clarity::is_paced,
    entry::{Ask, Cause, Grant, HeldGrant, Step, Verdict},
    pending_grant::PendingGrant,
    reply_to::{Answer, ReplyTo},
    table::Slot,
    watch_cursor::{WatchCursor, WatchDelta},
};
#[cfg(leasehold_fault)]
use crate::faults::{self, Fault};
use crate::{
    clock::Instant,
    dispatch::{group_commit::Begun, retry_rate::RetryPermit},
    guard,
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    log,
    metrics::{self, AskAnswer, EngineEvent, LockEvent},
    release::{downgrade, loss, reconcile},
    renewal::{inbox::Order, ttl_check::TtlExpectation},
    transport::{Call, HoldKind, Op, Outcome, TransportError},
};

/// Starts the driver of an entry that was just marked as driven. The driver keeps `permit` until the first definite
/// answer.
pub(crate) fn start(inner: &Arc<Inner>, key: &Arc<LockKey>, permit: Option<BulkPermit>) {
    inner.events.totals.served.add(1);
    inner.contended_keys.join(key.slot());
    inner.spawn(drive(DrainGuard { inner: inner.clone(), key: key.clone(), armed: true }, permit));
}

async fn drive(mut guard: DrainGuard, mut permit: Option<BulkPermit>) {
    let (inner, key) = (guard.inner.clone(), guard.key.clone());
    let mut cursor: Option<WatchCursor> = None;
    let mut woken = Woken::Otherwise;
    let mut noticed = None;
    let mut retry: Option<RetryPermit> = None;
    loop {
        let delta = cursor.as_mut().map_or(WatchDelta::default(), WatchCursor::observe);
        if delta.notices > 0 {
            noticed = Some(inner.clock.now());
        }
        if delta.gaps {
            inner.events.record_engine(EngineEvent::SubscriptionGap);
        }
        let todo = next_step(&inner, &key, delta, std::mem::replace(&mut woken, Woken::Otherwise));
        if !matches!(todo, Todo::Ask(..)) {
            permit = permit.filter(BulkPermit::is_unanswered); // a caller that waits for a release keeps none
        }
        if !matches!(todo, Todo::AwaitPermit(..)) {
            retry = None;
        }
        match todo {
            Todo::Ask(ask, sent) => {
                let last_error = ask_server(&inner, &key, ask, sent, noticed.take()).await;
                permit = permit.and_then(|permit| permit.after(last_error));
            }
            // Boxed: an uncontended call needs neither future, and a task is as large as the largest future that the
            // task may await.
            Todo::AwaitPermit(oldest, until, poke) => {
                let retry =
                    retry.get_or_insert_with(|| inner.retry_rate.permit(&inner.core, key.slot(), oldest));
                woken = Box::pin(wait_for_permit(&inner, retry, until, &poke, cursor.as_mut())).await
            }
            Todo::Listen => cursor = inner.calls.lane().map(|lane| WatchCursor::new(lane.watch(&key))),
            Todo::Wait(until, poke) => woken = Box::pin(wait(&inner, until, &poke, cursor.as_mut())).await,
            Todo::Rest => return guard.disarm(),
        }
    }
}

/// What ended a wait, as far as the next step depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    ByTopology,
    /// The retry rate granted the permit: the ask that was held back is sent.
    ByPermit,
    Otherwise,
}

/// What the driver does next, after the table is unlocked.
enum Todo {
    /// Send this ask now.
    Ask(Ask, Instant),
    AwaitPermit(Instant, Option<Instant>, Arc<Notify>),
    Listen,
    Wait(Option<Instant>, Arc<Notify>),
    Rest,
}

fn next_step(inner: &Arc<Inner>, key: &Arc<LockKey>, delta: WatchDelta, woken: Woken) -> Todo {
    let (now, pace) = (inner.clock.now(), inner.pace(key.slot()));
    let (todo, leaving, closing) = inner.table.with(key, |slot| {
        slot.subscribed = delta.in_force;
        if woken == Woken::ByTopology {
            slot.entry.handle_topology(now);
        }
        if delta.notices > 0 || delta.resync {
            slot.entry.handle_notices(delta.notices, delta.resync, now, &pace);
        }
        let leaving = slot.entry.take_overdue(now, &pace);
        let (step, closing) = slot.entry.take_step(now, &inner.mint, &pace);
        let unwatched = !delta.listening && inner.calls.is_open();
        let todo = match step {
            Step::Ask(ask) if is_paced(ask.cause) && woken != Woken::ByPermit => {
                let until = slot.entry.next_give_up(&pace);
                Todo::AwaitPermit(ask.oldest, until, slot.poke.get_or_insert_default().clone())
            }
            step => todo(slot, step, unwatched, now),
        };
        (todo, leaving, closing)
    });
    dismiss(inner, leaving);
    close(inner, key, closing);
    todo
}

fn todo(slot: &mut Slot, step: Step, wants_watch: bool, now: Instant) -> Todo {
    match step {
        Step::Ask(ask) => {
            slot.entry.note_sent(now);
            Todo::Ask(ask, now)
        }
        Step::Wait { watch: true, .. } if wants_watch => Todo::Listen,
        Step::Wait { until, .. } => Todo::Wait(until, slot.poke.get_or_insert_default().clone()),
        Step::Rest => {
            (slot.driven, slot.subscribed, slot.poke) = (false, false, None);
            Todo::Rest
        }
    }
}

async fn wait(
    inner: &Inner,
    until: Option<Instant>,
    poke: &Notify,
    cursor: Option<&mut WatchCursor>,
) -> Woken {
    let heard = async {
        match cursor {
            Some(cursor) => cursor.changed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleep_until(inner, until) => Woken::Otherwise,
        () = poke.notified() => Woken::Otherwise,
        () = heard => Woken::Otherwise,
        () = inner.calls.topology_changed() => Woken::ByTopology,
    }
}

// Holds back only the ask. Callers whose time ends meanwhile still leave, and a notice still ends the wait.
async fn wait_for_permit(
    inner: &Inner,
    permit: &mut RetryPermit,
    until: Option<Instant>,
    poke: &Notify,
    cursor: Option<&mut WatchCursor>,
) -> Woken {
    tokio::select! {
        biased;
        () = permit.granted() => Woken::ByPermit,
        woken = wait(inner, until, poke, cursor) => woken,
    }
}

// Sends one ask and handles the answer. Returns the error that prevented an answer, if a later ask may succeed.
async fn ask_server(
    inner: &Arc<Inner>,
    key: &Arc<LockKey>,
    ask: Ask,
    sent: Instant,
    noticed: Option<Instant>,
) -> Option<Box<TransportError>> {
    let execute_by = sent + inner.config.request_timeout(ask.ttl);
    #[cfg(leasehold_fault)]
    let execute_by = if Fault::LateDeadline.is_on() { sent + faults::PATIENCE } else { execute_by };
    let sending = send(inner, key, &ask, sent, execute_by);
    let answer = match ask.give_up.filter(|give_up| *give_up < sent + inner.config.command_timeout()) {
        // Boxed: this future is rare, and it would make the task of every call larger.
        Some(give_up) => Box::pin(meanwhile(inner, key, Some(give_up), sending)).await,
        None => sending.await,
    };
    let now = inner.clock.now();
    if answer.is_ok() {
        // Only answers count: a timeout would make every later fairness pause as long as the timeout.
        inner.note_round_trip(now - sent);
    }
    tell_ask(inner, &ask, &answer, now - sent, noticed.map(|noticed| now - noticed));
    let exchange = Exchange { cause: ask.cause, sent, execute_by, received: now };
    let last_error = answer.as_ref().err().filter(|last_error| !last_error.kind.is_final());
    let last_error = last_error.cloned().map(Box::new);
    if let Some(closing) = handle_answer(inner, key, answer, &exchange) {
        // No caller took the grant. It is released before the next ask, which would find the lock held by it.
        let next = dismiss_overdue(inner, key);
        Box::pin(meanwhile(inner, key, next, reconcile::give_back(inner, key, closing))).await;
    }
    last_error
}

// Awaits `work`, which must end before the driver's next step. Callers still leave by the clock meanwhile. `next`: when
// the first of them may leave.
async fn meanwhile<T>(
    inner: &Inner,
    key: &Arc<LockKey>,
    mut next: Option<Instant>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(inner, next) => next = dismiss_overdue(inner, key),
        }
    }
}

// Dismisses the callers whose time is over. Returns when the next caller may leave by the clock.
fn dismiss_overdue(inner: &Inner, key: &Arc<LockKey>) -> Option<Instant> {
    let (now, pace) = (inner.clock.now(), inner.pace(key.slot()));
    let (leaving, next) =
        inner.table.with(key, |slot| (slot.entry.take_overdue(now, &pace), slot.entry.next_give_up(&pace)));
    dismiss(inner, leaving);
    next
}

pub(super) async fn sleep_until(inner: &Inner, moment: Option<Instant>) {
    match moment {
        Some(moment) => inner.clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn tell_ask(
    inner: &Inner,
    ask: &Ask,
    answer: &Result<Outcome, TransportError>,
    took: Duration,
    since_notice: Option<Duration>,
) {
    let answer = match answer {
        Ok(Outcome::Granted { .. }) => Ok(AskAnswer::Granted),
        Ok(Outcome::TooLate { .. }) => Ok(AskAnswer::TooLate),
        Ok(_busy) => Ok(AskAnswer::Held),
        Err(last_error) => Err(last_error),
    };
    let since_notice = since_notice.filter(|_| ask.cause == Cause::Notice);
    let told = metrics::Ask { cause: ask.cause, took, answer, since_notice };
    inner.events.record_lock(ask.labels, LockEvent::Asked(told));
}

async fn send(
    inner: &Inner,
    key: &Arc<LockKey>,
    ask: &Ask,
    sent: Instant,
    execute_by: Instant,
) -> Result<Outcome, TransportError> {
    let lane = inner.calls.lane().ok_or_else(|| inner.calls.last_error())?;
    inner.check_restart_grace(key, sent)?;
    inner.events.totals.asks.add(1);
    let op = Op::Acquire { ttl: ask.ttl };
    let call = Call::new(key.clone(), ask.kind, op, ask.owner, execute_by);
    let (begun, answer) = inner.group_commit.call(&inner.core, &lane, call);
    let reply = answer.await.definite(op)?;
    let Some(at) = reply.at() else { return Ok(reply) };
    if begun.as_ref().is_some_and(Begun::is_sample) {
        inner.group_commit.note_round_trip(inner.clock.now() - sent);
    }
    drop(begun);
    inner.check_present(at)?;
    inner.reconciler.handle_answer_of(inner, at.clock.node);
    if let Outcome::Granted { .. } = reply {
        inner
            .check_restart_grace_of(at.clock.node, sent)
            .map_err(|refused| TransportError::unknown(refused.kind, at, refused.detail))?;
    }
    Ok(reply)
}

/// The cause and the times of an ask that was answered or has failed.
struct Exchange {
    cause: Cause,
    sent: Instant,
    execute_by: Instant,
    received: Instant,
}

fn handle_answer(
    inner: &Arc<Inner>,
    key: &Arc<LockKey>,
    answer: Result<Outcome, TransportError>,
    exchange: &Exchange,
) -> Option<UnconfirmedOwner> {
    let Exchange { cause, sent, execute_by, received: now } = *exchange;
    #[cfg(leasehold_fault)]
    let sent = if Fault::LateDeadline.is_on() { now } else { sent };
    let granted = matches!(answer, Ok(Outcome::Granted { .. }));
    let pace = inner.pace(key.slot());
    let (verdict, installed) = inner.table.with(key, |slot| {
        let mut verdict = slot.entry.handle_answer(answer, sent, execute_by, now, &pace);
        let installed = verdict.grant.take().map(|grant| install(key, slot, grant));
        (verdict, installed)
    });
    let Verdict { leaving, closing, no_expiry, .. } = verdict;
    match installed {
        Some(installed) => deliver(inner, installed, cause != Cause::Arrival),
        None if granted => inner.events.record_engine(EngineEvent::GrantWithoutCaller),
        None => {}
    }
    if no_expiry {
        warn_no_expiry(inner, key);
    }
    dismiss(inner, leaving);
    if granted {
        return closing;
    }
    close(inner, key, closing);
    None
}

/// Another client holds the lock without expiry.
pub(super) fn warn_no_expiry(inner: &Inner, key: &Arc<LockKey>) {
    if !inner.warned_no_expiry.is_news(key.on_server()) {
        return;
    }
    inner.events.record_engine(EngineEvent::NoExpiry);
    let key = key.clone();
    log::line(Level::WARN, move || {
        tracing::warn!(
            lock = key.name(),
            "a peer holds this lock without expiry; callers poll until it is gone"
        );
    });
}

/// A lease that holds its key, with the callers that get the lease.
pub(super) struct Installed {
    lease: Arc<LeaseCore>,
    receiver: Caller<ReplyTo>,
    sharers: Vec<Caller<ReplyTo>>,
    baseline: TtlExpectation,
    /// The leases that held the key before and are lost.
    replaced: Vec<HeldGrant>,
    /// The lease writes, and its callers only read.
    is_left_to_readers: bool,
}

pub(super) fn install(key: &Arc<LockKey>, slot: &mut Slot, grant: Grant<ReplyTo>) -> Installed {
    let Grant { receiver, sharers, granted, open } = grant;
    let holds = 1 + u32::try_from(sharers.len()).unwrap_or(u32::MAX - 1);
    let lease = Arc::new(LeaseCore::new(key.clone(), receiver.terms, granted, open, holds));
    if lease.kind() == HoldKind::Write {
        let readers =
            std::iter::once(&receiver).chain(&sharers).filter(|caller| caller.side == HoldKind::Read);
        lease.add_readers(u32::try_from(readers.count()).unwrap_or(u32::MAX));
    }
    let mut replaced = slot.entry.install(lease.clone(), receiver.scope);
    // The callers of the scope that wanted to write may have left.
    let is_left_to_readers = lease.leave_to_readers();
    // The server granted the lock again, so earlier leases of this engine are lost. They end before the new one begins.
    replaced.retain(|earlier| earlier.lease().lose(LossReason::NotOurs));
    let baseline = TtlExpectation::new(granted.sent, granted.received, lease.ttl());
    Installed { lease, receiver, sharers, baseline, replaced, is_left_to_readers }
}

pub(super) fn deliver(inner: &Arc<Inner>, installed: Installed, contended: bool) {
    let Installed { lease, receiver, sharers, baseline, replaced, is_left_to_readers } = installed;
    for earlier in replaced {
        loss::handle_loss(inner, earlier.lease(), LossReason::NotOurs);
    }
    inner.warned_no_expiry.handle_granted(lease.key.on_server());
    inner.events.totals.callers.sub(1 + sharers.len() as u64);
    inner.inboxes.push(lease.key.slot(), Order::Register(lease.clone(), baseline));
    if is_left_to_readers {
        downgrade::send(inner, &lease);
    }
    for Caller { side, terms, reply_to, .. } in std::iter::once(receiver).chain(sharers) {
        let caller = (side, terms.labels);
        let pending_grant = PendingGrant::new(lease.clone(), caller, inner.clone(), contended);
        // If the caller was dropped, the pending grant is dropped, which releases the lease.
        reply_to.send(Answer::PendingGrant(pending_grant));
    }
}

pub(super) fn dismiss(inner: &Inner, leaving: Vec<Leaving<ReplyTo>>) {
    inner.events.totals.callers.sub(leaving.len() as u64);
    for Leaving { caller, refusal } in leaving {
        caller.reply_to.send(Answer::Refused(refusal));
    }
}

pub(super) fn close(inner: &Arc<Inner>, key: &Arc<LockKey>, closing: Option<UnconfirmedOwner>) {
    if let Some(closing) = closing {
        inner.reconciler.add(inner, key, closing);
    }
}

/// Answers the callers if the driver ends in the middle, by a panic or with its runtime. No other task serves them.
struct DrainGuard {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    armed: bool,
}

impl DrainGuard {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        self.inner.events.totals.served.sub(1);
        self.inner.contended_keys.leave(self.key.slot());
        if !self.armed {
            return;
        }
        let callers = self.inner.table.with(&self.key, |slot| {
            (slot.driven, slot.subscribed, slot.poke) = (false, false, None);
            slot.entry.depart_all()
        });
        self.inner.events.totals.callers.sub(callers.len() as u64);
        // Dropping a caller answers it: the engine has ended. Its waker may panic, and this may be the drop of a panic.
        guard::drop_each(callers);
    }
}
