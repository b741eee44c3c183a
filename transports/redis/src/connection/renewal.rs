//! Renewals on one connection: many locks in one command, and one answer for each.

use fred::{bytes::Bytes, bytes_utils::Str, types::Value};
use leasehold::{
    clock::Instant,
    transport::{Call, ErrorKind, Outcome, TransportError},
};

use super::{
    batching::Batches,
    call_error::CallError,
    deadline::Limit,
    node_connection::Connection,
    offset::Sample,
    requests::{micros, millis, text},
    script_call::Asking,
};
use crate::wire::{
    msgpack::Pack,
    reply::{Found, Renewed},
    scripts::Script,
};

impl Connection {
    /// Renews all members with one command, and sets the answer of each. A member that must be sent to another node
    /// keeps the answer `None`.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] if the whole command was redirected.
    pub(crate) async fn renew(&self, form: Batches, members: &mut [Call]) -> Result<(), CallError> {
        self.renew_by(script_of(form), members, Asking::Plain).await
    }

    /// Renews members of one slot with a command that declares the keys. During a migration a node answers such a
    /// command as long as it has the keys.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] if the whole command was redirected.
    pub(crate) async fn renew_slot(&self, members: &mut [Call], asking: Asking) -> Result<(), CallError> {
        self.renew_by(DECLARED, members, asking).await
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
        (script, arguments): RenewalScript,
        members: &[Call],
        execute_by: Instant,
        asking: Asking,
    ) -> Result<(Renewed, Limit), CallError> {
        let _permit = self.permit(execute_by).await?;
        let limit = self.limit(execute_by)?;
        let slot = members[0].key.slot().number();
        let args = |head: &Str| arguments(head, members, limit);
        let (frame, sent) = self.evaluate((script, asking), slot, args, limit).await?;
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
                for (member, found) in members.iter_mut().zip(found) {
                    member.outcome = self.answer(found, now, limit);
                }
            }
        }
    }

    fn answer(&self, found: Found, now: u64, limit: Limit) -> Outcome {
        let at = self.at(now);
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

// Undeclared keys may be in many slots. But as soon as a slot begins to move, all its undeclared keys are refused,
// also those that have not moved yet.
fn script_of(form: Batches) -> RenewalScript {
    match form {
        Batches::AcrossSlots => UNDECLARED,
        Batches::Declared | Batches::BySlot | Batches::OneByOne => DECLARED,
    }
}

/// A script, and the function that builds its arguments.
type RenewalScript = (Script, fn(&Str, &[Call], Limit) -> Vec<Value>);

const DECLARED: RenewalScript = (Script::Renew, declared);
const UNDECLARED: RenewalScript = (Script::RenewAcrossSlots, undeclared);

fn declared(head: &Str, members: &[Call], limit: Limit) -> Vec<Value> {
    let mut args = Vec::with_capacity(members.len() + FEW);
    args.push(Value::String(head.clone()));
    args.push(Value::Integer(i64::try_from(members.len()).unwrap_or(i64::MAX)));
    args.extend(keys(members));
    args.push(micros(limit.not_after.micros));
    push_runs(&mut args, members, |run| {
        let mut pack = Pack::of(run.len(), NUMBER_BYTES);
        let mut digits = itoa::Buffer::new();
        run.iter().for_each(|member| pack.push(digits.format(member.owner.number())));
        pack
    });
    args
}

fn undeclared(head: &Str, members: &[Call], limit: Limit) -> Vec<Value> {
    let mut args = Vec::with_capacity(FEW);
    args.extend([Value::String(head.clone()), Value::Integer(0), micros(limit.not_after.micros)]);
    push_runs(&mut args, members, |run| {
        let mut pack = Pack::of(2 * run.len(), names_bytes(run) / run.len() + NUMBER_BYTES);
        let mut digits = itoa::Buffer::new();
        for member in run {
            pack.push(member.key.on_server());
            pack.push(digits.format(member.owner.number()));
        }
        pack
    });
    args
}

/// All keys are parts of one buffer. fred counts references to each key, which would cost one allocation per key in
/// separate buffers.
fn keys(members: &[Call]) -> impl Iterator<Item = Value> {
    let mut names = Vec::with_capacity(names_bytes(members));
    members.iter().for_each(|member| names.extend_from_slice(member.key.on_server().as_bytes()));
    let mut rest = Bytes::from(names);
    members.iter().map(move |member| Value::Bytes(rest.split_to(member.key.on_server().len())))
}

/// Groups members with the same ttl and client into runs. Usually all leases of a batch have both in common, so a
/// batch is usually one run.
fn push_runs(args: &mut Vec<Value>, members: &[Call], packed: impl Fn(&[Call]) -> Pack) {
    let alike = |one: &Call, other: &Call| one.op == other.op && one.owner.client() == other.owner.client();
    for run in members.chunk_by(alike) {
        args.push(millis(run[0].op.ttl().unwrap_or_default()));
        args.push(text(&run[0].owner.client_spelling()));
        args.push(Value::Bytes(packed(run).into_bytes().into()));
    }
}

fn names_bytes(members: &[Call]) -> usize {
    members.iter().map(|member| member.key.on_server().len()).sum()
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
const NOT_HERE: &str = "non local key";
/// Capacity for the arguments that are not keys: those of two runs.
const FEW: usize = 9;
/// Most owner numbers have fewer digits.
const NUMBER_BYTES: usize = 8;
