//! One try to run a job, for metrics: recorded once, also if the caller is dropped while the work runs.

use std::sync::Arc;

use super::job_outcome::JobOutcome;
use crate::{
    RunError,
    inner::Inner,
    metrics::{JobEnd, LabelSet, LockEvent},
};

/// A try that is not over. Dropping it while the work runs records that the caller was dropped.
pub(super) struct JobRun {
    engine: Arc<Inner>,
    labels: LabelSet,
    has_begun: bool,
}

impl JobRun {
    /// `labels`: those of the job's lock.
    pub(super) fn new(engine: &Arc<Inner>, labels: LabelSet) -> Self {
        if !engine.process.is_forked() {
            engine.events.elections.note_job(labels);
        }
        Self { engine: engine.clone(), labels, has_begun: false }
    }

    /// The work begins.
    pub(super) fn begin_work(&mut self) {
        self.has_begun = true;
    }

    /// Ends the try and records how.
    pub(super) fn end<T, E>(mut self, done: &Result<JobOutcome<T>, RunError<E>>) {
        self.has_begun = false;
        self.record(end_of(done));
    }

    fn record(&self, end: JobEnd) {
        self.engine.events.record_lock(self.labels, LockEvent::JobEnded { end });
    }
}

impl Drop for JobRun {
    fn drop(&mut self) {
        if self.has_begun {
            self.record(JobEnd::Dropped);
        }
    }
}

fn end_of<T, E>(done: &Result<JobOutcome<T>, RunError<E>>) -> JobEnd {
    match done {
        Ok(JobOutcome::Ran(_)) => JobEnd::Ran,
        Ok(JobOutcome::Stopped) => JobEnd::Stopped,
        Ok(JobOutcome::AlreadyRan { .. }) => JobEnd::AlreadyRan,
        Ok(JobOutcome::Running) => JobEnd::Running,
        Err(RunError::Work(_)) => JobEnd::Failed,
        Err(RunError::Lost(_)) => JobEnd::Lost,
        Err(RunError::Release(_)) => JobEnd::Unconfirmed,
        Err(RunError::Acquire(_)) => JobEnd::Error,
    }
}
