//! Acquiring, downgrading and releasing a lock with many readers or one writer.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Value};
use leasehold::transport::{Call, Outcome};

use super::arguments;
use crate::{
    connection::{
        call_error::CallError,
        deadline::Limit,
        node_connection::Connection,
        requests::{micros, millis, text},
        script_call::Asking,
    },
    wire::{
        names::{channel_of, read_timeout},
        reply::{Acquired, Downgraded, Freed},
        scripts::Script,
    },
};

impl Connection {
    pub(super) async fn acquire_read(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let args = arguments(both_keys(call), terms_of(call, ttl, limit));
        self.acquire_by((Script::ReadAcquire, asking), call, args, limit).await
    }

    pub(super) async fn acquire_write(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let args = arguments([text(call.key.on_server())], terms_of(call, ttl, limit));
        self.acquire_by((Script::WriteAcquire, asking), call, args, limit).await
    }

    async fn acquire_by(
        &self,
        script: (Script, Asking),
        call: &Call,
        args: impl Fn(&Str) -> Vec<Value>,
        limit: Limit,
    ) -> Result<Outcome, CallError> {
        let slot = call.key.slot().number();
        let answer = self.run(script, slot, args, limit, Acquired::read, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    pub(super) async fn downgrade(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let [ttl, owner, latest] = terms_of(call, ttl, limit);
        let args =
            arguments(both_keys(call), [ttl, owner, latest, text(&channel_of(&call.key)), self.publish()]);
        let (script, slot) = ((Script::Downgrade, asking), call.key.slot().number());
        let answer = self.run(script, slot, args, limit, Downgraded::read, Downgraded::now).await?;
        self.observe(answer.sample, matches!(answer.value, Downgraded::TooLate { .. }));
        Ok(self.downgraded(answer.value))
    }

    fn downgraded(&self, value: Downgraded) -> Outcome {
        match value {
            Downgraded::Answered(Freed::Yes { listeners, now }) => {
                Outcome::Downgraded { listeners: self.all_listeners(listeners), at: self.at(now) }
            }
            Downgraded::Answered(Freed::No { now }) => Outcome::NotYours { at: self.at(now) },
            Downgraded::TooLate { now } => Outcome::TooLate { at: self.at(now) },
        }
    }

    /// Releases a read hold. Without its timeout key, that key stays until it expires. While a slot is being moved, a
    /// command with both keys may be refused at both nodes.
    pub(crate) async fn release_read(
        &self,
        call: &Call,
        with_timeout_key: bool,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        // Behind an `ASKING`, a key that has not moved yet looks like a key that has expired.
        let looks = Value::Integer(i64::from(asking == Asking::Plain));
        let values = [text(&call.owner.to_string()), text(&channel_of(&call.key)), self.publish(), looks];
        let script = (Script::ReadRelease, asking);
        if with_timeout_key {
            self.release_by(script, call, arguments(both_keys(call), values)).await
        } else {
            self.release_by(script, call, arguments([text(call.key.on_server())], values)).await
        }
    }

    pub(super) async fn release_write(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let values = [text(&call.owner.to_string()), text(&channel_of(&call.key)), self.publish()];
        let args = arguments([text(call.key.on_server())], values);
        self.release_by((Script::WriteRelease, asking), call, args).await
    }

    async fn release_by(
        &self,
        script: (Script, Asking),
        call: &Call,
        args: impl Fn(&Str) -> Vec<Value>,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.sent_now(call.execute_by)?;
        let slot = call.key.slot().number();
        let answer = self.run(script, slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(self.released(answer.value))
    }
}

/// The lock, and the timeout key of the owner's read hold.
fn both_keys(call: &Call) -> [Value; 2] {
    [text(call.key.on_server()), text(&read_timeout(&call.key, call.owner))]
}

fn terms_of(call: &Call, ttl: Duration, limit: Limit) -> [Value; 3] {
    [millis(ttl), text(&call.owner.to_string()), micros(limit.not_after.micros)]
}
