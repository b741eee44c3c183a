//! A growing crowd on the memory transport: what a lease costs may not grow with their number.

use leasehold_tests::harness::stall::unless_stalled;

use super::{
    ScaleSize,
    arrival::Arrival,
    child,
    job::{Contestant, Job, Names},
};
use crate::{rounds::Spread, table::Table};

pub(super) fn measure(table: &mut Table, size: ScaleSize) {
    let mut leases = size.crowd.min(1_000);
    while leases <= size.crowd {
        let size = ScaleSize { leases, ..size };
        let (contestant, url, names) = (Contestant::Ours, "memory".to_owned(), Names::Random);
        let arrival = Arrival::Burst;
        let job = Job { contestant, arrival, url, size, names };
        let told = unless_stalled(|| {
            let told = child::measure_alone(&job);
            assert_eq!(told.lost, 0.0, "a lease was lost");
            told
        });
        let mut add = |what: &str, figure: f64, unit| {
            table.add("P15", format!("{leases} leases in memory: {what}"), Spread::exactly(figure), unit);
        };
        add("client, the memory table included", 1e6 * told.window.cpu_seconds / told.renewals, "us/renewal");
        add("the same", 100.0 * told.window.cpu_seconds / told.window.seconds, "% core");
        add("memory a lease, the memory table included", told.bytes_a_lease, "bytes");
        add("renewed late by, 99.9 % within", told.late_ms, "ms");
        leases *= 10;
    }
}
