//! Two engines on a deployment, with everything that goes on at once.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use leasehold::{Engine, Losses};
use leasehold_tests::{
    conservation::{Numbers, assert_balances_within},
    harness::{
        polling::{found_within, holds_within},
        server_table::{Leftover, leftovers_seen_by},
    },
};
use tokio::runtime::{self, Runtime};

use crate::{
    deployment::Deployment,
    leases::{LEASES_ENGINE, Leases},
    log::Log,
    moment::Moment,
    news::News,
    report::Report,
    traffic::{Recovery, Traffic},
    waiters::{WAITERS_ENGINE, Waiter},
};

pub(crate) struct Context {
    pub(crate) deployment: Deployment,
    pub(crate) leases: Leases,
    pub(crate) traffic: Traffic,
    pub(crate) news: [News; 2],
    pub(crate) engines: [Engine; 2],
    pub(crate) runtime: Runtime,
    pub(crate) waiters: Vec<Waiter>,
    losses: [Losses; 2],
    pub(crate) log: Arc<Log>,
}

impl Context {
    /// Everything is under way when this returns, and every lease was renewed.
    pub(crate) fn on(deployment: Deployment) -> Self {
        Self::holding(deployment, LEASES)
    }

    /// The same with so many leases of each part.
    pub(crate) fn holding(deployment: Deployment, each: usize) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let news = [News::default(), News::default()];
        let engines = news.each_ref().map(|news| engine(&runtime, &deployment, news));
        let losses = engines.each_ref().map(Engine::losses);
        let log = Arc::<Log>::default();
        let leases = Leases::take(&runtime, &engines[LEASES_ENGINE], &deployment, each);
        let traffic = Traffic::start(&runtime, &engines, &deployment, &log);
        let mut context =
            Self { deployment, leases, traffic, news, engines, runtime, waiters: Vec::new(), losses, log };
        context.wait_for_some();
        context.wait_for_a_period();
        context
    }

    // Some of the leases of each part.
    fn wait_for_some(&mut self) {
        let wanted: Vec<String> = self.deployment.parts().flat_map(|part| self.wanted(part)).collect();
        let engine = &self.engines[WAITERS_ENGINE];
        let start = |key| Waiter::start(&self.runtime, engine, key, &self.log);
        self.waiters = wanted.into_iter().map(start).collect();
    }

    fn wanted(&self, part: usize) -> Vec<String> {
        // One more, so that leases of all ttls are among them.
        self.leases.of(part).step_by(LEASES / WAITERS + 1).map(|held| held.lease.name().to_owned()).collect()
    }

    /// Waits until all leases have been renewed once more.
    pub(crate) fn wait_for_a_period(&self) {
        let engine = &self.engines[LEASES_ENGINE];
        let enough = engine.snapshot().renewals + engine.snapshot().held;
        let renewed = holds_within(PATIENCE, || engine.snapshot().renewals >= enough);
        assert!(renewed, "{:?}", engine.snapshot());
    }

    /// Waits until work goes on on a part, and says how soon after `healed` it did. L5: within 3 s, which is more than a
    /// third of any ttl here.
    pub(crate) fn recovered(&self, part: usize, healed: Moment) -> Recovery {
        let recovery = self.recovered_but_for_lost_releases(part, healed);
        assert!(recovery.contended <= L5, "{recovery:?}");
        recovery
    }

    /// The same where the new master may not have heard of the last releases: such a lock is held until its ttl is over.
    pub(crate) fn recovered_but_for_lost_releases(&self, part: usize, healed: Moment) -> Recovery {
        let recovery = found_within(PATIENCE, || self.traffic.recovery(part, healed));
        let recovery = recovery.expect("work goes on within a minute");
        assert!(recovery.fresh <= L5, "{recovery:?}");
        assert!(recovery.contended <= TTL + L5, "{recovery:?}");
        recovery
    }

    /// Ends everything: the waited-for leases first, so that their waiters are told; nothing may be left.
    pub(crate) fn end(self) -> Report {
        let Self { deployment, leases, traffic, engines, runtime, waiters, losses, log, .. } = self;
        let errors = traffic.end(&runtime);
        let (held, stall) = leases.unwatched();
        let mut report = Report::new(held, losses, stall, errors);
        report.woken = release_waited_for(&runtime, &mut report, &log, &waiters);
        report.release_all(&runtime, &log);
        waiters.into_iter().for_each(|waiter| waiter.end(&runtime));
        report.judge_windows(&log);
        assert_conserved(&engines, &report);
        // What the old master did not confirm is open until its ttl is over.
        let shutdown = async { [engines[0].shutdown(PATIENCE).await, engines[1].shutdown(PATIENCE).await] };
        let left = runtime.block_on(shutdown);
        assert!(left.iter().all(|left| left.unconfirmed.is_empty()), "{left:?}");
        assert_conserved(&engines, &report);
        drop(engines);
        runtime.shutdown_timeout(L5);
        assert_nothing_left(&deployment);
        report
    }
}

