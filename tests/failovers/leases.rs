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

    /// Later than a machine that stood still for this long explains.
    pub(crate) fn is_late(&self, stall: Duration) -> bool {
        self.lowest() + stall < self.ttl / 3
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
    over: Over,
    stall_ns: Arc<AtomicU64>,
    watcher: JoinHandle<()>,
}

/// Ends the watching when it is dropped: after a failed test too, or its engines would outlive it.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
        let (held, over, stall_ns) = (Arc::new(held), Arc::<AtomicBool>::default(), Arc::default());
        let watcher = thread::spawn({
            let (held, over, stall_ns) = (held.clone(), over.clone(), Arc::clone(&stall_ns));
            move || watch(&held, &over, &stall_ns)
        });
        Self { held, over: Over(over), stall_ns, watcher }
    }

    pub(crate) fn of(&self, part: usize) -> impl Iterator<Item = &Arc<Held>> {
        self.held.iter().filter(move |held| held.part == part)
    }

    /// None was lost, none was renewed late.
    pub(crate) fn assert_untouched(&self) {
        let stall = self.stall();
        let touched: Vec<_> = self
            .held
            .iter()
            .filter(|held| !held.lease.is_held() || held.is_late(stall))
            .map(|held| (&held.lease, held.lowest()))
            .collect();
        assert!(touched.is_empty(), "{touched:?}; threads stalled for {stall:?}");
    }

    /// The longest time that nobody looked: how late this machine let a thread be.
    fn stall(&self) -> Duration {
        Duration::from_nanos(self.stall_ns.load(Ordering::SeqCst))
    }

    /// Ends the watching. With the longest stall.
    pub(crate) fn unwatched(self) -> (Vec<Arc<Held>>, Duration) {
        let stall = self.stall();
        drop(self.over);
        self.watcher.join().expect("no panic");
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

fn watch(held: &[Arc<Held>], over: &AtomicBool, stall_ns: &AtomicU64) {
    let mut before = Moment::now();
    while !over.load(Ordering::SeqCst) {
        held.iter().for_each(|held| held.look());
        thread::sleep(LOOK);
        stall_ns.fetch_max(before.elapsed().as_nanos() as u64, Ordering::SeqCst);
        before = Moment::now();
    }
}

/// The engine that holds them.
pub(crate) const LEASES_ENGINE: usize = 0;
const TTLS: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(4), Duration::from_secs(5)];
const LOOK: Duration = Duration::from_millis(5);
