//! Acquires and releases of locks with one holder (exclusive, spin, fenced) without a task: the request is written at once,
//! and its reply is handled where it arrives. What needs more than one request is left to [`Connection::call`].

use std::sync::Arc;

use fred::types::Resp3Frame as Frame;
use leasehold::{
    clock::Instant,
    transport::{Call, HoldKind, Op, Outcome},
};

use super::{
    call_error::CallError, deadline::Limit, link::Failure, node_connection::Connection, offset::Sample,
    requests::millis_of,
};
use crate::wire::{
    encode::Part,
    names::{lock_channel, token_counter},
    reply::{Acquired, Freed},
    scripts::Script,
};

/// Why a direct call has no outcome.
pub(crate) enum Indirect {
    /// As for any call.
    Error(CallError),
    /// The server has forgotten the script, so nothing was executed: the call is to be made once more.
    Forgotten,
}

/// A call that may be sent now.
pub(crate) struct Ready {
    sent: Sent,
    permit: Permit,
}

/// What the reply to a direct call needs.
#[derive(Clone, Copy)]
struct Sent {
    script: Script,
    at: Instant,
    limit: Limit,
}

/// A place among the requests that may be in flight.
pub(super) struct Permit(pub(super) Arc<Connection>);

impl Permit {
    /// `None`: as many requests as may be are in flight.
    pub(super) fn take(connection: &Arc<Connection>) -> Option<Self> {
        connection.in_flight.try_acquire().ok()?.forget();
        Some(Self(connection.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.add_permits(1);
    }
}

impl Connection {
    /// Prepares an acquire or a release of a lock with one holder. `None`: it cannot be sent at once, or is refused before it
    /// is sent; [`call`](Self::call) knows what to do.
    pub(crate) fn ready(self: &Arc<Self>, call: &Call) -> Option<Ready> {
        let script = script_of(call).filter(|script| self.sent_scripts.has(*script))?;
        let permit = Permit::take(self)?;
        let limit = match call.op {
            Op::Release => self.sent_now(call.execute_by).ok()?,
            _ => self.limit(call.execute_by).ok()?,
        };
        Some(Ready { sent: Sent { script, at: self.now(), limit }, permit })
    }

    /// Sends a call that was prepared. `done` gets the outcome, perhaps before this returns.
    pub(crate) fn begin(
        &self,
        call: &Call,
        Ready { sent, permit }: Ready,
        done: impl FnOnce(Result<Outcome, Indirect>) + Send + 'static,
    ) {
        let handle = move |reply| {
            let result = permit.0.handle_direct(reply, sent);
            drop(permit);
            done(result);
        };
        let (name, owner) = (call.key.on_server(), call.owner.to_string());
        let Op::Acquire { ttl } = call.op else {
            let (channel, publish) = (lock_channel(name), self.publishes_for(call));
            let values = [Part::Text(&owner), Part::Text(&channel), Part::Text(publish)];
            return self.send(sent, [name], values, handle);
        };
        let not_after = i64::try_from(sent.limit.not_after.micros).unwrap_or(i64::MAX);
        let [ttl, owner, not_after] =
            [Part::Number(millis_of(ttl)), Part::Text(&owner), Part::Number(not_after)];
        match call.kind {
            HoldKind::Fenced(mode) => {
                let reserved = Part::Number(call.reserved_tokens.into());
                let values = [ttl, owner, not_after, Part::Text(mode.as_str()), reserved];
                self.send(sent, [name, &token_counter(name)], values, handle);
            }
            _ => self.send(sent, [name], [ttl, owner, not_after], handle),
        }
    }

    fn send<const KEYS: usize, const VALUES: usize>(
        &self,
        sent: Sent,
        keys: [&str; KEYS],
        values: [Part<'_>; VALUES],
        handle: impl FnOnce(Result<Frame, Failure>) + Send + 'static,
    ) {
        let head = [Part::Text(sent.script.sha()), Part::Number(KEYS as i64)];
        let args: Vec<_> = head.into_iter().chain(keys.map(Part::Text)).chain(values).collect();
        self.link.begin("EVALSHA", &args, sent.limit.until, handle);
    }

    fn handle_direct(&self, reply: Result<Frame, Failure>, sent: Sent) -> Result<Outcome, Indirect> {
        let frame = match reply {
            Ok(frame) => frame,
            Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT") => {
                self.sent_scripts.forget(sent.script);
                return Err(Indirect::Forgotten);
            }
            Err(failure) => return Err(Indirect::Error(self.classify_failure(failure, sent.limit))),
        };
        let outcome = self.read_direct(&frame, sent);
        outcome.ok_or_else(|| Indirect::Error(self.misread(sent.limit).into()))
    }

    fn read_direct(&self, frame: &Frame, Sent { script, at, .. }: Sent) -> Option<Outcome> {
        let received = self.now();
        let observe = |server_micros, too_late| {
            self.observe(Sample { sent: at, received, server_micros }, too_late);
        };
        if script == Script::Release {
            let freed = Freed::read(frame)?;
            observe(freed.now(), false);
            return Some(self.released(freed));
        }
        let read = if script == Script::Acquire { Acquired::read } else { Acquired::read_fenced };
        let acquired = read(frame)?;
        observe(acquired.now(), matches!(acquired, Acquired::TooLate { .. }));
        Some(self.acquired(acquired))
    }
}

fn script_of(call: &Call) -> Option<Script> {
    match (call.op, call.kind) {
        (Op::Acquire { .. }, HoldKind::Exclusive | HoldKind::Spin) => Some(Script::Acquire),
        (Op::Acquire { .. }, HoldKind::Fenced(_)) => Some(Script::FencedAcquire),
        (Op::Release, HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_)) => Some(Script::Release),
        _ => None,
    }
}
