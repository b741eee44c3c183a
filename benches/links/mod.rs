//! Many leases on a real server behind a long link, at several round trips: whether they are held, and how much of the
//! link their renewals take.
//!
//! The engine has a process of its own, so that its processor time is told apart from that of the link.

mod hold;
mod link;
mod renewals;
mod size;

pub(crate) use hold::run as run_child;

use std::{
    io,
    time::{Duration, Instant},
};

use leasehold::EngineConfig;
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer, stall::unless_stalled};

use crate::{rounds::Spread, table::Table};
use hold::Told;
pub(crate) use link::Link;
pub(crate) use size::{LARGE, LinksSize, SMALL, runtime};

pub(crate) fn measure(table: &mut Table, size: LinksSize) {
    for round_trip in size.round_trips.iter().copied().map(Duration::from_millis) {
        table.append(unless_stalled(|| {
            let mut rows = Table::default();
            measure_one(&mut rows, size, round_trip);
            rows
        }));
    }
}

fn measure_one(table: &mut Table, size: LinksSize, round_trip: Duration) {
    let server = RedisServer::start().expect("a redis-server");
    let link = Link::start(server.port(), round_trip).expect("a free port");
    let measured = round_trip_over(&link).expect("replies");
    let told = hold::measure(&link.url(), size);
    let what = format!("{} leases, round trip of {} ms", size.leases, round_trip.as_millis());
    let mut rows = Rows { table, what };
    rows.add("round trip, p50", measured.as_secs_f64() * 1e3, "ms");
    rows.tell(&told);
    rows.add("the link can carry", capacity(round_trip), "renewals/s");
    rows.tell_line(round_trip, &told);
    assert_eq!((told.held, told.lost), (size.leases, 0), "{}: held and lost", rows.what);
}

/// The median of some pings on a connection of its own, before there are any leases.
fn round_trip_over(link: &Link) -> io::Result<Duration> {
    let mut client = RawClient::connect(link.port())?;
    let mut took = Vec::new();
    for _ in 0..PINGS {
        let sent = Instant::now();
        client.command(&["PING"])?;
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    Ok(took[PINGS / 2])
}

/// Renewals a second, with full batches and the defaults of the engine and of the transport.
fn capacity(round_trip: Duration) -> f64 {
    let in_flight = EngineConfig::default().batches_in_flight_max;
    let batch = RedisConfig::single("", 0).batch_leases_max;
    (in_flight * batch) as f64 / round_trip.as_secs_f64()
}

/// The rows of one round trip.
struct Rows<'a> {
    table: &'a mut Table,
    what: String,
}

impl Rows<'_> {
    fn add(&mut self, what: &str, figure: f64, unit: &'static str) {
        self.table.add("links", format!("{}: {what}", self.what), Spread::exactly(figure), unit);
    }

    fn tell(&mut self, told: &Told) {
        self.add("taken in", told.taken_seconds, "s");
        self.add("held", told.held as f64, "leases");
        self.add("lost", told.lost as f64, "leases");
        self.table.at_most(0.0);
        self.add("renewals", told.renewals_a_second(), "/s");
        self.add("renewals not confirmed", told.renewals_failed as f64, "renewals");
        self.add("leases a batch", told.leases_a_batch(), "leases");
        self.add("batches", told.batches_a_second(), "/s");
        self.add("nearest to the deadline", told.nearest, "of ttl");
        self.add("client", told.client_percent(), "% core");
    }

    /// The same as a line of the table in `README.md`.
    fn tell_line(&self, round_trip: Duration, told: &Told) {
        let (held, lost, nearest) = (told.held, told.lost, told.nearest);
        let (renewals, capacity) = (told.renewals_a_second(), capacity(round_trip));
        let (leases, batches, client) =
            (told.leases_a_batch(), told.batches_a_second(), told.client_percent());
        eprintln!(
            "| {} | {held} | {lost} | {renewals:.0} | {leases:.1} | {batches:.1} | {capacity:.0} | {nearest:.3} | {client:.1} |",
            round_trip.as_millis(),
        );
    }
}

const PINGS: usize = 9;
