//! Many leases beside a live Redisson that holds as many locks: processor time of the clients and of the servers, over the
//! same time, and memory.
//!
//! Each holder is a process of its own, with a server of its own. All hold their leases at once, so that whatever else
//! the machine does meets them all.

mod hold;
mod holder;
mod process;
mod redisson;
mod size;

pub(crate) use hold::run as run_child;

use std::{thread, time::Duration};

use leasehold_tests::harness::stall::unless_stalled;

use crate::{rounds::Spread, table::Table};
use holder::{Holder, Window};
pub(crate) use size::{LARGE, LeasesSize, SMALL};

pub(crate) fn measure(table: &mut Table, size: LeasesSize) {
    table.append(unless_stalled(|| {
        let mut rows = Table::default();
        measure_once(&mut rows, size);
        rows
    }));
}

fn measure_once(table: &mut Table, size: LeasesSize) {
    let mut holders = holders(size);
    holders.iter_mut().for_each(|holder| holder.take(size));
    thread::sleep(size.settling_periods * size.period());
    let mut windows: Vec<Vec<Window>> = holders.iter().map(|_| Vec::new()).collect();
    for _ in 0..size.rounds {
        window(&holders, &mut windows, 2 * size.period());
    }
    for (holder, windows) in holders.iter().zip(&windows) {
        rows(table, size, holder, windows);
    }
    if let [burst, even, theirs] = &windows[..] {
        ratios(table, size, BURST, burst, theirs);
        ratios(table, size, EVENLY, even, theirs);
    }
}

fn holders(size: LeasesSize) -> Vec<Holder> {
    let mut all = vec![Holder::ours(BURST, size, Duration::ZERO), Holder::ours(EVENLY, size, size.period())];
    match Holder::redisson(size) {
        Some(redisson) => all.push(redisson),
        None => eprintln!("no Redisson: install it with: apt-get install maven openjdk-17-jre-headless"),
    }
    all
}

/// All holders, over the same time.
fn window(holders: &[Holder], windows: &mut [Vec<Window>], time: Duration) {
    let before: Vec<_> = holders.iter().map(Holder::used).collect();
    thread::sleep(time);
    for ((holder, windows), before) in holders.iter().zip(windows).zip(before) {
        windows.push(Window::between(before, holder.used(), time));
    }
}

fn rows(table: &mut Table, size: LeasesSize, holder: &Holder, windows: &[Window]) {
    let title = format!("{} leases, {}", size.leases, holder.name);
    let mut add = |what, figure: fn(&Window) -> f64, unit| {
        let spread = Spread::of(windows.iter().map(figure).collect());
        table.add("P11", format!("{title}: {what}"), spread, unit);
    };
    add("client", |window| window.client_percent, "% core");
    add("server", |window| window.server_percent, "% core");
    add("commands a renewal", |window| window.commands_a_renewal, "commands");
    add("client a renewal", |window| window.client_micros_a_renewal, "us");
    add("server a renewal", |window| window.server_micros_a_renewal, "us");
    let bytes = Spread::exactly(holder.bytes_a_lease(size));
    table.add("P12", format!("{title}: memory of the client a lease"), bytes, "bytes");
    assert_eq!(holder.held(), size.leases, "{title}: held in the end");
}

fn ratios(table: &mut Table, size: LeasesSize, name: &str, ours: &[Window], theirs: &[Window]) {
    let title = format!("{} leases, {name} / Redisson, a renewal", size.leases);
    let mut add = |what, figure: fn(&Window) -> f64| {
        let figures = |windows: &[Window]| windows.iter().map(figure).collect::<Vec<_>>();
        table.add(
            "P11",
            format!("{title}: {what}"),
            Spread::of_ratios(&figures(ours), &figures(theirs)),
            "x",
        );
    };
    add("client", |window| window.client_micros_a_renewal);
    add("server", |window| window.server_micros_a_renewal);
}

const BURST: &str = "ours, taken in one burst";
const EVENLY: &str = "ours, taken evenly";
