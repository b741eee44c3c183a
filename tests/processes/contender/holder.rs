//! Holding one lease, and the window of it that is written down: from its return until the earliest of its deadline, the
//! call of its release, and its loss.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Lease, ReleaseError};
use leasehold_tests::harness::recorder::{Recorder, Window, boot_ns};

use super::arguments::Arguments;
use super::say;
use super::tally::Tally;

/// One task's hand: what it holds, it writes down.
pub struct Holder {
    arguments: Arc<Arguments>,
    recorder: Arc<Mutex<Recorder>>,
    process: u32,
    task: u32,
    leases: u64,
}

impl Holder {
    /// A task of an engine that is counted as a process.
    pub fn new(arguments: Arc<Arguments>, recorder: Arc<Mutex<Recorder>>, process: u32, task: u32) -> Self {
        Self { arguments, recorder, process, task, leases: 0 }
    }

    /// What the process was told.
    pub fn arguments(&self) -> &Arc<Arguments> {
        &self.arguments
    }

    /// Different for each task of all processes.
    pub fn number(&self) -> u64 {
        u64::from(self.process) << 32 | u64::from(self.task)
    }

    /// Holds it for a time, or until it is over if the holders are to stay, then releases it.
    pub async fn hold(&mut self, lease: Lease, time: Duration, tally: &mut Tally) {
        let (from_ns, mut deadline_ns) = (boot_ns(), deadline_ns(&lease));
        self.announce("granted", &lease);
        let end_ns = if self.arguments.stay { u64::MAX } else { from_ns + nanos(time) };
        while let Some(left) = end_ns.min(deadline_ns).checked_sub(boot_ns()).filter(|left| *left > 0) {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_nanos(left).min(LOOK)) => {}
                _ = lease.lost() => break,
            }
            deadline_ns = deadline_ns.max(self::deadline_ns(&lease));
        }
        let (token, key) = (lease.fencing_token().as_i64(), lease.name().to_owned());
        self.announce("over", &lease);
        // Where it was renewed a moment ago; of a lost lease this is not after its end.
        deadline_ns = deadline_ns.max(self::deadline_ns(&lease));
        let until_ns = boot_ns().min(deadline_ns);
        let released = lease.release().await;
        self.write(key, token, from_ns, until_ns);
        count(released, tally);
    }

    fn write(&mut self, key: String, token: i64, from_ns: u64, until_ns: u64) {
        self.leases += 1;
        let (process, task, lease) = (self.process, self.task, self.leases);
        let holder = format!("{process}/{task}/{lease}");
        let window = Window { key, holder, process, token, from_ns, until_ns };
        let mut recorder = self.recorder.lock().expect("no task panics with it");
        recorder.record(&window).expect("a window can be written");
    }

    fn announce(&self, what: &str, lease: &Lease) {
        if self.arguments.announce {
            say(&format!("{what} {}", lease.name()));
        }
    }
}

fn count(released: Result<(), ReleaseError>, tally: &mut Tally) {
    tally.granted += 1;
    match released {
        Ok(()) => tally.released += 1,
        Err(ReleaseError::AlreadyLost(_)) => tally.lost += 1,
        Err(_) => tally.unclear += 1,
    }
}

// The clock is read first, so the sum is never after the lease's own deadline.
fn deadline_ns(lease: &Lease) -> u64 {
    boot_ns() + nanos(lease.remaining())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A deadline that is renewed is looked at so often.
const LOOK: Duration = Duration::from_millis(50);
