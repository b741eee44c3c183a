//! Groups of acquires and releases that are lost, late or cut, and a server that stands still under many callers: nobody
//! holds what another one holds, no lease is lost, and what a lost acquire has left is released.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{AcquireError, Engine};
use leasehold_tests::harness::{
    deployment::Topology,
    proxy::{Fault, Match, Rule},
};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SECOND, until};

leasehold_tests::on_every_topology!(
    s1_s5_groups_that_are_lost_late_or_cut_leave_no_second_holder_and_no_key,
    l3_every_caller_is_answered_while_the_server_stands_still_and_work_goes_on,
);

/// What a group does.
#[derive(Clone, Copy, Debug)]
enum Group {
    Acquires,
    Releases,
}

impl Group {
    /// By the shape of its arguments: a renewal has that of acquires, but none is sent within a test.
    fn is(self, arguments: &[Vec<u8>]) -> bool {
        self.of_script(arguments).is_some_and(|fits| fits)
    }

    fn of_script(self, arguments: &[Vec<u8>]) -> Option<bool> {
        let command = arguments.first()?.to_ascii_uppercase();
        let keys: usize = std::str::from_utf8(arguments.get(2)?).ok()?.parse().ok()?;
        let values = arguments.get(3 + keys..)?;
        let is_client = |at: usize| values.get(at).is_some_and(|text| text.len() == 37 && text[36] == b':');
        let is_script = command == b"EVAL" || command == b"EVALSHA";
        Some(match self {
            Self::Acquires => is_script && is_client(2) && values.len() % 3 == 1,
            Self::Releases => is_script && is_client(1) && values.len() % 2 == 1,
        })
    }

    fn matching(self) -> Match {
        Match::with(move |arguments| self.is(arguments))
    }
}

/// Callers of two engines that take the same locks by turns.
struct Crowd {
    engines: [Engine; 2],
    callers: JoinSet<()>,
    told: Arc<Told>,
}

#[derive(Default)]
struct Told {
    over: AtomicBool,
    leases: AtomicU64,
    unavailable: AtomicU64,
    held: AtomicU64,
    together: AtomicU64,
    slowest_ms: AtomicU64,
    inside: Vec<AtomicU32>,
}

impl Crowd {
    async fn start(fixture: &Fixture, names: usize, of_one: bool) -> Self {
        let build = async || {
            let builder = fixture.builder().ttl(TTL).command_timeout(SECOND / 2).unavailable_after(SECOND);
            builder.build().await.expect("an engine")
        };
        let engines = [build().await, build().await];
        let inside = (0..names).map(|_| AtomicU32::new(0)).collect();
        let (told, mut callers) = (Arc::new(Told { inside, ..Told::default() }), JoinSet::new());
        for engine in engines.iter().take(if of_one { 1 } else { 2 }) {
            for name in 0..names {
                callers.spawn(take_turns(engine.clone(), name, told.clone()));
            }
        }
        Self { engines, callers, told }
    }

    fn leases(&self) -> u64 {
        self.told.leases.load(Ordering::SeqCst)
    }

    async fn work_goes_on(&self) {
        let leases = self.leases() + 2 * self.told.inside.len() as u64;
        until("work goes on", || self.leases() >= leases).await;
    }

    /// Ends all callers. What was left on the server is released long before its ttl ends it.
    async fn end(mut self, fixture: &Fixture) {
        self.told.over.store(true, Ordering::SeqCst);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("no panic");
        }
        until("every owner is closed", || self.engines.iter().all(|engine| engine.snapshot().closing == 0))
            .await;
        until("no key is left", || fixture.is_empty()).await;
        assert_eq!(self.told.together.load(Ordering::SeqCst), 0, "two held a lock at once");
        for engine in &self.engines {
            assert_eq!(engine.snapshot().lost, 0);
        }
    }
}

async fn take_turns(engine: Engine, name: usize, told: Arc<Told>) {
    let lock = engine.lock(format!("k{name}")).wait(WAIT);
    while !told.over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let acquired = lock.acquire().await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        told.slowest_ms.fetch_max(took, Ordering::SeqCst);
        match acquired {
            Ok(lease) => {
                if told.inside[name].fetch_add(1, Ordering::SeqCst) > 0 && lease.is_held() {
                    told.together.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(HOLD).await;
                told.inside[name].fetch_sub(1, Ordering::SeqCst);
                told.leases.fetch_add(1, Ordering::SeqCst);
                // Its outcome may be unknown: the reconciler has it then.
                drop(lease.release().await);
            }
            Err(AcquireError::Unavailable { .. }) => drop(told.unavailable.fetch_add(1, Ordering::SeqCst)),
            Err(AcquireError::TimedOut { .. }) => drop(told.held.fetch_add(1, Ordering::SeqCst)),
            Err(other) => panic!("k{name}: {other}"),
        }
    }
}

async fn s1_s5_groups_that_are_lost_late_or_cut_leave_no_second_holder_and_no_key(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let crowd = Crowd::start(&fixture, MANY, false).await;
    crowd.work_goes_on().await;
    for group in [Group::Acquires, Group::Releases] {
        for fault in FAULTS {
            let struck = fixture.proxy.rule(Rule { times: 3, ..Rule::once(group.matching(), fault) });
            let fired = tokio::time::timeout(20 * SECOND, struck.wait_fired(3)).await;
            assert!(fired.is_ok(), "{group:?} {fault:?}: {} of 3 were struck", struck.fired());
            crowd.work_goes_on().await;
        }
    }
    crowd.end(&fixture).await;
}

async fn l3_every_caller_is_answered_while_the_server_stands_still_and_work_goes_on(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let crowd = Crowd::start(&fixture, 256, true).await;
    crowd.work_goes_on().await;
    let told = crowd.told.clone();
    let masters = fixture.servers.masters().expect("masters");
    let held = told.held.load(Ordering::SeqCst);
    masters.iter().for_each(|master| master.stop().expect("stopped"));
    tokio::time::sleep(3 * SECOND).await;
    let seen = crowd.engines[0].snapshot();
    println!("after 3 s: {} owners to close, {} callers", seen.closing, seen.waiting);
    let unavailable = told.unavailable.load(Ordering::SeqCst);
    assert!(unavailable >= 256, "{unavailable} of 256 callers were told that the server is unavailable");
    assert_eq!(told.held.load(Ordering::SeqCst), held, "nobody was told that a lock is held");
    masters.iter().for_each(|master| master.cont().expect("continued"));
    crowd.work_goes_on().await;
    let slowest = told.slowest_ms.load(Ordering::SeqCst);
    println!("the slowest acquire took {slowest} ms");
    assert!(Duration::from_millis(slowest) < 10 * WAIT, "{slowest} ms");
    crowd.end(&fixture).await;
}

/// Callers of each engine. An engine has at most 512 calls of their own unanswered at a node (`dispatch/window.rs`); with three
/// masters, more callers than that wait for each, and go together, also on a slow machine.
const MANY: usize = 2_000;
/// Many requests are on their way at once, so none is lost without its connection: each reply behind a lost one would be
/// taken for that of the request before it. An answer that comes after the command timeout counts as none.
const FAULTS: [Fault; 4] =
    [Fault::CutBefore, Fault::CutAfter, Fault::DelayReply(SECOND), Fault::DelayRequest(SECOND)];
const HOLD: Duration = Duration::from_millis(1);
const WAIT: Duration = Duration::from_secs(2);
/// No renewal is due within a test, and no key goes by itself.
const TTL: Duration = Duration::from_secs(300);
