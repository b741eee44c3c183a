//! The process with our engine: it takes the leases and holds them until its standard input ends.

use std::{
    io::{self, Read},
    str::FromStr,
    time::{Duration, Instant},
};

use leasehold::{Engine, Lease};
use leasehold_redis::RedisTransport;
use tokio::{runtime::Runtime, time::sleep_until};

use crate::runtime::one_worker;

/// What the process does under `--hold-until-told URL LEASES TTL_MS OVER_MS`: with an `OVER_MS` of 0 it takes the leases
/// as fast as the server grants them, else evenly over this time. It begins with the first line that it is told.
pub(crate) fn run(arguments: &[String]) {
    let [url, leases, ttl, over] = arguments else { panic!("four words, not {arguments:?}") };
    let (ttl, over) = (Duration::from_millis(number(ttl)), Duration::from_millis(number(over)));
    let runtime = one_worker();
    let engine = engine(&runtime, url, ttl);
    println!("{READY}");
    wait_for_a_line();
    let leases = runtime.block_on(take(&engine, number(leases), over));
    println!("{HELD}");
    wait_for_the_end();
    let held = leases.iter().filter(|lease| lease.is_held()).count();
    assert_eq!(held, leases.len(), "a lease was lost");
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn engine(runtime: &Runtime, url: &str, ttl: Duration) -> Engine {
    let builder = Engine::builder(RedisTransport::from_url(url).expect("a good URL")).ttl(ttl);
    runtime.block_on(builder.build()).expect("the server is up")
}

/// In pieces that lie closer together than two looks of the engine at its renewals, which are 50 ms apart.
async fn take(engine: &Engine, leases: usize, over: Duration) -> Vec<Lease> {
    let pieces = ((over.as_millis() / PIECE.as_millis()) as usize).clamp(1, leases);
    let (mut held, began) = (Vec::with_capacity(leases), Instant::now());
    for piece in 0..pieces {
        sleep_until((began + over.mul_f64(piece as f64 / pieces as f64)).into()).await;
        let names = (piece..leases).step_by(pieces).map(name);
        let granted = engine.acquire_all(names).await;
        held.extend(granted.into_iter().map(|lease| lease.expect("no other caller wants it")));
    }
    held
}

/// Of 32 bytes.
pub(super) fn name(number: usize) -> String {
    format!("lease:{number:026}")
}

fn wait_for_a_line() {
    io::stdin().read_line(&mut String::new()).expect("text");
}

fn wait_for_the_end() {
    // An error is an end, too.
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

pub(super) const READY: &str = "ready";
pub(super) const HELD: &str = "held";
const PIECE: Duration = Duration::from_millis(10);
