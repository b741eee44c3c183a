//! The leases of one composition, of which some number is needed.
//!
//! Held at a moment ⇔ at least `needed` member leases are held at that moment. A lease never becomes held again, so
//! the number only falls, except when a member *joins*. A member joins only while enough others are held. So a holding
//! that had too few leases at any moment is lost for good, also if nobody looked at that moment.
//!
//! No lease is dropped and no waker runs under the lock: both may run user code.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use super::{
    arithmetic::{Tally, release_result, validity},
    race::first_of,
};
use crate::{
    Lease, Lock,
    error::{NotHeld, ReleaseError, RunError},
    fencing::FencingToken,
    guard,
    inner::Inner,
    lease::{
        shared::LeaseCore,
        state::{LeaseState, LossReason},
    },
    transport::BoxFuture,
};

/// Whether a holding is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Held,
    Lost(LossReason),
    GivenBack,
}

/// The leases of one composition.
pub(super) struct Holding {
    needed: usize,
    state: Mutex<State>,
    /// Counts the changes of `state`. For tasks of the engine.
    changed: watch::Sender<u64>,
    /// The same for tasks of the user. Their wakers may panic, and a panic keeps the wakers behind it from being called.
    changed_for_users: watch::Sender<u64>,
}

struct State {
    members: Vec<Option<Lease>>,
    standing: Standing,
}

/// One member of a held multi lock. [`MultiLease::leases`](crate::MultiLease::leases) lists them.
pub struct MemberLease {
    core: Arc<LeaseCore>,
    engine: Arc<Inner>,
}

impl State {
    fn held(&self) -> usize {
        self.members.iter().flatten().filter(|lease| lease.is_held()).count()
    }

    fn loss(&self) -> LossReason {
        let reason = |lease: &Lease| match lease.state() {
            LeaseState::Lost(reason) => Some(reason),
            LeaseState::Held | LeaseState::Jeopardy => None,
        };
        self.members.iter().flatten().find_map(reason).unwrap_or(LossReason::Expired)
    }
}

impl Holding {
    /// The holding of these leases; a member without a lease may join.
    pub(super) fn new(members: Vec<Option<Lease>>, needed: usize) -> Arc<Self> {
        let state = Mutex::new(State { members, standing: Standing::Held });
        Arc::new(Self {
            needed,
            state,
            changed: watch::Sender::new(0),
            changed_for_users: watch::Sender::new(0),
        })
    }

    /// Whether the holding is held now. Never `Held` again after the first other answer.
    pub(super) fn standing(&self) -> Standing {
        let mut state = self.lock();
        if state.standing != Standing::Held || state.held() >= self.needed {
            return state.standing;
        }
        #[cfg(leasehold_fault)]
        if crate::faults::Fault::LateJoin.is_on() {
            return Standing::Held;
        }
        let standing = Standing::Lost(state.loss());
        state.standing = standing;
        drop(state);
        self.tell_change();
        standing
    }

    pub(super) fn is_held(&self) -> bool {
        self.standing() == Standing::Held
    }

    /// # Errors
    /// The holding is lost, with the reason.
    pub(super) fn ensure_held(&self) -> Result<(), NotHeld> {
        match self.standing() {
            Standing::Held => Ok(()),
            Standing::Lost(reason) => Err(NotHeld { reason }),
            Standing::GivenBack => Err(NotHeld { reason: LossReason::Expired }), // its handle is gone
        }
    }

    /// How long enough members are held if no renewal is confirmed.
    pub(super) fn remaining(&self) -> Duration {
        if !self.is_held() {
            return Duration::ZERO;
        }
        validity(self.lock().members.iter().flatten().map(Lease::remaining), self.needed)
    }

    pub(super) fn tally(&self) -> Tally {
        let state = self.lock();
        Tally { held: state.held(), needed: self.needed, of: state.members.len() }
    }

    /// Adds the lease of a member. A lease that comes too late is dropped, and so released.
    pub(super) fn join(&self, place: usize, lease: Lease) {
        if !self.is_held() {
            return;
        }
        let mut state = self.lock();
        let may_join = state.standing == Standing::Held && state.held() >= self.needed;
        #[cfg(leasehold_fault)]
        let may_join = may_join || crate::faults::Fault::LateJoin.is_on();
        let left = match state.members.get_mut(place).filter(|_| may_join) {
            Some(member) => member.replace(lease),
            None => Some(lease),
        };
        drop(state);
        drop(left);
        self.tell_change();
    }

