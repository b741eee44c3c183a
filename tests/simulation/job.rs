//! Jobs: at most one run at a time and one begin per period, whatever becomes of the process that runs it.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    AcquireError, Engine, Job, JobOutcome, LeaseView, LossReason, RunError, clock::Instant,
    transport::ErrorKind,
};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation};

use crate::fixture::{breathe, engine, fixture, millis, now, pass, seconds, settles_within, timed};

type Outcome = Result<JobOutcome<u8>, RunError<&'static str>>;

const PERIOD: Duration = seconds(600);

fn job(engine: &Engine) -> Job {
    Job::new(engine, "invoices", PERIOD)
}

/// One try at work that takes this time.
async fn try_for(job: &Job, time: Duration) -> Outcome {
    job.run_if_due(async |lease: LeaseView| {
        pass(time).await;
        lease.ensure_held().map_err(|_| "lost")?;
        Ok(7)
    })
    .await
}

/// The job is not due until the period is over, counted from `began`, and then it is.
async fn is_due_after_the_period(transport: &MemoryTransport, began: Instant) {
    let engine = engine(transport).await;
    let left = PERIOD - (now() - began);
    pass(left - millis(50)).await;
    let told = try_for(&job(&engine), millis(1)).await.unwrap();
    let JobOutcome::AlreadyRan { again_in: Some(again_in) } = told else { panic!("{told:?}") };
    assert!(again_in <= millis(50), "{again_in:?}");
    pass(millis(60)).await;
    assert_eq!(try_for(&job(&engine), millis(1)).await.unwrap(), JobOutcome::Ran(7));
}

