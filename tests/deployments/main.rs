//! Redis deployments as they are and as they change: what their servers answer, slots that move, nodes that come and go,
//! kinds of notices, rights, TLS.
#![allow(clippy::disallowed_methods, reason = "tests on real servers run in real time")]

mod lanes;
mod tour;

mod access;
mod bad_starts;
mod batches;
mod connecting;
mod encryption;
mod fair;
mod fenced;
mod foreign_hashes;
mod groups;
mod groups_moving;
mod groups_refused;
mod permits;
mod proxies;
mod read_write;
mod refusals;
