//! One process that holds leases on a server of its own.

use std::time::Duration;

use leasehold_tests::harness::redis_server::RedisServer;

use super::{
    hold::{HELD, READY},
    process::{cpu_seconds, resident},
    redisson,
    size::LeasesSize,
};
use crate::{orders::Ordered, server_usage::ServerUsage};

/// How the leases are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Redisson,
}

pub(super) struct Holder {
    pub(super) name: &'static str,
    kind: Kind,
    server: RedisServer,
    process: Ordered,
    /// Resident memory without any lease.
    empty: f64,
}

/// What a holder and its server have used so far.
#[derive(Clone, Copy)]
pub(super) struct Used {
    client_seconds: f64,
    server: ServerUsage,
}

/// What they used in a window.
pub(super) struct Window {
    pub(super) client_percent: f64,
    pub(super) server_percent: f64,
    pub(super) commands_a_renewal: f64,
    pub(super) client_micros_a_renewal: f64,
    pub(super) server_micros_a_renewal: f64,
}

impl Window {
    pub(super) fn between(before: Used, after: Used, time: Duration) -> Self {
        let (client, server) = (after.client_seconds - before.client_seconds, after.server - before.server);
        // Every renewal sets one, and nothing else does. A Redisson renews all its locks in one burst, whose period is a
        // little longer than a third of the timeout: a window has one burst or two of it.
        let renewals = server.expiries;
        let percent = |seconds: f64| 100.0 * seconds / time.as_secs_f64();
        Self {
            client_percent: percent(client),
            server_percent: percent(server.cpu_seconds),
            commands_a_renewal: server.commands / renewals,
            client_micros_a_renewal: 1e6 * client / renewals,
            server_micros_a_renewal: 1e6 * server.cpu_seconds / renewals,
        }
    }
}

impl Holder {
    pub(super) fn ours(name: &'static str, size: LeasesSize, over: Duration) -> Self {
        let server = server();
        let numbers = [size.leases as u128, size.ttl.as_millis(), over.as_millis()];
        let [leases, ttl, over] = numbers.map(|number| number.to_string());
        let arguments = ["--hold-until-told", &server.url(), &leases, &ttl, &over];
        let mut process = Ordered::start_this_program(&arguments);
        assert_eq!(process.line(), READY);
        Self::of(name, Kind::Ours, server, process)
    }

    /// `None`: it cannot be started here.
    pub(super) fn redisson(size: LeasesSize) -> Option<Self> {
        let server = server();
        let process = redisson::start(&server.url(), size.ttl)?;
        Some(Self::of(REDISSON, Kind::Redisson, server, process))
    }

    fn of(name: &'static str, kind: Kind, server: RedisServer, process: Ordered) -> Self {
        let empty = resident(process.pid());
        Self { name, kind, server, process, empty }
    }

    pub(super) fn take(&mut self, size: LeasesSize) {
        if self.kind == Kind::Redisson {
            return redisson::take(&mut self.process, size.leases);
        }
        self.process.tell("take");
        assert_eq!(self.process.line(), HELD);
    }

    pub(super) fn used(&self) -> Used {
        let mut client = self.server.client().expect("a connection");
        Used { client_seconds: cpu_seconds(self.process.pid()), server: ServerUsage::of(&mut client) }
    }

    pub(super) fn bytes_a_lease(&self, size: LeasesSize) -> f64 {
        (resident(self.process.pid()) - self.empty) / size.leases as f64
    }

    /// Locks that are on the server.
    pub(super) fn held(&self) -> usize {
        let count = self.server.client().and_then(|mut client| client.command(&["DBSIZE"]));
        count.ok().and_then(|count| count.integer()).and_then(|count| count.try_into().ok()).expect("a count")
    }
}

fn server() -> RedisServer {
    RedisServer::start().expect("a redis-server")
}

const REDISSON: &str = "Redisson";
