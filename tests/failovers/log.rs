//! Who was entitled to what, when: noted by every task of a field, judged at its end.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::{Lease, Loss, ReleaseError};
use leasehold_tests::harness::recorder::Window;

use crate::moment::Moment;

/// One time that somebody held a lock, as far as its holder knows: a loss may have ended it earlier.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) engine: usize,
    pub(crate) key: String,
    pub(crate) token: i64,
    pub(crate) from: Moment,
    /// The last deadline that was seen.
    deadline: Moment,
    /// When it was given back, if it was still held then.
    released: Option<Moment>,
}

#[derive(Default)]
pub(crate) struct Log {
    turns: Mutex<Vec<Turn>>,
    unreleased: Mutex<BTreeMap<String, usize>>,
}

impl Turn {
    /// Call it as soon as the lease is there.
    pub(crate) fn begin(engine: usize, lease: &Lease) -> Self {
        let from = Moment::now();
        let (key, token) = (lease.name().to_owned(), lease.fencing_token().as_i64());
        Self { engine, key, token, from, deadline: from.after(lease.remaining()), released: None }
    }

    /// Looks at the deadline again.
    pub(crate) fn look(&mut self, lease: &Lease) {
        let now = Moment::now();
        let left = lease.remaining();
        if !left.is_zero() {
            self.deadline = now.after(left);
        }
    }

    /// Call it right before the lease is given back.
    pub(crate) fn end(mut self, lease: &Lease) -> Self {
        let now = Moment::now();
        self.released = lease.is_held().then_some(now);
        self
    }

    /// The window in which it counted.
    fn window(self, losses: &HashMap<Holder, Loss>) -> Window {
        let holder = (self.engine, self.key.clone(), self.token);
        let lost = losses.get(&holder).map(|loss| Moment::from(loss.deadline).min(loss.at.into()));
        let until = self.released.or(lost).unwrap_or(self.deadline);
        Window {
            key: self.key,
            holder: format!("{}/{}", self.engine, self.token),
            process: u32::try_from(self.engine).expect("few engines"),
            token: self.token,
            from_ns: self.from.0,
            until_ns: until.0,
        }
    }
}

impl Log {
    pub(crate) fn add(&self, turn: Turn) {
        self.locked().push(turn);
    }

    pub(crate) fn windows(&self, losses: &HashMap<Holder, Loss>) -> Vec<Window> {
        self.locked().drain(..).map(|turn| turn.window(losses)).collect()
    }

    /// What came of a release.
    pub(crate) fn add_release(&self, result: Result<(), ReleaseError>) {
        if let Err(error) = result {
            let mut unreleased = self.unreleased.lock().unwrap_or_else(PoisonError::into_inner);
            *unreleased.entry(error.to_string()).or_default() += 1;
        }
    }

    /// Why releases were not confirmed, each with its number.
    pub(crate) fn unreleased(&self) -> BTreeMap<String, usize> {
        self.unreleased.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's number, the lock's name, the token.
pub(crate) type Holder = (usize, String, i64);

/// Holds it for a while, looks at it meanwhile, gives it back, and notes it.
pub(crate) async fn hold(log: &Log, engine: usize, lease: Lease, time: Duration) {
    let mut turn = Turn::begin(engine, &lease);
    let until = turn.from.after(time);
    while Moment::now() < until {
        tokio::time::sleep(LOOK.min(time)).await;
        turn.look(&lease);
    }
    let turn = turn.end(&lease);
    log.add_release(lease.release().await);
    log.add(turn);
}

const LOOK: Duration = Duration::from_millis(10);
