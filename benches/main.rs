//! One command, one table:
//!
//! ```text
//! cargo run --release -p leasehold-benches                        the large run, about three minutes
//! cargo run --release -p leasehold-benches -- --small             every part once, in seconds
//! cargo run --release -p leasehold-benches -- --json FILE         the same figures as data
//! cargo run --release -p leasehold-benches -- --pairs             pairs near and far, processors asleep and awake, a quarter of an hour
//! cargo run --release -p leasehold-benches -- --handover          a lock that goes to another process, two minutes
//! cargo run --release -p leasehold-benches -- --crossings         what it costs that another thread reads or writes, a minute
//! cargo run --release -p leasehold-benches -- --first             from the start of a process to its first lock, seconds
//! cargo run --release -p leasehold-benches -- --hot               one lock that many callers want, two minutes
//! cargo run --release -p leasehold-benches -- --bulk              the rows `bulk` alone
//! cargo run --release -p leasehold-benches -- --check             counts only, against their limits; exit 1 beyond
//! cargo run --release -p leasehold-benches -- --scale             100,000 leases and a million, about twelve minutes
//! cargo run --release -p leasehold-benches -- --leases            100,000 leases beside a live Redisson, three minutes
//! cargo run --release -p leasehold-benches -- --shards            the rows `shards` alone
//! cargo run --release -p leasehold-benches -- --faults            tens of thousands in trouble, about four minutes
//! cargo run --release -p leasehold-benches -- --links             100,000 leases over long links, about six minutes
//! cargo run --release -p leasehold-benches -- --far               callers of free names over long links, some minutes
//! ```
//!
//! With `--small` each of the parts runs small, too.
//!
//! Counts (commands, instructions, allocations) mean most, ratios within one run a lot, absolute times little.

#![allow(clippy::disallowed_methods)] // a bench reads the clock

mod batches;
mod bulk;
mod callgrind;
mod commands;
mod counted;
mod crossings;
mod far;
mod faults;
mod first_lock;
mod handover;
mod hot;
mod leases;
mod links;
mod orders;
mod pairs;
mod processors;
mod profile;
mod raw;
mod rounds;
mod runtime;
mod scale;
mod server_usage;
mod shards;
mod size;
mod table;
mod usage;
mod wheel_ops;

use leasehold_tests::harness::secrets;
use size::{LARGE, SMALL};
use table::Table;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if let Some(job) = arguments.iter().position(|argument| argument == "--count") {
        // Under callgrind: this process does one thing so often, and nothing else.
        return counted::run_job(&arguments[job + 1], arguments[job + 2].parse().expect("a number"));
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--batches") {
        return batches::run_job(&arguments[job + 1], arguments[job + 2].parse().expect("a number"));
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--hold") {
        // One contestant, measured from outside.
        return scale::run_child(&arguments[job + 1..]);
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--hold-over-link") {
        // The far end of a link, measured from within.
        return links::run_child(&arguments[job + 1..]);
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--far-callers") {
        // The callers at the far end of a link, measured from within.
        return far::run_child(&arguments[job + 1..]);
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--hand-over-side") {
        // A holder or a waiter, which is told what to do.
        return handover::run_side(&arguments[job + 1..]);
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--hold-until-told") {
        // Ours beside a Redisson, measured from outside.
        return leases::run_child(&arguments[job + 1..]);
    }
    if let Some(job) = arguments.iter().position(|argument| argument == "--first-lock") {
        // It acquires one lock, and ends.
        return first_lock::run_process(&arguments[job + 1..]);
    }
    if has("--stay-awake") {
        // So that no processor sleeps.
        return processors::stay_awake();
    }
    if has("--spin") {
        // Other work, for the contestants to live with.
        return faults::spin();
    }
    secrets::do_not_watch();
    let mut table = Table::default();
    let small = has("--small");
    if has("--bulk") {
        bulk::measure(&mut table, if small { bulk::SMALL } else { bulk::LARGE });
        return tell(&table, &arguments);
    }
    if has("--scale") {
        scale::measure(&mut table, if small { scale::SMALL } else { scale::LARGE });
        return tell(&table, &arguments);
    }
    if has("--leases") {
        leases::measure(&mut table, if small { leases::SMALL } else { leases::LARGE });
        return tell(&table, &arguments);
    }
    if has("--faults") {
        faults::measure(&mut table, if small { faults::SMALL } else { faults::LARGE });
        return tell(&table, &arguments);
    }
    if has("--links") {
        links::measure(&mut table, if small { links::SMALL } else { links::LARGE });
        return tell(&table, &arguments);
    }
    if has("--far") {
        far::measure(&mut table, if small { far::SMALL } else { far::LARGE }, &arguments);
        return tell(&table, &arguments);
    }
    if has("--pairs") {
        pairs::measure_all(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    if has("--handover") {
        handover::measure(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    if has("--crossings") {
        crossings::measure(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    if has("--first") {
        first_lock::measure(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    if has("--hot") {
        hot::measure(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    if has("--shards") {
        shards::measure(&mut table, if small { SMALL } else { LARGE });
        return tell(&table, &arguments);
    }
    let size = if small { SMALL } else { LARGE };
    counted::measure(&mut table, size.counts);
    batches::measure(&mut table, size.counts);
    if has("--check") {
        wheel_ops::count(&mut table, size);
        std::process::exit(table.check());
    }
    wheel_ops::measure(&mut table, size);
    if !small {
        pairs::measure(&mut table, size);
    }
    commands::measure(&mut table, size);
    shards::measure(&mut table, size);
    if small {
        pairs::measure_all(&mut table, SMALL);
        handover::measure(&mut table, SMALL);
        first_lock::measure(&mut table, SMALL);
        hot::measure(&mut table, SMALL);
        bulk::measure(&mut table, bulk::SMALL);
        scale::measure(&mut table, scale::SMALL);
        leases::measure(&mut table, leases::SMALL);
        faults::measure(&mut table, faults::SMALL);
        links::measure(&mut table, links::SMALL);
        far::measure(&mut table, far::SMALL, &[]);
    }
    tell(&table, &arguments);
}

fn tell(table: &Table, arguments: &[String]) {
    println!("command: cargo run --release -p leasehold-benches -- {}", arguments.join(" "));
    print!("{table}");
    if let Some(place) = arguments.iter().position(|argument| argument == "--json") {
        std::fs::write(&arguments[place + 1], table.as_json()).expect("the file can be written");
    }
}
