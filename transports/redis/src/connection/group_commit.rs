//! Acquires and releases of many exclusive locks with one command, and one outcome for each.

use std::sync::{Arc, atomic::Ordering};

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use futures_util::future::join_all;
use leasehold::{
    clock::Instant,
    key::LockKey,
    log,
    transport::{Call, Effect, ErrorKind, Op, Outcome, ServerTime, TransportError},
};
use tracing::Level;

use super::{
    batching::Batches,
    call_error::CallError,
    deadline::Limit,
    direct_call::Permit,
    link::Failure,
    node_connection::Connection,
    offset::Sample,
    one_server::{CHECK_KEYS, Together},
    renewal::{NOT_HERE, answer_all, is_about_the_batch},
    renewal_scripts::{FEW, NUMBER_BYTES, declared, keys, names_bytes, push_number, undeclared},
    requests::{ONE, text},
    script_call::Asking,
};
use crate::wire::{
    arg::Arg,
    many_reply::{Many, Member, ReadMember},
    msgpack::Pack,
    names::lock_channel,
    reply::{self, Acquired, Freed},
    scripts::Script,
};

/// A script for many locks, the function that builds its arguments, and the meaning of its reply.
#[derive(Clone, Copy)]
struct ManyScript {
    script: Script,
    arguments: fn(&Str, &[Call], Limit, Arg) -> Vec<Arg>,
    read: ReadMember,
}

impl ManyScript {
    fn of(op: Op, batches: Batches) -> Self {
        let is_across = batches == Batches::AcrossSlots;
        match (op, is_across) {
            (Op::Release, true) => Self {
                script: Script::ReleaseManyAcrossSlots,
                arguments: undeclared_releases,
                read: Member::of_release,
            },
            (Op::Release, false) => {
                Self { script: Script::ReleaseMany, arguments: declared_releases, read: Member::of_release }
            }
            (_, true) => Self {
                script: Script::AcquireManyAcrossSlots,
                arguments: |head, members, limit, _| undeclared(head, members, limit),
                read: Member::of_acquire,
            },
            (_, false) => Self {
                script: Script::AcquireMany,
                arguments: |head, members, limit, _| declared(head, members, limit),
                read: Member::of_acquire,
            },
        }
    }
}

/// A command for many locks that may be sent now.
pub(crate) struct ReadyGroup {
    script: ManyScript,
    limit: Limit,
    permit: Permit,
}

impl Connection {
    /// Whether this lock may be acquired or released together with others, in one command.
    pub(crate) fn may_go_together(&self, call: &Call) -> Together {
        let acquires_alone = call.op != Op::Release && self.acquires_alone.load(Ordering::Relaxed);
        if acquires_alone || self.refuses_groups.load(Ordering::Relaxed) {
            return Together::Never;
        }
        match self.batches() {
            // A node of a cluster refuses the keys of other nodes. But a proxy that says that it is one may have servers
            // behind it that refuse no key.
            Batches::Declared | Batches::AcrossSlots => {
                self.one_server().may_go_together(call.key.on_server())
            }
            Batches::BySlot | Batches::OneByOne => Together::Never,
        }
    }

    /// Asks, for each of these locks alone, which run of a server answers for it.
    pub(crate) async fn ask_for_runs(&self, keys: impl IntoIterator<Item = &LockKey>, until: Instant) {
        join_all(keys.into_iter().map(|key| self.ask_for_run(key, until))).await;
    }

    /// Returns the keys of these calls, which go together now, that are to be asked for again. Usually there are none.
    pub(crate) fn keys_to_check(&self, calls: &[Call]) -> Vec<Arc<LockKey>> {
        if calls.is_empty() || !self.must_check_group(calls.len()) {
            return Vec::new();
        }
        let step = calls.len().div_ceil(CHECK_KEYS);
        calls.iter().step_by(step).map(|call| call.key.clone()).collect()
    }

    async fn ask_for_run(&self, key: &LockKey, until: Instant) {
        let (name, slot) = (key.on_server(), key.slot().number());
        let (Ok(_permit), Ok(limit)) = (self.permit(until).await, self.sent_now(until)) else { return };
        let args = |head: &Str| vec![Arg::Text(head.clone()), ONE, text(name)];
        let run = match self.evaluate((Script::ServerRun, Asking::Plain), args, limit).await {
            Ok((frame, _)) => reply::text(&frame).map(str::to_owned),
            // A final refusal: this user may not know. Any other error says nothing.
            Err(CallError::Failed(error)) if error.kind.is_final() => None,
            Err(_) => return,
        };
        let is_second = self.one_server().handle_run(name, slot, run.as_deref());
        if is_second {
            self.end_batches();
            self.warn_of_many_servers();
        }
    }

