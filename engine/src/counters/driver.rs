//! The driver of one counter's entry, for as long as the entry has callers or an operation on its way: sends, sleeps,
//! listens for notices, and answers callers as the entry decides. One task per entry, on the calls thread.

use std::{future::Future, pin::pin, sync::Arc};

use tokio::sync::Notify;
use tracing::Level;

use super::{
    entry::{Command, Pace, Step, work::Leaving},
    reply_to::{self, ReplyTo},
};
use crate::{
    acquire::watch_cursor::{WatchCursor, WatchDelta},
    clock::Instant,
    dispatch::permits::RetryPermit,
    guard,
    inner::Inner,
    key::LockKey,
    log,
    metrics::{EngineEvent, Operation},
    transport::{Counter, CounterCall, CounterReply, ServerTime, TransportError},
};

/// Starts the driver of an entry that was just marked as driven. It ends with the engine at the latest.
pub(super) fn start(inner: &Arc<Inner>, key: &Arc<LockKey>, counter: Counter) {
    inner.events.totals.served.add(1);
    inner.contended_keys.join(key.slot());
    let driver = Driver { inner: inner.clone(), key: key.clone(), counter, armed: true };
    inner.spawn_until(inner.gone(), driver.drive());
}

struct Driver {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    counter: Counter,
    armed: bool,
}

/// What the driver does next, after the table is unlocked.
enum Todo {
    Send(Command),
    /// Retries of all names of a node share a rate.
    AwaitPermit(Instant, Option<Instant>, Arc<Notify>),
    Listen,
    Wait(Option<Instant>, Arc<Notify>),
    Rest,
}

/// Whether there is more to do after an answer.
enum After {
    /// There may be. How far the server's clock is ahead, if it told the time.
    Work(Option<i64>),
    Rest,
}

impl Driver {
    async fn drive(mut self) {
        let mut cursor: Option<WatchCursor> = None;
        let (mut ahead, mut is_permitted) = (None, false);
        let mut retry: Option<RetryPermit> = None;
        loop {
            let delta = cursor.as_mut().map_or(WatchDelta::default(), WatchCursor::observe);
            if delta.gaps {
                self.inner.events.record_engine(EngineEvent::SubscriptionGap);
            }
            let todo = self.next(delta, ahead, std::mem::take(&mut is_permitted));
            if !matches!(todo, Todo::AwaitPermit(..)) {
                retry = None;
            }
            match todo {
                Todo::Send(command) => match self.exchange(command).await {
                    After::Work(told) => ahead = told.or(ahead),
                    After::Rest => return self.armed = false,
                },
                Todo::AwaitPermit(since, until, poke) => {
                    let permit = retry.get_or_insert_with(|| self.permit(since));
                    is_permitted = self.wait_for_permit(permit, until, &poke, cursor.as_mut()).await;
                    ahead = self.clock_of_server().or(ahead);
                }
                Todo::Listen => cursor = self.listen(),
                Todo::Wait(until, poke) => self.wait(until, &poke, cursor.as_mut()).await,
                Todo::Rest => return self.armed = false,
            }
        }
    }

    fn next(&self, delta: WatchDelta, ahead: Option<i64>, is_permitted: bool) -> Todo {
        let (inner, now, pace) = (&self.inner, self.inner.clock.now(), self.pace());
        let step = inner.counters.with_known(&self.key, |slot| {
            if delta.notices > 0 || delta.resync {
                slot.entry.handle_notice();
            }
            slot.entry.handle_time(now, &pace);
            let todo = match slot.entry.retry_since(now).filter(|_| !is_permitted) {
                Some(since) => Todo::AwaitPermit(since, slot.entry.next_leave(&pace), slot.poke.clone()),
                None => match slot.entry.take_step(now, &pace, ahead, &mut || inner.next_id()) {
                    Step::Send(command) => Todo::Send(command),
                    Step::Wait { watch: true, .. } if !delta.listening && inner.calls.is_open() => {
                        Todo::Listen
                    }
                    Step::Wait { until, .. } => Todo::Wait(until, slot.poke.clone()),
                    Step::Rest => Todo::Rest,
                },
            };
            slot.driven = !matches!(todo, Todo::Rest);
            (todo, slot.entry.take_leaving(), slot.entry.take_given_up())
        });
        let Some((todo, leaving, given_up)) = step else { return Todo::Rest };
        self.answer(leaving);
        self.warn(given_up);
        todo
    }

    fn listen(&self) -> Option<WatchCursor> {
        self.inner.calls.lane().map(|lane| WatchCursor::new(lane.watch_counter(&self.key, self.counter)))
    }

    fn permit(&self, since: Instant) -> RetryPermit {
        self.inner.dispatcher.retry(&self.inner.core, self.key.slot(), since)
    }

    // Whether the permit was granted; otherwise something else has happened before.
    async fn wait_for_permit(
        &self,
        permit: &mut RetryPermit,
        until: Option<Instant>,
        poke: &Notify,
        cursor: Option<&mut WatchCursor>,
    ) -> bool {
        tokio::select! {
            biased;
            () = permit.granted() => true,
            () = self.wait(until, poke, cursor) => false,
        }
    }

