//! Leases that are held through everything: how near each came to its deadline, and when its holder heard of its loss.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold::{Engine, Lease};
use tokio::runtime::Runtime;

use crate::{deployment::Deployment, log::Turn, moment::Moment};

/// One lease.
pub(crate) struct Held {
    pub(crate) part: usize,
    pub(crate) ttl: Duration,
    pub(crate) lease: Lease,
    pub(crate) turn: Turn,
    lowest_ns: AtomicU64,
    told: Arc<Mutex<Option<Moment>>>,
}

impl Held {
    /// The shortest time to its deadline at which it was seen. Less than a third of the ttl: it was renewed late.
    pub(crate) fn lowest(&self) -> Duration {
        Duration::from_nanos(self.lowest_ns.load(Ordering::SeqCst))
    }

    pub(crate) fn is_late(&self) -> bool {
        self.lowest() < self.ttl / 3
    }

    /// When `lost()` returned.
    pub(crate) fn told(&self) -> Option<Moment> {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let left = self.lease.remaining();
        if !left.is_zero() {
            self.lowest_ns.fetch_min(left.as_nanos() as u64, Ordering::SeqCst);
        }
    }
}

/// All of them, and the thread that looks at them.
pub(crate) struct Leases {
    held: Arc<Vec<Arc<Held>>>,
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Duration>,
}

impl Leases {
    /// Takes `each` leases of each part.
    pub(crate) fn take(runtime: &Runtime, engine: &Engine, deployment: &Deployment, each: usize) -> Self {
        let held: Vec<_> =
            deployment.parts().flat_map(|part| take_part(runtime, engine, deployment, part, each)).collect();
        for held in &held {
            let (lost, told) = (held.lease.lost(), held.told.clone());
            runtime.spawn(async move {
                lost.await;
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now());
            });
        }
        let (held, over) = (Arc::new(held), Arc::<AtomicBool>::default());
        let watcher = thread::spawn({
            let (held, over) = (held.clone(), over.clone());
            move || watch(&held, &over)
        });
        Self { held, over, watcher }
    }

    pub(crate) fn of(&self, part: usize) -> impl Iterator<Item = &Arc<Held>> {
        self.held.iter().filter(move |held| held.part == part)
    }

    /// None was lost, none was renewed late.
    pub(crate) fn assert_untouched(&self) {
        let touched: Vec<_> = self
            .held
            .iter()
            .filter(|held| !held.lease.is_held() || held.is_late())
            .map(|held| &held.lease)
            .collect();
        assert!(touched.is_empty(), "{touched:?}");
    }

    /// Ends the watching. The longest time that nobody looked: how late this machine let a thread be.
    pub(crate) fn unwatched(self) -> (Vec<Arc<Held>>, Duration) {
        self.over.store(true, Ordering::SeqCst);
        let stall = self.watcher.join().expect("no panic");
        (Arc::into_inner(self.held).expect("the watcher has ended"), stall)
    }
}

fn take_part(
    runtime: &Runtime,
    engine: &Engine,
    deployment: &Deployment,
    part: usize,
    each: usize,
) -> Vec<Arc<Held>> {
    let names = deployment.names(part, "held").take(each);
    let asked: Vec<_> = names
        .enumerate()
        .map(|(n, name)| {
            let ttl = TTLS[n % TTLS.len()];
            let acquire = engine.lock(name).ttl(ttl).acquire();
            runtime.spawn(async move { taken(part, ttl, acquire.await.expect("a lease")) })
        })
        .collect();
    asked.into_iter().map(|held| runtime.block_on(held).expect("no panic")).collect()
}

fn taken(part: usize, ttl: Duration, lease: Lease) -> Arc<Held> {
    let turn = Turn::begin(LEASES_ENGINE, &lease);
    let (lowest_ns, told) = (AtomicU64::new(u64::MAX), Arc::default());
    Arc::new(Held { part, ttl, lease, turn, lowest_ns, told })
}

fn watch(held: &[Arc<Held>], over: &AtomicBool) -> Duration {
    let (mut longest, mut before) = (Duration::ZERO, Moment::now());
    while !over.load(Ordering::SeqCst) {
        held.iter().for_each(|held| held.look());
        thread::sleep(LOOK);
        longest = longest.max(before.elapsed());
        before = Moment::now();
    }
    longest
}

/// The engine that holds them.
pub(crate) const LEASES_ENGINE: usize = 0;
const TTLS: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(4), Duration::from_secs(5)];
const LOOK: Duration = Duration::from_millis(5);
