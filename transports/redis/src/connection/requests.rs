//! The requests on one connection. Each reply carries a server time.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Value};
use leasehold::{
    fencing::FencingToken,
    key::LockKey,
    log,
    transport::{Acquire, AcquireReply, Fencing, Inspection, Release, ReleaseReply},
};
use tracing::Level;

use super::{
    call_error::{CallError, without_any_effect},
    node_connection::Connection,
    script_call::Asking,
};
use crate::wire::{
    names::lock_channel,
    reply::{Acquired, Freed, Seen},
    scripts::Script,
};

impl Connection {
    pub(crate) async fn acquire(&self, request: &Acquire, asking: Asking) -> Result<AcquireReply, CallError> {
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
            .run((Script::Acquire, asking), key.slot().number(), args, limit, Acquired::read, Acquired::now)
            .await?;
        let too_late = matches!(answer.value, Acquired::TooLate { .. });
        self.observe(answer.sample, too_late);
        Ok(self.acquired(answer.value, *fencing))
    }

    pub(crate) async fn release(&self, request: &Release, asking: Asking) -> Result<ReleaseReply, CallError> {
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
            .run((Script::Release, asking), request.key.slot().number(), args, limit, Freed::read, Freed::now)
            .await?;
        self.observe(answer.sample, false);
        Ok(match answer.value {
            Freed::Yes { listeners, now } => {
                ReleaseReply::Released { listeners: self.all_listeners(listeners), at: self.at(now) }
            }
            Freed::No { now } => ReleaseReply::NotYours { at: self.at(now) },
        })
    }

    pub(crate) async fn inspect(&self, key: &LockKey, asking: Asking) -> Result<Inspection, CallError> {
        let limit = self.limit_of_timeout();
        let _permit = self.permit(limit.until).await?;
        let limit = self.sent_now(limit)?;
        let name = text(key.on_server());
        let args = |head: &Str| vec![Value::String(head.clone()), ONE, name.clone()];
        let answer = self
            .run((Script::Inspect, asking), key.slot().number(), args, limit, Seen::read, |seen| seen.now)
            .await;
        // A script that only reads has no effect, even if its reply is lost.
        let answer = answer.map_err(without_any_effect)?;
        self.observe(answer.sample, false);
        let Seen { holds, remaining, now } = answer.value;
        Ok(Inspection::new(holds, remaining, self.at(now)))
    }

    pub(crate) async fn force_release(&self, key: &LockKey, asking: Asking) -> Result<bool, CallError> {
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
            self.run((Script::ForceRelease, asking), slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(matches!(answer.value, Freed::Yes { .. }))
    }

    /// Publishes the end of a hold to the subscribers at this node. A failure is only logged: it does not change
    /// the result of the release.
    pub(crate) async fn publish_end(&self, key: &LockKey) {
        let channel = text(&lock_channel(key.on_server()));
        let args = vec![channel, Value::from_static_str(END_OF_HOLD)];
        let published =
            self.link.request("SPUBLISH", key.slot().number(), args, self.terms.command_timeout).await;
        if let Err(failure) = published {
            let server = self.terms.name.clone();
            log::line(Level::DEBUG, move || {
                tracing::debug!(%server, ?failure, "the end of a hold could not be published");
            });
        }
    }

    fn publish(&self) -> Value {
        Value::from_static_str(self.publishes())
    }

    // In a cluster a node counts only its own subscribers of the classic kind, and counts a subscriber to both
    // kinds twice.
    fn all_listeners(&self, counted: Option<u32>) -> Option<u32> {
        counted.filter(|_| !(self.terms.in_cluster && self.terms.kinds.classic))
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
}

/// Rounds up, so that the server keeps the lock for at least this long.
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

/// The message that the scripts publish.
const END_OF_HOLD: &str = "0";
/// The number of keys.
const ONE: Value = Value::Integer(1);
