//! Drives one key's entry for as long as it has callers: sends its asks, sleeps, listens for notices, and hands out
//! what the entry decides. One task per entry, on the calls thread.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tracing::Level;

use super::{
    attempt::Closing,
    caller::Leaving,
    closer,
    ears::{Ears, News},
    ending,
    entry::{Ask, Cause, Grant, Step, Verdict},
    offer::Offer,
    pacer::Turn,
    rooms::Room,
    seat::Seat,
    table::{Answer, Slot},
};
#[cfg(leasehold_fault)]
use crate::faults::{self, Fault};
use crate::{
    clock::Instant,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason},
    log,
    metrics::{self, AskAnswer},
    renewal::{found_ttl::Baseline, inbox::Order},
    transport::{Acquire, AcquireReply, ErrorKind, Fencing, ServerTime, TransportError},
    works::Works,
};

/// Starts the driver of an entry that was just marked as driven. `room`: what it occupies while it is not answered.
pub(crate) fn start(works: &Arc<Works>, key: &Arc<LockKey>, room: Option<Room>) {
    works.events.totals.served.add(1);
    works.crowd.join(key.slot());
    works.spawn(drive(Seatbelt { works: works.clone(), key: key.clone(), fastened: true }, room));
}

async fn drive(mut belt: Seatbelt, mut room: Option<Room>) {
    let (works, key) = (belt.works.clone(), belt.key.clone());
    let mut ears: Option<Ears> = None;
    let mut woken = Woken::Otherwise;
    let mut noticed = None;
    let mut turn: Option<Turn> = None;
    loop {
        let news = ears.as_mut().map_or(News::default(), Ears::observe);
        if news.notices > 0 {
            noticed = Some(works.clock.now());
        }
        if news.gaps {
            works.events.subscription_gap();
        }
        let todo = next_step(&works, &key, news, std::mem::replace(&mut woken, Woken::Otherwise));
        if !matches!(todo, Todo::Ask(_)) {
            room = room.filter(Room::is_troubled); // who waits for somebody else's release occupies nothing
        }
        if !matches!(todo, Todo::TakeTurn(..)) {
            turn = None;
        }
        match todo {
            Todo::Ask(ask) => {
                let last_error = ask_server(&works, &key, ask, noticed.take()).await;
                room = room.and_then(|room| room.after(last_error));
            }
            // Boxed: an uncontended call takes neither, and its task is as large as the largest of what it may await.
            Todo::TakeTurn(oldest, until, poke) => {
                let turn = turn.get_or_insert_with(|| works.pacer.turn(&works, key.slot(), oldest));
                woken = Box::pin(take_turn(&works, turn, until, &poke, ears.as_mut())).await
            }
            Todo::Listen => ears = works.calls.lane().map(|lane| Ears::new(lane.watch(&key))),
            Todo::Wait(until, poke) => woken = Box::pin(wait(&works, until, &poke, ears.as_mut())).await,
            Todo::Rest => return belt.unfasten(),
        }
    }
}

/// What ended a wait, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    ByTopology,
    /// By the pacer: an ask that is held back may go.
    ByTurn,
    Otherwise,
}

/// What the driver does next, outside of the table's lock.
enum Todo {
    Ask(Ask),
    TakeTurn(Instant, Option<Instant>, Arc<Notify>),
    Listen,
    Wait(Option<Instant>, Arc<Notify>),
    Rest,
}

