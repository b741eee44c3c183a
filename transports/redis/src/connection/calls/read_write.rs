//! Acquiring, downgrading and releasing a lock with many readers or one writer.

use std::time::Duration;

use leasehold::transport::{Call, Outcome};

use super::{arguments, terms_of};
use crate::{
    connection::{call_error::CallError, node_connection::Connection, requests::text, script_call::Asking},
    wire::{
        arg::Arg,
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
        let keys = both_keys(call);
        self.acquire_by((Script::ReadAcquire, Acquired::read), call, (&keys, &[]), ttl, asking).await
    }

    pub(super) async fn acquire_write(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let keys = [text(call.key.on_server())];
        self.acquire_by((Script::WriteAcquire, Acquired::read), call, (&keys, &[]), ttl, asking).await
    }

    pub(super) async fn downgrade(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let ([ttl, owner, latest], keys) = (terms_of(call, ttl, limit), both_keys(call));
        let values = [ttl, owner, latest, text(&channel_of(&call.key)), self.publish()];
        let args = arguments(&keys, &values);
        let script = (Script::Downgrade, asking);
        let answer = self.run(script, args, limit, Downgraded::read, Downgraded::now).await?;
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
        let looks = Arg::Number(i64::from(asking == Asking::Plain));
        let values = [text(&call.owner.to_string()), text(&channel_of(&call.key)), self.publish(), looks];
        let keys = both_keys(call);
        let keys = if with_timeout_key { &keys[..] } else { &keys[..1] };
        self.release_by(Script::ReadRelease, call, (keys, &values), asking).await
    }

    pub(super) async fn release_write(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let values = [text(&call.owner.to_string()), text(&channel_of(&call.key)), self.publish()];
        self.release_by(Script::WriteRelease, call, (&[text(call.key.on_server())], &values), asking).await
    }
}

/// The lock, and the timeout key of the owner's read hold.
fn both_keys(call: &Call) -> [Arg; 2] {
    [text(call.key.on_server()), text(&read_timeout(&call.key, call.owner))]
}
