//! The rules in force, and what each of them has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::held::HeldRequest;
use super::rule::{Fault, Rule};

/// The rules in the order they were added.
#[derive(Debug, Default)]
pub(super) struct Rulebook {
    rules: Mutex<Vec<Arc<RuleRecord>>>,
}

/// One rule and its past, shared by the proxy and the test that added it.
#[derive(Debug)]
pub(super) struct RuleRecord {
    rule: Rule,
    matches: AtomicU64,
    fired: watch::Sender<u64>,
    held: Mutex<Vec<HeldRequest>>,
}

impl Rulebook {
    pub(super) fn add(&self, rule: Rule) -> Arc<RuleRecord> {
        let record = Arc::new(RuleRecord::new(rule));
        self.locked().push(Arc::clone(&record));
        record
    }

    pub(super) fn clear(&self) {
        self.locked().clear();
    }

    /// The rule that strikes this request.
    pub(super) fn striking(&self, arguments: &[Vec<u8>]) -> Option<Arc<RuleRecord>> {
        self.locked().iter().find(|record| record.strikes(arguments)).cloned()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Arc<RuleRecord>>> {
        // A closure of a test that panics must not silence the tests that share nothing with it but the lock.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuleRecord {
    pub(super) fn fault(&self) -> Fault {
        self.rule.fault
    }

    pub(super) fn count_firing(&self) {
        self.fired.send_modify(|fired| *fired += 1);
    }

    pub(super) fn firings(&self) -> watch::Receiver<u64> {
        self.fired.subscribe()
    }

    /// Kept before it is counted: who sees the count may deliver at once.
    pub(super) fn hold(&self, request: HeldRequest) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.count_firing();
    }

    pub(super) fn take_held(&self) -> Vec<HeldRequest> {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn new(rule: Rule) -> Self {
        Self { rule, matches: AtomicU64::new(0), fired: watch::Sender::new(0), held: Mutex::default() }
    }

    fn strikes(&self, arguments: &[Vec<u8>]) -> bool {
        self.rule.matching.fits(arguments)
            && self.rule.strikes(self.matches.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::proxy::rule::Match;

    #[test]
    fn a_struck_request_is_not_counted_by_the_rules_behind() {
        let book = Rulebook::default();
        let first = book.add(Rule::once(Match::any(), Fault::LoseReply));
        let second = book.add(Rule::once(Match::any(), Fault::LoseRequest));
        assert!(Arc::ptr_eq(&book.striking(&[]).expect("struck"), &first));
        assert!(Arc::ptr_eq(&book.striking(&[]).expect("struck"), &second));
        assert!(book.striking(&[]).is_none());
    }

    #[test]
    fn cleared_rules_strike_nothing() {
        let book = Rulebook::default();
        book.add(Rule::always(Match::any(), Fault::LoseReply));
        book.clear();
        assert!(book.striking(&[]).is_none());
    }
}
