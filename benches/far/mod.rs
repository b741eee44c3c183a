//! Many callers of as many free names, and a server behind a long link: how long until all callers have their locks, at
//! each round trip and each number of callers, beside the plainest peer on one multiplexed connection.
//!
//! The callers have a process of their own, which starts anew for each measurement. The link is in this process.

mod callers;
mod client;
mod size;

pub(crate) use callers::run as run_child;
pub(crate) use size::{LARGE, SMALL};

use std::time::Duration;

use leasehold_tests::harness::redis_server::RedisServer;

use crate::{links::Link, rounds::Spread, table::Table};
use callers::{Arrivals, Told};
use client::{OURS, PEER};
use size::FarSize;

/// `--round-trips 60,300`, `--callers 5000`, `--rounds 1` and `--steady` choose what is measured.
pub(crate) fn measure(table: &mut Table, size: FarSize, arguments: &[String]) {
    let numbers = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{flag}: {text} is no number"));
        Some(arguments.get(place + 1)?.split(',').map(number).collect::<Vec<f64>>())
    };
    let (round_trips, callers) = (numbers("--round-trips"), numbers("--callers"));
    let rounds = numbers("--rounds").map_or(size.rounds, |rounds| rounds[0] as usize);
    let steady = arguments.iter().any(|argument| argument == "--steady");
    let chosen = round_trips.is_some() || callers.is_some();
    let server = RedisServer::start().expect("a redis-server");
    if chosen || !steady {
        eprintln!("{HEAD}");
        for round_trip in round_trips.unwrap_or_else(|| size.round_trips.to_vec()) {
            // Grants a second with fewer callers, of ours.
            let mut best = 0.0_f64;
            for callers in callers.clone().unwrap_or_else(|| size.callers.to_vec()) {
                let cell = Cell { server: &server, round_trip, callers: callers as usize, rounds };
                best = best.max(cell.measure(table, best));
            }
        }
    }
    if steady || !chosen {
        measure_steady(table, &server, size.waves);
    }
}

/// One round trip, one number of callers.
struct Cell<'a> {
    server: &'a RedisServer,
    /// In milliseconds. Zero: without a link.
    round_trip: f64,
    callers: usize,
    rounds: usize,
}

impl Cell<'_> {
    /// Returns the grants a second of ours.
    fn measure(&self, table: &mut Table, best: f64) -> f64 {
        let arrivals = Arrivals { callers: self.callers, waves: 1, every: Duration::ZERO };
        let rounds: Vec<[Told; 2]> = (0..self.rounds)
            .map(|_| [OURS, PEER].map(|client| told(self.server, client, self.round_trip, arrivals)))
            .collect();
        let mut row = |what: &str, figure: Spread, unit| {
            let title = format!("{} ms, {} callers: {what}", self.round_trip, self.callers);
            table.add("far", title, figure, unit);
        };
        let of = |place: usize, figure: fn(&Told) -> f64| -> Vec<f64> {
            rounds.iter().map(|round| figure(&round[place])).collect()
        };
        let (ours, theirs) = (of(0, Told::all_granted), of(1, Told::all_granted));
        let ratio = Spread::of_ratios(&ours, &theirs);
        let rate = Spread::of(of(0, Told::rate));
        let granted = Spread::of(of(0, |told| told.in_time as f64));
        let unavailable = Spread::of(of(0, |told| told.unavailable as f64));
        let released = Spread::of(of(0, |told| told.released_seconds));
        let (ours, theirs) = (Spread::of(ours), Spread::of(theirs));
        row("all granted, endless if not all were", ours, "s");
        row("all granted, rslock", theirs, "s");
        row("all granted / rslock", ratio, "x");
        row("granted within 10 s", granted, "callers");
        row("granted within 10 s, rslock", Spread::of(of(1, |told| told.in_time as f64)), "callers");
        row("told Unavailable", unavailable, "callers");
        row("refused or not answered, too", Spread::of(of(0, |told| told.others as f64)), "callers");
        row("grants", rate, "/s");
        if best > 0.0 {
            row("grants / the best with fewer callers", Spread::exactly(rate.median / best), "x");
        }
        row("all released", released, "s");
        row("all released, rslock", Spread::of(of(1, |told| told.released_seconds)), "s");
        row("releases not confirmed", Spread::of(of(0, |told| told.not_confirmed as f64)), "leases");
        eprintln!(
            "| {} | {} | {ours} | {theirs} | {ratio} | {granted} | {unavailable} | {rate} | {released} |",
            self.round_trip, self.callers,
        );
        rate.median
    }
}

/// 500 callers come each round trip.
fn measure_steady(table: &mut Table, server: &RedisServer, waves: usize) {
    let arrivals = Arrivals { callers: 500, waves, every: Duration::from_secs_f64(STEADY_MS / 1e3) };
    for client in [OURS, PEER] {
        let told = told(server, client, STEADY_MS, arrivals);
        let mut row = |what: &str, figure: usize, unit| {
            let title = format!("500 callers each {STEADY_MS} ms, {STEADY_MS} ms, {client}: {what}");
            table.add("far", title, Spread::exactly(figure as f64), unit);
        };
        row("came", arrivals.callers * arrivals.waves, "callers");
        row("granted within 10 s", told.in_time, "callers");
        row("told Unavailable", told.unavailable, "callers");
        row("refused or not answered, too", told.others, "callers");
        let whole = (arrivals.every.as_secs_f64() * arrivals.waves as f64) as usize;
        for (second, granted) in told.each_second.iter().enumerate() {
            let what = if second < whole { "" } else { ", after the last whole second of arrivals" };
            row(&format!("granted in second {}{what}", second + 1), *granted, "callers");
        }
        // The callers of the first second wait for a round trip of it.
        if let Some(least) = told.each_second.iter().take(whole).skip(1).min() {
            row("granted in the slowest whole second after the first", *least, "callers");
        }
    }
}

fn told(server: &RedisServer, client: &str, round_trip_ms: f64, arrivals: Arrivals) -> Told {
    let mut own = server.client().expect("a connection");
    own.command(&["FLUSHALL"]).expect("a reply");
    if round_trip_ms == 0.0 {
        return callers::measure(client, &server.url(), arrivals);
    }
    let link = Link::start(server.port(), Duration::from_secs_f64(round_trip_ms / 1e3)).expect("a free port");
    callers::measure(client, &link.url(), arrivals)
}

const STEADY_MS: f64 = 60.0;
const HEAD: &str = "| round trip, ms | callers | all granted, s | the same, rslock | / rslock | granted within 10 s | \
                    `Unavailable` | grants a second | all released, s |\n|---|---|---|---|---|---|---|---|---|";
