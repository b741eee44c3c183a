//! A checked command connection: requests in, replies with server times out.
//!
//! It knows which clock its answers come from, how far that clock is ahead of ours, and what may be in flight. A latest
//! execution time is translated here, at the moment at which the command is handed over.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fred::{
    bytes_utils::Str,
    types::{Resp3Frame as Frame, Value},
};
use leasehold::{
    clock::{Clock, Instant},
    fencing::FencingToken,
    key::LockKey,
    routing::topology::ClockId,
    transport::{
        Acquire, AcquireReply, Effect, ErrorKind, Fencing, Inspection, Release, ReleaseReply, ServerTime,
        TransportError,
    },
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::abilities::{Batches, Kinds};
use crate::{
    config::Address,
    connection::check,
    connection::link::{Failure, Link},
    connection::offset::{Offset, Sample},
    connection::watchdog::{PROBE_TIMEOUT, Probe, watch_over},
    wire::names::lock_channel,
    wire::redirect::Redirect,
    wire::refusal::{refusal, refused},
    wire::reply::{Acquired, Freed, Seen},
    wire::scripts::{self, Script, Told},
};

/// One checked connection of one lane.
pub(crate) struct Connection {
    link: Arc<Link>,
    terms: Terms,
    offset: Mutex<Offset>,
    in_flight: Semaphore,
    told: Told,
}

/// What a connection needs to know from its node.
pub(crate) struct Terms {
    pub(crate) address: Address,
    /// The same as text.
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) clock_id: ClockId,
    pub(crate) command_timeout: Duration,
    pub(crate) in_flight_max: usize,
    /// Whether the server is a node of a cluster, which may send requests elsewhere.
    pub(crate) in_cluster: bool,
    pub(crate) kinds: Kinds,
    pub(crate) batches: Batches,
}

/// How a request goes to a node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As to the node that serves the slot.
    Plain,
    /// Behind an `ASKING`, as to the node that is about to.
    Asking,
}

/// Why a request was not answered.
#[derive(Debug)]
pub(crate) enum Denial {
    /// Certainly not executed: another node is to be asked.
    Elsewhere(Redirect),
    /// For a reason of its own.
    Failed(TransportError),
}

impl From<TransportError> for Denial {
    fn from(error: TransportError) -> Self {
        Self::Failed(error)
    }
}

/// How long a request may take, and the server time beyond which it cannot be executed any more.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// Our clock.
    until: Instant,
    pub(crate) not_after: ServerTime,
}

