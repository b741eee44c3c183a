//! Acquire + release pairs of distinct keys at 1 to 256 tasks, on memory and on a real server, near and half a
//! millisecond away, with processors that may sleep and with processors that are kept awake. The plainest peer and the
//! server's own limit are beside them in the same run, in turn.

mod contestant;
mod one_task;
mod place;
mod rows;
mod used;

use crate::{processors::Processors, runtime::one_worker, size::Size, table::Table};
use contestant::lineup;
use place::Place;
use rows::Rows;
use used::Round;

const TASKS: [usize; 6] = [1, 8, 16, 32, 64, 256];

/// On a server of this machine, with processors that may sleep.
pub(crate) fn measure(table: &mut Table, size: Size) {
    measure_at(table, size, &Place::near(Processors::MaySleep));
}

/// Both distances, both kinds of processors.
pub(crate) fn measure_all(table: &mut Table, size: Size) {
    for processors in Processors::BOTH {
        measure_at(table, size, &Place::near(processors));
    }
    for processors in Processors::BOTH {
        measure_at(table, size, &Place::far(processors));
    }
}

fn measure_at(table: &mut Table, size: Size, place: &Place) {
    let runtime = one_worker();
    let _awake = place.processors.arrange();
    one_task::measure(table, size, &runtime, place);
    let contestants = runtime.block_on(lineup(place));
    for tasks in TASKS {
        let pairs = place.pairs(size, tasks);
        let mut client = place.server.client().expect("a connection");
        let mut rounds: Vec<Vec<Round>> = contestants.iter().map(|_| Vec::new()).collect();
        for _ in 0..size.rounds {
            for (contestant, rounds) in contestants.iter().zip(&mut rounds) {
                let run = || contestant.pairs_per_second(&runtime, place, tasks, pairs);
                rounds.push(Round::of(&mut client, pairs, run));
            }
        }
        let names = contestants.iter().map(contestant::Contestant::name);
        Rows { place, tasks, rounds: names.zip(rounds).collect() }.add_to(table);
    }
}
