//! Scripts on one connection: by their digest where the server knows it, by their text where it may not.

use std::time::Duration;

use fred::{
    bytes_utils::Str,
    types::{Resp3Frame as Frame, Value},
};
use leasehold::clock::Instant;

use super::{
    call_error::CallError, deadline::Limit, link::Failure, node_connection::Connection, offset::Sample,
};
use crate::wire::scripts::Script;

/// How a request goes to a node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// As to the node that serves the slot.
    Plain,
    /// Behind an `ASKING`, as to the node that is about to.
    Asking,
}

/// A reply that was understood, with the times that came with it.
pub(super) struct Answer<T> {
    pub(super) value: T,
    pub(super) sample: Sample,
}

impl Connection {
    /// Runs a script and reads its reply.
    pub(super) async fn run<T>(
        &self,
        (script, manner): (&Script, Asking),
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        limit: Limit,
        read: impl Fn(&Frame) -> Option<T>,
        now: impl Fn(&T) -> u64,
    ) -> Result<Answer<T>, CallError> {
        let (frame, sent) = self.evaluate((script, manner), slot, args, limit).await?;
        let received = self.now();
        let value = read(&frame).ok_or_else(|| self.misread(limit))?;
        let server_micros = now(&value);
        Ok(Answer { value, sample: Sample { sent, received, server_micros } })
    }

    /// The reply to a script as it came, and when it was sent.
    ///
    /// The first use on a connection carries the text: asking by a digest that the server may not know would take two
    /// sends, and a request behind it could overtake the second.
    pub(crate) async fn evaluate(
        &self,
        (script, manner): (&Script, Asking),
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        limit: Limit,
    ) -> Result<(Frame, Instant), CallError> {
        let sent = self.now();
        let reply = if manner == Asking::Asking {
            // Rare, and an ASKING counts for one command only: by the text, so that one is enough.
            self.link.request_asking("EVAL", slot, args(&script.source), limit.until - sent).await
        } else if self.told.is_first_use(script) {
            self.link.request("EVAL", slot, args(&script.source), limit.until - sent).await
        } else {
            self.evaluate_known(script, slot, args, limit.until - sent).await
        };
        Ok((reply.map_err(|failure| self.deny(failure, limit))?, sent))
    }

    /// By the digest, and by the text if the server has forgotten it (SCRIPT FLUSH).
    async fn evaluate_known(
        &self,
        script: &Script,
        slot: u16,
        args: impl Fn(&Str) -> Vec<Value>,
        timeout: Duration,
    ) -> Result<Frame, Failure> {
        let until = self.now() + timeout;
        let reply = self.link.request("EVALSHA", slot, args(&script.sha), timeout).await;
        if !matches!(&reply, Err(Failure::Refused(text)) if text.starts_with("NOSCRIPT")) {
            return reply;
        }
        self.link.request("EVAL", slot, args(&script.source), until - self.now()).await
    }
}
