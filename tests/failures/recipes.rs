//! Leaders, jobs and threads on a real server that stops, and goes on.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{Engine, FencingToken, Job, JobOutcome, Leader, LeaderWatch, RunError, blocking};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{polling::holds_within, redis_server::RedisServer};
use tokio::task::JoinHandle;

use crate::fixture::SECOND;

const PATIENCE: Duration = Duration::from_secs(60);

async fn engine_of(server: &RedisServer) -> Engine {
    let config = RedisConfig::single("127.0.0.1", server.port());
    Engine::builder(RedisTransport::new(config)).build().await.expect("an engine")
}

/// A term in which work was done: its token, its begin and its end.
type Term = (FencingToken, Instant, Option<Instant>);

/// The terms of all candidates.
#[derive(Clone, Default)]
struct Terms(Arc<Mutex<Vec<Term>>>);

/// A candidate, as its process sees it.
type Candidate = (LeaderWatch, JoinHandle<Result<(), RunError<()>>>);

/// Notes the end of a term when the work is dropped.
struct Working(Terms, usize);

impl Terms {
    fn begin(&self, token: FencingToken) -> Working {
        let mut terms = self.0.lock().expect("no panic under it");
        terms.push((token, Instant::now(), None));
        Working(self.clone(), terms.len() - 1)
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic under it").len()
    }

    fn check(&self) {
        for pair in self.0.lock().expect("no panic under it").windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(before.0 < after.0, "tokens: {pair:?}");
            assert!(before.2.is_some_and(|end| end <= after.1), "two led at once: {pair:?}");
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.lock().expect("no panic under it")[self.1].2 = Some(Instant::now());
    }
}

fn candidate(engine: &Engine, terms: &Terms) -> Candidate {
    let leader = Leader::of(engine.fenced_lock("leader").ttl(2 * SECOND));
    let (watch, terms) = (leader.watch(), terms.clone());
    let running = tokio::spawn(leader.run(move |term| {
        let working = terms.begin(term.fencing_token());
        async move {
            let _working = working;
            pending().await
        }
    }));
    (watch, running)
}

async fn leads_within(candidates: &[Candidate]) -> usize {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(place) = candidates.iter().position(|(watch, _)| watch.is_leading()) {
            return place;
        }
        assert!(Instant::now() < until, "no candidate leads");
        tokio::time::sleep(SECOND / 100).await;
    }
}

#[tokio::test]
async fn candidates_follow_each_other_and_a_server_that_stands_still_is_outlived() {
    let (mut server, terms) = (RedisServer::start().expect("a server"), Terms::default());
    let mut candidates = vec![];
    for _ in 0..3 {
        candidates.push(candidate(&engine_of(&server).await, &terms));
    }
    let first = leads_within(&candidates).await;
    candidates.swap_remove(first).1.abort();
    leads_within(&candidates).await;
    terms.check();
    server.stop().expect("stopped");
    assert!(holds_within(PATIENCE, || candidates.iter().all(|(watch, _)| !watch.is_leading())));
    tokio::time::sleep(SECOND / 5).await; // the work is dropped with the next poll of its task
    assert!(
        terms.0.lock().expect("no panic under it").iter().all(|(_, _, end)| end.is_some()),
        "no work goes on"
    );
    server.cont().expect("goes on");
    leads_within(&candidates).await;
    assert!(terms.count() >= 3);
    terms.check();
}

#[tokio::test]
async fn of_a_fleet_one_process_runs_the_job_and_the_server_keeps_the_mark() {
    let server = RedisServer::start().expect("a server");
    let runs = Arc::new(AtomicU32::new(0));
    let mut tries = vec![];
    for _ in 0..6 {
        let (engine, runs) = (engine_of(&server).await, runs.clone());
        tries.push(tokio::spawn(async move {
            let job = Job::new(&engine, "invoices", 300 * SECOND);
            let tried = job.run_if_due(async |lease| {
                runs.fetch_add(1, Ordering::SeqCst);
                lease.ensure_held()
            });
            let tried = tried.await.expect("an answer");
            engine.shutdown(5 * SECOND).await; // releases nothing that marks the run
            tried
        }));
    }
    let mut ran = 0;
    for one in tries {
        ran += u32::from(matches!(one.await.expect("no panic"), JobOutcome::Ran(())));
    }
    assert_eq!((ran, runs.load(Ordering::SeqCst)), (1, 1));
    let mut raw = server.client().expect("a connection");
    assert_eq!(raw.command(&["KEYS", "*"]).expect("a reply").texts(), ["invoices:ran"]);
    let left = raw.command(&["PTTL", "invoices:ran"]).expect("a reply").integer().expect("a number");
    assert!((200_000..=300_000).contains(&left), "{left}");
    let later = Job::new(&engine_of(&server).await, "invoices", 300 * SECOND);
    let told = later.run_if_due(async |_| Ok::<_, ()>(())).await.expect("an answer");
    assert!(matches!(told, JobOutcome::AlreadyRan { again_in: Some(_) }), "{told:?}");
}

#[tokio::test]
async fn a_loop_of_three_processes_keeps_the_period() {
    let server = RedisServer::start().expect("a server");
    let begins: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let mut fleet = vec![];
    for _ in 0..3 {
        let (job, begins) = (Job::new(&engine_of(&server).await, "tick", SECOND), begins.clone());
        fleet.push(tokio::spawn(async move {
            loop {
                let begun = async |_| {
                    begins.lock().expect("no panic").push(Instant::now());
                    Ok::<_, ()>(())
                };
                job.run_when_due(begun).await.expect("runs");
            }
        }));
    }
    let seen = begins.clone();
    let reached = async {
        while seen.lock().expect("no panic").len() < 5 {
            tokio::time::sleep(SECOND / 20).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("five runs");
    fleet.into_iter().for_each(|process| process.abort());
    // The server counts from a moment before the begin. A machine that stands still in between makes begins look nearer.
    let begins = begins.lock().expect("no panic").clone();
    let whole = begins[4] - begins[0];
    assert!(whole >= 3 * SECOND, "{whole:?} for four periods of 1 s");
}

#[test]
fn threads_exclude_each_other_on_a_real_server() {
    let server = RedisServer::start().expect("a server");
    let config = RedisConfig::single("127.0.0.1", server.port());
    let engine = blocking::Engine::build(Engine::builder(RedisTransport::new(config))).expect("an engine");
    let (inside, lock) = (AtomicU32::new(0), engine.lock("k").wait(PATIENCE));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    lock.run(|lease| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two threads hold the lock");
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lease.ensure_held()
                    })
                    .expect("done under the lock");
                }
            });
        }
    });
    assert_eq!(engine.shutdown(PATIENCE).unconfirmed, Vec::<String>::new());
    assert!(
        server.client().expect("a connection").command(&["KEYS", "*"]).expect("a reply").texts().is_empty()
    );
}
