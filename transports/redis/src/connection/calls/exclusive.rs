//! Acquiring and releasing a lock with one holder.

use std::time::Duration;

use leasehold::transport::{Call, Outcome};

use super::arguments;
use crate::{
    connection::{
        call_error::CallError,
        node_connection::Connection,
        requests::{micros, millis, text},
        script_call::Asking,
    },
    wire::{
        names::lock_channel,
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

    pub(super) async fn release(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.sent_now(call.execute_by)?;
        let name = call.key.on_server();
        let args = arguments(
            [text(name)],
            [text(&call.owner.to_string()), text(&lock_channel(name)), self.publish()],
        );
        let slot = call.key.slot().number();
        let answer = self.run((Script::Release, asking), slot, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(self.released(answer.value))
    }
}
