//! Many leases in trouble, on real servers: one master of three stands still, this machine has no time, the server is
//! gone. What is lost, what is late, and how late that is told.

mod busy;
mod gone;
mod rows;
mod size;
mod stopped;
mod watch;

pub(crate) use busy::spin;

use leasehold_tests::harness::stall::unless_stalled;

use crate::table::Table;
pub(crate) use size::{FaultsSize, LARGE, SMALL};

pub(crate) fn measure(table: &mut Table, size: FaultsSize) {
    for measure in [stopped::measure, busy::measure, gone::measure] {
        table.append(unless_stalled(|| {
            let mut rows = Table::default();
            measure(&mut rows, size);
            rows
        }));
    }
}
