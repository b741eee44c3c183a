//! One of the two processes, from within.

use std::io;

use super::{
    engine_side::EngineSide,
    raw_side::RawSide,
    side::{ACQUIRE, Acquired, Acts, READY, RELEASE},
};

/// What the process does under `--hand-over-side KIND URL NUMBER`, until its standard input ends.
pub(crate) fn run(arguments: &[String]) {
    let [kind, url, number] = arguments else { panic!("three words, not {arguments:?}") };
    let side: &mut dyn Acts = match kind.as_str() {
        "Raw" => &mut RawSide::connect(url, number).expect("the server is up"),
        kind => &mut EngineSide::start(url, kind == "OnCallers"),
    };
    println!("{READY}");
    for order in io::stdin().lines() {
        match order.expect("text").as_str() {
            ACQUIRE => {
                let Acquired { at, asks } = side.acquire();
                println!("{at} {asks}");
            }
            RELEASE => println!("{} 0", side.release()),
            other => panic!("{other} is no order"),
        }
    }
}