fn next_step(works: &Arc<Works>, key: &Arc<LockKey>, news: News, woken: Woken) -> Todo {
    let (now, pace) = (works.clock.now(), works.pace(key.slot()));
    let (todo, leaving, closing) = works.table.with(key, |slot| {
        slot.subscribed = news.in_force;
        if woken == Woken::ByTopology {
            slot.entry.handle_topology(now);
        }
        if news.notices > 0 || news.resync {
            slot.entry.handle_notices(news.notices, news.resync, now, &pace);
        }
        let leaving = slot.entry.take_overdue(now, &pace);
        let (step, closing) = slot.entry.take_step(now, &works.mint, &pace);
        let deaf = !news.listening && works.calls.is_open();
        let todo = match step {
            Step::Ask(ask) if is_paced(ask.cause) && woken != Woken::ByTurn => {
                let until = slot.entry.next_give_up(&pace);
                Todo::TakeTurn(ask.oldest, until, slot.poke.get_or_insert_default().clone())
            }
            step => todo(slot, step, deaf, now),
        };
        (todo, leaving, closing)
    });
    dismiss(works, leaving);
    close(works, key, closing);
    todo
}

fn todo(slot: &mut Slot, step: Step, wants_ears: bool, now: Instant) -> Todo {
    match step {
        Step::Ask(ask) => {
            slot.entry.note_sent(now);
            Todo::Ask(ask)
        }
        Step::Wait { watch: true, .. } if wants_ears => Todo::Listen,
        Step::Wait { until, .. } => Todo::Wait(until, slot.poke.get_or_insert_default().clone()),
        Step::Rest => {
            (slot.driven, slot.subscribed, slot.poke) = (false, false, None);
            Todo::Rest
        }
    }
}

async fn wait(works: &Works, until: Option<Instant>, poke: &Notify, ears: Option<&mut Ears>) -> Woken {
    let heard = async {
        match ears {
            Some(ears) => ears.changed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleep_until(works, until) => Woken::Otherwise,
        () = poke.notified() => Woken::Otherwise,
        () = heard => Woken::Otherwise,
        () = works.calls.topology_changed() => Woken::ByTopology,
    }
}

/// Asks that many entries may want at the same moment.
fn is_paced(cause: Cause) -> bool {
    match cause {
        Cause::Resync | Cause::Retry | Cause::SafetyPoll => true,
        Cause::Arrival | Cause::Notice | Cause::Turn | Cause::Expiry => false,
    }
}

// Callers whose time is over meanwhile are not held back with the ask, and a notice is heard.
async fn take_turn(
    works: &Works,
    turn: &mut Turn,
    until: Option<Instant>,
    poke: &Notify,
    ears: Option<&mut Ears>,
) -> Woken {
    tokio::select! {
        biased;
        () = turn.come() => Woken::ByTurn,
        woken = wait(works, until, poke, ears) => woken,
    }
}

// What kept it from being answered, if that may pass.
async fn ask_server(
    works: &Arc<Works>,
    key: &Arc<LockKey>,
    ask: Ask,
    noticed: Option<Instant>,
) -> Option<Box<TransportError>> {
    let sent = works.clock.now();
    let execute_by = sent + works.config.request_timeout(ask.ttl);
    #[cfg(leasehold_fault)]
    let execute_by = if Fault::LateDeadline.is_on() { sent + faults::PATIENCE } else { execute_by };
    let sending = send(works, key, &ask, sent, execute_by);
    let answer = match ask.give_up.filter(|give_up| *give_up < sent + works.config.command_timeout()) {
        // Boxed: it is rare, and would make the task of every call larger.
        Some(give_up) => Box::pin(meanwhile(works, key, Some(give_up), sending)).await,
        None => sending.await,
    };
    let now = works.clock.now();
    if answer.is_ok() {
        works.note_round_trip(now - sent); // a timeout would make every courtesy as long as itself
    }
    tell_ask(works, &ask, &answer, now - sent, noticed.map(|noticed| now - noticed));
    let exchange = Exchange { cause: ask.cause, sent, execute_by, received: now };
    let last_error = answer.as_ref().err().filter(|last_error| !last_error.kind.is_final());
    let last_error = last_error.cloned().map(Box::new);
    if let Some(closing) = handle_answer(works, key, answer, &exchange) {
        // The grant found nobody. It goes back before the next ask, which would be told "held" by it.
        let next = dismiss_overdue(works, key);
        Box::pin(meanwhile(works, key, next, closer::give_back(works, key, closing))).await;
    }
    last_error
}

// Callers leave by the clock while something is awaited that must come first; `next`: when the first of them may.
async fn meanwhile<T>(
    works: &Works,
    key: &Arc<LockKey>,
    mut next: Option<Instant>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(works, next) => next = dismiss_overdue(works, key),
        }
    }
}

