//! The driver of one key's entry, for as long as the entry has callers: sends the asks, sleeps, listens for notices,
//! and answers callers as the entry decides. One task per entry, on the calls thread.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::{
    ask::{After, SentAsk},
    caller::Leaving,
    clarity::is_paced,
    delivery::{close, dismiss},
    entry::{Pace, Step},
    reply_to::ReplyTo,
    table::Slot,
    watch_cursor::{WatchCursor, WatchDelta},
};
use crate::{
    clock::Instant,
    dispatch::{permit::Permit, permits::RetryPermit},
    guard,
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, unconfirmed_owner::UnconfirmedOwner},
    metrics::EngineEvent,
    release::{end, reconcile},
    transport::{Outcome, TransportError},
};

/// What a driver begins with.
pub(super) enum Begin {
    /// The entry's next step.
    Step,
    /// A step that was taken already.
    Taken(Todo),
    /// A grant that no caller took.
    GiveBack(UnconfirmedOwner),
}

/// Starts the driver of an entry that was just marked as driven. The driver keeps `permit` until the first definite
/// answer.
pub(super) fn start(inner: &Arc<Inner>, key: &Arc<LockKey>, permit: Option<Permit>) {
    go_on(DrainGuard::new(inner, key), permit, Begin::Step);
}

/// Starts the task of a driver.
pub(super) fn go_on(guard: DrainGuard, permit: Option<Permit>, begin: Begin) {
    guard.inner.clone().spawn(drive(guard, permit, begin));
}

