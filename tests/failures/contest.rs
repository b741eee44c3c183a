//! Tasks of several engines that count under one lock, by reading and writing, and what the checkers say about it.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, Lease, ReleaseError};
use leasehold_tests::harness::{
    checkers::{overlaps, token_order},
    recorder::{Window, boot_ns},
    stall::no_stall_excuses,
};
use tokio::task::JoinSet;

/// A contest that runs until it is told to end.
pub(crate) struct Contest {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    counter: AtomicU64,
    windows: Mutex<Vec<Window>>,
}

impl Contest {
    /// Two tasks of each engine.
    pub(crate) fn start(engines: &[Engine], name: &str) -> Self {
        let (shared, mut tasks) = (Arc::<Shared>::default(), JoinSet::new());
        for (process, engine) in engines.iter().chain(engines).enumerate() {
            let process = u32::try_from(process % engines.len()).expect("few engines");
            tasks.spawn(compete(shared.clone(), engine.clone(), name.to_owned(), process));
        }
        Self { shared, tasks }
    }

    pub(crate) fn grants(&self) -> u64 {
        self.shared.windows.lock().expect("no panic").len() as u64
    }

    /// Ends it; nobody held the lock together with another, tokens rose, and no update was lost. Returns the grants.
    pub(crate) async fn end(self) -> u64 {
        let history = self.over().await;
        history.assert_exclusive();
        no_stall_excuses(|| assert_eq!(token_order(&history.windows), []));
        history.windows.len() as u64
    }

    /// Ends it; nothing is judged.
    pub(crate) async fn over(mut self) -> History {
        self.shared.over.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no panic");
        }
        let windows = self.shared.windows.lock().expect("no panic").clone();
        History { windows, counted: self.shared.counter.load(Ordering::SeqCst) }
    }
}

/// What came of a contest.
pub(crate) struct History {
    windows: Vec<Window>,
    counted: u64,
}

impl History {
    /// Nobody held the lock together with another, and no update was lost.
    pub(crate) fn assert_exclusive(&self) {
        no_stall_excuses(|| assert_eq!(overlaps(&self.windows).violations, []));
        assert_eq!(self.counted, self.windows.len() as u64, "a lost update");
    }
}

async fn compete(shared: Arc<Shared>, engine: Engine, name: String, process: u32) {
    while !shared.over.load(Ordering::SeqCst) {
        let lease = engine.lock(&name).acquire().await.expect("a lease");
        let from_ns = boot_ns();
        let read = shared.counter.load(Ordering::SeqCst);
        tokio::time::sleep(WORK).await;
        let until_ns = boot_ns(); // before it is looked at: on a machine that stands still now, it may be over behind it
        lease.ensure_held().expect("held through the work");
        shared.counter.store(read + 1, Ordering::SeqCst);
        shared.windows.lock().expect("no panic").push(window(&lease, process, from_ns..until_ns));
        // With connections that die it may stay open whether the release has run; that the lease was lost may not be.
        match lease.release().await {
            Ok(()) | Err(ReleaseError::Unknown { .. } | ReleaseError::ReleasedOrLost) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn window(lease: &Lease, process: u32, held: Range<u64>) -> Window {
    let token = lease.fencing_token().as_i64();
    let (key, holder) = (lease.name().to_owned(), format!("{process}/{token}"));
    Window { key, holder, process, token, from_ns: held.start, until_ns: held.end }
}

const WORK: Duration = Duration::from_millis(1);
