//! One round of one contestant, and what a pair has used in it.

use std::time::Instant;

use leasehold_tests::harness::raw_client::RawClient;

use crate::{server_usage::ServerUsage, usage::usage};

pub(super) struct Round {
    /// Pairs a second.
    pub(super) rate: f64,
    /// A pair.
    pub(super) commands: f64,
    /// Processor time of all threads of this process, a pair.
    pub(super) client_micros: f64,
    /// The same of the server.
    pub(super) server_micros: f64,
}

impl Round {
    pub(super) fn of(client: &mut RawClient, pairs: usize, run: impl FnOnce() -> f64) -> Self {
        let (server, ours) = (ServerUsage::of(client), usage(Instant::now()));
        let rate = run();
        let (ours, server) = (usage(Instant::now()) - ours, ServerUsage::of(client) - server);
        let micros = |seconds: f64| 1e6 * seconds / pairs as f64;
        Self {
            rate,
            commands: server.commands / pairs as f64,
            client_micros: micros(ours.cpu_seconds),
            server_micros: micros(server.cpu_seconds),
        }
    }
}
