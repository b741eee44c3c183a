use std::{future::Future, sync::Arc, time::Duration};

use leasehold::{
    FencingToken,
    clock::{Clock, Instant},
    key::{Family, LockKey},
    owner::{Owner, OwnerMint},
    transport::{
        Call, Counter, CounterCall, CounterOp, HoldKind, Inspection, Lane, LanePurpose, Op, OpenLane,
        Outcome, Remaining, Watch,
    },
};

use super::Fixture;

/// A ttl that no test outlives.
pub const LONG: Duration = Duration::from_secs(600);

/// A ttl that a test waits for.
pub const SHORT: Duration = Duration::from_millis(200);

/// Three lanes to one server, and what a test asks over them. Each field has names and owners of its own.
#[non_exhaustive]
pub struct Context {
    /// A lane for calls, used unless a behaviour says otherwise.
    pub calls: Arc<dyn Lane>,
    /// A second lane for calls, as that of another process.
    pub others: Arc<dyn Lane>,
    /// A lane for renewals.
    pub renewals: Arc<dyn Lane>,
    clock: Clock,
    kind: HoldKind,
    mint: OwnerMint,
    prefix: String,
}

impl Context {
    /// Opens the lanes.
    ///
    /// # Panics
    /// If one does not open.
    pub async fn open<G: Fixture>(fixture: &G) -> Context {
        let transport = fixture.transport();
        let lane = async |purpose| {
            let opened = transport.open(OpenLane::new(purpose, G::CLOCK, TIMEOUT)).await;
            opened.unwrap_or_else(|error| panic!("the lane for {purpose:?} opens: {error}"))
        };
        let (calls, others) = (lane(LanePurpose::Calls).await, lane(LanePurpose::Calls).await);
        let renewals = lane(LanePurpose::Renewals).await;
        let mint = OwnerMint::new();
        // An owner is unlike every other, so a prefix made of one keeps tests on one server apart.
        let prefix = format!("conformance:{}:", mint.mint());
        Context { calls, others, renewals, clock: G::CLOCK, kind: G::KIND, mint, prefix }
    }

    /// The key of the lock with this name, of the family of the kind.
    pub fn key(&self, name: &str) -> Arc<LockKey> {
        self.key_of(self.kind.family(), name)
    }

    /// The key of the lock of this family with this name.
    pub fn key_of(&self, family: Family, name: &str) -> Arc<LockKey> {
        LockKey::with_family(&self.prefix, name, family).expect("a valid name")
    }

    /// How many bytes of a name the prefix takes.
    pub fn prefix_bytes(&self) -> usize {
        self.prefix.len()
    }

    /// An owner that was never used.
    pub fn owner(&self) -> Owner {
        self.mint.mint()
    }

    /// The present moment on the lanes' clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// An acquire that may be executed from now on for the command timeout.
    pub fn acquire_request(&self, key: &Arc<LockKey>, owner: Owner, ttl: Duration) -> Call {
        self.call(key, Op::Acquire { ttl }, owner)
    }

    /// A release whose answer is awaited for the command timeout.
    pub fn release_request(&self, key: &Arc<LockKey>, owner: Owner) -> Call {
        self.call(key, Op::Release, owner)
    }

    /// A renewal that may be executed from now on for the command timeout.
    pub fn renewal(&self, key: &Arc<LockKey>, owner: Owner, ttl: Duration) -> Call {
        self.call(key, Op::Renew { ttl }, owner)
    }

    fn call(&self, key: &Arc<LockKey>, op: Op, owner: Owner) -> Call {
        self.call_of(self.kind, key, op, owner)
    }

    /// A call of this kind that may be executed from now on for the command timeout.
    pub fn call_of(&self, kind: HoldKind, key: &Arc<LockKey>, op: Op, owner: Owner) -> Call {
        Call::new(key.clone(), kind, op, owner, self.now() + TIMEOUT)
    }

    /// Acquires over the calls lane.
    pub async fn acquire(&self, key: &Arc<LockKey>, owner: Owner, ttl: Duration) -> Outcome {
        self.acquire_over(&*self.calls, key, owner, ttl).await
    }

    /// Acquires over a lane of choice.
    pub async fn acquire_over(
        &self,
        lane: &dyn Lane,
        key: &Arc<LockKey>,
        owner: Owner,
        ttl: Duration,
    ) -> Outcome {
        self.prepare(key).await;
        let outcome = lane.call_one(self.acquire_request(key, owner, ttl)).await;
        outcome.into_result().expect("a definite answer to an acquire")
    }

    /// Makes as many permits as one hold has, if there is no semaphore yet. Locks need no preparation.
    pub async fn prepare(&self, key: &Arc<LockKey>) {
        let HoldKind::Permits(permits) = self.kind else { return };
        let call = CounterCall {
            key: key.clone(),
            counter: Counter::PermitTotal,
            client: self.mint.client(),
            number: self.owner().number(),
            op: CounterOp::SetIfAbsent(permits.get().into()),
            execute_by: self.now() + TIMEOUT,
            remember: LONG,
        };
        self.calls.count(call).await.expect("a definite answer to a total");
    }