    async fn wait(&self, until: Option<Instant>, poke: &Notify, cursor: Option<&mut WatchCursor>) {
        let noticed = async {
            match cursor {
                Some(cursor) => cursor.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep_until(&self.inner, until) => {}
            () = poke.notified() => {}
            () = noticed => {}
            () = self.inner.calls.topology_changed() => {
                self.inner.counters.with_known(&self.key, |slot| slot.entry.handle_topology());
            }
        }
    }

    // Sends one operation and takes in its answer. Callers leave by the clock meanwhile. An entry that is idle then is
    // removed before its callers are answered, so a caller may use the name as another counter at once.
    async fn exchange(&self, command: Command) -> After {
        let mut next = self.dismiss_overdue();
        let mut answer = pin!(self.send(command));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                () = sleep_until(&self.inner, next) => next = self.dismiss_overdue(),
            }
        };
        let (now, pace) = (self.inner.clock.now(), self.pace());
        let ahead = answer.as_ref().ok().map(|reply| ahead_of(reply.at(), now));
        let settled = self.inner.counters.with_known(&self.key, |slot| {
            slot.entry.handle_answer(answer, now, &pace);
            slot.driven = !slot.entry.is_idle();
            (slot.entry.take_leaving(), slot.entry.take_given_up(), slot.driven)
        });
        let Some((leaving, given_up, is_driven)) = settled else { return After::Rest };
        self.answer(leaving);
        self.warn(given_up);
        if is_driven { After::Work(ahead) } else { After::Rest }
    }

    fn send(&self, command: Command) -> impl Future<Output = Result<CounterReply, TransportError>> + use<> {
        let Command { number, op, execute_by } = command;
        let (inner, key, counter) = (self.inner.clone(), self.key.clone(), self.counter);
        let (client, remember) = (inner.mint.client(), inner.config.counter_memory());
        async move {
            let sent = inner.clock.now();
            let reply = async {
                let lane = inner.calls.lane().ok_or_else(|| inner.calls.last_error())?;
                let call = CounterCall { key, counter, client, number, op, execute_by, remember };
                let reply = lane.count(call).await?;
                inner.check_present(reply.at())?;
                Ok(reply)
            }
            .await;
            let (operation, took) = (Operation::Count, inner.clock.now() - sent);
            let last_error = reply.as_ref().err();
            inner.events.record_engine(EngineEvent::Answered { operation, took, last_error });
            reply
        }
    }

    // Returns when the next caller may leave by the clock.
    fn dismiss_overdue(&self) -> Option<Instant> {
        let (now, pace) = (self.inner.clock.now(), self.pace());
        let dismissed = self.inner.counters.with_known(&self.key, |slot| {
            slot.entry.handle_time(now, &pace);
            (slot.entry.take_leaving(), slot.entry.next_leave(&pace))
        });
        let (leaving, next) = dismissed.unwrap_or_default();
        self.answer(leaving);
        next
    }

    fn answer(&self, leaving: Vec<Leaving<ReplyTo>>) {
        self.inner.events.totals.callers.sub(leaving.len() as u64);
        for caller in leaving {
            reply_to::answer(self.inner.clone(), &self.key, caller);
        }
    }

    fn warn(&self, given_up: u64) {
        if given_up > 0 {
            let (key, counter) = (self.key.clone(), self.counter);
            log::line(Level::WARN, move || {
                tracing::warn!(
                    name = key.name(),
                    %counter,
                    given_up,
                    "operations were given up; whether they counted is not known"
                );
            });
        }
    }

    fn pace(&self) -> Pace {
        let config = &self.inner.config;
        Pace {
            command_timeout: config.command_timeout(),
            unavailable_after: config.unavailable_after(),
            remember: config.counter_memory(),
            safety_poll: self.inner.pace(self.key.slot()).safety_poll,
        }
    }

    // As the lane has read it lately. Only asked before a retry.
    fn clock_of_server(&self) -> Option<i64> {
        let topology = self.inner.calls.topology()?;
        let node = topology.serving(self.key.slot())?.id;
        let clocks = self.inner.calls.stats().clocks;
        clocks.iter().find(|reading| reading.node == node).map(|reading| reading.ahead_micros)
    }
}

fn ahead_of(at: ServerTime, now: Instant) -> i64 {
    let micros = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    micros(at.micros).saturating_sub(micros(now.as_nanos() / 1_000))
}

async fn sleep_until(inner: &Inner, moment: Option<Instant>) {
    match moment {
        Some(moment) => inner.clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Answers the callers if the driver ends in the middle, by a panic or with the engine. No other task serves them.
impl Drop for Driver {
    fn drop(&mut self) {
        self.inner.events.totals.served.sub(1);
        self.inner.contended_keys.leave(self.key.slot());
        if !self.armed {
            return;
        }
        let Some(slot) = self.inner.counters.remove(&self.key) else { return };
        self.inner.events.totals.callers.sub(slot.entry.callers() as u64);
        // Dropping a place of an answer answers: the engine has ended. Wakers may panic, and this may be the drop of a panic.
        guard::drop_each(slot.entry.into_replies());
    }
}
