//! The line of a fair lock: queueing, beats for many places, releasing.

use std::time::Duration;

use leasehold::{
    fencing::FencingToken,
    key::LockKey,
    transport::{Call, Op, Outcome, PlaceTerms},
};

use super::{arguments, terms_of};
use crate::{
    connection::{
        call_error::CallError,
        deadline::Limit,
        node_connection::Connection,
        renewal_scripts::numbers,
        requests::{micros, millis, text},
        script_call::Asking,
    },
    wire::{
        arg::Arg,
        fair_reply::{Beaten, Place, Queued},
        names::{fair_deadlines, fair_line, fair_places, lock_channel},
        reply::Freed,
        scripts::Script,
    },
};

impl Connection {
    /// Takes the lock, or keeps a place if the call has terms for one.
    pub(super) async fn queue(
        &self,
        call: &Call,
        ttl: Duration,
        place: Option<PlaceTerms>,
        asking: Asking,
    ) -> Result<Outcome, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let [ttl, owner, latest] = terms_of(call, ttl, limit);
        let (wait, beat) =
            place.map_or((self.terms.fair_wait, NO_PLACE), |place| (place.wait(), millis(place.beat())));
        let values = [ttl, owner, latest, millis(wait), beat, channel(&call.key), self.publish()];
        let keys = keys(&call.key);
        let args = arguments(&keys, &values);
        let script = (Script::FairQueue, asking);
        let answer = self.run(script, args, limit, Queued::read, Queued::now).await?;
        self.observe(answer.sample, matches!(answer.value, Queued::TooLate { .. }));
        Ok(self.queued(answer.value))
    }

    fn queued(&self, value: Queued) -> Outcome {
        match value {
            Queued::Granted { now } => {
                Outcome::Granted { token: FencingToken::at_server_micros(now), at: self.at(now) }
            }
            Queued::Busy { remaining, now } => Outcome::Busy { remaining, at: self.at(now) },
            Queued::Waits { remaining, ahead, now } => Outcome::Queued { remaining, ahead, at: self.at(now) },
            Queued::TooLate { now } => Outcome::TooLate { at: self.at(now) },
        }
    }

    /// Says of many places in one line that their owners still wait. They have the key, the client and the terms in
    /// common. Returns the answer to each.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] for a redirect.
    pub(crate) async fn beat(&self, members: &[Call], asking: Asking) -> Result<Vec<Outcome>, CallError> {
        // As for renewals: for the others the earliest time can only be too early.
        let execute_by = members.iter().map(|member| member.execute_by).min();
        let (Some(execute_by), Some(Call { key, op: Op::Beat { place }, .. })) =
            (execute_by, members.first())
        else {
            return Ok(members.iter().map(|member| member.unsupported("redis")).collect());
        };
        let _permit = self.permit(execute_by).await?;
        let limit = self.limit(execute_by)?;
        let (keys, values) = (keys(key), self.beat_values(members, *place, limit));
        let args = arguments(&keys, &values);
        let read = |frame: &_| Beaten::read(frame, members.len());
        let answer = self.run((Script::FairBeat, asking), args, limit, read, Beaten::now).await?;
        self.observe(answer.sample, matches!(answer.value, Beaten::TooLate { .. }));
        Ok(self.beaten(answer.value, members.len()))
    }

    fn beat_values(&self, members: &[Call], place: PlaceTerms, limit: Limit) -> [Arg; 7] {
        let first = &members[0];
        [
            micros(limit.not_after.micros),
            millis(place.wait()),
            millis(place.beat()),
            channel(&first.key),
            self.publish(),
            text(&first.owner.client_spelling()),
            Arg::Bytes(numbers(members).into_bytes().into()),
        ]
    }

    fn beaten(&self, value: Beaten, count: usize) -> Vec<Outcome> {
        match value {
            Beaten::TooLate { now } => vec![Outcome::TooLate { at: self.at(now) }; count],
            Beaten::Each { places, remaining, now } => {
                let at = self.at(now);
                let outcome = |place| match place {
                    Place::Behind(ahead) => Outcome::Queued { remaining, ahead, at },
                    Place::Turn => Outcome::Turn { at },
                    Place::Gone => Outcome::NotYours { at },
                };
                places.into_iter().map(outcome).collect()
            }
        }
    }

    pub(super) async fn leave(&self, call: &Call, asking: Asking) -> Result<Outcome, CallError> {
        let values =
            [text(&call.owner.to_string()), millis(self.terms.fair_wait), channel(&call.key), self.publish()];
        self.release_by(Script::FairRelease, call, (&keys(&call.key), &values), asking).await
    }

    pub(crate) async fn force_release_fair(&self, key: &LockKey, asking: Asking) -> Result<bool, CallError> {
        let until = self.timeout();
        let _permit = self.permit(until).await?;
        let limit = self.sent_now(until)?;
        let values = [millis(self.terms.fair_wait), channel(key), self.publish()];
        let keys = keys(key);
        let args = arguments(&keys, &values);
        let script = (Script::FairForceRelease, asking);
        let answer = self.run(script, args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(matches!(answer.value, Freed::Yes { .. }))
    }
}

/// The lock, its line, the deadlines there, and our places there.
fn keys(key: &LockKey) -> [Arg; 4] {
    let name = key.on_server();
    [text(name), text(&fair_line(name)), text(&fair_deadlines(name)), text(&fair_places(name))]
}

/// The channel of the lock. The scripts add the owner that they tell.
fn channel(key: &LockKey) -> Arg {
    text(&lock_channel(key.on_server()))
}

/// The word for a call that keeps no place.
const NO_PLACE: Arg = Arg::Number(0);
