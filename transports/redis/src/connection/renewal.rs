//! Renewals on one connection: many locks in one command, and one answer for each.

use fred::bytes_utils::Str;
use leasehold::{
    clock::Instant,
    transport::{Call, ErrorKind, Outcome, ServerTime, TransportError},
};

use super::{
    batching::Batches,
    call_error::CallError,
    deadline::Limit,
    node_connection::Connection,
    offset::Sample,
    renewal_scripts::{Part, RenewalScript},
    script_call::Asking,
};
use crate::wire::reply::{Found, Renewed};

impl Connection {
    /// Renews all members with one command, and sets the answer of each. A member that must be sent to another node
    /// keeps the answer `None`.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] if the whole command was redirected.
    pub(crate) async fn renew(&self, form: Batches, members: &mut [Call]) -> Result<(), CallError> {
        self.renew_by(RenewalScript::of(form, members), members, Asking::Plain).await
    }

    /// Renews members of one slot with a command that declares the keys. During a migration a node answers such a
    /// command as long as it has the keys.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] if the whole command was redirected.
    pub(crate) async fn renew_slot(
        &self,
        part: Part,
        members: &mut [Call],
        asking: Asking,
    ) -> Result<(), CallError> {
        self.renew_by(RenewalScript::declared(part, members), members, asking).await
    }

    async fn renew_by(
        &self,
        renewal: RenewalScript,
        members: &mut [Call],
        asking: Asking,
    ) -> Result<(), CallError> {
        // The command has one latest execution time, the earliest of its members. For the others it can only be too
        // early.
        let Some(execute_by) = members.iter().map(|member| member.execute_by).min() else { return Ok(()) };
        match self.ask_to_renew(renewal, members, execute_by, asking).await {
            Ok((renewed, limit)) => self.answer_each(members, renewed, limit),
            Err(CallError::Failed(error)) => answer_all(members, &Outcome::Failed(error)),
            Err(elsewhere) => return Err(elsewhere),
        }
        Ok(())
    }

    async fn ask_to_renew(
        &self,
        renewal: RenewalScript,
        members: &[Call],
        execute_by: Instant,
        asking: Asking,
    ) -> Result<(Renewed, Limit), CallError> {
        let _permit = self.permit(execute_by).await?;
        let limit = self.limit(execute_by)?;
        let args = |head: &Str| (renewal.arguments)(head, members, limit);
        let (frame, sent) = self.evaluate((renewal.script, asking), args, limit).await?;
        let received = self.now();
        let renewed = Renewed::read(&frame, members.len()).ok_or_else(|| self.misread(limit))?;
        let sample = Sample { sent, received, server_micros: renewed.now() };
        self.observe(sample, matches!(renewed, Renewed::TooLate { .. }));
        Ok((renewed, limit))
    }

    fn answer_each(&self, members: &mut [Call], renewed: Renewed, limit: Limit) {
        match renewed {
            Renewed::TooLate { now } => answer_all(members, &Outcome::TooLate { at: self.at(now) }),
            Renewed::Each { found, now } => {
                let at = self.at(now);
                for (member, found) in members.iter_mut().zip(found) {
                    member.outcome = self.answer(found, at, limit);
                }
            }
        }
    }

    fn answer(&self, found: Found, at: ServerTime, limit: Limit) -> Outcome {
        match found {
            Found::Left(found) => Outcome::Renewed { found, at },
            // Another client has removed the expiry (`PERSIST`). The lock had no expiry, and has one again now.
            Found::NoExpiry => Outcome::Renewed { found: std::time::Duration::MAX, at },
            Found::NotYours => Outcome::NotYours { at },
            Found::Refused(text) if text.contains(NOT_HERE) => Outcome::Pending,
            Found::Refused(text) => Outcome::Failed(self.explain_refusal(&text, limit)),
        }
    }
}

pub(crate) fn answer_all(members: &mut [Call], answer: &Outcome) {
    for member in members {
        member.outcome = answer.clone();
    }
}

/// Whether a batch was refused only for now, because some of its keys have moved to another node and others have
/// not.
pub(crate) fn is_passing(error: &TransportError) -> bool {
    error.kind == ErrorKind::NotReady && error.detail.contains("TRYAGAIN")
}

/// Whether the refusal may apply only to batches: because of their slots, or with an error text that proves
/// nothing.
pub(crate) fn is_about_the_batch(error: &TransportError) -> bool {
    error.kind == ErrorKind::Protocol || error.detail.contains("CROSSSLOT")
}

/// The script error for a key whose slot is at another node, or is being moved.
/// What a script across slots says of a key that the node does not serve.
pub(super) const NOT_HERE: &str = "non local key";