async fn drive(mut guard: DrainGuard, mut permit: Option<Permit>, begin: Begin) {
    let (inner, key) = (guard.inner.clone(), guard.key.clone());
    let mut cursor: Option<WatchCursor> = None;
    let mut woken = Woken::Otherwise;
    let mut noticed = None;
    let mut retry: Option<RetryPermit> = None;
    let mut taken = match begin {
        Begin::Step => None,
        Begin::Taken(todo) => Some(todo),
        Begin::GiveBack(closing) => {
            give_back(&inner, &key, closing).await;
            None
        }
    };
    loop {
        let delta = cursor.as_mut().map_or(WatchDelta::default(), WatchCursor::observe);
        if delta.notices > 0 {
            noticed = Some(inner.clock.now());
        }
        if delta.gaps {
            inner.events.record_engine(EngineEvent::SubscriptionGap);
        }
        let woken_by = std::mem::replace(&mut woken, Woken::Otherwise);
        let todo = taken.take().unwrap_or_else(|| next_step(&inner, &key, delta, woken_by));
        if !matches!(todo, Todo::Ask(..)) {
            permit = permit.filter(Permit::is_unanswered); // a caller that waits for a release keeps none
        }
        if !matches!(todo, Todo::AwaitPermit(..)) {
            retry = None;
        }
        match todo {
            Todo::Ask(sent) => {
                let (after, last_error) = ask_server(&inner, &key, sent, noticed.take()).await;
                permit = permit.and_then(|permit| permit.after(last_error));
                match after {
                    After::AtRest => return guard.disarm(),
                    After::GiveBack(closing) => give_back(&inner, &key, closing).await,
                    After::Next => {}
                }
            }
            // Boxed: an uncontended call needs neither future, and a task is as large as the largest future that the
            // task may await.
            Todo::AwaitPermit(oldest, until, poke) => {
                let retry =
                    retry.get_or_insert_with(|| inner.dispatcher.retry(&inner.core, key.slot(), oldest));
                woken = Box::pin(wait_for_permit(&inner, retry, until, &poke, cursor.as_mut())).await
            }
            Todo::Listen => cursor = inner.calls.lane().map(|lane| WatchCursor::new(lane.watch(&key))),
            Todo::Wait(until, poke) => woken = Box::pin(wait(&inner, until, &poke, cursor.as_mut())).await,
            Todo::TakeBack(lease) => end::take_back(&inner, &lease),
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
pub(super) enum Todo {
    /// Send this ask now.
    Ask(SentAsk),
    AwaitPermit(Instant, Option<Instant>, Arc<Notify>),
    Listen,
    Wait(Option<Instant>, Arc<Notify>),
    /// Release this grant, which no caller takes.
    TakeBack(Arc<LeaseCore>),
    Rest,
}

fn next_step(inner: &Arc<Inner>, key: &Arc<LockKey>, delta: WatchDelta, woken: Woken) -> Todo {
    let (now, pace) = (inner.clock.now(), inner.pace(key.slot()));
    let stepped = inner.table.with(key, |slot| {
        slot.subscribed = delta.in_force;
        if woken == Woken::ByTopology {
            slot.entry.handle_topology(now);
        }
        if delta.notices > 0 || delta.resync {
            slot.entry.handle_notices(delta.notices, delta.resync, now, &pace);
        }
        step(inner, slot, (now, &pace), delta.listening, woken == Woken::ByPermit)
    });
    stepped.finish(inner, key)
}

/// A step of an entry, with what is done for it once the table is unlocked.
pub(super) struct Stepped {
    todo: Todo,
    leaving: Vec<Leaving<ReplyTo>>,
    closing: Option<UnconfirmedOwner>,
}

impl Stepped {
    pub(super) fn finish(self, inner: &Arc<Inner>, key: &Arc<LockKey>) -> Todo {
        dismiss(inner, self.leaving);
        close(inner, key, self.closing);
        self.todo
    }
}

/// Takes the next step of the entry. `listens`: notices of the key are heard. `is_permitted`: a retry may be sent now.
pub(super) fn step(
    inner: &Inner,
    slot: &mut Slot,
    (now, pace): (Instant, &Pace),
    listens: bool,
    is_permitted: bool,
) -> Stepped {
    let leaving = slot.entry.take_overdue(now, pace);
    let (step, closing) = slot.entry.take_step(now, &inner.mint, pace);
    let todo = match step {
        Step::Ask(ask) if is_paced(ask.cause) && !is_permitted => {
            let until = slot.entry.next_give_up(pace);
            Todo::AwaitPermit(ask.oldest, until, slot.poke.get_or_insert_default().clone())
        }
        step => todo(inner, slot, step, listens, now),
    };
    Stepped { todo, leaving, closing }
}

fn todo(inner: &Inner, slot: &mut Slot, step: Step, listens: bool, now: Instant) -> Todo {
    match step {
        Step::Ask(ask) => {
            slot.entry.note_sent(now);
            Todo::Ask(SentAsk::new(inner, ask, now))
        }
        Step::Wait { watch: true, .. } if !listens && inner.calls.is_open() => Todo::Listen,
        Step::Wait { until, .. } => Todo::Wait(until, slot.poke.get_or_insert_default().clone()),
        Step::TakeBack(lease) => Todo::TakeBack(lease),
        Step::Rest => {
            slot.handle_rest();
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

// Sends one ask and handles the answer. Returns also the error that prevented an answer, if a later ask may succeed.
async fn ask_server(
    inner: &Arc<Inner>,
    key: &Arc<LockKey>,
    sent: SentAsk,
    noticed: Option<Instant>,
) -> (After, Option<Box<TransportError>>) {
    let sending = send(inner, key, &sent);
    let next = sent.ask.give_up.filter(|give_up| *give_up < sent.sent + inner.config.command_timeout());
    let (answer, waited) = match next {
        // Boxed: this future is rare, and it would make the task of every call larger.
        Some(give_up) => Box::pin(meanwhile(inner, key, Some(give_up), sending)).await,
        None => sending.await,
    };
    note_waited(inner, key, waited);
    let last_error = passing_error(&answer);
    (sent.later(waited).handle_answer(inner, key, answer, noticed), last_error)
}

/// The ask of this key has waited unsent for this time, while its node answered other calls.
pub(super) fn note_waited(inner: &Inner, key: &Arc<LockKey>, waited: Duration) {
    if !waited.is_zero() {
        inner.table.with(key, |slot| slot.entry.note_waited(waited));
    }
}

/// The error that prevented an answer, if a later ask may succeed.
pub(super) fn passing_error(answer: &Result<Outcome, TransportError>) -> Option<Box<TransportError>> {
    let last_error = answer.as_ref().err().filter(|last_error| !last_error.kind.is_final());
    last_error.cloned().map(Box::new)
}

async fn send(
    inner: &Arc<Inner>,
    key: &Arc<LockKey>,
    sent: &SentAsk,
) -> (Result<Outcome, TransportError>, Duration) {
    let Some(lane) = inner.calls.lane() else { return (Err(inner.calls.last_error()), Duration::ZERO) };
    if let Err(refused) = inner.check_restart_grace(key, sent.sent) {
        return (Err(refused), Duration::ZERO);
    }
    inner.events.totals.asks.add(1);
    let begun = inner.dispatcher.count();
    let call = sent.call(key);
    let (outcome, waited) = inner.dispatcher.call(&inner.core, &lane, call, sent.times(), &begun).await;
    (sent.later(waited).check(inner, outcome, begun), waited)
}

// Releases the owner of a grant that no caller took. Callers still leave by the clock meanwhile.
async fn give_back(inner: &Arc<Inner>, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
    let next = dismiss_overdue(inner, key);
    Box::pin(meanwhile(inner, key, next, reconcile::give_back(inner, key, closing))).await;
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

/// Answers the callers if the driver ends in the middle, by a panic or with its runtime. No other task serves them.
pub(super) struct DrainGuard {
    pub(super) inner: Arc<Inner>,
    pub(super) key: Arc<LockKey>,
    armed: bool,
}

impl DrainGuard {
    /// For an entry that was just marked as driven.
    pub(super) fn new(inner: &Arc<Inner>, key: &Arc<LockKey>) -> Self {
        inner.events.totals.served.add(1);
        inner.contended_keys.join(key.slot());
        Self { inner: inner.clone(), key: key.clone(), armed: true }
    }

    /// The entry is at rest.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        self.inner.contended_keys.leave(self.key.slot());
        if self.armed {
            self.answer_callers();
        }
        // Last: an engine that shuts down looks at this number first, and then at the owners that are not closed.
        self.inner.events.totals.served.sub(1);
    }
}

impl DrainGuard {
    fn answer_callers(&self) {
        let latest = self.inner.clock.now() + self.inner.config.command_timeout();
        let (callers, closing) = self.inner.table.with(&self.key, |slot| {
            slot.handle_rest();
            (slot.entry.depart_all(), slot.entry.give_up_unanswered(latest))
        });
        close(&self.inner, &self.key, closing);
        self.inner.events.totals.callers.sub(callers.len() as u64);
        // Dropping a caller answers it: the engine has ended. Its waker may panic, and this may be the drop of a panic.
        guard::drop_each(callers);
    }
}
