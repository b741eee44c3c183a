//! One call on one connection that is not a renewal. Each reply carries a server time.

mod exclusive;
mod fair;
mod permits;
mod read_write;

use std::time::Duration;

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use leasehold::{
    fencing::FencingToken,
    transport::{Call, HoldKind, Kinds, Op, Outcome},
};

pub(crate) use permits::{permit_ids, permits_of};

use super::{
    call_error::CallError,
    deadline::Limit,
    node_connection::Connection,
    requests::{micros, millis, text},
    script_call::Asking,
};
use crate::wire::{
    arg::Arg,
    reply::{Acquired, Freed},
    scripts::Script,
};

/// The kinds of locks and counters that this transport keeps.
pub(crate) const KINDS: Kinds = Kinds::EXCLUSIVE
    .with(Kinds::FENCED)
    .with(Kinds::FAIR)
    .with(Kinds::READ_WRITE)
    .with(Kinds::PERMITS)
    .with(Kinds::SEMAPHORE)
    .with(Kinds::LATCH);

/// The outcome of a call that this transport cannot send: of another kind, or with a key of another family.
pub(crate) fn refusal(call: &Call) -> Option<Outcome> {
    let is_kept = KINDS.contains(call.kind.needs()) && call.kind.family() == call.key.family();
    (!is_kept).then(|| call.unsupported("redis"))
}

impl Connection {
    /// Sends a call that is not a renewal.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] for a redirect.
    pub(crate) async fn call(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        match (call.kind, call.op) {
            (HoldKind::Exclusive | HoldKind::Spin, Op::Acquire { ttl }) => {
                self.acquire(call, ttl, asking).await
            }
            (HoldKind::Fenced(mode), Op::Acquire { ttl }) => {
                self.acquire_fenced(call, mode, ttl, asking).await
            }
            (HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_), Op::Release) => {
                self.release(call, asking).await
            }
            (HoldKind::Read, Op::Acquire { ttl }) => self.acquire_read(call, ttl, asking).await,
            (HoldKind::Write, Op::Acquire { ttl }) => self.acquire_write(call, ttl, asking).await,
            (HoldKind::Read | HoldKind::Write, Op::Downgrade { ttl }) => {
                self.downgrade(call, ttl, asking).await
            }
            (HoldKind::Read, Op::Release) => self.release_read(call, true, asking).await,
            (HoldKind::Write, Op::Release) => self.release_write(call, asking).await,
            (HoldKind::Permits(_), Op::Acquire { ttl }) => self.acquire_permits(call, ttl, asking).await,
            (HoldKind::Permits(_), Op::Release) => self.release_permits(call, asking).await,
            (HoldKind::Fair, Op::Acquire { ttl }) => self.queue(call, ttl, None, asking).await,
            (HoldKind::Fair, Op::Queue { ttl, place }) => self.queue(call, ttl, Some(place), asking).await,
            (HoldKind::Fair, Op::Release) => self.leave(call, asking).await,
            _ => Ok(call.unsupported("redis")),
        }
    }

    /// Runs a script that acquires: its values are the ttl, the owner, the latest server time, and `more`.
    async fn acquire_by(
        &self,
        (script, read): (Script, fn(&Frame) -> Option<Acquired>),
        call: &Call,
        (keys, more): (&[Arg], &[Arg]),
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let values: Vec<_> = terms_of(call, ttl, limit).into_iter().chain(more.iter().cloned()).collect();
        let args = arguments(keys, &values);
        let answer = self.run((script, asking), args, limit, read, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    /// Runs a script that releases.
    async fn release_by(
        &self,
        script: Script,
        call: &Call,
        (keys, values): (&[Arg], &[Arg]),
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.sent_now(call.execute_by)?;
        let args = arguments(keys, values);
        let answer = self.run((script, asking), args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(self.released(answer.value))
    }

    pub(super) fn publish(&self) -> Arg {
        Arg::word(self.publishes())
    }

    // In a cluster a node counts only its own subscribers of the classic kind, and counts a subscriber to both
    // kinds twice.
    fn all_listeners(&self, counted: Option<u32>) -> Option<u32> {
        counted.filter(|_| !(self.terms.in_cluster && self.terms.kinds.classic))
    }

    pub(super) fn acquired(&self, value: Acquired) -> Outcome {
        match value {
            Acquired::Granted { counter, now } => {
                let token = counter.map_or(FencingToken::at_server_micros(now), FencingToken::of_counter);
                Outcome::Granted { token, at: self.at(now) }
            }
            Acquired::Held { remaining, now } => Outcome::Busy { remaining, at: self.at(now) },
            Acquired::TooLate { now } => Outcome::TooLate { at: self.at(now) },
        }
    }

    pub(super) fn released(&self, value: Freed) -> Outcome {
        match value {
            Freed::Yes { listeners, now } => {
                Outcome::Released { listeners: self.all_listeners(listeners), at: self.at(now) }
            }
            Freed::No { now } => Outcome::NotYours { at: self.at(now) },
        }
    }
}

fn terms_of(call: &Call, ttl: Duration, limit: Limit) -> [Arg; 3] {
    [millis(ttl), text(&call.owner.to_string()), micros(limit.not_after.micros)]
}

/// The arguments of a script behind its text or digest: its keys, then its values.
fn arguments(keys: &[Arg], values: &[Arg]) -> impl Fn(&Str) -> Vec<Arg> {
    move |head| {
        let count = Arg::Number(i64::try_from(keys.len()).unwrap_or(i64::MAX));
        let mut args = Vec::with_capacity(2 + keys.len() + values.len());
        args.extend([Arg::Text(head.clone()), count]);
        args.extend(keys.iter().chain(values).cloned());
        args
    }
}
