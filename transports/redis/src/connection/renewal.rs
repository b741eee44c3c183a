//! One renewal batch: its command, and the answers that go back to its members.

use fred::{bytes_utils::Str, types::Value};
use leasehold::{
    clock::Instant,
    transport::{Renewal, RenewalAnswer, TransportError},
};

use super::{
    offset::Sample,
    requests::{Connection, Limit, micros, millis, text},
};
use crate::{
    wire::reply::{Found, Renewed},
    wire::scripts,
};

impl Connection {
    /// Asks for all members in one command and gives each its answer.
    pub(crate) async fn renew(&self, mut batch: Vec<Renewal>) -> Vec<Renewal> {
        // One latest time for all: the earliest, which can only be too early for the others.
        let Some(execute_by) = batch.iter().map(|member| member.execute_by).min() else { return batch };
        match self.ask_to_renew(&batch, execute_by).await {
            Ok((renewed, limit)) => self.answer_each(&mut batch, renewed, limit),
            Err(error) => answer_all(&mut batch, &RenewalAnswer::Failed(error)),
        }
        batch
    }

    async fn ask_to_renew(
        &self,
        batch: &[Renewal],
        execute_by: Instant,
    ) -> Result<(Renewed, Limit), TransportError> {
        let _permit = self.permit(execute_by).await?;
        let limit = self.limit(execute_by)?;
        let slot = batch[0].key.slot().number();
        let (frame, sent) =
            self.evaluate(&scripts::RENEW, slot, |head| arguments(head, batch, limit), limit).await?;
        let received = self.now();
        let renewed = Renewed::read(&frame, batch.len()).ok_or_else(|| self.misread(limit))?;
        let sample = Sample { sent, received, server_micros: renewed.now() };
        self.observe(sample, matches!(renewed, Renewed::TooLate { .. }));
        Ok((renewed, limit))
    }

    fn answer_each(&self, batch: &mut [Renewal], renewed: Renewed, limit: Limit) {
        match renewed {
            Renewed::TooLate { now } => answer_all(batch, &RenewalAnswer::TooLate { at: self.at(now) }),
            Renewed::Each { found, now } => {
                for (member, found) in batch.iter_mut().zip(found) {
                    member.answer = self.answer(found, now, limit);
                }
            }
        }
    }

    fn answer(&self, found: Found, now: u64, limit: Limit) -> RenewalAnswer {
        let at = self.at(now);
        match found {
            Found::Left(found) => RenewalAnswer::Renewed { found, at },
            // Somebody took its expiry away (PERSIST): it was left "for ever", and is not any more.
            Found::NoExpiry => RenewalAnswer::Renewed { found: std::time::Duration::MAX, at },
            Found::NotYours => RenewalAnswer::NotYours { at },
            Found::Refused(text) => RenewalAnswer::Failed(self.explain_refusal(&text, limit)),
        }
    }
}

fn arguments(head: &Str, batch: &[Renewal], limit: Limit) -> Vec<Value> {
    let mut args = Vec::with_capacity(3 + 3 * batch.len());
    args.push(Value::String(head.clone()));
    args.push(Value::Integer(i64::try_from(batch.len()).unwrap_or(i64::MAX)));
    args.extend(batch.iter().map(|member| text(member.key.on_server())));
    args.push(micros(limit.not_after.micros));
    for member in batch {
        args.push(millis(member.ttl));
        args.push(Value::String(member.owner.to_string().into()));
    }
    args
}

pub(crate) fn answer_all(batch: &mut [Renewal], answer: &RenewalAnswer) {
    for member in batch {
        member.answer = answer.clone();
    }
}
