//! The driver of a fair lock's places, for as long as the key has callers: sends asks and beats, sleeps, listens for the
//! turn of each place, and answers callers as the entry decides. One task for each key, on the calls thread.
//!
//! Asks and beats are in flight beside each other: a beat that waits for an ask could come too late.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    task::{JoinError, JoinSet},
};

use super::{
    delivery::{self, close, dismiss},
    driver::sleep_until,
    entry::Look,
    fair_entry::{Answer, Ask, BEAT, Beat, FairEntry, FairPace, Plan, Verdict},
    turns::Turns,
};
use crate::{
    clock::Instant,
    dispatch::permits::RetryPermit,
    guard,
    inner::Inner,
    key::LockKey,
    metrics::{self, AskAnswer, AskCause, EngineEvent, LockEvent, Operation},
    release::end,
    transport::{Call, HoldKind, Op, Outcome, PlaceTerms, TransportError},
};

/// Starts the driver of a fair lock whose slot was just marked as driven.
pub(super) fn start(inner: &Arc<Inner>, key: &Arc<LockKey>) {
    inner.events.totals.served.add(1);
    inner.contended_keys.join(key.slot());
    let driver = FairDriver {
        inner: inner.clone(),
        key: key.clone(),
        entry: FairEntry::default(),
        turns: Turns::default(),
        in_flight: JoinSet::new(),
        armed: true,
    };
    inner.spawn(driver.drive());
}

struct FairDriver {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    entry: FairEntry,
    turns: Turns,
    in_flight: JoinSet<Done>,
    armed: bool,
}

/// What was sent and is answered, or has failed.
enum Done {
    Ask { ask: Ask, answer: Answer, received: Instant },
    Beats { answers: Vec<(Beat, Result<Outcome, TransportError>)>, sent: Instant },
}

impl FairDriver {
    async fn drive(mut self) {
        let mut retry: Option<RetryPermit> = None;
        let mut is_permitted = false;
        loop {
            self.hear();
            if is_permitted {
                retry = None; // it is good for one ask
            }
            let (plan, poke) = self.next(std::mem::take(&mut is_permitted));
            let (until, retry_since) = (plan.until, plan.retry_since);
            if self.carry_out(plan) {
                return self.armed = false;
            }
            let until = until.into_iter().chain(self.look_at_grant()).min();
            retry = retry_since.and_then(|since| retry.take().or_else(|| Some(self.permit(since))));
            tokio::select! {
                biased;
                Some(done) = self.in_flight.join_next() => self.handle(done),
                () = granted(&mut retry) => is_permitted = true,
                () = self.turns.changed() => {}
                () = poke.notified() => {}
                () = self.inner.calls.topology_changed() => self.entry.handle_topology(self.inner.clock.now()),
                () = sleep_until(&self.inner, until) => {}
            }
        }
    }

    fn hear(&mut self) {
        let now = self.inner.clock.now();
        let heard = self.turns.take();
        // One gap of the lock, however many places it has.
        if heard.iter().any(|(_, delta)| delta.gaps) {
            self.inner.events.record_engine(EngineEvent::SubscriptionGap);
        }
        for (place, delta) in heard {
            self.entry.handle_notice(place, delta.notices, delta.resync, now);
        }
    }

    fn next(&mut self, is_permitted: bool) -> (Plan, Arc<Notify>) {
        let (inner, now, pace) = (&self.inner, self.inner.clock.now(), self.pace());
        let (entry, is_listening) = (&mut self.entry, self.turns.is_listening());
        let confirm = inner.pace(self.key.slot());
        let (plan, leaving, poke) = inner.table.with(&self.key, |slot| {
            let held = slot.entry.held_here(now, &confirm);
            let callers = slot.entry.queue_mut();
            let leaving = entry.take_overdue(callers, held, now, &pace);
            let plan = entry.take_step(callers, now, &inner.mint, &pace, is_permitted);
            let poke = slot.poke.get_or_insert_default().clone();
            slot.subscribed = is_listening;
            if plan.is_done {
                slot.handle_rest();
            }
            (plan, leaving, poke)
        });
        dismiss(inner, leaving);
        (plan, poke)
    }

    // Releases a grant that no caller takes. Returns when to look at one next.
    fn look_at_grant(&self) -> Option<Instant> {
        let now = self.inner.clock.now();
        match self.inner.table.with(&self.key, |slot| slot.entry.look_at_grant(now)) {
            Look::Wait(next) => next,
            Look::TakeBack(lease) => {
                end::take_back(&self.inner, &lease);
                None
            }
        }
    }

