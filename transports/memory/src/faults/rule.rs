use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::{key::LockKey, transport::LanePurpose};
use tokio::sync::{oneshot, watch};

use super::{Answer, Cut, Fault, Operation, conditions::Conditions, cuts::Cuts};

/// The handle that makes a [`Faulty`](super::Faulty) transport misbehave. Clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    rules: Mutex<Vec<Arc<State>>>,
    cuts: watch::Sender<Cuts>,
}

impl Faults {
    /// Cuts all lanes off, until [`heal`](Self::heal).
    pub fn cut(&self, cut: Cut) {
        self.cut_lane(LanePurpose::Calls, cut);
        self.cut_lane(LanePurpose::Renewals, cut);
    }

    /// Cuts the lanes of one purpose off, until [`heal`](Self::heal).
    pub fn cut_lane(&self, purpose: LanePurpose, cut: Cut) {
        self.shared.cuts.send_modify(|cuts| cuts.begin(purpose, cut));
    }

    /// Ends every cut. Watches come back into force.
    pub fn heal(&self) {
        self.shared.cuts.send_modify(Cuts::heal);
    }

    /// Takes every rule back and ends every cut. What is delayed or held already stays so.
    pub fn clear(&self) {
        self.rules().clear();
        self.heal();
    }

    pub(super) fn inject(&self, conditions: Conditions, fault: Fault) -> Rule {
        let (seen, fired, held) = Default::default();
        let state = Arc::new(State { conditions, fault, seen, fired, held });
        self.rules().push(state.clone());
        Rule { faults: self.clone(), state }
    }

    pub(super) fn cuts(&self) -> watch::Receiver<Cuts> {
        self.shared.cuts.subscribe()
    }

    pub(super) fn cut_of(&self, purpose: LanePurpose) -> Option<Cut> {
        self.shared.cuts.borrow().of(purpose).now
    }

    /// The rule that decides about an operation that touches `keys`, if one does. Counts it.
    pub(super) fn decide(
        &self,
        purpose: LanePurpose,
        operation: Operation,
        keys: &[&LockKey],
    ) -> Option<Rule> {
        let mut rules = self.rules();
        let deciding = rules
            .iter()
            .position(|rule| rule.conditions.apply(purpose, operation, keys) && rule.takes_turn())?;
        let state = rules[deciding].clone();
        if state.is_spent() {
            rules.remove(deciding);
        }
        Some(Rule { faults: self.clone(), state })
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<State>>> {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule in force. Dropping it leaves the rule in force; clones are the same rule.
#[derive(Clone)]
pub struct Rule {
    faults: Faults,
    state: Arc<State>,
}

struct State {
    conditions: Conditions,
    fault: Fault,
    /// Operations that matched so far.
    seen: Mutex<u64>,
    fired: watch::Sender<u64>,
    held: Mutex<VecDeque<Held>>,
}

/// A request that is kept back: send it the place where its answer is to go.
pub(super) type Held = oneshot::Sender<oneshot::Sender<Answer>>;

impl Rule {
    /// How often the fault has happened. It has when the request was taken off its way; where the request is executed
    /// first, after that; for [`Fault::RepeatLater`], when the copy was executed.
    pub fn fired(&self) -> u64 {
        *self.state.fired.borrow()
    }

    /// Waits until the fault has happened at least so many times.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn until_fired(&self, times: u64) {
        let mut fired = self.state.fired.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = fired.wait_for(|fired| *fired >= times).await;
    }

    /// Lets the request that [`Fault::Hold`] has kept back for the longest time go, and returns the server's answer to
    /// it; `None` if none is kept back. The caller gets the answer too, if it still waits. If the last handle of the
    /// rule is dropped instead, what it keeps back is lost.
    ///
    /// # Cancel safety
    /// Once polled, the request is on its way; dropping the future gives up the answer.
    pub async fn deliver(&self) -> Option<Answer> {
        let held = self.held().pop_front()?;
        let (tell, told) = oneshot::channel();
        held.send(tell).ok()?;
        told.await.ok()
    }

    /// How many requests are kept back.
    pub fn held_requests(&self) -> usize {
        self.held().len()
    }

    /// Takes the rule back. What it delays or holds already stays so.
    pub fn remove(&self) {
        self.faults.rules().retain(|rule| !Arc::ptr_eq(rule, &self.state));
    }

    pub(super) fn fault(&self) -> Fault {
        self.state.fault
    }

    pub(super) fn is_about(&self, key: &LockKey) -> bool {
        self.state.conditions.are_about(key)
    }

    pub(super) fn count_fired(&self) {
        self.state.fired.send_modify(|fired| *fired += 1);
    }

    pub(super) fn keep_back(&self, request: Held) {
        self.held().push_back(request);
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.state.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn takes_turn(&self) -> bool {
        let mut seen = self.seen();
        *seen += 1;
        self.conditions.begins_by(*seen)
    }

    fn is_spent(&self) -> bool {
        self.conditions.ends_with(*self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fired = *self.fired.borrow();
        f.debug_struct("Rule")
            .field("on", &self.conditions)
            .field("fault", &self.fault)
            .field("fired", &fired)
            .finish()
    }
}
