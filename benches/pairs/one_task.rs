//! A single caller's pair, in round trips of a blocking socket.

use std::time::Instant;

use leasehold::Engine;
use tokio::runtime::Runtime;

use super::{contestant::shipped, place::Place};
use crate::{raw, rounds::Spread, size::Size, table::Table};

pub(super) fn measure(table: &mut Table, size: Size, runtime: &Runtime, place: &Place) {
    let (redis, times) = (runtime.block_on(shipped(place)), place.pairs(size, 1).min(size.pairs / 4));
    let (mut ours, mut round_trips) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        round_trips.push(raw::round_trip_micros(place.port(), times));
        ours.push(runtime.block_on(pair_micros(&redis, times)));
    }
    let ratio = Spread::of_ratios(&ours, &round_trips);
    let what = format!("redis round trip of one script, blocking socket, p50, {place}");
    table.add("", what, Spread::of(round_trips), "us");
    table.add("", format!("redis pair, 1 task, p50, {place}"), Spread::of(ours), "us");
    table.add("P3", format!("redis pair p50 / round trip p50 (target 2.3), {place}"), ratio, "x");
}

async fn pair_micros(engine: &Engine, times: usize) -> f64 {
    let lock = engine.lock("pair");
    let mut micros = Vec::with_capacity(times);
    for _ in 0..times {
        let begin = Instant::now();
        lock.acquire().await.expect("no other caller wants it").release().await.expect("it is ours");
        micros.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}