    /// Waits for the loss of one member. `None`: the member has no lease.
    pub(super) fn loss_of(&self, place: usize) -> Option<BoxFuture<'static, LossReason>> {
        let state = self.lock();
        let lease = state.members.get(place)?.as_ref()?;
        Some(Box::pin(lease.lost()))
    }

    /// How long the lease of one member is held if no renewal is confirmed; zero without a lease.
    pub(super) fn remaining_of(&self, place: usize) -> Duration {
        let state = self.lock();
        state.members.get(place).and_then(Option::as_ref).map(Lease::remaining).unwrap_or_default()
    }

    /// Takes the lost lease of one member away, unless the holding is lost with it.
    pub(super) fn clear(&self, place: usize) {
        if !self.is_held() {
            return; // a lost holding keeps its leases: they say why
        }
        let cleared =
            self.lock().members.get_mut(place).and_then(|member| member.take_if(|lease| !lease.is_held()));
        drop(cleared);
    }

    /// Resolves once the holding is lost or given back.
    pub(super) async fn ended(&self) -> Standing {
        let mut changed = self.changed.subscribe();
        loop {
            match self.standing() {
                Standing::Held => {}
                ended => return ended,
            }
            if changed.changed().await.is_err() {
                return Standing::GivenBack;
            }
        }
    }

    /// Waits until the holding is lost, and returns the reason. Never resolves if it was given back.
    pub(super) async fn lost(self: Arc<Self>) -> LossReason {
        let mut changed = self.changed_for_users.subscribe();
        loop {
            changed.mark_unchanged();
            match self.standing() {
                Standing::Held => {}
                Standing::Lost(reason) => return reason,
                Standing::GivenBack => return std::future::pending().await,
            }
            let mut losses = self.losses();
            tokio::select! {
                _ = first_of(&mut losses) => {}
                _ = changed.changed() => {}
            }
            // A member that is lost and was not needed must not be waited for again at once.
            drop(losses);
            self.clear_lost();
        }
    }

    fn losses(&self) -> Vec<BoxFuture<'static, LossReason>> {
        let state = self.lock();
        state.members.iter().flatten().map(|lease| Box::pin(lease.lost()) as BoxFuture<'static, _>).collect()
    }

    fn clear_lost(&self) {
        let places = self.lock().members.len();
        (0..places).for_each(|place| self.clear(place));
    }

    /// Releases every member of a holding that was lost.
    pub(super) fn release_rest(&self) {
        drop(self.take());
    }

    /// Ends the holding. Dropping the leases releases them.
    pub(super) fn give_back(&self) -> (Standing, Vec<Lease>) {
        let standing = self.standing();
        let mut state = self.lock();
        if state.standing == Standing::Held {
            state.standing = Standing::GivenBack;
        }
        drop(state);
        let leases = self.take();
        self.tell_change();
        (standing, leases)
    }

    fn take(&self) -> Vec<Lease> {
        self.lock().members.iter_mut().filter_map(Option::take).collect()
    }

    /// Ends the holding and releases every member. The releases go on if the future is dropped.
    pub(super) fn release(&self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let (standing, leases) = self.give_back();
        let needed = self.needed;
        // Every release begins here, before the first answer is waited for.
        let mut releases: Vec<_> = leases
            .into_iter()
            .map(|lease| Some(Box::pin(lease.release()) as BoxFuture<'static, _>))
            .collect();
        async move {
            if let Standing::Lost(reason) = standing {
                return Err(ReleaseError::AlreadyLost(reason));
            }
            let mut answers = Vec::new();
            loop {
                if let Some(result) = release_result(&answers, releases.len(), needed) {
                    return result;
                }
                answers.push(next_answer(&mut releases).await);
            }
        }
    }

    /// Runs `work` until it is done or the holding is lost, and then releases the members. The work is dropped before
    /// the first release is sent.
    pub(super) async fn run<T, E, A>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, RunError<E, A>> {
        let outcome = {
            let (work, lost) = (work, self.clone().lost());
            tokio::select! {
                biased;
                done = work => Ok(done),
                reason = lost => Err(reason),
            }
        };
        match outcome {
            Err(reason) => Err(RunError::Lost(reason)),
            Ok(Err(error)) => {
                let _ = self.release().await; // the work's error is the one to tell
                Err(RunError::Work(error))
            }
            Ok(Ok(done)) => match self.standing() {
                Standing::Lost(reason) => Err(RunError::Lost(reason)),
                Standing::Held | Standing::GivenBack => {
                    self.release().await.map(|()| done).map_err(RunError::Release)
                }
            },
        }
    }

    /// The members, for a holding that none joins.
    pub(super) fn member_leases(&self) -> Vec<MemberLease> {
        let member =
            |lease: &Lease| MemberLease { core: lease.core().clone(), engine: lease.engine().clone() };
        self.lock().members.iter().flatten().map(member).collect()
    }

    fn tell_change(&self) {
        self.changed.send_modify(|count| *count += 1);
        let _ = guard::call(|| self.changed_for_users.send_modify(|count| *count += 1));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Releasing = Option<BoxFuture<'static, Result<(), ReleaseError>>>;

async fn next_answer(releases: &mut Vec<Releasing>) -> Result<(), ReleaseError> {
    let mut places: Vec<BoxFuture<'_, (usize, Result<(), ReleaseError>)>> = Vec::new();
    for (place, release) in releases.iter_mut().enumerate() {
        if let Some(release) = release {
            places.push(Box::pin(async move { (place, release.await) }));
        }
    }
    let (place, answer) = first_of(&mut places).await;
    drop(places);
    drop(releases.swap_remove(place));
    answer
}

impl MemberLease {
    /// The lock's name, without the `name_prefix` of its engine.
    pub fn name(&self) -> &str {
        self.core.key.name()
    }

    /// As [`Lease::fencing_token`]. Tokens of different locks cannot be compared.
    pub fn fencing_token(&self) -> FencingToken {
        self.core.token
    }

    /// As [`Lease::state`].
    pub fn state(&self) -> LeaseState {
        self.core.state(self.engine.clock.now())
    }
}

impl fmt::Debug for MemberLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberLease({:?}, token {})", self.name(), self.fencing_token())
    }
}

/// The engines of these locks, without repetition.
pub(super) fn engines_of(locks: &[Lock]) -> Vec<Arc<Inner>> {
    let mut engines: Vec<Arc<Inner>> = Vec::new();
    for lock in locks {
        if !engines.iter().any(|engine| Arc::ptr_eq(engine, lock.engine())) {
            engines.push(lock.engine().clone());
        }
    }
    engines
}
