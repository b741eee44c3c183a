//! Many leases in one process, beside one task per lease that sends one script each: processor time of the client and
//! of the servers, commands, bytes, memory, lateness.
//!
//! Each contestant is a process of its own, which this one starts, so that what it costs can be told from what measuring
//! costs. It says on its standard output when its window begins and ends; the servers are read at both.

mod arrival;
mod child;
mod crowd;
mod hold;
mod job;
mod naive;
mod servers;
mod size;

pub(crate) use child::run as run_child;

use leasehold_tests::harness::stall::unless_stalled;

use crate::{rounds::Spread, table::Table};
use arrival::Arrival;
use child::Measured;
use job::{Contestant, Job, Names};
use servers::Servers;
pub(crate) use size::{LARGE, SMALL, ScaleSize};

pub(crate) fn measure(table: &mut Table, size: ScaleSize) {
    crowd::measure(table, size);
    contest(table, size, "one server", &Servers::single(), Names::Random);
    contest(table, size, "3 masters, random names", &Servers::cluster(), Names::Random);
    contest(table, size, "3 masters, 1,000 hash tags", &Servers::cluster(), Names::Tagged);
}

/// Ours, then the baseline, on the same servers; with leases that came all at once, then with such as came over a period.
fn contest(table: &mut Table, size: ScaleSize, place: &str, servers: &Servers, names: Names) {
    for arrival in [Arrival::Burst, Arrival::Even] {
        let measure = |contestant| {
            unless_stalled(|| {
                let job = Job { contestant, arrival, url: servers.url(), size, names };
                servers.empty();
                let measured = child::measure(&job, servers);
                let is_ours = matches!(contestant, Contestant::Ours);
                assert!(!is_ours || measured.lost == 0.0, "a lease was lost");
                measured
            })
        };
        let (ours, theirs) = (measure(Contestant::Ours), measure(Contestant::Naive));
        let what = format!("{} leases, {place}, taken {}", size.leases, arrival.told());
        rows(table, &what, &ours, &theirs);
    }
}

fn rows(table: &mut Table, place: &str, ours: &Measured, theirs: &Measured) {
    let mut add = |what: &str, figure: f64, unit| {
        table.add("P11", format!("{place}: {what}"), Spread::exactly(figure), unit);
    };
    add("client", ours.client_percent(), "% core");
    add("servers", ours.server_percent(), "% core");
    add("commands sent a renewal", ours.commands / ours.renewals, "commands");
    add("bytes to the servers a renewal", ours.bytes_in / ours.renewals, "bytes");
    add("bytes from the servers a renewal", ours.bytes_out / ours.renewals, "bytes");
    add("renewed late by, 99.9 % within", ours.late_ms, "ms");
    add("nearest to the deadline", ours.nearest, "of ttl");
    add("memory a lease", ours.bytes_a_lease, "bytes");
    add("leases lost", ours.lost, "leases");
    add("taken in", ours.taken_seconds, "s");
    add("baseline's client", theirs.client_percent(), "% core");
    add("baseline's servers", theirs.server_percent(), "% core");
    add("baseline's client / ours, a renewal", theirs.client_micros() / ours.client_micros(), "times");
    add("baseline's servers / ours, a renewal", theirs.server_micros() / ours.server_micros(), "times");
    add("baseline's memory a lease", theirs.bytes_a_lease, "bytes");
    add("baseline's leases lost", theirs.lost, "leases");
}