    // Returns whether nothing is left to do.
    fn carry_out(&mut self, plan: Plan) -> bool {
        let Plan { asks, beats, listen, ignore, closing, places_lost, is_done, .. } = plan;
        closing.into_iter().for_each(|owner| close(&self.inner, &self.key, Some(owner)));
        ignore.into_iter().for_each(|place| self.turns.ignore(place));
        (0..places_lost).for_each(|_| self.inner.events.record_engine(EngineEvent::PlaceLost));
        for (place, owner) in listen {
            self.turns.listen(&self.inner, &self.key, place, owner);
        }
        asks.into_iter().for_each(|ask| self.send(ask));
        for batch in beats.chunks(BEATS_MAX) {
            self.send_beats(batch);
        }
        is_done
    }

    fn send(&mut self, ask: Ask) {
        let (inner, key, sent) = (self.inner.clone(), self.key.clone(), self.inner.clock.now());
        let execute_by = sent + inner.config.request_timeout(ask.ttl);
        self.entry.note_limit(ask.place, execute_by);
        self.in_flight.spawn(async move {
            let answer = send_ask(&inner, &key, &ask, sent, execute_by).await;
            let received = inner.clock.now();
            Done::Ask { ask, answer: Answer { answer, sent, execute_by }, received }
        });
    }

    fn send_beats(&mut self, batch: &[Beat]) {
        let (inner, key, sent) = (self.inner.clone(), self.key.clone(), self.inner.clock.now());
        let (batch, op) = (batch.to_vec(), Op::Beat { place: self.pace().terms });
        self.entry.note_batch_sent();
        self.in_flight.spawn(async move {
            let answers = send_batch(&inner, &key, &batch, op, sent).await;
            Done::Beats { answers, sent }
        });
    }

    fn handle(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done::Ask { ask, answer, received }) => self.handle_answer(ask, answer, received),
            Ok(Done::Beats { answers, sent }) => self.handle_beats(answers, sent),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic), // as if this task had sent it
                Err(_cancelled) => {}                          // the runtime ends
            },
        }
    }

    fn handle_answer(&mut self, ask: Ask, answer: Answer, now: Instant) {
        self.tell_ask(&ask, &answer, now);
        let entry = &mut self.entry;
        let (verdict, installed) = self.inner.table.with(&self.key, |slot| {
            slot.entry.note_asked(answer.sent);
            let mut verdict = entry.handle_answer(slot.entry.queue_mut(), ask.place, answer, now);
            let installed = verdict.grant.take().map(|grant| delivery::install(&self.key, slot, grant));
            (verdict, installed)
        });
        let Verdict { leaving, is_unwanted, no_expiry, .. } = verdict;
        if let Some(installed) = installed {
            delivery::deliver(&self.inner, installed, ask.cause != AskCause::Arrival);
        }
        if is_unwanted {
            self.inner.events.record_engine(EngineEvent::GrantWithoutCaller);
        }
        if no_expiry {
            delivery::warn_no_expiry(&self.inner, &self.key);
        }
        dismiss(&self.inner, leaving);
    }

    fn handle_beats(&mut self, answers: Vec<(Beat, Result<Outcome, TransportError>)>, sent: Instant) {
        let (entry, now) = (&mut self.entry, self.inner.clock.now());
        let leaving = self
            .inner
            .table
            .with(&self.key, |slot| entry.handle_beats(slot.entry.queue_mut(), answers, sent, now));
        dismiss(&self.inner, leaving);
    }

    fn tell_ask(&self, ask: &Ask, answer: &Answer, now: Instant) {
        let took = now - answer.sent;
        if answer.answer.is_ok() {
            self.inner.note_round_trip(took);
        }
        let told = match &answer.answer {
            Ok(Outcome::Granted { .. }) => Ok(AskAnswer::Granted),
            Ok(Outcome::TooLate { .. }) => Ok(AskAnswer::TooLate),
            Ok(_held) => Ok(AskAnswer::Held),
            Err(last_error) => Err(last_error),
        };
        let since_notice = ask.noticed.filter(|_| ask.cause == AskCause::Notice).map(|noticed| now - noticed);
        let told = metrics::Ask { cause: ask.cause, took, answer: told, since_notice };
        self.inner.events.record_lock(ask.labels, LockEvent::Asked(told));
    }

    fn permit(&self, since: Instant) -> RetryPermit {
        self.inner.dispatcher.retry(&self.inner.core, self.key.slot(), since)
    }

    fn pace(&self) -> FairPace {
        let config = &self.inner.config;
        FairPace {
            unavailable_after: config.unavailable_after(),
            command_timeout: config.command_timeout(),
            terms: PlaceTerms::new(config.fair_wait(), BEAT),
            places_max: config.fair_places_max,
        }
    }
}