    /// How the hold of an owner is shown.
    pub fn shown(&self, owner: Owner) -> String {
        match self.kind {
            HoldKind::Permits(_) => owner.permit_id(0).as_simple().to_string(),
            _ => owner.to_string(),
        }
    }

    /// A fresh owner that holds the lock.
    pub async fn held(&self, key: &Arc<LockKey>, ttl: Duration) -> Owner {
        let owner = self.owner();
        granted(&self.acquire(key, owner, ttl).await);
        owner
    }

    /// Releases over the calls lane.
    pub async fn release(&self, key: &Arc<LockKey>, owner: Owner) -> Outcome {
        let outcome = self.calls.call_one(self.release_request(key, owner)).await;
        outcome.into_result().expect("a definite answer to a release")
    }

    /// Renews one lease over the renewals lane.
    pub async fn renew(&self, key: &Arc<LockKey>, owner: Owner, ttl: Duration) -> Outcome {
        let mut answered = self.renew_all(vec![self.renewal(key, owner, ttl)]).await;
        assert_eq!(answered.len(), 1, "{answered:?}");
        answered.remove(0).outcome
    }

    /// Renews a batch of one node, that of its first member, over the renewals lane.
    pub async fn renew_all(&self, batch: Vec<Call>) -> Vec<Call> {
        let topology = self.renewals.topology().borrow().clone();
        let node = match batch.first() {
            Some(member) => topology.serving(member.key.slot()),
            None => topology.nodes().first(),
        };
        self.renewals.call(node.expect("a node that serves the key").id, batch).await
    }

    /// Who holds the lock.
    pub async fn inspect(&self, key: &Arc<LockKey>) -> Inspection {
        self.calls.inspect(key).await.expect("a definite answer to an inspection")
    }

    /// How long the hold lasts.
    ///
    /// # Panics
    /// If there is no hold with an expiry.
    pub async fn left(&self, key: &Arc<LockKey>) -> Duration {
        let seen = self.inspect(key).await;
        match seen.remaining {
            Remaining::For(left) if !seen.holds.is_empty() => left,
            _ => panic!("no hold that runs out: {seen:?}"),
        }
    }

    /// Whether nobody holds the lock.
    pub async fn is_free(&self, key: &Arc<LockKey>) -> bool {
        self.inspect(key).await.holds.is_empty()
    }

    /// Whether exactly this owner holds the lock, once.
    pub async fn is_held_by(&self, key: &Arc<LockKey>, owner: Owner) -> bool {
        let holds = self.inspect(key).await.holds;
        holds.len() == 1 && holds[0].owner == self.shown(owner) && holds[0].count == 1
    }

    /// A watch that is in force.
    pub async fn watch_over(&self, lane: &dyn Lane, key: &Arc<LockKey>) -> Watch {
        let mut watch = lane.watch(key);
        while !watch.observe().in_force {
            watch.changed().await;
        }
        watch
    }

    /// Asks again and again until `fact` is one; the test's own limit bounds it.
    pub async fn until(&self, mut fact: impl AsyncFnMut() -> bool) {
        while !fact().await {
            self.sleep(POLL).await;
        }
    }

    /// Sleeps on the lanes' clock.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = ()> + use<> {
        let clock = self.clock;
        async move { clock.sleep_until(clock.now() + time).await }
    }
}

/// The same call for a hold of another kind.
pub fn of_kind(kind: HoldKind, mut call: Call) -> Call {
    call.kind = kind;
    call
}

/// The token of a grant.
///
/// # Panics
/// If it is none.
pub fn granted(reply: &Outcome) -> FencingToken {
    match reply {
        Outcome::Granted { token, .. } => *token,
        _ => panic!("granted, not {reply:?}"),
    }
}

/// What is left of the hold that is in the way.
///
/// # Panics
/// If none is.
pub fn held(reply: &Outcome) -> Remaining {
    match reply {
        Outcome::Busy { remaining, .. } => *remaining,
        _ => panic!("held, not {reply:?}"),
    }
}

/// Whether the reply to a request past its limit says so, or says nothing definite: by the contract a call is
/// answered by its limit, which may be before the server could speak.
pub fn is_too_late(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::TooLate { .. } | Outcome::Failed(_))
}

/// Whether `left` is what a hold of `ttl` shows in the test's first half minute, give or take a server's rounding.
pub fn is_about(left: Duration, ttl: Duration) -> bool {
    left <= ttl + Duration::from_millis(2) && left + SLACK >= ttl
}

const TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
const SLACK: Duration = Duration::from_secs(60);