    fn warn_of_many_servers(&self) {
        let server = self.terms.name.clone();
        log::line(Level::WARN, move || {
            tracing::warn!(
                %server,
                "several servers answer behind this address, as behind a proxy that spreads keys; each lock is acquired and \
                 released with a command of its own"
            );
        });
    }

    /// Acquires all members with one command, or releases them, and sets the outcome of each. A member that must be asked
    /// for alone keeps the outcome `Pending`.
    pub(crate) async fn call_together(&self, members: &mut [Call]) {
        answer_all(members, &Outcome::Pending);
        match self.ask_together(members).await {
            Ok((many, limit)) => self.answer_members(members, many, limit),
            Err(error) => self.answer_failed(members, error),
        }
    }

    /// Prepares the same without a future. `None`: it cannot be sent at once; [`call_together`](Self::call_together) knows
    /// what to do.
    pub(crate) fn ready_together(self: &Arc<Self>, members: &[Call]) -> Option<ReadyGroup> {
        let script = ManyScript::of(members.first()?.op, self.batches());
        if !self.sent_scripts.has(script.script) {
            return None;
        }
        let (permit, limit) = (Permit::take(self)?, self.limit_together(members).ok()?);
        Some(ReadyGroup { script, limit, permit })
    }

    /// Sends a command that was prepared for these members. `done` gets them with their outcomes, as
    /// [`call_together`](Self::call_together) sets them, perhaps before this returns.
    pub(crate) fn begin_together(
        &self,
        mut members: Vec<Call>,
        ReadyGroup { script, limit, permit }: ReadyGroup,
        done: impl FnOnce(Vec<Call>) + Send + 'static,
    ) {
        answer_all(&mut members, &Outcome::Pending);
        let args = (script.arguments)(script.script.sha(), &members, limit, self.publish());
        let sent = self.now();
        self.link.begin("EVALSHA", &args, limit.until, move |reply| {
            permit.0.handle_together(&mut members, reply, script, (sent, limit));
            drop(permit);
            done(members);
        });
    }

    fn handle_together(
        &self,
        members: &mut [Call],
        reply: Result<Frame, Failure>,
        script: ManyScript,
        (sent, limit): (Instant, Limit),
    ) {
        let read = match reply {
            Ok(frame) => self.read_together(&frame, members.len(), script, (sent, limit)),
            // Nothing was executed: each member is asked for alone, this time.
            Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT") => {
                return self.sent_scripts.forget(script.script);
            }
            Err(failure) => Err(self.classify_failure(failure, limit)),
        };
        match read {
            Ok(many) => self.answer_members(members, many, limit),
            Err(error) => self.answer_failed(members, error),
        }
    }

    fn answer_failed(&self, members: &mut [Call], error: CallError) {
        let CallError::Failed(error) = error else { return };
        self.note_refusal(&error);
        if !is_refused_as_group(&error) {
            answer_all(members, &Outcome::Failed(error));
        }
    }

    // The server's words may mean that it takes no command for many locks. Then the next calls are sent alone.
    fn note_refusal(&self, error: &TransportError) {
        if is_about_the_batch(error) && !self.refuses_groups.swap(true, Ordering::Relaxed) {
            let (server, error) = (self.terms.name.clone(), error.clone());
            log::line(Level::WARN, move || {
                tracing::warn!(
                    %server, %error,
                    "a command for many locks was refused; each lock is acquired and released with a command of its own"
                );
            });
        }
    }

    async fn ask_together(&self, members: &[Call]) -> Result<(Many, Limit), CallError> {
        let _permit = self.permit(execute_by(members)).await?;
        let limit = self.limit_together(members)?;
        let script = ManyScript::of(op_of(members), self.batches());
        let args = |head: &Str| (script.arguments)(head, members, limit, self.publish());
        let (frame, sent) = self.evaluate((script.script, Asking::Plain), args, limit).await?;
        Ok((self.read_together(&frame, members.len(), script, (sent, limit))?, limit))
    }

    fn limit_together(&self, members: &[Call]) -> Result<Limit, TransportError> {
        match op_of(members) {
            Op::Release => self.sent_now(execute_by(members)),
            _ => self.limit(execute_by(members)),
        }
    }

    fn read_together(
        &self,
        frame: &Frame,
        len: usize,
        script: ManyScript,
        (sent, limit): (Instant, Limit),
    ) -> Result<Many, CallError> {
        let received = self.now();
        let many = Many::read(frame, len, script.read).ok_or_else(|| self.misread(limit))?;
        let sample = Sample { sent, received, server_micros: many.now() };
        self.observe(sample, matches!(many, Many::TooLate { .. }));
        Ok(many)
    }

    fn answer_members(&self, calls: &mut [Call], many: Many, limit: Limit) {
        match many {
            Many::TooLate { now } => answer_all(calls, &Outcome::TooLate { at: self.at(now) }),
            Many::OnlyAlone { .. } => self.acquires_alone.store(true, Ordering::Relaxed),
            Many::Each { members, now } => {
                for (call, member) in calls.iter_mut().zip(members) {
                    call.outcome = self.member_outcome(member, self.at(now), limit);
                }
            }
        }
    }

    fn member_outcome(&self, member: Member, at: ServerTime, limit: Limit) -> Outcome {
        let now = at.micros;
        match member {
            Member::Granted => self.acquired(Acquired::Granted { counter: None, now }),
            Member::Held(remaining) => Outcome::Busy { remaining, at },
            Member::Released { listeners } => self.released(Freed::Yes { listeners, now }),
            Member::NotYours => Outcome::NotYours { at },
            Member::Refused(text) if text.contains(NOT_HERE) => Outcome::Pending,
            Member::Refused(text) => Outcome::Failed(self.explain_refusal(&text, limit)),
        }
    }
}