async fn granted(retry: &mut Option<RetryPermit>) {
    match retry {
        Some(permit) => permit.granted().await,
        None => std::future::pending().await,
    }
}

async fn send_ask(
    inner: &Inner,
    key: &Arc<LockKey>,
    ask: &Ask,
    sent: Instant,
    execute_by: Instant,
) -> Result<Outcome, TransportError> {
    let lane = inner.calls.lane().ok_or_else(|| inner.calls.last_error())?;
    inner.check_restart_grace(key, sent)?;
    inner.events.totals.asks.add(1);
    let call = Call::new(key.clone(), HoldKind::Fair, ask.op, ask.owner, execute_by);
    let reply = lane.call_one(call).await.definite(ask.op)?;
    let Some(at) = reply.at() else { return Ok(reply) };
    inner.check_present(at)?;
    inner.dispatcher.handle_answer_of(&inner.core, at.clock.node);
    if let Outcome::Granted { .. } = reply {
        inner
            .check_restart_grace_of(at.clock.node, sent)
            .map_err(|refused| TransportError::unknown(refused.kind, at, refused.detail))?;
    }
    Ok(reply)
}

async fn send_batch(
    inner: &Inner,
    key: &Arc<LockKey>,
    batch: &[Beat],
    op: Op,
    sent: Instant,
) -> Vec<(Beat, Result<Outcome, TransportError>)> {
    let execute_by = sent + inner.config.command_timeout().min(BEAT_TIMEOUT);
    let call = |beat: &Beat| {
        Call::new(key.clone(), HoldKind::Fair, op, beat.owner, execute_by).with_ticket(beat.place)
    };
    let node = inner.calls.topology().and_then(|topology| topology.serving(key.slot()).map(|node| node.id));
    let answered = match (inner.calls.lane(), node) {
        (Some(lane), Some(node)) => lane.call(node, batch.iter().map(call).collect()).await,
        _ => Vec::new(),
    };
    let of: BTreeMap<_, _> = batch.iter().map(|beat| (beat.place, *beat)).collect();
    let answers: Vec<_> = answered
        .into_iter()
        .filter_map(|call| Some((*of.get(&call.ticket)?, call.outcome)))
        .map(|(beat, outcome)| (beat, outcome.definite(op).and_then(|outcome| present(inner, outcome))))
        .collect();
    if answers.is_empty() {
        return answers; // no node serves the slot, so nothing was sent
    }
    let last_error = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
    let (operation, took) = (Operation::Beat, inner.clock.now() - sent);
    inner.events.record_engine(EngineEvent::Answered { operation, took, last_error });
    answers
}

fn present(inner: &Inner, outcome: Outcome) -> Result<Outcome, TransportError> {
    if let Some(at) = outcome.at() {
        inner.check_present(at)?;
        inner.dispatcher.handle_answer_of(&inner.core, at.clock.node);
    }
    Ok(outcome)
}

/// Answers the callers and closes the places if the driver ends in the middle, by a panic or with its runtime. No other
/// task serves them.
impl Drop for FairDriver {
    fn drop(&mut self) {
        self.inner.events.totals.served.sub(1);
        self.inner.contended_keys.leave(self.key.slot());
        if !self.armed {
            return;
        }
        let callers = self.inner.table.with(&self.key, |slot| {
            slot.handle_rest();
            slot.entry.depart_all()
        });
        self.entry.abandon().into_iter().for_each(|owner| close(&self.inner, &self.key, Some(owner)));
        self.inner.events.totals.callers.sub(callers.len() as u64);
        // Dropping a caller answers it: the engine has ended. Its waker may panic, and this may be the drop of a panic.
        guard::drop_each(callers);
    }
}

/// How many beats go out in one batch.
const BEATS_MAX: usize = 250;
/// The next beat is due after this time, so an answer after it is of no use.
const BEAT_TIMEOUT: Duration = Duration::from_secs(1);
