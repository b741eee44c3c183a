//! What the handles of semaphores and latches have in common: a name, a wait, and calls.

use std::{fmt, future::Future, num::NonZeroU32, pin::pin, sync::Arc, time::Duration};

use super::{
    alive::Handle,
    lock::{bad_name, checked_wait},
};
use crate::{
    count_error::CountError,
    counters::{
        call::{self, Call},
        entry::work::{Outcome, Patience, Work},
        wait::Wait,
    },
    error::{InspectError, Invalid},
    inner::Inner,
    key::{LockKey, NameFault},
    metrics::CountOutcome,
    transport::{Counter, CounterCall, CounterOp, CounterReply, ErrorKind, TransportError},
};

/// A handle of one counter.
#[derive(Clone)]
pub(super) struct CounterHandle {
    handle: Handle,
    key: Result<Arc<LockKey>, (String, NameFault)>,
    counter: Counter,
    pub(super) wait: Option<Duration>,
}

/// A definite answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) result: i64,
    /// What the counter shows after the call.
    pub(super) left: i64,
}

impl CounterHandle {
    pub(super) fn new(handle: Handle, name: &str, counter: Counter) -> Self {
        let prefix = &handle.inner().config.name_prefix;
        let key =
            LockKey::with_family(prefix, name, counter.family()).map_err(|fault| (name.to_owned(), fault));
        Self { handle, key, counter, wait: None }
    }

    /// Does the work, or waits for it as long as the handle says.
    pub(super) fn call(
        &self,
        work: Work,
    ) -> impl Future<Output = Result<Counted, CountError>> + Send + use<> {
        let counter = self.clone();
        async move {
            let call = counter.begin(work, false)?;
            match counter.outcome(call).await? {
                Some(counted) => Ok(counted),
                None => unreachable!("only a caller that tries is told that there are not enough permits"),
            }
        }
    }

    /// Does the work if it can be done now. `None`: there are not enough permits.
    pub(super) fn try_call(
        &self,
        work: Work,
    ) -> impl Future<Output = Result<Option<Counted>, CountError>> + Send + use<> {
        let counter = self.clone();
        async move {
            let call = counter.begin(work, true)?;
            counter.outcome(call).await
        }
    }

    fn begin(&self, work: Work, only_try: bool) -> Result<Call, CountError> {
        let inner = self.handle.inner();
        inner.process.check()?;
        inner.check_open().map_err(|_| CountError::ShuttingDown)?;
        self.check_supported(inner)?;
        let joined = inner.clock.now();
        let wait = checked_wait(inner, self.wait)?.map(|time| joined + time);
        let patience = if only_try { Patience::Try } else { Patience::Wait(wait) };
        Ok(Call { key: self.checked_key()?, counter: self.counter, work, patience, joined })
    }

    fn check_supported(&self, inner: &Inner) -> Result<(), CountError> {
        let (kind, transport) = (self.counter.as_str(), inner.capabilities.name);
        match inner.capabilities.kinds.contains(self.counter.kind()) {
            true => Ok(()),
            false => Err(CountError::Unsupported { kind, transport }),
        }
    }

    fn checked_key(&self) -> Result<Arc<LockKey>, Invalid> {
        self.key.clone().map_err(|(name, fault)| bad_name(&name, &fault.to_string()))
    }

    async fn outcome(&self, call: Call) -> Result<Option<Counted>, CountError> {
        let inner = self.handle.inner();
        let wait = Wait::begin(inner, &call);
        let outcome = wait.around(pin!(self.answer(&call))).await;
        wait.end(ended(&outcome));
        outcome
    }

    async fn answer(&self, call: &Call) -> Result<Option<Counted>, CountError> {
        let inner = self.handle.inner();
        let queued = call::join(inner, call)?;
        let outcome = inner.process.here(pin!(queued.outcome())).await?;
        told(outcome, inner.clock.now() - call.joined)
    }