/// A reply that was understood, with the times that came with it.
struct Answer<T> {
    value: T,
    sample: Sample,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, terms: Terms, first: Sample) -> Self {
        let mut offset = Offset::default();
        offset.observe(first);
        let in_flight = Semaphore::new(terms.in_flight_max);
        Self { link, terms, offset: Mutex::new(offset), in_flight, told: Told::default() }
    }

    pub(crate) async fn acquire(&self, request: &Acquire, manner: Manner) -> Result<AcquireReply, Denial> {
        let Acquire { key, owner, ttl, fencing, execute_by } = request;
        let execute_by = *execute_by;
        let _permit = self.permit(execute_by).await?;
        let limit = self.limit(execute_by)?;
        let (name, owner) = (text(key.on_server()), Str::from(owner.to_string()));
        let (ttl, latest) = (millis(*ttl), micros(limit.not_after.micros));
        let args = |head: &Str| {
            vec![
                Value::String(head.clone()),
                ONE,
                name.clone(),
                ttl.clone(),
                Value::String(owner.clone()),
                latest.clone(),
            ]
        };
        let answer = self
            .run((&scripts::ACQUIRE, manner), key.slot().number(), args, limit, Acquired::read, Acquired::now)
            .await?;
        let too_late = matches!(answer.value, Acquired::TooLate { .. });
        self.observe(answer.sample, too_late);
        Ok(self.acquired(answer.value, *fencing))
    }

    pub(crate) async fn release(&self, request: &Release, manner: Manner) -> Result<ReleaseReply, Denial> {
        let limit = self.limit_of_timeout();
        let _permit = self.permit(limit.until).await?;
        let limit = self.sent_now(limit)?;
        let (name, owner) = (text(request.key.on_server()), Str::from(request.owner.to_string()));
        let channel = Str::from(lock_channel(request.key.on_server()));
        let publish = self.publish();
        let args = |head: &Str| {
            vec![
                Value::String(head.clone()),
                ONE,
                name.clone(),
                Value::String(owner.clone()),
                Value::String(channel.clone()),
                publish.clone(),
            ]
        };
        let answer = self
            .run(
                (&scripts::RELEASE, manner),
                request.key.slot().number(),
                args,
                limit,
                Freed::read,
                Freed::now,
            )
            .await?;
        self.observe(answer.sample, false);
        Ok(match answer.value {
            Freed::Yes { listeners, now } => {
                ReleaseReply::Released { listeners: self.all_listeners(listeners), at: self.at(now) }
            }
            Freed::No { now } => ReleaseReply::NotYours { at: self.at(now) },
        })
    }

    pub(crate) async fn inspect(&self, key: &LockKey, manner: Manner) -> Result<Inspection, Denial> {
        let limit = self.limit_of_timeout();
        let _permit = self.permit(limit.until).await?;
        let limit = self.sent_now(limit)?;
        let name = text(key.on_server());
        let args = |head: &Str| vec![Value::String(head.clone()), ONE, name.clone()];
        let answer = self
            .run((&scripts::INSPECT, manner), key.slot().number(), args, limit, Seen::read, |seen| seen.now)
            .await;
        // A script that only reads has no effect, whatever became of it.
        let answer = answer.map_err(without_any_effect)?;
        self.observe(answer.sample, false);
        let Seen { holds, remaining, now } = answer.value;
        Ok(Inspection { holds, remaining, at: self.at(now) })
    }

    pub(crate) async fn force_release(&self, key: &LockKey, manner: Manner) -> Result<bool, Denial> {
        let limit = self.limit_of_timeout();
        let _permit = self.permit(limit.until).await?;
        let limit = self.sent_now(limit)?;
        let (name, channel) = (text(key.on_server()), Str::from(lock_channel(key.on_server())));
        let publish = self.publish();
        let args = |head: &Str| {
            vec![
                Value::String(head.clone()),
                ONE,
                name.clone(),
                Value::String(channel.clone()),
                publish.clone(),
            ]
        };
        let slot = key.slot().number();
        let answer =
            self.run((&scripts::FORCE_RELEASE, manner), slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(matches!(answer.value, Freed::Yes { .. }))
    }

    /// Tells the end of a hold to those who listen here. That it did not reach them changes nothing for who released.
    pub(crate) async fn tell_end(&self, key: &LockKey) {
        let channel = text(&lock_channel(key.on_server()));
        let args = vec![channel, Value::from_static_str(END_OF_HOLD)];
        let told = self.link.request("SPUBLISH", key.slot().number(), args, self.terms.command_timeout).await;
        if let Err(failure) = told {
            tracing::debug!(server = %self.terms.name, ?failure, "the end of a hold could not be told");
        }
    }

    pub(crate) fn publishes_sharded(&self) -> bool {
        self.terms.kinds.sharded
    }

    fn publish(&self) -> Value {
        Value::from_static_str(self.publishes())
    }

    // A node of a cluster counts its own listeners of the classic kind only, and who listens to both kinds counts twice.
    fn all_listeners(&self, counted: Option<u32>) -> Option<u32> {
        counted.filter(|_| !(self.terms.in_cluster && self.terms.kinds.classic))
    }

    /// Waits until this connection has ended or is to be given up.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            _ = self.link.ended() => {}
            _ = watch_over(self, self.clock()) => {}
        }
    }

    pub(crate) fn kill(&self) {
        self.link.kill();
        self.in_flight.close();
    }

    pub(crate) fn clock_id(&self) -> ClockId {
        self.terms.clock_id
    }

    pub(crate) fn batches(&self) -> Batches {
        self.terms.batches
    }

    pub(crate) fn address(&self) -> &Address {
        &self.terms.address
    }

    /// How notices are published: as the scripts spell it.
    pub(crate) fn publishes(&self) -> &'static str {
        self.terms.kinds.spelling()
    }

    /// For questions about the server.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    fn clock(&self) -> Clock {
        self.terms.clock
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock().now()
    }

    pub(crate) fn at(&self, micros: u64) -> ServerTime {
        ServerTime { micros, clock: self.terms.clock_id }
    }

    /// Waits for its turn, at most until `until`.
    pub(crate) async fn permit(&self, until: Instant) -> Result<SemaphorePermit<'_>, TransportError> {
        if let Ok(permit) = self.in_flight.try_acquire() {
            return Ok(permit);
        }
        let turn = tokio::time::timeout(until - self.now(), self.in_flight.acquire());
        match turn.await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(self
                .without_effect(ErrorKind::Unreachable, "the connection was lost before the request's turn")),
            Err(_elapsed) => {
                Err(self
                    .without_effect(ErrorKind::NotReady, "`in_flight_max` requests are in flight already"))
            }
        }
    }

    /// Translates `execute_by`, now.
    pub(crate) fn limit(&self, execute_by: Instant) -> Result<Limit, TransportError> {
        let now = self.now();
        if execute_by <= now {
            return Err(self.without_effect(ErrorKind::TimedOut, "its time was over before it was sent"));
        }
        let not_after = self.at(self.translate(execute_by, now)?);
        Ok(Limit { until: execute_by, not_after })
    }

    /// Of a request without a latest execution time: the command timeout from now.
    fn limit_of_timeout(&self) -> Limit {
        Limit { until: self.now() + self.terms.command_timeout, not_after: self.at(0) }
    }

    /// The same, sent now.
    fn sent_now(&self, limit: Limit) -> Result<Limit, TransportError> {
        let now = self.now();
        Ok(Limit { not_after: self.at(self.translate(now, now)?), ..limit })
    }

    fn translate(&self, moment: Instant, now: Instant) -> Result<u64, TransportError> {
        let translated = self.with_offset(|offset| offset.translate(moment, now));
        translated.ok_or_else(|| {
            self.without_effect(ErrorKind::NotReady, "the server's clock was not read for a minute")
        })
    }

    /// Takes the times of a reply in.
    pub(crate) fn observe(&self, sample: Sample, too_late: bool) {
        self.with_offset(|offset| if too_late { offset.restart(sample) } else { offset.observe(sample) });
    }

    fn with_offset<T>(&self, work: impl FnOnce(&mut Offset) -> T) -> T {
        work(&mut self.offset.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a script and reads its reply.
    async fn run<T>(
        &self,
        (script, manner): (&Script, Manner),
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        limit: Limit,
        read: impl Fn(&Frame) -> Option<T>,
        now: impl Fn(&T) -> u64,
    ) -> Result<Answer<T>, Denial> {
        let (frame, sent) = self.evaluate((script, manner), slot, args, limit).await?;
        let received = self.now();
        let value = read(&frame).ok_or_else(|| self.misread(limit))?;
        let server_micros = now(&value);
        Ok(Answer { value, sample: Sample { sent, received, server_micros } })
    }

    /// The reply to a script as it came, and when it was sent.
    ///
    /// The first use on a connection carries the text: asking by a digest that the server may not know would take two
    /// sends, and a request behind it could overtake the second.
    pub(crate) async fn evaluate(
        &self,
        (script, manner): (&Script, Manner),
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        limit: Limit,
    ) -> Result<(Frame, Instant), Denial> {
        let sent = self.now();
        let reply = if manner == Manner::Asking {
            // Rare, and an ASKING counts for one command only: by the text, so that one is enough.
            self.link.request_asking("EVAL", slot, args(&script.source), limit.until - sent).await
        } else if self.told.is_first_use(script) {
            self.link.request("EVAL", slot, args(&script.source), limit.until - sent).await
        } else {
            self.evaluate_known(script, slot, args, limit.until - sent).await
        };
        Ok((reply.map_err(|failure| self.deny(failure, limit))?, sent))
    }

    /// By the digest, and by the text if the server has forgotten it (SCRIPT FLUSH).
    async fn evaluate_known(
        &self,
        script: &Script,
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let until = self.now() + timeout;
        let reply = self.link.request("EVALSHA", slot, args(&script.sha), timeout).await;
        if !matches!(&reply, Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT")) {
            return reply;
        }
        self.link.request("EVAL", slot, args(&script.source), until - self.now()).await
    }

    fn acquired(&self, value: Acquired, fencing: Fencing) -> AcquireReply {
        match (value, fencing) {
            (Acquired::Granted { now }, Fencing::ServerClock) => {
                AcquireReply::Granted { token: FencingToken::at_server_micros(now), at: self.at(now) }
            }
            (Acquired::Held { remaining, now }, _) => AcquireReply::Held { remaining, at: self.at(now) },
            (Acquired::TooLate { now }, _) => AcquireReply::TooLate { at: self.at(now) },
        }
    }

    fn deny(&self, failure: Failure, limit: Limit) -> Denial {
        if let (Failure::Refused(text), true) = (&failure, self.terms.in_cluster) {
            if let Some(redirect) = Redirect::read(text, &self.terms.address) {
                return Denial::Elsewhere(redirect);
            }
        }
        Denial::Failed(self.explain(failure, limit))
    }

    fn explain(&self, failure: Failure, limit: Limit) -> TransportError {
        let address = &self.terms.name;
        match failure {
            Failure::Refused(text) => self.explain_refusal(&text, limit),
            Failure::TimedOut => {
                self.unknown(ErrorKind::TimedOut, limit, format!("redis {address}: no answer in time"))
            }
            Failure::Lost(error) => self
                .unknown(ErrorKind::Unreachable, limit, format!("redis {address}: {error}"))
                .because(error),
        }
    }

    pub(crate) fn explain_refusal(&self, text: &str, limit: Limit) -> TransportError {
        if text.starts_with("READONLY") {
            // The role has changed under this connection: the next one is checked for it.
            self.kill();
        }
        match refusal(text) {
            Some(refusal) => self.of_node(refused(&self.terms.name, refusal, text)),
            None => self.unknown(
                ErrorKind::Protocol,
                limit,
                format!("redis {} answered: {text}", self.terms.name),
            ),
        }
    }

    /// A reply of another shape: whatever else this connection says belongs to nobody knows whom.
    pub(crate) fn misread(&self, limit: Limit) -> TransportError {
        self.kill();
        let detail = format!(
            "redis {} answered in a shape that makes no sense; the connection was closed",
            self.terms.name
        );
        self.unknown(ErrorKind::Protocol, limit, detail)
    }

    fn unknown(&self, kind: ErrorKind, limit: Limit, detail: String) -> TransportError {
        TransportError::unknown(kind, limit.not_after, detail)
    }

    fn without_effect(&self, kind: ErrorKind, why: &str) -> TransportError {
        let detail = format!("redis {}: {why}", self.terms.name);
        self.of_node(TransportError::without_effect(kind, None, detail))
    }

    fn of_node(&self, error: TransportError) -> TransportError {
        TransportError { node: Some(self.terms.clock_id.node), ..error }
    }
}

/// The probe is TIME: it costs what a ping costs, and keeps the estimate of the server's clock fresh.
impl Probe for Connection {
    fn link(&self) -> &Link {
        &self.link
    }

    async fn probe(&self) -> Result<(), Failure> {
        let sample = check::time(&self.link, self.clock(), PROBE_TIMEOUT).await?;
        self.observe(sample, false);
        Ok(())
    }
}

fn without_any_effect(denial: Denial) -> Denial {
    match denial {
        Denial::Failed(error) => Denial::Failed(TransportError { effect: Effect::None, ..error }),
        elsewhere => elsewhere,
    }
}

/// Rounded up: the server keeps the lock for at least this long.
pub(crate) fn millis(ttl: Duration) -> Value {
    let millis = ttl.as_nanos().div_ceil(1_000_000).max(1);
    Value::Integer(i64::try_from(millis).unwrap_or(i64::MAX))
}

pub(crate) fn micros(micros: u64) -> Value {
    Value::Integer(i64::try_from(micros).unwrap_or(i64::MAX))
}

pub(crate) fn text(text: &str) -> Value {
    Value::String(Str::from(text))
}

/// As the scripts tell it.
const END_OF_HOLD: &str = "0";
/// The number of keys.
const ONE: Value = Value::Integer(1);
