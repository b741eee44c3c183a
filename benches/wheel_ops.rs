//! The pure wheel: time per operation at three sizes.

use std::{hint::black_box, time::Instant};

use crate::{Size, rounds::Spread, table::Table, wheel::Wheel};

pub(crate) fn measure(table: &mut Table, size: Size) {
    for entries in [1_000, 100_000, size.wheel] {
        let figures = (0..size.rounds).map(|_| nanos_per_operation(entries)).collect();
        table.add(
            "P11",
            format!("wheel: insert, fire, insert again; {entries} entries"),
            Spread::of(figures),
            "ns/op",
        );
    }
}

/// Two operations an entry: it fires and goes in again. A third of a revolution apart, as leases are.
fn nanos_per_operation(entries: usize) -> f64 {
    let (mut wheel, mut fired, rounds) = (Wheel::new(0), Vec::new(), 4);
    for entry in 0..entries {
        wheel.insert(entry as u32, 1 + (entry % 200) as u64);
    }
    let begin = Instant::now();
    let mut operations = 0;
    for tick in 1..=rounds * 200u64 {
        wheel.advance(tick, &mut fired);
        operations += 2 * fired.len();
        for entry in fired.drain(..) {
            wheel.insert(black_box(entry), tick + 200);
        }
    }
    begin.elapsed().as_nanos() as f64 / operations as f64
}

/// For callgrind: so many operations on a wheel of 100,000.
pub(crate) fn turn(operations: usize) {
    let (mut wheel, mut fired) = (Wheel::new(0), Vec::new());
    for entry in 0..100_000u32 {
        wheel.insert(entry, 1 + u64::from(entry % 200));
    }
    let (mut done, mut tick) = (0, 0);
    while done < operations {
        tick += 1;
        wheel.advance(tick, &mut fired);
        done += 2 * fired.len();
        for entry in fired.drain(..) {
            wheel.insert(entry, tick + 200);
        }
    }
}