    /// Reads the number, without waiting for other calls of this engine.
    pub(super) fn read(&self) -> impl Future<Output = Result<i64, InspectError>> + Send + use<> {
        let counter = self.clone();
        async move {
            let inner = counter.handle.inner().clone();
            inner.process.check()?;
            inner.check_open().map_err(|_| InspectError::ShuttingDown)?;
            let (key, counter) = (counter.checked_key()?, counter.counter);
            let (sender, answer) = tokio::sync::oneshot::channel();
            let asking = inner.clone();
            inner.spawn(async move {
                let _ = sender.send(read(&asking, key, counter).await);
            });
            let answer = inner.process.here(answer).await?;
            answer.map_err(|_| InspectError::ShuttingDown)?.map_err(InspectError::Transport)
        }
    }
}

impl CounterHandle {
    /// Reads the number. Returns it with the name, and with how many callers of this engine wait for the counter.
    pub(super) fn seen(
        &self,
    ) -> impl Future<Output = Result<(String, i64, u64), InspectError>> + Send + use<> {
        let (counter, read) = (self.clone(), self.read());
        async move {
            let number = read.await?;
            let (key, inner) = (counter.checked_key()?, counter.handle.inner());
            let waiting = inner.counters.with_known(&key, |slot| slot.entry.callers()).unwrap_or(0);
            Ok((key.name().to_owned(), number, u64::try_from(waiting).unwrap_or(u64::MAX)))
        }
    }
}

impl fmt::Debug for CounterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.key)
    }
}

async fn read(inner: &Inner, key: Arc<LockKey>, counter: Counter) -> Result<i64, TransportError> {
    let lane = inner.calls.lane().ok_or_else(|| inner.calls.last_error())?;
    let (execute_by, remember) =
        (inner.clock.now() + inner.config.command_timeout(), inner.config.counter_memory());
    let (client, op) = (inner.mint.client(), CounterOp::Read);
    let call = CounterCall { key, counter, client, number: 0, op, execute_by, remember };
    match lane.count(call).await? {
        CounterReply::Done { left, .. } => Ok(left),
        CounterReply::TooLate { at } => {
            let detail = "the read reached the server too late";
            Err(TransportError::without_effect(ErrorKind::TimedOut, Some(at.clock.node), detail))
        }
    }
}

fn ended(outcome: &Result<Option<Counted>, CountError>) -> CountOutcome {
    match outcome {
        Ok(Some(_)) => CountOutcome::Done,
        Ok(None) => CountOutcome::Busy,
        Err(CountError::TimedOut { .. }) => CountOutcome::TimedOut,
        Err(CountError::Unknown { .. }) => CountOutcome::Unknown,
        Err(_) => CountOutcome::Failed,
    }
}

fn told(answered: Option<Outcome>, waited: Duration) -> Result<Option<Counted>, CountError> {
    match answered {
        Some(Outcome::Done { result, left }) => Ok(Some(Counted { result, left })),
        Some(Outcome::Short) => Ok(None),
        Some(Outcome::TimedOut) => Err(CountError::TimedOut { waited }),
        Some(Outcome::Unavailable { after, last_error }) => {
            Err(CountError::Unavailable { after, last_error })
        }
        Some(Outcome::Unknown { last_error }) => Err(CountError::Unknown { last_error }),
        Some(Outcome::Refused(last_error)) => Err(CountError::Refused(last_error)),
        None => Err(CountError::ShuttingDown),
    }
}

/// A number of permits that a caller may ask for. Peers count with signed 32-bit integers.
pub(super) fn checked_permits(permits: u32) -> Result<NonZeroU32, Invalid> {
    let valid = NonZeroU32::new(permits).filter(|permits| permits.get() <= COUNT_MAX);
    valid.ok_or_else(|| Invalid::new("permits", permits, format!("must be 1 to {COUNT_MAX}")))
}

/// A number that a counter may be set to, at least `least`.
pub(super) fn checked_count(field: &'static str, count: u32, least: u32) -> Result<u32, Invalid> {
    match (least..=COUNT_MAX).contains(&count) {
        true => Ok(count),
        false => Err(Invalid::new(field, count, format!("must be {least} to {COUNT_MAX}"))),
    }
}

const COUNT_MAX: u32 = i32::MAX as u32;
