//! A machine that stands still: a host that runs others first may keep every thread and every server of this one from
//! running for a second or two, while all clocks go on. What a test says of times is worth nothing then.
//!
//! Whoever judges times asks [`Stall`] how much of them was the machine's, or lets [`unless_stalled`] run the whole test
//! again. What must hold however late everybody is, such as that no two hold a lock at once, is judged within
//! [`no_stall_excuses`]: its failure is final.

use std::{
    fs,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Watches how long a thread is kept from running, for as long as it lives.
#[derive(Debug)]
pub struct Stall(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    longest_nanos: AtomicU64,
    over: AtomicBool,
}

impl Stall {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Self {
        let watched = Arc::<Watched>::default();
        thread::spawn({
            let watched = watched.clone();
            move || watched.look()
        });
        Self(watched)
    }

    /// The longest time by which the watching thread came late.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.longest_nanos.load(Ordering::SeqCst))
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

impl Watched {
    fn look(&self) {
        while !self.over.load(Ordering::SeqCst) {
            let before = Instant::now();
            thread::sleep(LOOK);
            let late = before.elapsed().saturating_sub(LOOK);
            self.longest_nanos.fetch_max(late.as_nanos() as u64, Ordering::SeqCst);
        }
    }
}

/// Runs a test. If it fails and the machine stood still meanwhile for longer than 300 ms, it has said nothing and runs
/// again: at most three times.
///
/// # Panics
/// With the test's own panic: that of a run without such a stall, or of the third.
pub fn unless_stalled<T>(test: impl Fn() -> T) -> T {
    unless_stalled_for(Duration::from_millis(300), test)
}

/// Judges what must hold on any machine: [`unless_stalled`] does not run a test again that failed here.
///
/// # Panics
/// If the judgement does.
pub fn no_stall_excuses<T>(judgement: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(judgement)).unwrap_or_else(|_told| {
        keep_as_failed();
        resume_unwind(Box::new(Final))
    })
}

// For `tests/run`: it is red for this test even if the test runner runs it again and it passes.
fn keep_as_failed() {
    if cfg!(test) {
        return; // this file's own tests fail on purpose
    }
    let _ = fs::create_dir_all(FAILED);
    let _ =
        fs::write(format!("{FAILED}/{}", std::process::id()), thread::current().name().unwrap_or("a test"));
}

/// Where the names of these tests are kept.
const FAILED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/failed-on-any-machine");

/// The panic of a failure that no stall excuses; its own text is told by then.
struct Final;

/// The same for a test that leaves less time to a late machine: `most` lies below what it leaves.
///
/// # Panics
/// As [`unless_stalled`].
pub fn unless_stalled_for<T>(most: Duration, test: impl Fn() -> T) -> T {
    for _ in 1..ATTEMPTS {
        let stall = Stall::watch();
        let panic = match catch_unwind(AssertUnwindSafe(&test)) {
            Ok(done) => return done,
            Err(panic) if panic.is::<Final>() => resume_unwind(panic),
            Err(panic) => panic,
        };
        thread::sleep(2 * LOOK); // the watching thread may be the last to go on
        if stall.longest() <= most {
            resume_unwind(panic);
        }
        tell(stall.longest());
    }
    test()
}

// Past the test runner, which keeps what a test prints to itself unless it fails: nobody would hear of the run that did.
fn tell(stalled: Duration) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let told =
        format!("{test} failed while the machine stood still for {stalled:?}: it says nothing, once more");
    let _ = writeln!(io::stderr(), "{told}");
}

const ATTEMPTS: usize = 3;
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_failure_of_a_machine_that_went_on_is_a_failure() {
        let runs = Cell::new(0);
        let fails = || {
            runs.set(runs.get() + 1);
            panic!("as it should");
        };
        let calm = Duration::from_secs(3600);
        assert!(catch_unwind(AssertUnwindSafe(|| unless_stalled_for(calm, fails))).is_err());
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_failure_that_no_stall_excuses_is_a_failure() {
        let runs = Cell::new(0);
        let fails = || {
            runs.set(runs.get() + 1);
            thread::sleep(3 * LOOK);
            no_stall_excuses(|| assert!(runs.get() > 1, "two hold the lock"));
        };
        assert!(catch_unwind(AssertUnwindSafe(|| unless_stalled_for(Duration::ZERO, fails))).is_err());
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_failure_of_a_machine_that_stood_still_is_repeated_twice_at_most() {
        let runs = Cell::new(0);
        let third_run_passes = || {
            runs.set(runs.get() + 1);
            thread::sleep(3 * LOOK); // any machine is late by more than nothing
            assert!(runs.get() >= 3, "not yet");
            runs.get()
        };
        assert_eq!(unless_stalled_for(Duration::ZERO, third_run_passes), 3);
        let fails = || {
            thread::sleep(3 * LOOK);
            runs.set(runs.get() + 1);
            panic!("every time");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| unless_stalled_for(Duration::ZERO, fails))).is_err());
        assert_eq!(runs.get(), 6);
    }
}
