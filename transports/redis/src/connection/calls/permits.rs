//! Acquiring and releasing permits that expire.

use std::{num::NonZeroU16, time::Duration};

use leasehold::transport::{Call, HoldKind, Outcome};

use super::arguments;
use crate::{
    connection::{
        call_error::CallError,
        node_connection::Connection,
        requests::{micros, millis, text},
        script_call::Asking,
    },
    wire::{
        arg::Arg,
        names::{channel_of, permit_deadlines},
        reply::Acquired,
        scripts::Script,
    },
};

impl Connection {
    pub(super) async fn acquire_permits(
        &self,
        call: &Call,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let (latest, channel) = (micros(limit.not_after.micros), text(&channel_of(&call.key)));
        let values = [millis(ttl), permit_ids(call), latest, channel, self.publish()];
        let keys = both_keys(call);
        let args = arguments(&keys, &values);
        let script = (Script::PermitAcquire, asking);
        let answer = self.run(script, args, limit, Acquired::read_permits, Acquired::now).await?;
        self.observe(answer.sample, matches!(answer.value, Acquired::TooLate { .. }));
        Ok(self.acquired(answer.value))
    }

    pub(super) async fn release_permits(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let values = [permit_ids(call), text(&channel_of(&call.key)), self.publish()];
        self.release_by(Script::PermitRelease, call, (&both_keys(call), &values), asking).await
    }
}

/// The available permits, and the deadlines of those that are held.
fn both_keys(call: &Call) -> [Arg; 2] {
    [text(call.key.on_server()), text(&permit_deadlines(&call.key))]
}

/// The number of permits of a hold that has any.
pub(crate) fn permits_of(call: &Call) -> Option<NonZeroU16> {
    match call.kind {
        HoldKind::Permits(permits) => Some(permits),
        _ => None,
    }
}

/// The ids of the owner's permits, one behind the other.
pub(crate) fn permit_ids(call: &Call) -> Arg {
    let permits = permits_of(call).map_or(0, NonZeroU16::get);
    let mut ids = Vec::with_capacity(16 * usize::from(permits));
    (0..permits).for_each(|index| ids.extend_from_slice(call.owner.permit_id(index).as_bytes()));
    Arg::Bytes(ids.into())
}
