//! A lock that goes from one process to another: the time from the holder's call of `release()` to the waiter's grant, of
//! two engines, and of two plain clients that do equal work with the engine's own scripts.
//!
//! Each side is a process of its own, which this one starts and tells what to do, line by line.

mod engine_side;
mod process;
mod raw_side;
mod side;
mod sides;

pub(crate) use process::run as run_side;

use std::time::Duration;

use leasehold_tests::harness::redis_server::RedisServer;

use crate::{processors::Processors, rounds::Spread, size::Size, table::Table};
use side::Kind;
use sides::Sides;

pub(crate) fn measure(table: &mut Table, size: Size) {
    for processors in Processors::BOTH {
        let _awake = processors.arrange();
        measure_with(table, size, processors);
    }
}

fn measure_with(table: &mut Table, size: Size, processors: Processors) {
    let server = RedisServer::start().expect("a redis-server");
    let mut contestants = Kind::ALL.map(|kind| Contestant::start(kind, &server));
    for _ in 0..size.rounds {
        contestants.iter_mut().for_each(|contestant| contestant.round(size.pairs / 50));
    }
    let [.., raw] = &contestants;
    for contestant in &contestants {
        contestant.add_to(table, processors, raw);
    }
}

struct Contestant {
    kind: Kind,
    sides: Sides,
    rounds: Vec<Round>,
}

struct Round {
    p50: f64,
    p99: f64,
}

impl Contestant {
    fn start(kind: Kind, server: &RedisServer) -> Self {
        let mut sides = Sides::start(kind, &server.url());
        // The first subscribes, loads the scripts and opens what opens late.
        sides.hand_over(HOLD);
        Self { kind, sides, rounds: Vec::new() }
    }

    fn round(&mut self, times: usize) {
        let took = |_| self.sides.hand_over(HOLD).as_secs_f64() * 1e6;
        let mut micros: Vec<f64> = (0..times).map(took).collect();
        micros.sort_by(f64::total_cmp);
        let percentile = |share: f64| micros[((micros.len() - 1) as f64 * share).round() as usize];
        self.rounds.push(Round { p50: percentile(0.5), p99: percentile(0.99) });
    }

    fn figures(&self, figure: fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    fn add_to(&self, table: &mut Table, processors: Processors, raw: &Self) {
        let title = format!("hand-over to another process, {processors}, {}", self.kind);
        table.add("P9", format!("{title}: p50"), Spread::of(self.figures(|round| round.p50)), "us");
        table.add("P9", format!("{title}: p99"), Spread::of(self.figures(|round| round.p99)), "us");
        if self.kind != raw.kind {
            let ratio = |figure| Spread::of_ratios(&self.figures(figure), &raw.figures(figure));
            table.add("P9", format!("{title}: p50 / raw (target 3)"), ratio(|round| round.p50), "x");
            table.add("P9", format!("{title}: p99 / raw"), ratio(|round| round.p99), "x");
        }
    }
}

/// How long the holder keeps the lock after the waiter was told to ask: longer than the waiter needs to be refused.
const HOLD: Duration = Duration::from_millis(5);
