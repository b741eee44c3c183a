//! The leases of one composition: [`Members`] behind a mutex, and who is told of their changes.
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
    members::{MemberHold, Members, Standing},
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
    process::Process,
    transport::BoxFuture,
};

/// The leases of one composition.
pub(super) struct Holding {
    members: Mutex<Members<Lease>>,
    process: Process,
    /// Counts the changes of `members`. For tasks of the engine.
    changed: watch::Sender<u64>,
    /// The same for tasks of the user. Their wakers may panic, and a panic keeps the wakers behind it from being called.
    changed_for_users: watch::Sender<u64>,
}

/// One member of a held multi lock. [`MultiLease::leases`](crate::MultiLease::leases) lists them.
pub struct MemberLease {
    core: Arc<LeaseCore>,
    engine: Arc<Inner>,
}

impl MemberHold for Lease {
    fn is_held(&self) -> bool {
        Lease::is_held(self)
    }

    fn loss(&self) -> Option<LossReason> {
        match self.state() {
            LeaseState::Lost(reason) => Some(reason),
            LeaseState::Held | LeaseState::Jeopardy => None,
        }
    }
}

impl Holding {
    /// The holding of these leases; a member without a lease may join.
    pub(super) fn new(leases: Vec<Option<Lease>>, needed: usize) -> Arc<Self> {
        let engine = leases.iter().flatten().next().map(Lease::engine);
        let process = engine.map_or_else(Process::current, |engine| engine.process.clone());
        Arc::new(Self {
            process,
            members: Mutex::new(Members::new(leases, needed)),
            changed: watch::Sender::new(0),
            changed_for_users: watch::Sender::new(0),
        })
    }

    /// Whether the holding is held now. Never `Held` again after the first other answer.
    pub(super) fn standing(&self) -> Standing {
        let (standing, is_news) = self.lock().look();
        if is_news {
            self.tell_change();
        }
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
        let members = self.lock();
        validity(members.leases().map(Lease::remaining), members.needed())
    }

    pub(super) fn tally(&self) -> Tally {
        let members = self.lock();
        Tally { held: members.held(), needed: members.needed(), of: members.count() }
    }

    /// Adds the lease of a member. A lease that comes too late is dropped, and so released.
    pub(super) fn join(&self, place: usize, lease: Lease) {
        let left = self.lock().join(place, lease);
        drop(left);
        self.tell_change();
    }

    /// Waits for the loss of one member. `None`: the member has no lease.
    pub(super) fn loss_of(&self, place: usize) -> Option<BoxFuture<'static, LossReason>> {
        let lost = self.lock().lease(place)?.lost();
        Some(Box::pin(lost))
    }

    /// How long the lease of one member is held if no renewal is confirmed; zero without a lease.
    pub(super) fn remaining_of(&self, place: usize) -> Duration {
        self.lock().lease(place).map(Lease::remaining).unwrap_or_default()
    }

    /// Takes the lost lease of one member away, unless the holding is lost with it.
    pub(super) fn clear(&self, place: usize) {
        let cleared = self.lock().clear(place);
        drop(cleared);
        if !self.is_held() {
            self.tell_change(); // the look that found the loss may have been that of `clear`
        }
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
            if self.process.is_forked() {
                return LossReason::Forked;
            }
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
        self.lock().leases().map(|lease| Box::pin(lease.lost()) as BoxFuture<'static, _>).collect()
    }

    fn clear_lost(&self) {
        let places = self.lock().count();
        (0..places).for_each(|place| self.clear(place));
    }

    /// Releases every member of a holding that was lost.
    pub(super) fn release_rest(&self) {
        let leases = self.lock().take();
        drop(leases);
    }

    /// Ends the holding, and returns what it was before. Dropping the leases releases them.
    pub(super) fn give_back(&self) -> (Standing, Vec<Lease>) {
        let ended = self.lock().give_back();
        self.tell_change();
        ended
    }

    /// Ends the holding and releases every member. The releases go on if the future is dropped.
    pub(super) fn release(&self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let (standing, leases, needed) = match self.process.is_forked() {
            true => (Standing::Lost(LossReason::Forked), Vec::new(), 0),
            false => {
                let (standing, leases) = self.give_back();
                (standing, leases, self.lock().needed())
            }
        };
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
        self.lock().leases().map(member).collect()
    }

    /// Gives all members back, because the handle was dropped. A forked child gives nothing back: they are its parent's.
    pub(super) fn drop_handle(&self) {
        if !self.process.is_forked() {
            drop(self.give_back());
        }
    }

    fn tell_change(&self) {
        self.changed.send_modify(|count| *count += 1);
        let _ = guard::call(|| self.changed_for_users.send_modify(|count| *count += 1));
    }

    fn lock(&self) -> MutexGuard<'_, Members<Lease>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
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