fn op_of(members: &[Call]) -> Op {
    members.first().map_or(Op::Release, |member| member.op)
}

// The command has one latest execution time, the earliest of its members. For the others it can only be too early.
fn execute_by(members: &[Call]) -> Instant {
    members.iter().map(|member| member.execute_by).min().unwrap_or_default()
}

/// Whether the command was certainly not executed, and each member alone may be. A command that declares its keys is refused
/// for one key that the user may not use.
fn is_refused_as_group(error: &TransportError) -> bool {
    let may_be_about_one = is_about_the_batch(error) || error.kind == ErrorKind::Denied;
    may_be_about_one && error.effect == Effect::None
}

fn declared_releases(head: &Str, members: &[Call], _limit: Limit, publish: Arg) -> Vec<Arg> {
    let mut args = Vec::with_capacity(members.len() + FEW);
    args.push(Arg::Text(head.clone()));
    args.push(Arg::Number(i64::try_from(members.len()).unwrap_or(i64::MAX)));
    args.extend(keys(members));
    args.push(publish);
    push_releases(&mut args, members, false);
    args
}

fn undeclared_releases(head: &Str, members: &[Call], _limit: Limit, publish: Arg) -> Vec<Arg> {
    let mut args = Vec::with_capacity(FEW);
    args.extend([Arg::Text(head.clone()), Arg::Number(0), publish]);
    push_releases(&mut args, members, true);
    args
}

/// Members of one client follow each other as a run. Usually all of them are of one client.
fn push_releases(args: &mut Vec<Arg>, members: &[Call], names_too: bool) {
    for run in members.chunk_by(|one, other| one.owner.client() == other.owner.client()) {
        args.push(text(&run[0].owner.client_spelling()));
        args.push(Arg::Bytes(packed_releases(run, names_too).into_bytes().into()));
    }
}

fn packed_releases(run: &[Call], names_too: bool) -> Pack {
    let parts = if names_too { 3 } else { 2 };
    let mut pack = Pack::of(parts * run.len(), names_bytes(run) / run.len() + NUMBER_BYTES + CHANNEL_BYTES);
    for member in run {
        if names_too {
            pack.push(member.key.on_server());
        }
        push_number(&mut pack, member);
        let channel =
            if member.kind.notifies() { lock_channel(member.key.on_server()) } else { String::new() };
        pack.push(&channel);
    }
    pack
}

/// What a channel's name has beside the lock's.
const CHANNEL_BYTES: usize = 32;
