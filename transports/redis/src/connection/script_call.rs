//! Scripts on one connection: by digest if the server knows the script, otherwise by text.

use std::time::Duration;

use fred::{bytes_utils::Str, types::Resp3Frame as Frame};
use leasehold::clock::Instant;

use super::{
    call_error::CallError, deadline::Limit, link::Failure, node_connection::Connection, offset::Sample,
};
use crate::wire::{arg::Arg, scripts::Script};

/// How a request is sent to a cluster node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// As to the node that serves the slot.
    Plain,
    /// Directly behind an `ASKING`, as to a node that is importing the slot.
    Asking,
}

/// A parsed reply, with its times.
pub(super) struct Answer<T> {
    pub(super) value: T,
    pub(super) sample: Sample,
}

impl Connection {
    /// Runs a script and parses its reply.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate). After an unexpected reply the connection is closed, and the effect is
    /// unknown.
    pub(super) async fn run<T>(
        &self,
        (script, asking): (Script, Asking),
        args: impl Fn(&Str) -> Vec<Arg>,
        limit: Limit,
        read: impl Fn(&Frame) -> Option<T>,
        now: impl Fn(&T) -> u64,
    ) -> Result<Answer<T>, CallError> {
        let (frame, sent) = self.evaluate((script, asking), args, limit).await?;
        let received = self.now();
        let value = read(&frame).ok_or_else(|| self.misread(limit))?;
        let server_micros = now(&value);
        Ok(Answer { value, sample: Sample { sent, received, server_micros } })
    }

    /// Returns the raw reply to a script, and when it was sent.
    ///
    /// The first use on a connection sends the text. A digest that the server does not know would take two sends,
    /// and a later request could overtake the second one.
    ///
    /// # Errors
    /// [`CallError::Elsewhere`] for a redirect, [`CallError::Failed`] for everything else.
    pub(crate) async fn evaluate(
        &self,
        (script, asking): (Script, Asking),
        args: impl Fn(&Str) -> Vec<Arg>,
        limit: Limit,
    ) -> Result<(Frame, Instant), CallError> {
        let sent = self.now();
        let reply = if asking == Asking::Asking {
            // This is rare, and an `ASKING` applies to one command only. The text avoids a second one.
            self.link.ask_behind_asking("EVAL", &args(script.source()), limit.until - sent).await
        } else if self.sent_scripts.is_first_use(script) {
            self.link.ask("EVAL", &args(script.source()), limit.until - sent).await
        } else {
            self.evaluate_known(script, args, limit.until - sent).await
        };
        Ok((reply.map_err(|failure| self.classify_failure(failure, limit))?, sent))
    }

    /// Sends the digest, and the text if the server has forgotten the script (`SCRIPT FLUSH`).
    async fn evaluate_known(
        &self,
        script: Script,
        args: impl Fn(&Str) -> Vec<Arg>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let until = self.now() + timeout;
        let reply = self.link.ask("EVALSHA", &args(script.sha()), timeout).await;
        if !matches!(&reply, Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT")) {
            return reply;
        }
        self.link.ask("EVAL", &args(script.source()), until - self.now()).await
    }
}
