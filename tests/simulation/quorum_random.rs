//! Random runs of a quorum: processes that contend for two names on three or five servers, while at most a minority of
//! the servers is cut off, restarts empty, or steps its clock within the margin, in any ttl. No two holders may overlap.
//!
//! With `--cfg leasehold_fault` (`tests/processes/with_faults.sh`) and `LEASEHOLD_FAULT=small_quorum` or `late_join` the
//! checker must find an overlap.

use std::sync::{Arc, Mutex};

use leasehold::QuorumLease;
use leasehold_memory::{ClockStep, Cut, Fault, Operation, Restart};
use leasehold_tests::harness::{checkers, recorder::Window, seed::seed};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::fixture::{Process, Servers, millis, now, pass, seconds};

/// The ttl of every lease, and the grace after a restart.
const TTL: u64 = 6;
const RUN: u64 = 120;
const RUNS: u64 = 5;

#[derive(Clone, Default)]
struct History {
    windows: Arc<Mutex<Vec<Window>>>,
}

impl History {
    fn note(&self, lease: &QuorumLease, holder: String, process: u32, from_ns: u64, until_ns: u64) {
        let key = lease.name().to_owned();
        let token = i64::try_from(from_ns).expect("a time");
        self.windows.lock().unwrap().push(Window { key, holder, process, token, from_ns, until_ns });
    }
}

// Holds for a while, and looks every ms: the window ends with the last look that said held.
async fn contend(process: Arc<Process>, number: u32, seed: u64, history: History) {
    let mut chance = StdRng::seed_from_u64(seed);
    for round in 0.. {
        let name = ["a", "b"][chance.random_range(0..2)];
        let lock = process.quorum.lock(name).ttl(seconds(TTL)).wait(seconds(20));
        let lock = if chance.random_bool(0.3) { lock.no_renewal() } else { lock };
        let Ok(lease) = lock.acquire().await else { continue };
        let (from_ns, mut until_ns) = (now().as_nanos(), now().as_nanos());
        let end = now() + millis(if chance.random_bool(0.2) { 9_000 } else { chance.random_range(1..300) });
        while now() < end && lease.is_held() {
            until_ns = now().as_nanos();
            pass(millis(1)).await;
        }
        history.note(&lease, format!("{number} {round}"), number, from_ns, until_ns);
        match chance.random_range(0..3) {
            0 => drop(lease),
            _ => drop(lease.release().await),
        }
        pass(millis(chance.random_range(0..40))).await;
    }
}

// A minority has trouble at any time: each trouble ends, and the grace is over, before the next server has one.
async fn trouble(servers: Arc<Servers>, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    let minority = servers.all.len() / 2;
    loop {
        let first = chance.random_range(0..servers.all.len());
        for place in 0..minority {
            let server = &servers.all[(first + place) % servers.all.len()];
            let memory = server.transport.inner();
            let cut = [Cut::Refused, Cut::Reset, Cut::BlackHole, Cut::RepliesLost][chance.random_range(0..4)];
            let step = millis(chance.random_range(10..250)); // the margin is 300 ms
            match chance.random_range(0..6) {
                0 | 1 => server.faults.cut(cut),
                2 => memory.restart(Restart::DataLost),
                3 => memory.step_server_clock(ClockStep::Forward(step)),
                4 => memory.step_server_clock(ClockStep::Back(step)),
                _ => {
                    let operation =
                        [Operation::Acquire, Operation::Release, Operation::Renew][chance.random_range(0..3)];
                    let delay = millis(chance.random_range(1..3_000));
                    let fault = [
                        Fault::DelayReply(delay),
                        Fault::DelayRequest(delay),
                        Fault::LoseReply,
                        Fault::Repeat,
                    ][chance.random_range(0..4)];
                    drop(server.faults.on(operation).times(20).inject(fault));
                }
            }
        }
        pass(millis(chance.random_range(50..8_000))).await;
        servers.all.iter().for_each(|server| server.faults.heal());
        servers.all.iter().for_each(|server| server.faults.clear());
        pass(seconds(2 * TTL + 1)).await;
    }
}

async fn run(seed: u64) -> usize {
    let mut chance = StdRng::seed_from_u64(seed);
    let servers = Arc::new(Servers::new(if chance.random_bool(0.7) { 3 } else { 5 }));
    let history = History::default();
    let (mut processes, mut tasks) = (vec![], vec![]);
    for number in 0..3 {
        let process =
            servers.process_with(|builder| builder.restart_grace(seconds(TTL)).ttl(seconds(TTL))).await;
        let process = Arc::new(process);
        for task in 0..2 {
            let process = process.clone();
            tasks.push(tokio::spawn(contend(process, 2 * number + task, chance.random(), history.clone())));
        }
        processes.push(process);
    }
    pass(seconds(TTL + 1)).await;
    let trouble = tokio::spawn(trouble(servers.clone(), chance.random()));
    pass(seconds(RUN)).await;
    trouble.abort();
    tasks.iter().for_each(|task| task.abort());
    servers.all.iter().for_each(|server| server.faults.heal());
    servers.all.iter().for_each(|server| server.faults.clear());
    pass(seconds(1)).await;
    for process in &processes {
        process.settles_within(60).await;
    }
    for engine in &processes[0].engines {
        for name in ["a", "b"] {
            assert_eq!(engine.lock(name).holder().await.unwrap(), None, "{name} is left on a server");
        }
    }
    let windows = history.windows.lock().unwrap();
    assert_eq!(checkers::overlaps(&windows).violations, []);
    windows.len()
}

#[test]
fn s1_l6_hold_in_random_runs_of_a_quorum_with_a_minority_in_trouble() {
    let first = seed();
    let mut windows = 0;
    for round in 0..RUNS {
        let seed = first.wrapping_add(round);
        println!("run {round}: LEASEHOLD_SEED={seed} makes it the first");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        windows += runtime.block_on(run(seed));
    }
    println!("{windows} leases");
    assert!(windows > RUNS as usize * 60, "{windows} leases");
}
