//! Requests about any owner on one connection: inspecting and ending holds. Each reply carries a server time.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use leasehold::{
    key::{Family, LockKey},
    log,
    transport::Inspection,
};
use tracing::Level;

use super::{
    call_error::{CallError, without_any_effect},
    link::Link,
    node_connection::Connection,
    script_call::Asking,
};
use crate::wire::{
    arg::Arg,
    names::{channel_of, fair_line, permit_deadlines},
    reply::{Freed, Seen},
    scripts::Script,
};

impl Connection {
    pub(crate) async fn inspect(&self, key: &LockKey, asking: Asking) -> Result<Inspection, CallError> {
        let until = self.timeout();
        let _permit = self.permit(until).await?;
        let limit = self.sent_now(until)?;
        let args = |head: &Str| {
            let mut args = vec![Arg::Text(head.clone())];
            args.extend(keys_of(key));
            args
        };
        let (script, read) = match key.family() {
            Family::Fair => (Script::FairInspect, Seen::read_fair as fn(&Frame) -> Option<Seen>),
            Family::Permits => (Script::PermitInspect, Seen::read_permits as fn(&Frame) -> Option<Seen>),
            Family::ReadWrite => (Script::ReadWriteInspect, Seen::read_write as fn(&Frame) -> Option<Seen>),
            _ => (Script::Inspect, Seen::read as fn(&Frame) -> Option<Seen>),
        };
        let answer = self.run((script, asking), args, limit, read, |seen| seen.now).await;
        // A script that only reads has no effect, even if its reply is lost.
        let answer = answer.map_err(without_any_effect)?;
        self.observe(answer.sample, false);
        let Seen { holds, remaining, line, permits, now } = answer.value;
        let seen = Inspection::new(holds, remaining, self.at(now)).with_line(line);
        Ok(permits.into_iter().fold(seen, Inspection::with_permits))
    }

    pub(crate) async fn force_release(&self, key: &LockKey, asking: Asking) -> Result<bool, CallError> {
        if key.family() == Family::Fair {
            return self.force_release_fair(key, asking).await;
        }
        let until = self.timeout();
        let _permit = self.permit(until).await?;
        let limit = self.sent_now(until)?;
        let is_read_write = Arg::Number((key.family() == Family::ReadWrite).into());
        let values = [text(&channel_of(key)), self.publish(), is_read_write];
        let args = |head: &Str| {
            let mut args = vec![Arg::Text(head.clone())];
            args.extend(keys_of(key).into_iter().chain(values.iter().cloned()));
            args
        };
        let script = match key.family() {
            Family::Permits => Script::PermitForceRelease,
            _ => Script::ForceRelease,
        };
        let answer = self.run((script, asking), args, limit, Freed::read, Freed::now).await?;
        self.observe(answer.sample, false);
        Ok(matches!(answer.value, Freed::Yes { .. }))
    }

    /// Publishes the end of a hold to the subscribers at this node. A failure is only logged: it does not change
    /// the result of the release.
    pub(crate) async fn publish_end(&self, key: &LockKey) {
        let channel = text(&channel_of(key));
        for message in messages_of(key.family()) {
            let args = vec![channel.clone(), Arg::word(message)];
            let published = self.link.request("SPUBLISH", args, self.terms.command_timeout).await;
            if let Err(failure) = published {
                let server = self.terms.name.clone();
                log::line(Level::DEBUG, move || {
                    tracing::debug!(%server, ?failure, "the end of a hold could not be published");
                });
            }
        }
    }
}

/// The number of keys of a request about any owner, and the keys.
fn keys_of(key: &LockKey) -> Vec<Arg> {
    let name = text(key.on_server());
    match key.family() {
        Family::Fair => vec![Arg::Number(2), name, text(&fair_line(key.on_server()))],
        Family::Permits => vec![Arg::Number(2), name, text(&permit_deadlines(key))],
        _ => vec![ONE, name],
    }
}

/// The messages that tell the end of a hold.
fn messages_of(family: Family) -> &'static [&'static str] {
    match family {
        // The first wakes all waiters of a peer.
        Family::ReadWrite => &["1", END_OF_HOLD],
        // A peer wakes as many waiters as the message says. Here the number is not known.
        Family::Permits => &["65535"],
        // The head of the line has a channel of its own. Its next beat finds the lock free.
        Family::Fair => &[],
        _ => &[END_OF_HOLD],
    }
}

/// Rounds up, so that the server keeps the lock for at least this long.
pub(crate) fn millis(ttl: Duration) -> Arg {
    Arg::Number(millis_of(ttl))
}

/// As [`millis`].
pub(crate) fn millis_of(ttl: Duration) -> i64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000).max(1);
    i64::try_from(millis).unwrap_or(i64::MAX)
}

pub(crate) fn micros(micros: u64) -> Arg {
    Arg::Number(i64::try_from(micros).unwrap_or(i64::MAX))
}

pub(crate) fn text(text: &str) -> Arg {
    Arg::Text(Str::from(text))
}

/// The message that the scripts publish.
const END_OF_HOLD: &str = "0";
/// The number of keys.
pub(super) const ONE: Arg = Arg::Number(1);
