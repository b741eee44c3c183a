//! One call on one connection: acquiring and releasing. Each reply carries a server time.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Value};
use leasehold::{
    FencingMode,
    fencing::FencingToken,
    transport::{Call, HoldKind, Op, Outcome},
};

use super::{
    call_error::CallError,
    node_connection::Connection,
    requests::{ONE, TWO, micros, millis, text},
    script_call::Asking,
};
use crate::wire::{
    names::{lock_channel, token_counter},
    reply::{Acquired, Freed},
    scripts::Script,
};

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
            _ => Ok(call.unsupported("redis")),
        }
    }

    async fn acquire(&self, call: &Call, ttl: Duration, asking: Asking) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let (name, owner) = (text(call.key.on_server()), Str::from(call.owner.to_string()));
        let (ttl, latest) = (millis(ttl), micros(limit.not_after.micros));
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
        let slot = call.key.slot().number();
        let answer =
            self.run((Script::Acquire, asking), slot, args, limit, Acquired::read, Acquired::now).await?;
        let too_late = matches!(answer.value, Acquired::TooLate { .. });
        self.observe(answer.sample, too_late);
        Ok(self.acquired(answer.value))
    }

    async fn acquire_fenced(
        &self,
        call: &Call,
        mode: FencingMode,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let key = call.key.on_server();
        let (name, counter) = (text(key), text(&token_counter(key)));
        let owner = text(&call.owner.to_string());
        let (ttl, latest) = (millis(ttl), micros(limit.not_after.micros));
        let mode = Value::from_static_str(mode.as_str());
        let args = |head: &Str| {
            let head = Value::String(head.clone());
            [&head, &TWO, &name, &counter, &ttl, &owner, &latest, &mode].map(Value::clone).to_vec()
        };
        let slot = call.key.slot().number();
        let script = (Script::FencedAcquire, asking);
        let answer = self.run(script, slot, args, limit, Acquired::read_fenced, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    async fn release(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.sent_now(call.execute_by)?;
        let (name, owner) = (text(call.key.on_server()), Str::from(call.owner.to_string()));
        let channel = Str::from(lock_channel(call.key.on_server()));
        let publish =
            if call.kind.notifies() { self.publish() } else { Value::from_static_str(NOT_PUBLISHED) };
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
        let slot = call.key.slot().number();
        let answer = self.run((Script::Release, asking), slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(match answer.value {
            Freed::Yes { listeners, now } => {
                Outcome::Released { listeners: self.all_listeners(listeners), at: self.at(now) }
            }
            Freed::No { now } => Outcome::NotYours { at: self.at(now) },
        })
    }

    pub(super) fn publish(&self) -> Value {
        Value::from_static_str(self.publishes())
    }

    // In a cluster a node counts only its own subscribers of the classic kind, and counts a subscriber to both
    // kinds twice.
    fn all_listeners(&self, counted: Option<u32>) -> Option<u32> {
        counted.filter(|_| !(self.terms.in_cluster && self.terms.kinds.classic))
    }

    fn acquired(&self, value: Acquired) -> Outcome {
        match value {
            Acquired::Granted { counter, now } => {
                let token = counter.map_or(FencingToken::at_server_micros(now), FencingToken::of_counter);
                Outcome::Granted { token, at: self.at(now) }
            }
            Acquired::Held { remaining, now } => Outcome::Busy { remaining, at: self.at(now) },
            Acquired::TooLate { now } => Outcome::TooLate { at: self.at(now) },
        }
    }
}

/// The word for a release that tells nobody.
const NOT_PUBLISHED: &str = "none";
