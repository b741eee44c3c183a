//! The scripts that renew many holds with one command, and their arguments.

use fred::{bytes::Bytes, bytes_utils::Str};
use leasehold::transport::{Call, HoldKind};

use super::{
    batching::Batches,
    calls::{permit_ids, permits_of},
    deadline::Limit,
    requests::{ONE, micros, millis, text},
};
use crate::wire::{
    arg::Arg,
    msgpack::Pack,
    names::{permit_deadlines, read_timeout},
    reply::WRITER,
    scripts::Script,
};

/// A script, and the function that builds its arguments. All members of a batch are read holds, all are holds of permits, or
/// none is either.
#[derive(Clone, Copy)]
pub(super) struct RenewalScript {
    pub(super) script: Script,
    pub(super) arguments: fn(&Str, &[Call], Limit) -> Vec<Arg>,
}

/// What of a hold is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All that the hold consists of.
    Whole,
    /// Of a read hold: its field, with the expiry of the lock.
    Field,
    /// Of a read hold: its timeout key.
    TimeoutKey,
}

/// Whether it is a read hold. It has two keys, the lock and its timeout key.
pub(crate) fn is_read(call: &Call) -> bool {
    matches!(call.kind, HoldKind::Read)
}

impl RenewalScript {
    /// Returns the script for a batch in this form.
    // Undeclared keys may be in many slots. But as soon as a slot begins to move, all its undeclared keys are refused,
    // also those that have not moved yet.
    pub(super) fn of(form: Batches, members: &[Call]) -> Self {
        match form {
            Batches::AcrossSlots if are_read(members) => {
                Self { script: Script::ReadRenewAcrossSlots, arguments: undeclared }
            }
            Batches::AcrossSlots if have_permits(members) => {
                Self { script: Script::PermitRenewAcrossSlots, arguments: undeclared_permits }
            }
            Batches::AcrossSlots => Self { script: Script::RenewAcrossSlots, arguments: undeclared },
            Batches::Declared | Batches::BySlot | Batches::OneByOne => Self::declared(Part::Whole, members),
        }
    }

    /// Returns the script that declares all its keys.
    pub(super) fn declared(part: Part, members: &[Call]) -> Self {
        match part {
            Part::Whole if are_read(members) => {
                Self { script: Script::ReadRenew, arguments: with_timeout_keys }
            }
            Part::Whole if have_permits(members) => {
                Self { script: Script::PermitRenew, arguments: declared_permits }
            }
            Part::Whole | Part::Field => Self { script: Script::Renew, arguments: declared },
            Part::TimeoutKey => Self { script: Script::ReadRenewTimeout, arguments: timeout_key },
        }
    }
}

fn are_read(members: &[Call]) -> bool {
    members.first().is_some_and(is_read)
}

fn have_permits(members: &[Call]) -> bool {
    members.first().is_some_and(|member| permits_of(member).is_some())
}

fn declared_permits(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let count = Arg::Number(i64::try_from(members.len()).unwrap_or(i64::MAX));
    let keys = members.iter().map(|member| text(&permit_deadlines(&member.key)));
    let values = members.iter().flat_map(|member| [ttl_of(member), permit_ids(member)]);
    let latest = micros(limit.not_after.micros);
    [Arg::Text(head.clone()), count].into_iter().chain(keys).chain([latest]).chain(values).collect()
}

fn undeclared_permits(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let values = members
        .iter()
        .flat_map(|member| [text(&permit_deadlines(&member.key)), ttl_of(member), permit_ids(member)]);
    let head = [Arg::Text(head.clone()), Arg::Number(0), micros(limit.not_after.micros)];
    head.into_iter().chain(values).collect()
}

fn ttl_of(member: &Call) -> Arg {
    millis(member.op.ttl().unwrap_or_default())
}

pub(super) fn declared(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let mut args = Vec::with_capacity(members.len() + FEW);
    args.push(Arg::Text(head.clone()));
    args.push(Arg::Number(i64::try_from(members.len()).unwrap_or(i64::MAX)));
    args.extend(keys(members));
    args.push(micros(limit.not_after.micros));
    push_runs(&mut args, members, numbers);
    args
}

fn with_timeout_keys(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let mut args = Vec::with_capacity(2 * members.len() + FEW);
    args.push(Arg::Text(head.clone()));
    args.push(Arg::Number(i64::try_from(2 * members.len()).unwrap_or(i64::MAX)));
    for (name, member) in keys(members).zip(members) {
        args.extend([name, text(&read_timeout(&member.key, member.owner))]);
    }
    args.push(micros(limit.not_after.micros));
    push_runs(&mut args, members, numbers);
    args
}

pub(super) fn undeclared(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let mut args = Vec::with_capacity(FEW);
    args.extend([Arg::Text(head.clone()), Arg::Number(0), micros(limit.not_after.micros)]);
    push_runs(&mut args, members, |run| {
        let mut pack = Pack::of(2 * run.len(), names_bytes(run) / run.len() + NUMBER_BYTES);
        for member in run {
            pack.push(member.key.on_server());
            push_number(&mut pack, member);
        }
        pack
    });
    args
}

// For one member alone.
fn timeout_key(head: &Str, members: &[Call], limit: Limit) -> Vec<Arg> {
    let member = &members[0];
    vec![
        Arg::Text(head.clone()),
        ONE,
        text(&read_timeout(&member.key, member.owner)),
        micros(limit.not_after.micros),
        millis(member.op.ttl().unwrap_or_default()),
    ]
}

/// All keys are parts of one buffer. fred counts references to each key, which would cost one allocation per key in
/// separate buffers.
#[inline]
pub(super) fn keys(members: &[Call]) -> impl Iterator<Item = Arg> {
    let mut names = Vec::with_capacity(names_bytes(members));
    members.iter().for_each(|member| names.extend_from_slice(member.key.on_server().as_bytes()));
    let mut rest = Bytes::from(names);
    members.iter().map(move |member| Arg::Bytes(rest.split_to(member.key.on_server().len())))
}

/// Groups members with the same ttl and client into runs. Usually all leases of a batch have both in common, so a
/// batch is usually one run.
fn push_runs(args: &mut Vec<Arg>, members: &[Call], packed: impl Fn(&[Call]) -> Pack) {
    let alike = |one: &Call, other: &Call| {
        one.op.ttl() == other.op.ttl() && one.owner.client() == other.owner.client()
    };
    for run in members.chunk_by(alike) {
        args.push(millis(run[0].op.ttl().unwrap_or_default()));
        args.push(text(&run[0].owner.client_spelling()));
        args.push(Arg::Bytes(packed(run).into_bytes().into()));
    }
}

/// The numbers of the owners.
pub(super) fn numbers(run: &[Call]) -> Pack {
    let mut pack = Pack::of(run.len(), NUMBER_BYTES);
    run.iter().for_each(|member| push_number(&mut pack, member));
    pack
}

/// What follows the client in the name of the hold's field.
#[inline]
pub(super) fn push_number(pack: &mut Pack, member: &Call) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(member.owner.number());
    if matches!(member.kind, HoldKind::Write) {
        pack.push(&[digits, WRITER].concat());
    } else {
        pack.push(digits);
    }
}

#[inline]
pub(super) fn names_bytes(members: &[Call]) -> usize {
    members.iter().map(|member| member.key.on_server().len()).sum()
}

/// Capacity for the arguments that are not keys: those of two runs.
pub(super) const FEW: usize = 9;
/// Most owner numbers have fewer digits.
pub(super) const NUMBER_BYTES: usize = 8;
