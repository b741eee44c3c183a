//! The pure wheel at three sizes: time and instructions per operation.

#[allow(dead_code, unreachable_pub)]
#[path = "../engine/src/renewal/wheel.rs"]
mod wheel;

use std::{hint::black_box, time::Instant};

use crate::{callgrind, rounds::Spread, size::Size, table::Table};

use self::wheel::Wheel;

pub(crate) fn measure(table: &mut Table, size: Size) {
    count(table, size);
    for entries in sizes(size.wheel) {
        let figures = (0..size.rounds).map(|_| nanos_per_operation(entries)).collect();
        table.add("P11", format!("wheel of {entries}: insert, cancel, fire"), Spread::of(figures), "ns/op");
    }
}

/// Instructions.
pub(crate) fn count(table: &mut Table, size: Size) {
    let operations = size.counts.wheel_operations;
    for entries in sizes(size.wheel) {
        let each = callgrind::instructions(&["--count", &format!("wheel_of_{entries}")], operations);
        table.add(
            "P11",
            format!("wheel of {entries}: insert, cancel, fire"),
            Spread::exactly(each),
            "instr/op",
        );
        table.at_most(OPERATION_INSTRUCTIONS_MAX);
    }
}

fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    [1_000, 100_000, 1_000_000].into_iter().filter(move |entries| *entries <= largest)
}

fn nanos_per_operation(entries: usize) -> f64 {
    let mut turning = Turning::new(entries);
    // At least four periods, and long enough to be timed.
    let (begin, least) = (Instant::now(), (16 * entries).max(400_000));
    let operations = turning.turn(least);
    begin.elapsed().as_nanos() as f64 / operations as f64
}

/// For callgrind: so many operations on a wheel of so many entries.
pub(crate) fn turn(entries: usize, operations: usize) {
    Turning::new(entries).turn(operations);
}

/// A wheel whose entries are a period apart, as leases are.
struct Turning {
    wheel: Wheel,
    fired: Vec<u32>,
    tick: u64,
}

impl Turning {
    fn new(entries: usize) -> Self {
        let mut wheel = Wheel::new(0);
        for entry in 0..entries as u32 {
            wheel.insert(entry, 1 + u64::from(entry) % PERIOD);
        }
        Self { wheel, fired: Vec::new(), tick: 0 }
    }

    /// Four operations an entry: it fires, goes in as a renewal's deadline does, is cancelled, and goes in again.
    fn turn(&mut self, operations: usize) -> usize {
        let mut done = 0;
        while done < operations {
            self.tick += 1;
            self.wheel.advance(self.tick, &mut self.fired);
            done += 4 * self.fired.len();
            for entry in self.fired.drain(..) {
                self.wheel.insert(black_box(entry), self.tick + 2 * PERIOD);
                self.wheel.cancel(black_box(entry));
                self.wheel.insert(black_box(entry), self.tick + PERIOD);
            }
        }
        done
    }
}

/// In ticks: a third of 30 s.
const PERIOD: u64 = 200;
const OPERATION_INSTRUCTIONS_MAX: f64 = 400.0;
