//! Acquiring and releasing a lock with one holder: exclusive, spin, fenced.

use std::time::Duration;

use fred::types::Value;
use leasehold::{
    FencingMode,
    transport::{Call, Outcome},
};

use super::arguments;
use crate::{
    connection::{
        call_error::CallError,
        node_connection::Connection,
        requests::{micros, millis, text},
        script_call::Asking,
    },
    wire::{
        names::{lock_channel, token_counter},
        reply::{Acquired, Freed},
        scripts::Script,
    },
};

impl Connection {
    pub(super) async fn acquire(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let args = arguments(
            [text(call.key.on_server())],
            [millis(ttl), text(&call.owner.to_string()), micros(limit.not_after.micros)],
        );
        let slot = call.key.slot().number();
        let answer =
            self.run((Script::Acquire, asking), slot, args, limit, Acquired::read, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    pub(super) async fn acquire_fenced(
        &self,
        call: &Call,
        mode: FencingMode,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let (key, slot) = (call.key.on_server(), call.key.slot().number());
        let (owner, latest) = (text(&call.owner.to_string()), micros(limit.not_after.micros));
        let mode = Value::from_static_str(mode.as_str());
        let args = arguments([text(key), text(&token_counter(key))], [millis(ttl), owner, latest, mode]);
        let script = (Script::FencedAcquire, asking);
        let answer = self.run(script, slot, args, limit, Acquired::read_fenced, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    pub(super) async fn release(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.sent_now(call.execute_by)?;
        let name = call.key.on_server();
        let publish =
            if call.kind.notifies() { self.publish() } else { Value::from_static_str(NOT_PUBLISHED) };
        let args =
            arguments([text(name)], [text(&call.owner.to_string()), text(&lock_channel(name)), publish]);
        let slot = call.key.slot().number();
        let answer = self.run((Script::Release, asking), slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(self.released(answer.value))
    }
}

/// The word for a release that tells nobody.
const NOT_PUBLISHED: &str = "none";
