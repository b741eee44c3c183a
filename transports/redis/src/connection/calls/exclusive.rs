//! Acquiring and releasing a lock with one holder: exclusive, spin, fenced.

use std::time::Duration;

use leasehold::{
    FencingMode,
    transport::{Call, HoldKind, Outcome},
};

use crate::{
    connection::{call_error::CallError, node_connection::Connection, requests::text, script_call::Asking},
    wire::{
        arg::Arg,
        names::{lock_channel, token_counter},
        reply::Acquired,
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
        let keys = [text(call.key.on_server())];
        self.acquire_by((Script::Acquire, Acquired::read), call, (&keys, &[]), ttl, asking).await
    }

    pub(super) async fn acquire_fenced(
        &self,
        call: &Call,
        mode: FencingMode,
        ttl: Duration,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let name = call.key.on_server();
        let keys = [text(name), text(&token_counter(name))];
        let more = [Arg::word(mode.as_str()), Arg::Number(call.reserved_tokens.into())];
        let script = (Script::FencedAcquire, Acquired::read_fenced as fn(&_) -> _);
        self.acquire_by(script, call, (&keys, &more), ttl, asking).await
    }

    /// Releases a lock with one holder. A fair lock's line is not touched, and none of its waiters is told.
    pub(crate) async fn release(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let name = call.key.on_server();
        let publish = Arg::word(self.publishes_for(call));
        let values = [text(&call.owner.to_string()), text(&lock_channel(name)), publish];
        self.release_by(Script::Release, call, (&[text(name)], &values), asking).await
    }

    /// How the release of this hold tells its end.
    pub(in crate::connection) fn publishes_for(&self, call: &Call) -> &'static str {
        let is_told = call.kind.notifies() && call.kind != HoldKind::Fair;
        if is_told { self.publishes() } else { NOT_PUBLISHED }
    }
}

/// The word for a release that tells nobody.
const NOT_PUBLISHED: &str = "none";
