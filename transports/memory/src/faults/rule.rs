use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::{key::LockKey, transport::LanePurpose};
use tokio::sync::{oneshot, watch};

use super::{Answer, Cut, Fault, Operation, conditions::Conditions, cuts::Cuts};

/// The handle that injects faults into a [`Faulty`](super::Faulty) transport. Clones are the same handle.
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
    /// Cuts off all lanes, until [`heal`](Self::heal).
    pub fn cut(&self, cut: Cut) {
        self.cut_lane(LanePurpose::Calls, cut);
        self.cut_lane(LanePurpose::Renewals, cut);
    }

    /// Cuts off the lanes of one purpose, until [`heal`](Self::heal).
    pub fn cut_lane(&self, purpose: LanePurpose, cut: Cut) {
        self.shared.cuts.send_modify(|cuts| cuts.begin(purpose, cut));
    }

    /// Ends every cut. Watches are in force again.
    pub fn heal(&self) {
        self.shared.cuts.send_modify(Cuts::heal);
    }

    /// Removes every rule and ends every cut. Requests that are delayed or held already stay so.
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

    /// Returns the rule for an operation on `keys`, if a rule applies, and counts the operation.
    pub(super) fn decide(
        &self,
        purpose: LanePurpose,
        operation: Operation,
        keys: &[&LockKey],
    ) -> Option<Rule> {
        let mut rules = self.rules();
        let deciding = rules
            .iter()
            .position(|rule| rule.conditions.apply(purpose, operation, keys) && rule.counts_in())?;
        let state = rules[deciding].clone();
        if state.is_used_up() {
            rules.remove(deciding);
        }
        Some(Rule { faults: self.clone(), state })
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<State>>> {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An injected rule. Dropping the handle leaves the rule in force; clones are the same rule.
#[derive(Clone)]
pub struct Rule {
    faults: Faults,
    state: Arc<State>,
}

struct State {
    conditions: Conditions,
    fault: Fault,
    /// How many operations have matched so far.
    seen: Mutex<u64>,
    fired: watch::Sender<u64>,
    held: Mutex<VecDeque<Held>>,
}

/// A held request. Sending it the receiver's sender releases it, and its reply goes there.
pub(super) type Held = oneshot::Sender<oneshot::Sender<Answer>>;

impl Rule {
    /// Returns how often the fault has happened. It counts when the request was stopped, or, if the request is
    /// executed first, after its execution. [`Fault::RepeatLater`] counts when the copy was executed.
    pub fn fired(&self) -> u64 {
        *self.state.fired.borrow()
    }

    /// Waits until the fault has happened at least `times` times.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn until_fired(&self, times: u64) {
        let mut fired = self.state.fired.subscribe();
        // `self` owns the sender, so this wait cannot fail.
        let _ = fired.wait_for(|fired| *fired >= times).await;
    }

    /// Sends the request that [`Fault::Hold`] has held for the longest time, and returns the server's reply.
    /// `None`: no request is held. The caller gets the reply too, if it still waits. If the last handle of the rule
    /// is dropped instead, its held requests are lost.
    ///
    /// # Cancel safety
    /// Once the future was polled, the request is on its way. Dropping the future gives up the reply.
    pub async fn deliver(&self) -> Option<Answer> {
        let held = self.held().pop_front()?;
        let (reply_tx, reply_rx) = oneshot::channel();
        held.send(reply_tx).ok()?;
        reply_rx.await.ok()
    }

    /// Returns the number of held requests.
    pub fn held_requests(&self) -> usize {
        self.held().len()
    }

    /// Removes the rule. Requests that it delays or holds already stay so.
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
    fn counts_in(&self) -> bool {
        let mut seen = self.seen();
        *seen += 1;
        self.conditions.begins_by(*seen)
    }

    fn is_used_up(&self) -> bool {
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