fn engine(runtime: &Runtime, deployment: &Deployment, news: &News) -> Engine {
    let builder = Engine::builder(deployment.transport()).ttl(TTL).unavailable_after(PATIENCE);
    runtime.block_on(builder.recorder(news.clone()).metrics().build()).expect("an engine")
}

/// When all is given back, every wait and every lease is accounted for in its class, those among them that were told to be
/// lost.
fn assert_conserved(engines: &[Engine; 2], report: &Report) {
    for (number, engine) in engines.iter().enumerate() {
        assert_balances_within(PATIENCE, engine);
        let numbers = Numbers::of(engine);
        let total = |metric| numbers.total(metric, |_| true);
        assert_eq!(total("leasehold_held") + total("leasehold_waiters"), 0.0);
        assert!(total("leasehold_leases_lost_total") >= report.losses_of(number) as f64);
        assert!(total("leasehold_release_total") > 100.0, "work was done");
    }
}

/// How long each waiter waited for a lock that was released now.
fn release_waited_for(
    runtime: &Runtime,
    report: &mut Report,
    log: &Log,
    waiters: &[Waiter],
) -> BTreeMap<String, Duration> {
    let waiting: Vec<_> = waiters.iter().filter(|waiter| waiter.granted().is_none()).collect();
    let released = Moment::now();
    for waiter in &waiting {
        report.release(runtime, log, &waiter.key);
    }
    let all = holds_within(PATIENCE, || waiting.iter().all(|waiter| waiter.granted().is_some()));
    assert!(all, "a waiter was not woken");
    let woken = |waiter: &&Waiter| (waiter.key.clone(), waiter.granted().expect("woken").since(released));
    let woken: BTreeMap<_, _> = waiting.iter().map(woken).collect();
    assert!(woken.values().all(|took| *took <= L5), "{woken:?}");
    woken
}

/// L6: no thread, no connection, no key, no channel.
fn assert_nothing_left(deployment: &Deployment) {
    let mut left = Vec::new();
    let nothing = holds_within(PATIENCE, || {
        left = deployment.nodes().iter().filter(|node| node.runs()).flat_map(left_on).collect();
        left.extend(threads());
        left.is_empty()
    });
    assert!(nothing, "{left:?}");
}

fn left_on(node: &Arc<leasehold_tests::harness::node::Node>) -> Vec<String> {
    let mut client = node.client().expect("a connection");
    let clients = client.command(&["CLIENT", "LIST"]).expect("a list").text().expect("text");
    let ours = clients.lines().filter(|line| line.contains("name=leasehold")).map(str::to_owned);
    let left = leftovers_seen_by(&mut client).expect("an answer").into_iter();
    let left = left.filter(|left| !matches!(left, Leftover::Channel(name) if name == SENTINELS_CHANNEL));
    ours.chain(left.map(|left| format!("{left:?}"))).collect()
}

fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("this machine is Linux").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let is_of_an_engine = |name: &String| name.starts_with("leasehold-") && name.trim_end() != LOG_THREAD;
    names.filter(is_of_an_engine).collect()
}

pub(crate) const LEASES: usize = 200;
const WAITERS: usize = 10;
const TTL: Duration = Duration::from_secs(3);
pub(crate) const L5: Duration = Duration::from_secs(3);
/// Far above anything that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Reports log lines for the life of the process; no engine owns it.
const LOG_THREAD: &str = "leasehold-log";
const SENTINELS_CHANNEL: &str = "__sentinel__:hello";
