//! Two fleets on one place: one whose contenders hold for a moment, and one whose contenders hold longer than a master
//! needs to hand over.

use std::{path::PathBuf, time::Duration};

use leasehold_tests::harness::length::is_long;
use tempfile::TempDir;

use crate::{
    fleet::FLEET,
    history::History,
    place::{Place, Strike},
    program::Program,
};

pub(crate) struct Pair {
    fleets: [Program; 2],
    logs: TempDir,
}

impl Pair {
    /// Both hold all of their leases when this returns.
    pub(crate) fn on(place: &Place, ttl: Duration) -> Self {
        let (file, logs) = (place.file(), TempDir::new().expect("a directory"));
        let start = |number: usize| {
            let log = log(&logs, number);
            let shape = format!(
                "--seconds 600 --leases {LEASES} --keys {KEYS} --ttl-ms {} --allow-loss --json {}",
                ttl.as_millis(),
                CONTENDERS[number]
            );
            let places = ["--config", file.path(), "--log", log.to_str().expect("UTF-8")];
            Program::start(FLEET, &shape.split(' ').chain(places).collect::<Vec<_>>())
        };
        let mut pair = Self { fleets: [start(0), start(1)], logs };
        pair.hold_all();
        pair
    }

    /// Waits until each says so from now on.
    pub(crate) fn hold_all(&mut self) {
        for fleet in &mut self.fleets {
            fleet.forget_stderr();
            fleet.until_stderr(|line| held(line).is_some_and(|held| held >= LEASES));
        }
    }

    /// Ends both in good order: neither found a fault in what itself has seen. Releases may be unconfirmed: an owner with
    /// a renewal that the old master never answered is open for some seconds.
    pub(crate) fn end(self) -> History {
        self.fleets.iter().for_each(Program::interrupt);
        for fleet in self.fleets {
            let json = fleet.end().expect_code(0).json();
            assert_eq!(json["overlaps"], 0, "{json}");
        }
        let logs: Vec<PathBuf> = (0..2).map(|number| log(&self.logs, number)).collect();
        History::read(logs.iter().map(PathBuf::as_path))
    }
}

/// Under way, then struck, then under way again for a while.
pub(crate) fn struck(
    place: &mut Place,
    ttl: Duration,
    strike: impl FnOnce(&mut Place) -> Strike,
) -> (Strike, History) {
    let mut pair = Pair::on(place, ttl);
    std::thread::sleep(stretch());
    let strike = strike(place);
    // Longer than a ttl: what is to be lost is lost by then.
    std::thread::sleep(stretch());
    pair.hold_all();
    let history = pair.end();
    place.assert_no_lock_left();
    (strike, history)
}

fn log(logs: &TempDir, number: usize) -> PathBuf {
    logs.path().join(format!("{number}.jsonl"))
}

/// `  12.0 s  held 157  waiting ...`
fn held(line: &str) -> Option<usize> {
    line.split_once("s  held ")?.1.split(' ').next()?.parse().ok()
}

/// How long there is work before a strike, and after it.
fn stretch() -> Duration {
    Duration::from_secs(if is_long() { 20 } else { 3 })
}

/// Of each fleet.
pub(crate) const LEASES: usize = 150;
const KEYS: usize = 16;
const CONTENDERS: [&str; 2] = ["--contenders 16 --hold-ms 5", "--contenders 8 --hold-ms 400"];
