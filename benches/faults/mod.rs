//! Many leases in trouble, on real servers: one master of three stands still, this machine has no time, the server is
//! gone. What is lost, what is late, and how late that is told.

mod busy;
mod gone;
mod stopped;
mod watch;

pub(crate) use busy::spin;

use std::time::Duration;

use leasehold::{Engine, Lease, margin};
use leasehold_tests::harness::stall::unless_stalled;
use tokio::runtime::{self, Runtime};

use crate::{rounds::Spread, table::Table};
use watch::Seen;

/// How much is held, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultsSize {
    /// Of a part of which some are struck.
    leases: usize,
    /// Lost at once.
    crowd: usize,
    ttl: Duration,
    /// Whether what is late is a fault: a machine that runs other tests beside this is late itself.
    late_counts: bool,
}

/// What the performance page names; about four minutes.
pub(crate) const LARGE: FaultsSize =
    FaultsSize { leases: 30_000, crowd: 100_000, ttl: Duration::from_secs(30), late_counts: true };
/// In seconds; shows that it works.
pub(crate) const SMALL: FaultsSize =
    FaultsSize { leases: 600, crowd: 2_000, ttl: Duration::from_secs(3), late_counts: false };

pub(crate) fn measure(table: &mut Table, size: FaultsSize) {
    for last_error in [stopped::measure, busy::measure, gone::measure] {
        table.append(unless_stalled(|| {
            let mut rows = Table::default();
            last_error(&mut rows, size);
            rows
        }));
    }
}

/// The application's.
fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("a runtime")
}

async fn hold(engine: &Engine, names: Vec<String>) -> Vec<Lease> {
    let outcomes = engine.acquire_all(names).await;
    outcomes.into_iter().collect::<Result<_, _>>().expect("nobody else wants them")
}

/// The rows of one trouble.
struct Rows<'a> {
    table: &'a mut Table,
    target: &'static str,
    last_error: String,
}

impl Rows<'_> {
    fn add(&mut self, what: &str, figure: f64, unit: &'static str) {
        self.table.add(self.target, format!("{}: {what}", self.last_error), Spread::exactly(figure), unit);
    }

    /// There must be none.
    fn none(&mut self, what: &str, count: usize, unit: &'static str) {
        self.add(what, count as f64, unit);
        self.table.at_most(0.0);
        assert_eq!(count, 0, "{}: {what}", self.last_error);
    }

    /// There must be none, if being late counts.
    fn late(&mut self, what: &str, count: usize, unit: &'static str, size: FaultsSize) {
        match size.late_counts {
            true => self.none(what, count, unit),
            false => self.add(what, count as f64, unit),
        }
    }

    /// When losses were told: the server can give a lock away a margin after the deadline.
    fn told(&mut self, seen: &Seen, size: FaultsSize) {
        self.add("told after the deadline by, median", seen.told_late_ms(0.5), "ms");
        self.add("told after the deadline by, 99.9 % within", seen.told_late_ms(0.999), "ms");
        self.add("told after the deadline by, the last", seen.told_late_ms(1.0), "ms");
        let after = seen.told_later_than(margin(size.ttl));
        self.late("told after the server could have given it away", after, "losses", size);
    }
}

const WORKERS: usize = 2;
