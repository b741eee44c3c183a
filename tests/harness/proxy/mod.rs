//! A wire that misbehaves on request: a TCP proxy that understands RESP and strikes single commands.
//!
//! ```text
//!   client ──► requests ──► rulebook ──► queue ──► server
//!   client ◄── queue ◄── pairing ◄── replies ◄──── server
//! ```
//!
//! It runs on a thread and a runtime of its own, so a paused or blocked runtime of a test does not touch it. Order on
//! a connection is never changed, except by what a fault says. Not understood: TLS, `MONITOR`, replication streams,
//! `CLIENT REPLY OFF`.
//!
//! **A lost reply is not what a network does.** TCP loses the end of a stream, never its middle. After
//! [`Fault::LoseReply`] or [`Fault::LoseRequest`] a client that pairs replies by their order (fred does) takes the next
//! reply for the missing one. Where that is not the point of the test, use [`Fault::CutAfter`], or [`Fault::DelayReply`]
//! with a time longer than the test: then everything behind is silent, too, as behind a broken route.

mod held;
mod link;
mod listener;
mod pairing;
mod queue;
mod rule;
mod rule_handle;
mod rulebook;
mod switches;
mod traffic;

pub use listener::Proxy;
pub use rule::{Fault, Match, Rule};
pub use rule_handle::RuleHandle;
pub use switches::Direction;
pub use traffic::SeenRequest;

#[cfg(test)]
mod tests;
