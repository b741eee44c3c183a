//! What metrics tell of leaders and jobs: each term and each try counts once, and a gauge never says that a candidate
//! leads whose lease is over.

use std::future::pending;

use leasehold::{Engine, Job, JobOutcome, Leader, RunError};
use leasehold_memory::{Cut, MemoryTransport};
use leasehold_tests::conservation::Numbers;
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, breathe, builder, ground_with, millis, pass, seconds};

/// What work returns.
type Outcome = Result<(), &'static str>;

async fn fixture() -> Fixture {
    ground_with(|builder| builder.metrics()).await
}

fn candidate(engine: &Engine, class: &str) -> JoinHandle<Result<(), RunError<&'static str>>> {
    let lock = engine.lock(format!("leader of {class}")).ttl(seconds(6)).class(class);
    tokio::spawn(Leader::of(lock).run(|_| pending()))
}

fn of(engine: &Engine, metric: &str, class: &str) -> f64 {
    Numbers::of(engine).one(metric, &[class, "exclusive"])
}

fn terms_ended(engine: &Engine, end: &str) -> f64 {
    Numbers::of(engine).one("leasehold_terms_ended_total", &["a", "exclusive", end])
}

fn job_runs(engine: &Engine, outcome: &str) -> f64 {
    Numbers::of(engine).one("leasehold_job_runs_total", &["jobs", "exclusive", outcome])
}

