//! How many commands a grant of a fair lock costs, counted on the wire: all that the engines send, but for what a
//! connection sends without any lock.
//!
//! Beats are counted apart. Their number depends on how long callers wait, not on the number of grants.

use std::{collections::BTreeMap, ops::Sub, time::Duration};

use leasehold::Engine;
use leasehold_tests::harness::{deployment::Topology, proxy::SeenRequest};
use tokio::{task::JoinSet, time::timeout};

use crate::fixture::{Fixture, until};

leasehold_tests::on_every_topology!(
    a_grant_of_a_fair_lock_costs_four_commands_with_1_and_with_1000_waiters,
    a_caller_that_comes_again_and_again_costs_four_commands_a_grant,
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ask,
    Beat,
    Release,
    Subscribe,
    Unsubscribe,
}

impl Kind {
    fn of(request: &SeenRequest) -> Option<Self> {
        match request.command().as_str() {
            "SUBSCRIBE" | "SSUBSCRIBE" => Some(Self::Subscribe),
            "UNSUBSCRIBE" | "SUNSUBSCRIBE" => Some(Self::Unsubscribe),
            "EVAL" | "EVALSHA" => Self::of_script(&request.arguments),
            _ => None,
        }
    }

    /// By the number of the values behind the keys. The probe of a cluster's connections has no keys.
    fn of_script(arguments: &[Vec<u8>]) -> Option<Self> {
        let keys = std::str::from_utf8(&arguments[2]).expect("a number").parse::<usize>().expect("a number");
        match arguments.len() - 3 - keys {
            _ if keys == 0 => None,
            7 if arguments[arguments.len() - 2].ends_with(b":") => Some(Self::Beat),
            7 => Some(Self::Ask),
            4 => Some(Self::Release),
            values => panic!("a script with {values} values: {arguments:?}"),
        }
    }
}

/// How many commands were sent.
#[derive(Debug)]
struct Counts(BTreeMap<Kind, usize>);

impl Counts {
    fn of(fixture: &Fixture) -> Self {
        let mut counts = BTreeMap::new();
        for kind in fixture.sent(|_| true).iter().filter_map(Kind::of) {
            *counts.entry(kind).or_default() += 1;
        }
        Self(counts)
    }

    fn get(&self, kind: Kind) -> usize {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// Two asks, a release and a subscription for each grant. The end of a subscription is sent later, and one command
    /// may end many. An ask that is not answered in time is sent again, so a tenth more is allowed.
    fn assert_four_a_grant(&self, grants: usize) {
        let all = self.get(Kind::Ask) + self.get(Kind::Release) + self.get(Kind::Subscribe);
        println!("{grants} grants, {:.2} commands each: {self:?}", all as f64 / grants as f64);
        assert!(10 * all <= 44 * grants, "{all} commands for {grants} grants: {self:?}");
        assert!(self.get(Kind::Unsubscribe) <= grants, "{self:?}");
        assert!(self.get(Kind::Release) >= grants, "the releases are not recognised: {self:?}");
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let left = |(kind, count)| (kind, count - earlier.get(kind));
        Self(self.0.into_iter().map(left).collect())
    }
}

async fn engines(fixture: &Fixture) -> Vec<Engine> {
    let mut engines = Vec::new();
    for _ in 0..PROCESSES {
        engines.push(fixture.builder().build().await.expect("an engine"));
    }
    engines
}

async fn a_grant_of_a_fair_lock_costs_four_commands_with_1_and_with_1000_waiters(topology: Topology) {
    for waiters in [1, 10, 100, 1_000] {
        let fixture = Fixture::of_topology(topology);
        let engines = engines(&fixture).await;
        let held = engines[0].fair_lock("k").acquire().await.expect("a free lock");
        let mut callers = JoinSet::new();
        for number in 0..waiters {
            callers.spawn(hold(engines[number % PROCESSES].clone(), 1));
        }
        until("all callers are in the line", || in_line(&fixture) == waiters as i64).await;
        let joined = Counts::of(&fixture);
        held.release().await.expect("held to the end");
        served(callers, &fixture).await;
        let all = Counts::of(&fixture);
        all.assert_four_a_grant(waiters + 1);
        let handed_over = all - joined;
        println!("{waiters} waiters; since the line is complete {handed_over:?}");
        assert!(10 * handed_over.get(Kind::Ask) <= 11 * waiters, "a place asks out of turn: {handed_over:?}");
    }
}

/// Each caller joins the line anew after its release, so each joins alone.
async fn a_caller_that_comes_again_and_again_costs_four_commands_a_grant(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let mut callers = JoinSet::new();
    for engine in engines(&fixture).await {
        callers.spawn(hold(engine, TIMES));
    }
    served(callers, &fixture).await;
    Counts::of(&fixture).assert_four_a_grant(PROCESSES * TIMES);
}

async fn hold(engine: Engine, times: usize) {
    for _ in 0..times {
        let lease = engine.fair_lock("k").acquire().await.expect("its turn");
        lease.release().await.expect("held to the end");
    }
}

async fn served(mut callers: JoinSet<()>, fixture: &Fixture) {
    let all = async {
        while let Some(done) = callers.join_next().await {
            done.expect("no panic");
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        panic!("{} callers wait: {} in the line, {:?}", callers.len(), in_line(fixture), Counts::of(fixture));
    }
}

fn in_line(fixture: &Fixture) -> i64 {
    fixture.command(&["LLEN", "redisson_lock_queue:{k}"]).integer().expect("a number")
}

const PROCESSES: usize = 4;
const TIMES: usize = 50;
const PATIENCE: Duration = Duration::from_secs(300);
