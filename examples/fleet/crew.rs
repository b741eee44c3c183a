//! What all tasks of one run share, and how they take a lock.

use std::{process, sync::Arc, time::Duration};

use leasehold::{
    AcquireError, CountError, Engine, Lease, Lock, ReleaseError,
    clock::{Clock, Instant},
};

use crate::{
    faults::Faults, log::Log, options::Options, stop::Stop, tally::Tally, terminal, waits::Waits,
    windows::Windows,
};

pub(crate) struct Crew {
    pub(crate) engine: Engine,
    pub(crate) options: Options,
    pub(crate) stop: Stop,
    pub(crate) tally: Tally,
    pub(crate) waits: Waits,
    pub(crate) windows: Windows,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    /// Unlike that of any other process, so that the leases of two fleets do not meet.
    run: String,
    /// What the names of the contended keys begin with.
    contended: String,
}

/// The engine's own clock: deadlines are on it.
pub(crate) fn now() -> Instant {
    Clock::Boot.now()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Crew {
    pub(crate) fn new(engine: Engine, options: Options, log: Log) -> Self {
        let begun = now();
        Self {
            stop: Stop::after(options.time),
            tally: Tally::new(begun),
            waits: Waits::default(),
            windows: Windows::new(options.keys),
            faults: Faults::new(begun),
            run: format!("{}-{:x}", process::id(), begun.as_nanos()),
            contended: contended(&options.kind),
            engine,
            options,
            log,
        }
    }

    /// A name of this run alone.
    pub(crate) fn own_name(&self, part: &str, number: usize) -> String {
        format!("fleet:{}:{part}:{number}", self.run)
    }

    /// The name of a contended key. Fleets of one kind contend for the same keys.
    pub(crate) fn contended_name(&self, key: usize) -> String {
        format!("{}{key}", self.contended)
    }

    /// Which of the contended keys has this name.
    pub(crate) fn contended_key(&self, name: &str) -> Option<usize> {
        name.strip_prefix(&self.contended)?.parse().ok()
    }

    /// A lease, or `None` once the run is over. Goes on asking while the servers are away.
    pub(crate) async fn acquire(&self, lock: &Lock) -> Option<Lease> {
        loop {
            let asked = tokio::select! {
                biased;
                _ = self.stop.reason() => return None,
                asked = lock.acquire() => asked,
            };
            match asked {
                Ok(lease) => return Some(lease),
                Err(error) => self.bear(error).await,
            }
        }
    }

    pub(crate) async fn bear(&self, error: AcquireError) {
        self.tally.failed();
        match error {
            AcquireError::Unavailable { .. } | AcquireError::TimedOut { .. } | AcquireError::Lost(_) => {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            AcquireError::ShuttingDown => drop(self.stop.reason().await),
            // It would be refused again and again.
            other => self.stop.fail(other.to_string()),
        }
    }

    /// The same for an operation of a semaphore or a latch.
    pub(crate) async fn bear_count(&self, error: CountError) {
        self.tally.failed();
        match error {
            CountError::Unavailable { .. } | CountError::TimedOut { .. } | CountError::Unknown { .. } => {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            CountError::ShuttingDown => drop(self.stop.reason().await),
            // It would be refused again and again.
            other => self.stop.fail(other.to_string()),
        }
    }

    /// Call it right before the lease is given back: notes the end of its holder's time. `None` if it is lost: then the
    /// news of its loss tells the end.
    pub(crate) fn note_end(&self, lease: &Lease) -> Option<Instant> {
        let until = entitled_until(lease);
        until.inspect(|until| self.log.released(lease, *until))
    }

    /// Releases and counts what came of it.
    pub(crate) async fn release(&self, lease: Lease) {
        let (name, believed) = (lease.name().to_owned(), lease.is_held());
        let answer = lease.release().await;
        if let (Err(ReleaseError::AlreadyLost(reason)), true) = (&answer, believed) {
            // Nobody had noticed: the stream of losses does not have it.
            terminal::say(&self.tally.at(now(), &format!("lost {name}, as its release shows: {reason}")));
        }
        self.tally.released(&answer);
    }
}

fn contended(kind: &str) -> String {
    match kind {
        "exclusive" => "fleet:contended:".to_owned(),
        kind => format!("fleet:contended:{kind}:"),
    }
}

/// This moment, or its deadline if that comes first.
fn entitled_until(lease: &Lease) -> Option<Instant> {
    let before = now();
    let left = lease.remaining();
    (!left.is_zero()).then(|| now().min(before + left))
}

/// One run, shared by its tasks.
pub(crate) type Shared = Arc<Crew>;

const AFTER_FAILURE: Duration = Duration::from_millis(200);