#[tokio::test(start_paused = true)]
async fn a_leader_and_a_follower_stand_in_one_election_that_one_leads() {
    let fixture = fixture().await;
    let memory = &fixture.transport;
    let other = builder(memory).metrics().build().await.unwrap();
    let (leader, _follower) = (candidate(&fixture.engine, "a"), candidate(&other, "a"));
    pass(seconds(20)).await;
    let gauges = |engine| ["leasehold_elections", "leasehold_leading"].map(|gauge| of(engine, gauge, "a"));
    assert_eq!([gauges(&fixture.engine), gauges(&other)], [[1.0, 1.0], [1.0, 0.0]]);
    leader.abort();
    pass(seconds(1)).await;
    assert_eq!([gauges(&fixture.engine), gauges(&other)], [[0.0, 0.0], [1.0, 1.0]]);
    assert_eq!((terms_ended(&fixture.engine, "dropped"), terms_ended(&other, "dropped")), (1.0, 0.0));
    assert_eq!(of(&other, "leasehold_terms_begun_total", "a"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_counts_as_lost_and_its_candidate_does_not_lead() {
    let fixture = fixture().await;
    let _leader = candidate(&fixture.engine, "a");
    pass(seconds(1)).await;
    assert_eq!(of(&fixture.engine, "leasehold_leading", "a"), 1.0);
    fixture.faults.cut(Cut::BlackHole);
    pass(seconds(7)).await;
    assert_eq!(
        (of(&fixture.engine, "leasehold_leading", "a"), terms_ended(&fixture.engine, "lost")),
        (0.0, 1.0)
    );
    fixture.faults.heal();
    pass(seconds(20)).await;
    assert_eq!(of(&fixture.engine, "leasehold_leading", "a"), 1.0);
    assert_eq!(of(&fixture.engine, "leasehold_terms_begun_total", "a"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ends_in_another_way_counts_as_that() {
    let fixture = fixture().await;
    let engine = &fixture.engine;
    let lock = || engine.lock("leader").class("a");
    Leader::of(lock()).run(|_| async { Ok::<_, &str>(()) }).await.unwrap();
    assert_eq!(terms_ended(engine, "finished"), 1.0);
    let leader = Leader::of(lock());
    let watch = leader.watch();
    let running = tokio::spawn(leader.run(|_| pending::<Outcome>()));
    pass(seconds(1)).await;
    watch.resign();
    breathe().await;
    assert_eq!(terms_ended(engine, "resigned"), 1.0);
    pass(seconds(5)).await; // it leads again
    let metrics = engine.metrics().unwrap();
    engine.shutdown(seconds(1)).await;
    assert!(running.await.unwrap().is_err());
    let ended = |end| Numbers::read(&metrics).one("leasehold_terms_ended_total", &["a", "exclusive", end]);
    assert_eq!(["finished", "resigned", "shutdown", "lost", "dropped"].map(ended), [1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(of(engine, "leasehold_terms_begun_total", "a"), 3.0);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_whose_task_is_blocked_is_not_told_to_lead_without_a_lease() {
    let fixture = fixture().await;
    let leader = Leader::of(fixture.engine.lock("leader").ttl(seconds(6)).class("a"));
    let mut running = Box::pin(leader.run(|_| pending::<Outcome>()));
    let begins = async {
        while Numbers::of(&fixture.engine).total("leasehold_leading", |_| true) < 1.0 {
            pass(millis(10)).await;
        }
    };
    tokio::select! { _ = &mut running => panic!("it leads"), () = begins => {} }
    fixture.faults.cut(Cut::BlackHole);
    pass(seconds(7)).await; // `running` is not polled: it cannot know
    assert_eq!(
        (of(&fixture.engine, "leasehold_leading", "a"), terms_ended(&fixture.engine, "lost")),
        (0.0, 0.0)
    );
}

#[tokio::test(start_paused = true)]
async fn each_try_of_a_job_counts_once_by_its_outcome() {
    let fixture = fixture().await;
    let engine = &fixture.engine;
    let job = |name: &str| Job::new(engine, name, seconds(60)).class("jobs").at_most_for(seconds(10));
    let done = |value| move |_| async move { value };
    assert_eq!(job("a").run_if_due(done(Ok::<_, &str>(1))).await.unwrap(), JobOutcome::Ran(1));
    assert!(job("a").run_if_due(done(Ok::<_, &str>(1))).await.is_ok_and(|told| told != JobOutcome::Ran(1)));
    assert!(job("b").run_if_due(done(Err("work"))).await.is_err());
    let endless = || |_| pending::<Outcome>();
    assert_eq!(job("c").run_if_due(endless()).await.unwrap(), JobOutcome::Stopped);
    let dropped = tokio::spawn(job("d").run_if_due(endless()));
    breathe().await;
    let running = job("d").run_if_due(endless()).await;
    assert_eq!(running.unwrap(), JobOutcome::Running);
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let lost = tokio::spawn(job("e").ttl(seconds(2)).run_if_due(endless()));
    breathe().await;
    assert!(fixture.other().await.lock("e").force_release().await.unwrap());
    assert!(lost.await.unwrap().is_err());
    fixture.faults.cut(Cut::BlackHole);
    assert!(job("f").run_if_due(endless()).await.is_err());
    let outcomes =
        ["ran", "already_ran", "failed", "stopped", "running", "dropped", "lost", "error", "unconfirmed"];
    let counts = outcomes.map(|outcome| job_runs(engine, outcome));
    assert_eq!(counts, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_class_without_recipes_has_no_series_of_them_and_others_begin_at_0() {
    let fixture = fixture().await;
    let has = |metric: &str, class: &str| {
        let families = fixture.engine.metrics().unwrap().read();
        let family = families.into_iter().find(|family| family.descriptor.name == metric).unwrap();
        family.samples.iter().any(|sample| sample.labels[0] == class)
    };
    let all = ["elections", "leading", "terms_begun_total", "terms_ended_total", "job_runs_total"];
    let told = |class| all.map(|metric| has(&format!("leasehold_{metric}"), class));
    drop(fixture.engine.lock("x").class("plain").acquire().await.unwrap());
    let _held = fixture.other().await.lock("leader of a").acquire().await.unwrap();
    let _candidate = candidate(&fixture.engine, "a");
    breathe().await;
    assert_eq!(of(&fixture.engine, "leasehold_terms_begun_total", "a"), 0.0);
    assert_eq!([told("plain"), told("a")], [[false; 5], [true, true, true, true, false]]);
    drop(Job::new(&fixture.engine, "j", seconds(60)).class("jobs").run_if_due(|_| pending::<Outcome>()));
    assert_eq!(told("jobs"), [false; 5], "it was not tried");
}

#[tokio::test(start_paused = true)]
async fn the_build_info_names_the_label_of_the_engine() {
    let engine = builder(&MemoryTransport::new()).label("orders@web-7").metrics().build().await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(Numbers::of(&engine).one("leasehold_build_info", &[version, "memory", "orders@web-7"]), 1.0);
}
