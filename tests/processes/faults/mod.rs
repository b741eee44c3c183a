//! The checkers can fail: each run is done twice, by the engine as it is and by one with a fault built in, on servers
//! and wires that behave the same. What the fault breaks must be seen, and nothing must be seen without it.

mod blind_release;
mod build;
mod late_deadline;
mod new_owner;

use std::path::PathBuf;
use std::time::Duration;

use leasehold_tests::harness::proxy::Match;
use leasehold_tests::harness::redis_server::RedisServer;

use crate::lineup::Entrant;

/// The engine of a run.
#[derive(Clone, Debug)]
enum Health {
    Healthy,
    Faulty(PathBuf, &'static str),
}

impl Health {
    fn faulty(name: &'static str) -> Self {
        Self::Faulty(build::contender(), name)
    }

    fn entrant(&self, url: String, flags: &str) -> Entrant {
        let entrant = Entrant::new(url, flags);
        match self {
            Self::Healthy => entrant,
            Self::Faulty(program, name) => Entrant { fault: Some((program.clone(), name)), ..entrant },
        }
    }
}

/// A server that knows the scripts: a first request that is answered "no such script" would be struck in vain.
fn prepared_server() -> RedisServer {
    let server = RedisServer::start().expect("a server");
    let mut client = server.client().expect("a connection");
    for script in SCRIPTS {
        let loaded = client.command(&["SCRIPT", "LOAD", script]).expect("a reply");
        assert!(loaded.text().is_some_and(|sha| sha.len() == 40), "{loaded:?}");
    }
    server
}

/// Requests that give a lock back, whoever has it: those that name its channel, but do not listen to it.
fn releases() -> Match {
    Match::containing("redisson_lock__channel").and(Match::with(is_script))
}

/// Requests for a lock. Those for renewals across slots look the same: for runs without.
fn acquires() -> Match {
    Match::with(|arguments| is_script(arguments) && arguments.len() == ACQUIRE_ARGUMENTS)
}

fn is_script(arguments: &[Vec<u8>]) -> bool {
    arguments.first().is_some_and(|name| name.to_ascii_uppercase().starts_with(b"EVAL"))
}

const SCRIPTS: [&str; 3] = [
    include_str!("../../../transports/redis/scripts/acquire.lua"),
    include_str!("../../../transports/redis/scripts/release.lua"),
    concat!(
        include_str!("../../../transports/redis/scripts/forced.lua"),
        include_str!("../../../transports/redis/scripts/force_release.lua")
    ),
];
/// `EVALSHA sha 1 name ttl owner latest`
const ACQUIRE_ARGUMENTS: usize = 7;
/// Far above what any step of these runs takes.
const SOON: Duration = Duration::from_secs(20);