// When the next caller may leave by the clock.
fn dismiss_overdue(works: &Works, key: &Arc<LockKey>) -> Option<Instant> {
    let (now, pace) = (works.clock.now(), works.pace(key.slot()));
    let (leaving, next) =
        works.table.with(key, |slot| (slot.entry.take_overdue(now, &pace), slot.entry.next_give_up(&pace)));
    dismiss(works, leaving);
    next
}

async fn sleep_until(works: &Works, moment: Option<Instant>) {
    match moment {
        Some(moment) => works.clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn tell_ask(
    works: &Works,
    ask: &Ask,
    answer: &Result<AcquireReply, TransportError>,
    took: Duration,
    since_notice: Option<Duration>,
) {
    let answer = match answer {
        Ok(AcquireReply::Granted { .. }) => Ok(AskAnswer::Granted),
        Ok(AcquireReply::Held { .. }) => Ok(AskAnswer::Held),
        Ok(AcquireReply::TooLate { .. }) => Ok(AskAnswer::TooLate),
        Err(last_error) => Err(last_error),
    };
    let since_notice = since_notice.filter(|_| ask.cause == Cause::Notice);
    let told = metrics::Ask { cause: ask.cause, took, answer, since_notice };
    works.events.asked(works.events.class(ask.class), &told);
}

async fn send(
    works: &Works,
    key: &Arc<LockKey>,
    ask: &Ask,
    sent: Instant,
    execute_by: Instant,
) -> Result<AcquireReply, TransportError> {
    let lane = works.calls.lane().ok_or_else(|| works.calls.last_error())?;
    works.check_restart_grace(key, sent)?;
    works.events.totals.asks.add(1);
    let (key, owner, ttl) = (key.clone(), ask.owner, ask.ttl);
    let reply = lane.acquire(Acquire { key, owner, ttl, fencing: Fencing::ServerClock, execute_by }).await?;
    let at = match reply {
        AcquireReply::Granted { at, .. } | AcquireReply::Held { at, .. } | AcquireReply::TooLate { at } => at,
    };
    check_epoch(works, at)?;
    works.closer.hear(works, at.clock.node);
    if let AcquireReply::Granted { .. } = reply {
        works
            .check_restart_grace_of(at.clock.node, sent)
            .map_err(|refused| TransportError::unknown(refused.kind, at, refused.detail))?;
    }
    Ok(reply)
}

/// An answer of a server that is not the present one proves nothing.
pub(crate) fn check_epoch(works: &Works, at: ServerTime) -> Result<(), TransportError> {
    if works.calls.is_current(at.clock) {
        return Ok(());
    }
    Err(TransportError::unknown(
        ErrorKind::Unreachable,
        at,
        "answered by a server that is not the present one",
    ))
}

/// An ask and when it was answered.
struct Exchange {
    cause: Cause,
    sent: Instant,
    execute_by: Instant,
    received: Instant,
}

fn handle_answer(
    works: &Arc<Works>,
    key: &Arc<LockKey>,
    answer: Result<AcquireReply, TransportError>,
    exchange: &Exchange,
) -> Option<Closing> {
    let Exchange { cause, sent, execute_by, received: now } = *exchange;
    #[cfg(leasehold_fault)]
    let sent = if Fault::LateDeadline.is_on() { now } else { sent };
    let granted = matches!(answer, Ok(AcquireReply::Granted { .. }));
    let pace = works.pace(key.slot());
    let (verdict, installed) = works.table.with(key, |slot| {
        let mut verdict = slot.entry.handle_answer(answer, sent, execute_by, now, &pace);
        let installed = verdict.grant.take().map(|grant| install(key, slot, grant));
        (verdict, installed)
    });
    let Verdict { leaving, closing, no_expiry, .. } = verdict;
    match installed {
        Some(installed) => deliver(works, installed, cause != Cause::Arrival),
        None if granted => works.events.grant_without_caller(),
        None => {}
    }
    if no_expiry && works.no_expiry_told.is_news(key.on_server()) {
        works.events.no_expiry();
        let key = key.clone();
        log::line(Level::WARN, move || {
            tracing::warn!(
                lock = key.name(),
                "a peer holds this lock without expiry; callers poll until it is gone"
            );
        });
    }
    dismiss(works, leaving);
    if granted {
        return closing;
    }
    close(works, key, closing);
    None
}

/// A lease that holds its key, with the callers that get it.
struct Installed {
    lease: Arc<LeaseCore>,
    seats: Vec<Seat>,
    baseline: Baseline,
    replaced: Option<Arc<LeaseCore>>,
}

fn install(key: &Arc<LockKey>, slot: &mut Slot, grant: Grant<Seat>) -> Installed {
    let Grant { receiver, sharers, granted, open } = grant;
    let holds = 1 + u32::try_from(sharers.len()).unwrap_or(u32::MAX - 1);
    let lease = Arc::new(LeaseCore::new(key.clone(), receiver.terms, granted, open, holds));
    let replaced = slot.entry.install(lease.clone(), receiver.scope);
    // The server gave the lock again: whatever an earlier lease of ours believes ends before the new one begins.
    let replaced = replaced.filter(|earlier| earlier.lose(LossReason::NotOurs));
    let seats = std::iter::once(receiver).chain(sharers).map(|caller| caller.seat).collect();
    let baseline = Baseline::new(granted.sent, granted.received, lease.ttl());
    Installed { baseline, lease, seats, replaced }
}

fn deliver(works: &Arc<Works>, installed: Installed, contended: bool) {
    let Installed { lease, seats, baseline, replaced } = installed;
    if let Some(earlier) = replaced {
        ending::handle_loss(works, &earlier, LossReason::NotOurs);
    }
    works.no_expiry_told.handle_granted(lease.key.on_server());
    works.events.totals.callers.sub(seats.len() as u64);
    works.inboxes.push(lease.key.slot(), Order::Register(lease.clone(), baseline));
    for seat in seats {
        // A caller that has gone drops the offer, and the offer gives the lease back.
        seat.send(Answer::Offer(Offer::new(lease.clone(), works.clone(), contended)));
    }
}

fn dismiss(works: &Works, leaving: Vec<Leaving<Seat>>) {
    works.events.totals.callers.sub(leaving.len() as u64);
    for Leaving { caller, refusal } in leaving {
        caller.seat.send(Answer::Refused(refusal));
    }
}

fn close(works: &Arc<Works>, key: &Arc<LockKey>, closing: Option<Closing>) {
    if let Some(closing) = closing {
        works.closer.add(works, key, closing);
    }
}

/// If the driver ends in the middle, by a panic or with its runtime, nobody would ever serve its callers: they are told.
struct Seatbelt {
    works: Arc<Works>,
    key: Arc<LockKey>,
    fastened: bool,
}

impl Seatbelt {
    fn unfasten(&mut self) {
        self.fastened = false;
    }
}

impl Drop for Seatbelt {
    fn drop(&mut self) {
        self.works.events.totals.served.sub(1);
        self.works.crowd.leave(self.key.slot());
        if !self.fastened {
            return;
        }
        let callers = self.works.table.with(&self.key, |slot| {
            (slot.driven, slot.subscribed, slot.poke) = (false, false, None);
            slot.entry.depart_all()
        });
        // Dropped seats tell their callers that the engine has ended.
        self.works.events.totals.callers.sub(callers.len() as u64);
    }
}