#[tokio::test(start_paused = true)]
async fn of_ten_processes_that_try_at_once_one_runs_the_job() {
    let memory = MemoryTransport::new();
    let mut tries = vec![];
    for _ in 0..10 {
        let job = job(&engine(&memory).await);
        tries.push(tokio::spawn(async move { try_for(&job, millis(20)).await.unwrap() }));
    }
    let mut ran = 0;
    for one in tries {
        match one.await.unwrap() {
            JobOutcome::Ran(7) => ran += 1,
            JobOutcome::Running | JobOutcome::AlreadyRan { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ran, 1);
    is_due_after_the_period(&memory, now().before(millis(20))).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_in_order_leaves_the_period_as_it_is() {
    let (memory, began) = (MemoryTransport::new(), now());
    let engine = engine(&memory).await;
    assert_eq!(try_for(&job(&engine), seconds(5)).await.unwrap(), JobOutcome::Ran(7));
    settles_within(&engine, seconds(1)).await;
    assert_eq!((engine.snapshot().lost, engine.snapshot().granted, engine.snapshot().released), (0, 2, 2));
    assert!(!engine.lock("invoices").is_locked().await.unwrap());
    is_due_after_the_period(&memory, began).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_the_period_as_it_is() {
    let (memory, began) = (MemoryTransport::new(), now());
    let engine = engine(&memory).await;
    let failed: Outcome = job(&engine).run_if_due(async |_| Err("work")).await;
    assert!(matches!(failed, Err(RunError::Work("work"))), "{failed:?}");
    is_due_after_the_period(&memory, began).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_leaves_the_period_as_it_is() {
    let (memory, began) = (MemoryTransport::new(), now());
    let engine = engine(&memory).await;
    let dropped = tokio::time::timeout(seconds(1), try_for(&job(&engine), seconds(90))).await;
    assert!(dropped.is_err());
    settles_within(&engine, seconds(1)).await;
    is_due_after_the_period(&memory, began).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_after_or_in_a_run_leaves_the_period_as_it_is() {
    for takes in [millis(5), seconds(90)] {
        let (memory, began) = (MemoryTransport::new(), now());
        let engine = engine(&memory).await;
        let running = tokio::spawn({
            let job = job(&engine).at_most_for(seconds(100));
            async move { try_for(&job, takes).await }
        });
        pass(seconds(1)).await;
        engine.shutdown(seconds(5)).await;
        match running.await.unwrap() {
            Ok(JobOutcome::Ran(7)) => assert_eq!(takes, millis(5)),
            Err(RunError::Lost(LossReason::Shutdown)) => assert_eq!(takes, seconds(90)),
            other => panic!("{other:?}"),
        }
        is_due_after_the_period(&memory, began).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_process_leaves_the_period_as_it_is() {
    let (fixture, began) = (fixture().await, now());
    let running = tokio::spawn({
        let job = job(&fixture.engine);
        async move { try_for(&job, seconds(90)).await }
    });
    breathe().await;
    fixture.faults.cut(Cut::BlackHole); // as if the process had died: nothing of it arrives any more
    let told = running.await.unwrap();
    assert!(matches!(told, Err(RunError::Lost(LossReason::Expired))), "{told:?}");
    assert!(now() - began <= millis(28_700), "{:?}", now() - began);
    is_due_after_the_period(fixture.transport.inner(), began).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_the_period_is_not_joined_by_another() {
    let memory = MemoryTransport::new();
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let running = tokio::spawn({
        let job = job(&one);
        async move { try_for(&job, PERIOD * 3).await }
    });
    breathe().await;
    for _ in 0..5 {
        assert_eq!(try_for(&job(&two), millis(1)).await.unwrap(), JobOutcome::Running);
        pass(PERIOD / 2).await;
    }
    assert_eq!(running.await.unwrap().unwrap(), JobOutcome::Ran(7));
    assert_eq!(try_for(&job(&two), millis(1)).await.unwrap(), JobOutcome::Ran(7));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_stopped_after_at_most_for_and_frees_the_lock() {
    let memory = MemoryTransport::new();
    let engine = engine(&memory).await;
    let job = job(&engine).at_most_for(seconds(40));
    let stopped = job.run_if_due(|_| pending::<Result<u8, &'static str>>());
    let (told, took) = timed(stopped).await;
    assert_eq!(told.unwrap(), JobOutcome::Stopped);
    assert!(took >= seconds(40) && took <= millis(40_050), "{took:?}");
    assert!(!engine.lock("invoices").is_locked().await.unwrap());
    settles_within(&engine, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_fleet_runs_the_job_once_per_period_although_its_processes_die() {
    let memory = MemoryTransport::new();
    let begins: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let mut fleet = vec![];
    for _ in 0..5 {
        let (job, begins) = (job(&engine(&memory).await), begins.clone());
        fleet.push(tokio::spawn(async move {
            loop {
                let begun = begins.clone();
                let ran = job.run_when_due(async move |_| {
                    begun.lock().unwrap().push(now());
                    pass(seconds(30)).await;
                    Ok::<_, ()>(())
                });
                assert_eq!(ran.await.unwrap(), JobOutcome::Ran(()));
            }
        }));
    }
    for _ in 0..4 {
        pass(PERIOD * 3).await;
        fleet.pop().unwrap().abort();
    }
    pass(PERIOD * 3).await;
    let begins = begins.lock().unwrap().clone();
    assert_eq!(begins.len(), 15, "{begins:?}");
    for pair in begins.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(apart >= PERIOD - millis(10) && apart <= PERIOD + millis(100), "{apart:?} in {begins:?}");
    }
    fleet[0].abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_overruns_delays_the_next_one_and_nothing_is_caught_up() {
    let memory = MemoryTransport::new();
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let running = tokio::spawn({
        let job = job(&one);
        async move { try_for(&job, PERIOD * 3 + seconds(7)).await }
    });
    breathe().await;
    let job = job(&two);
    for expected in [PERIOD * 3 + seconds(7), PERIOD, PERIOD] {
        let begin = job.run_when_due(async |_| Ok::<_, ()>(now()));
        let (_, took) = timed(begin).await;
        assert!(took + millis(10) >= expected && took <= expected + millis(100), "{took:?} for {expected:?}");
    }
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_frees_the_mark_makes_the_job_due() {
    let memory = MemoryTransport::new();
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    assert_eq!(try_for(&job(&one), millis(1)).await.unwrap(), JobOutcome::Ran(7));
    let waiting = tokio::spawn({
        let job = job(&one);
        async move { timed(job.run_when_due(async |_| Ok::<_, ()>(()))).await }
    });
    pass(seconds(25)).await;
    assert!(two.lock("invoices:ran").force_release().await.unwrap());
    let (told, took) = waiting.await.unwrap();
    assert_eq!(told.unwrap(), JobOutcome::Ran(()));
    assert!(took <= seconds(36), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_server_a_job_says_so_and_does_not_run() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::BlackHole);
    let (told, took) = timed(try_for(&job(&fixture.engine), millis(1))).await;
    assert!(matches!(told, Err(RunError::Acquire(AcquireError::Unavailable { .. }))), "{told:?}");
    assert!(took <= seconds(13), "{took:?}");
    fixture.faults.heal();
    assert_eq!(try_for(&job(&fixture.engine), millis(1)).await.unwrap(), JobOutcome::Ran(7));
    fixture.settles_within(seconds(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_show_the_mark_is_asked_rarely() {
    let fixture = fixture().await;
    assert_eq!(try_for(&job(&fixture.engine), millis(1)).await.unwrap(), JobOutcome::Ran(7));
    fixture.faults.on(Operation::Inspect).always().inject(Fault::Refuse(ErrorKind::Denied));
    let asks = fixture.engine.snapshot().asks;
    let (told, took) = timed(job(&fixture.engine).run_when_due(async |_| Ok::<_, ()>(()))).await;
    assert_eq!(told.unwrap(), JobOutcome::Ran(()));
    assert!(took >= PERIOD - seconds(1) && took <= PERIOD + seconds(11), "{took:?}");
    let asks = fixture.engine.snapshot().asks - asks;
    assert!(asks <= 3 * 61, "{asks} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn times_that_cannot_be_used_are_refused_and_nothing_is_marked() {
    let memory = MemoryTransport::new();
    let engine = engine(&memory).await;
    let jobs = [
        (Job::new(&engine, "a", millis(999)), "at_least_for"),
        (Job::new(&engine, "a", seconds(10)).at_most_for(Duration::ZERO), "at_most_for"),
        (Job::new(&engine, "a", seconds(10)).ttl(millis(1)), "ttl"),
        (Job::new(&engine, "", seconds(10)), "name"),
    ];
    for (job, field) in jobs {
        for told in [try_for(&job, millis(1)).await, job.run_when_due(async |_| Ok(1)).await] {
            assert!(
                matches!(&told, Err(RunError::Acquire(AcquireError::Invalid(invalid))) if invalid.field == field),
                "{field}: {told:?}"
            );
        }
    }
    assert_eq!(memory.stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_of_a_job() {
    let memory = MemoryTransport::new();
    let engine = engine(&memory).await;
    assert_eq!(try_for(&job(&engine), millis(1)).await.unwrap(), JobOutcome::Ran(7));
    let waiting = tokio::spawn({
        let job = job(&engine);
        async move { job.run_when_due(async |_| Ok::<_, ()>(())).await }
    });
    pass(seconds(25)).await;
    engine.shutdown(seconds(1)).await;
    let (told, took) = timed(waiting).await;
    let told = told.unwrap();
    assert!(took <= millis(20), "{took:?}");
    assert!(matches!(told, Err(RunError::Acquire(AcquireError::ShuttingDown))), "{told:?}");
}
