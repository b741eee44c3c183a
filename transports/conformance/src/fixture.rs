use std::{future::Future, marker::PhantomData, num::NonZeroU16, sync::Arc, time::Duration};

use leasehold::{
    FencingMode,
    clock::Clock,
    key::LockKey,
    transport::{HoldKind, Transport},
};

/// A server, or what plays one, and a transport to it.
pub trait Fixture: Sized {
    /// The clock of the lanes. [`Clock::Tokio`]: the tests run in paused time, which only a transport without real
    /// connections can stand.
    const CLOCK: Clock;

    /// Whether every valid name can be a lock. A cluster refuses names whose related keys fall into other slots, as
    /// `Misconfigured`, without effect.
    const EVERY_NAME: bool = true;

    /// The kind of the holds.
    const KIND: HoldKind = HoldKind::Exclusive;

    /// A ground for one test. Locks that other tests left behind do not matter: each test uses names of its own.
    fn fresh() -> impl Future<Output = Self>;

    /// The transport under test; each call leads to the same locks.
    fn transport(&self) -> Arc<dyn Transport>;
}

/// A ground on which another kind of client can be played.
pub trait PeerGround: Fixture {
    /// Leaves a hold as a peer would: this owner, this count, no expiry for `None`.
    fn put_peer_hold(
        &self,
        key: &Arc<LockKey>,
        owner: &str,
        count: u64,
        ttl: Option<Duration>,
    ) -> impl Future<Output = ()>;
}

/// A ground on which a key can hold something that is no lock.
pub trait OtherDataGround: Fixture {
    /// Puts something else where the lock would be.
    fn put_other_data(&self, key: &Arc<LockKey>) -> impl Future<Output = ()>;

    /// Whether it is still there, unchanged.
    fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> impl Future<Output = bool>;
}

/// A ground whose server can be restarted while lanes to it are open.
pub trait RestartGround: Fixture {
    /// Restarts it; returns when the new run accepts connections. Data may be lost or kept.
    fn restart(&self) -> impl Future<Output = ()>;
}

/// A ground on which the token counter of a fenced lock can be changed.
pub trait FencedGround: Fixture {
    /// Sets the counter, or removes it for `None`.
    fn put_token_counter(&self, key: &Arc<LockKey>, counter: Option<u64>) -> impl Future<Output = ()>;
}

/// A kind of hold, as a type.
pub trait Kind {
    /// The kind.
    const KIND: HoldKind;
}

/// Fenced locks whose tokens count grants.
pub struct FencedCounter;

/// Fenced locks whose tokens are at least the server's time.
pub struct FencedHybrid;

/// Spin locks.
pub struct Spin;

/// Fair locks.
pub struct Fair;

/// The read side of read/write locks.
pub struct Read;

/// The write side of read/write locks.
pub struct Write;

/// One permit that expires.
pub struct OnePermit;

impl Kind for FencedCounter {
    const KIND: HoldKind = HoldKind::Fenced(FencingMode::Counter);
}

impl Kind for FencedHybrid {
    const KIND: HoldKind = HoldKind::Fenced(FencingMode::Hybrid);
}

impl Kind for Spin {
    const KIND: HoldKind = HoldKind::Spin;
}

impl Kind for Fair {
    const KIND: HoldKind = HoldKind::Fair;
}

impl Kind for Read {
    const KIND: HoldKind = HoldKind::Read;
}

impl Kind for OnePermit {
    const KIND: HoldKind = HoldKind::Permits(NonZeroU16::MIN);
}

impl Kind for Write {
    const KIND: HoldKind = HoldKind::Write;
}

/// The ground `G` for tests whose holds have the kind `K`.
pub struct OfKind<G, K>(G, PhantomData<K>);

impl<G: Fixture, K: Kind> Fixture for OfKind<G, K> {
    const CLOCK: Clock = G::CLOCK;
    const EVERY_NAME: bool = G::EVERY_NAME;
    const KIND: HoldKind = K::KIND;

    async fn fresh() -> Self {
        Self(G::fresh().await, PhantomData)
    }

    fn transport(&self) -> Arc<dyn Transport> {
        self.0.transport()
    }
}

impl<G: PeerGround, K: Kind> PeerGround for OfKind<G, K> {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.0.put_peer_hold(key, owner, count, ttl).await;
    }
}

impl<G: OtherDataGround, K: Kind> OtherDataGround for OfKind<G, K> {
    async fn put_other_data(&self, key: &Arc<LockKey>) {
        self.0.put_other_data(key).await;
    }

    async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
        self.0.other_data_is_unchanged(key).await
    }
}

impl<G: RestartGround, K: Kind> RestartGround for OfKind<G, K> {
    async fn restart(&self) {
        self.0.restart().await;
    }
}

impl<G: FencedGround, K: Kind> FencedGround for OfKind<G, K> {
    async fn put_token_counter(&self, key: &Arc<LockKey>, counter: Option<u64>) {
        self.0.put_token_counter(key, counter).await;
    }
}

/// Runs one behaviour on a fresh ground, for at most a minute.
///
/// # Panics
/// If the behaviour is not met, or does not end.
#[allow(clippy::disallowed_methods)]
pub fn run<G: Fixture>(behaviour: impl AsyncFnOnce(&G)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(G::CLOCK == Clock::Tokio)
        .build()
        .expect("a runtime for one test");
    let body = async { behaviour(&G::fresh().await).await };
    let ended = runtime.block_on(async { tokio::time::timeout(TEST_MAX, body).await });
    ended.expect("the behaviour ends within a minute");
}

const TEST_MAX: Duration = Duration::from_secs(60);
