//! `--recipes`: one candidate for a leadership and one job, which all fleets on one server share, beside the leases and
//! contenders. Nothing judges them: they make the metrics of recipes.

use std::time::Duration;

use leasehold::{AcquireError, Job, Leader, LeaseView, NotHeld, RunError};
use tokio::task::JoinSet;

use crate::crew::{Shared, now};

pub(crate) fn start(crew: &Shared, tasks: &mut JoinSet<()>) {
    if crew.options.recipes {
        tasks.spawn(campaign(crew.clone()));
        tasks.spawn(repeat_job(crew.clone()));
    }
}

/// Campaigns, and leads until the run is over.
async fn campaign(crew: Shared) {
    let lock = crew.engine.lock(LEADER).ttl(LEADER_TTL).class("leader");
    let leads = Leader::of(lock).run(|_term| std::future::pending::<Result<(), NotHeld>>());
    tokio::select! {
        biased;
        _ = crew.stop.reason() => {} // the candidate is dropped, which releases
        led = leads => note(&crew, "leader", led.err()),
    }
}

/// Runs the job each time it is due and no other fleet runs it.
async fn repeat_job(crew: Shared) {
    let job = Job::new(&crew.engine, JOB, PERIOD).class("job");
    while !crew.stop.is_over() {
        let ran = tokio::select! {
            biased;
            _ = crew.stop.reason() => return,
            ran = job.run_when_due(work) => ran,
        };
        if let Err(error) = ran {
            note(&crew, "job", Some(error));
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

async fn work(lease: LeaseView) -> Result<(), NotHeld> {
    tokio::time::sleep(WORK).await;
    lease.ensure_held()
}

fn note(crew: &Shared, what: &str, error: Option<RunError<NotHeld>>) {
    match error {
        None | Some(RunError::Acquire(AcquireError::ShuttingDown)) => {}
        Some(error) => crate::terminal::say(&crew.tally.at(now(), &format!("{what}: {error}"))),
    }
}

const LEADER: &str = "fleet:leader";
const LEADER_TTL: Duration = Duration::from_secs(5);
const JOB: &str = "fleet:job";
const PERIOD: Duration = Duration::from_secs(2);
const WORK: Duration = Duration::from_millis(50);
const AFTER_FAILURE: Duration = Duration::from_secs(1);
