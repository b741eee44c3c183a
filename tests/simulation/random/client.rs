//! One client: acquires, holds, renews, releases, drops and cancels, at random.

use std::time::Duration;

use leasehold::{AcquireError, Engine, Lease, Lock, ReentryScope};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use super::{
    history::{History, Side},
    world::{LINE, NAMES, SHARED},
};
use crate::fixture::{millis, now, pass, seconds};

pub struct Client {
    pub engine: Engine,
    pub scope: ReentryScope,
    pub process: u32,
    pub history: History,
    pub rng: StdRng,
    /// Whether the lock of this round is a fenced one.
    pub fenced: bool,
}

impl Client {
    /// Works until `end`; then every lease of it is given back.
    pub async fn work_until(mut self, end: leasehold::clock::Instant) {
        while now() < end {
            let (lock, side) = self.lock();
            match self.rng.random_range(0..10) {
                0 => self.cancel(&lock, side).await,
                1..3 => self.try_once(&lock, side).await,
                _ => self.acquire(&lock, side).await,
            }
            self.rest(100).await;
        }
    }

    fn lock(&mut self) -> (Lock, Side) {
        self.fenced = false;
        let side = *SIDES.choose(&mut self.rng).expect("some");
        let mut lock = match side {
            Side::Exclusive if self.rng.random_ratio(1, 4) => self.engine.fair_lock(LINE),
            Side::Exclusive => self.lock_of_a_kind(),
            Side::Read => self.engine.rw_lock(SHARED).read(),
            Side::Write => self.engine.rw_lock(SHARED).write(),
        };
        lock = lock.wait(*WAITS.choose(&mut self.rng).expect("some"));
        lock = lock.ttl(*TTLS.choose(&mut self.rng).expect("some"));
        if self.rng.random_ratio(1, 4) {
            lock = lock.no_renewal();
        }
        if self.rng.random_ratio(1, 5) {
            lock = lock.max_hold(millis(self.rng.random_range(1..4_000)));
        }
        (lock, side)
    }

    fn lock_of_a_kind(&mut self) -> Lock {
        let name = NAMES[self.rng.random_range(0..NAMES.len())];
        let kind = match name {
            "ledger" => 1,
            "nightly" => 2 * self.rng.random_range(0..2),
            "mixed" => self.rng.random_range(0..3),
            _ => 0,
        };
        self.fenced = kind == 1;
        match kind {
            0 => self.engine.lock(name),
            1 => self.engine.fenced_lock(name),
            _ => self.engine.spin_lock(name),
        }
    }

    async fn acquire(&mut self, lock: &Lock, side: Side) {
        match lock.acquire().await {
            Ok(lease) => self.hold(lease, side).await,
            Err(error) => self.refused(&error),
        }
    }

    async fn try_once(&mut self, lock: &Lock, side: Side) {
        match lock.try_acquire().await {
            Ok(Some(lease)) => self.hold(lease, side).await,
            Ok(None) => self.history.count(|totals| totals.refused += 1),
            Err(error) => self.refused(&error),
        }
    }

    async fn cancel(&mut self, lock: &Lock, side: Side) {
        let patience = millis(self.rng.random_range(0..1_500));
        match tokio::time::timeout(patience, lock.acquire()).await {
            Ok(Ok(lease)) => self.hold(lease, side).await,
            Ok(Err(error)) => self.refused(&error),
            Err(_) => self.history.count(|totals| totals.cancelled += 1),
        }
    }

    fn refused(&self, error: &AcquireError) {
        match error {
            AcquireError::TimedOut { .. } | AcquireError::Unavailable { .. } | AcquireError::ShuttingDown => {
                self.history.count(|totals| totals.refused += 1);
            }
            other => panic!("{other:?}"),
        }
    }

    async fn hold(&mut self, lease: Lease, side: Side) {
        let from = now();
        // A token from a counter is below 2^53, and a server's time times 1,024 is above.
        assert_eq!(
            self.fenced,
            lease.fencing_token().as_i64() < 1 << 53,
            "{lease:?}: a token of another kind"
        );
        self.history.count(|totals| totals.leases += 1);
        let longest = *[2, 5, 20, 200, 2_000, 6_000].choose(&mut self.rng).expect("some");
        for _ in 0..self.rng.random_range(1..4) {
            self.rest(longest).await;
            if self.rng.random_ratio(1, 6) {
                drop(lease.renew(seconds(self.rng.random_range(1..10))).await);
            }
            self.check(&lease);
        }
        if self.rng.random_ratio(1, 8) {
            self.enter_again().await;
        }
        match side {
            Side::Write if self.rng.random_ratio(1, 3) => self.read_on(lease, from).await,
            _ => self.give_back(lease, side, from).await,
        }
    }

    // The writer becomes a reader of what it wrote.
    async fn read_on(&mut self, lease: Lease, from: leasehold::clock::Instant) {
        self.history.add(self.process, Side::Write, &lease, from);
        let from = now();
        if let Ok(lease) = lease.downgrade().await {
            self.history.count(|totals| totals.downgrades += 1);
            self.rest(500).await;
            self.give_back(lease, Side::Read, from).await;
        }
    }

    // S2: what is not held once is not held again.
    fn check(&mut self, lease: &Lease) {
        if !lease.is_held() {
            assert_eq!(lease.remaining(), Duration::ZERO);
            assert!(lease.ensure_held().is_err());
        }
    }

    async fn give_back(&mut self, lease: Lease, side: Side, from: leasehold::clock::Instant) {
        let was_held = lease.is_held();
        self.rest(50).await;
        assert!(was_held || !lease.is_held(), "S2: held again");
        self.history.add(self.process, side, &lease, from);
        match self.rng.random_range(0..3) {
            0 => drop(lease),
            _ => drop(lease.release().await),
        }
    }

    // Twice in one scope, so that the second call shares the hold of the first.
    async fn enter_again(&mut self) {
        let lock = self.engine.lock("scoped").wait(seconds(1)).reentry(&self.scope);
        let Ok(outer) = lock.acquire().await else { return };
        let from = now();
        self.rest(100).await;
        if let Ok(inner) = lock.acquire().await {
            self.history.count(|totals| totals.reentries += 1);
            assert_eq!(inner.fencing_token(), outer.fencing_token());
            self.rest(100).await;
            self.history.add(self.process, Side::Exclusive, &inner, from);
            drop(inner.release().await);
        }
        self.give_back(outer, Side::Exclusive, from).await;
    }

    async fn rest(&mut self, longest_ms: u64) {
        pass(millis(self.rng.random_range(0..=longest_ms))).await;
    }
}

const SIDES: [Side; 6] =
    [Side::Exclusive, Side::Exclusive, Side::Exclusive, Side::Read, Side::Read, Side::Write];
const WAITS: [Duration; 4] = [millis(0), millis(400), seconds(3), seconds(20)];
const TTLS: [Duration; 4] = [seconds(1), millis(1_700), seconds(5), seconds(15)];
