//! One caller that does with locks whatever can be done, at random, and counts by class what it was told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{AcquireError, Engine, Lease, Lock, ReentryScope, ReleaseError};
use leasehold_tests::conservation::Numbers;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// What the callers of one engine were told, by class and outcome. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<BTreeMap<(&'static str, &'static str), u32>>>);

impl Told {
    fn count(&self, class: &'static str, outcome: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((class, outcome)).or_default() += 1;
    }

    /// Whether any of them was told so.
    pub(crate) fn has(&self, outcome: &'static str) -> bool {
        CLASSES.iter().any(|class| self.of(class, outcome) > 0.0)
    }

    fn of(&self, class: &'static str, outcome: &'static str) -> f64 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(class, outcome))
            .copied()
            .unwrap_or(0)
            .into()
    }

    pub(crate) fn leases(&self) -> f64 {
        CLASSES.iter().map(|class| self.of(class, "lease")).sum()
    }

    /// The metrics say the same.
    pub(crate) fn assert_is_what(&self, numbers: &Numbers) {
        for class in CLASSES {
            for outcome in ["busy", "timeout", "cancelled", "error"] {
                let counted = numbers.one("leasehold_acquire_total", &[class, "exclusive", outcome]);
                assert_eq!(counted, self.of(class, outcome), "{class} {outcome}");
            }
            let leases = ["acquired", "reentrant"];
            let leases =
                leases.map(|outcome| numbers.one("leasehold_acquire_total", &[class, "exclusive", outcome]));
            assert_eq!(leases.iter().sum::<f64>(), self.of(class, "lease"), "{class}");
            let counted = |outcome| numbers.one("leasehold_release_total", &[class, "exclusive", outcome]);
            let (released, told) = (counted("released"), self.of(class, "released"));
            // A lease that was dropped may have been handed off too.
            let handed_off = counted("handed_off");
            assert!(
                released <= told && told <= released + handed_off,
                "{class}: {told}, {released}, {handed_off}"
            );
        }
    }
}

pub(crate) struct Life {
    engine: Engine,
    scope: ReentryScope,
    told: Told,
    rng: StdRng,
}

impl Life {
    pub(crate) fn new(engine: &Engine, told: &Told, rng: &mut StdRng) -> Self {
        let (scope, rng) = (engine.reentry(), StdRng::seed_from_u64(rng.random()));
        Self { engine: engine.clone(), scope, told: told.clone(), rng }
    }

    /// Asks for a lock, however long it takes.
    pub(crate) async fn insist(&mut self, name: &str) {
        let class = CLASSES[0];
        let acquired = self.engine.lock(name).class(class).acquire().await;
        self.take(class, acquired).await;
    }

    /// One deed after the other until it is over; each ends with nothing held.
    pub(crate) async fn lead(mut self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::SeqCst) {
            let class = *CLASSES.choose(&mut self.rng).expect("some");
            match self.rng.random_range(0..10) {
                0 | 1 => self.try_once(class).await,
                2 => self.lose_patience(class).await,
                3 => self.take_many(class).await,
                4 => self.leave_many(class).await,
                5 => self.enter_twice(class).await,
                6 => self.be_robbed(class).await,
                _ => self.wait(class).await,
            }
            self.rest(5).await;
        }
    }

    fn lock(&mut self, class: &'static str) -> Lock {
        let name = self.names(1).remove(0);
        self.engine.lock(name).class(class).wait(*WAITS.choose(&mut self.rng).expect("some"))
    }

    /// Different ones, of few.
    fn names(&mut self, count: usize) -> Vec<String> {
        let numbers = rand::seq::index::sample(&mut self.rng, NAMES, count);
        numbers.into_iter().map(|number| format!("k{number}")).collect()
    }

    async fn try_once(&mut self, class: &'static str) {
        match self.lock(class).try_acquire().await {
            Ok(Some(lease)) => self.take(class, Ok(lease)).await,
            Ok(None) => self.told.count(class, "busy"),
            Err(error) => self.count_error(class, &error),
        }
    }

    async fn wait(&mut self, class: &'static str) {
        let acquired = self.lock(class).acquire().await;
        self.take(class, acquired).await;
    }

    async fn lose_patience(&mut self, class: &'static str) {
        let patience = millis(self.rng.random_range(0..20));
        match tokio::time::timeout(patience, self.lock(class).acquire()).await {
            Ok(acquired) => self.take(class, acquired).await,
            Err(_) => self.told.count(class, "cancelled"),
        }
    }

    async fn take_many(&mut self, class: &'static str) {
        let names = self.names(4);
        let many = self.engine.acquire_all(names).class(class).wait(millis(200));
        for acquired in many.await {
            self.take(class, acquired).await;
        }
    }

    /// Before it has heard of all.
    async fn leave_many(&mut self, class: &'static str) {
        let names = self.names(4);
        let mut many = self.engine.acquire_all(names).class(class).wait(millis(200)).start();
        let (_, first) = many.next().await.expect("four");
        self.rest(5).await;
        (0..many.left()).for_each(|_| self.told.count(class, "cancelled"));
        drop(many);
        self.take(class, first).await;
    }

    async fn enter_twice(&mut self, class: &'static str) {
        let lock = self.lock(class).reentry(&self.scope);
        let Some(outer) = self.took(class, lock.acquire().await) else { return };
        if let Some(inner) = self.took(class, lock.acquire().await) {
            self.rest(10).await;
            drop(inner.release().await); // the outer one is still there: nothing was released
        }
        self.hold(class, outer).await;
    }

    /// A foreign hand frees the lock that is held.
    async fn be_robbed(&mut self, class: &'static str) {
        let lock = self.lock(class);
        if let Some(lease) = self.took(class, lock.acquire().await) {
            drop(lock.force_release().await);
            self.hold(class, lease).await;
        }
    }

    async fn take(&mut self, class: &'static str, acquired: Result<Lease, AcquireError>) {
        if let Some(lease) = self.took(class, acquired) {
            self.hold(class, lease).await;
        }
    }

    fn took(&self, class: &'static str, acquired: Result<Lease, AcquireError>) -> Option<Lease> {
        match acquired {
            Ok(lease) => {
                self.told.count(class, "lease");
                Some(lease)
            }
            Err(error) => {
                self.count_error(class, &error);
                None
            }
        }
    }

    fn count_error(&self, class: &'static str, error: &AcquireError) {
        let outcome = match error {
            AcquireError::TimedOut { .. } => "timeout",
            AcquireError::Unavailable { .. } | AcquireError::Lost(_) => "error",
            other => panic!("{other:?}"),
        };
        self.told.count(class, outcome);
    }

    async fn hold(&mut self, class: &'static str, lease: Lease) {
        self.rest(10).await;
        if self.rng.random_ratio(1, 4) {
            return drop(lease);
        }
        match lease.release().await {
            Ok(()) => self.told.count(class, "released"),
            Err(ReleaseError::AlreadyLost(_)) => self.told.count(class, "already lost"),
            Err(_) => self.told.count(class, "unknown"),
        }
    }

    async fn rest(&mut self, longest_ms: u64) {
        let rest = millis(self.rng.random_range(0..=longest_ms));
        tokio::time::sleep(rest).await;
    }
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The same names are wanted under each.
const CLASSES: [&str; 3] = ["orders", "ledger", "jobs"];
const NAMES: usize = 16;
/// The longest outlasts `unavailable_after`.
const WAITS: [Duration; 4] = [millis(0), millis(5), millis(50), millis(3_000)];
