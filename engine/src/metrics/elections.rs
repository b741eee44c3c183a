//! Which elections the candidates of one engine stand in, and which classes have recipes at all.
//!
//! The table of leases does not know candidates, so they are kept here. Whether a candidate leads is said by both: the
//! candidate has begun a term, and the table has a live lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::LabelSet;

/// The elections of one engine.
#[derive(Debug, Default)]
pub(crate) struct Elections(Mutex<State>);

/// An election: the name of its lock, and the labels of the lock. Two kinds of lock with one name are two elections.
type Election = (Arc<str>, LabelSet);

#[derive(Debug, Default)]
struct State {
    standing: BTreeMap<Election, Candidates>,
    with_leaders: BTreeSet<LabelSet>,
    with_jobs: BTreeSet<LabelSet>,
}

/// The candidates of this engine in one election.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates {
    all: u32,
    leading: u32,
}

/// One candidate in one election. Dropping it ends the candidacy.
#[derive(Debug)]
pub(crate) struct Candidacy {
    elections: Arc<Elections>,
    election: Election,
}

/// The elections of an engine at one moment.
#[derive(Debug, Default)]
pub(super) struct Stood {
    /// The elections with a candidate.
    all: Vec<LabelSet>,
    /// The locks of those in which a candidate has begun a term. Each lease is looked up here, so a look allocates nothing.
    leading: BTreeMap<LabelSet, BTreeSet<Arc<str>>>,
}

impl Elections {
    /// A candidate stands in the election for this lock from now on.
    pub(crate) fn stand(self: &Arc<Self>, lock: &str, labels: LabelSet) -> Candidacy {
        let election = (Arc::from(lock), labels);
        let mut state = self.lock();
        state.with_leaders.insert(labels);
        state.standing.entry(election.clone()).or_default().all += 1;
        Candidacy { elections: self.clone(), election }
    }

    /// A job of this class was tried.
    pub(crate) fn note_job(&self, labels: LabelSet) {
        self.lock().with_jobs.insert(labels);
    }

    /// Whether a lock with these labels ever had a candidate.
    pub(super) fn has_leader(&self, labels: LabelSet) -> bool {
        self.lock().with_leaders.contains(&labels)
    }

    /// Whether a lock with these labels was ever that of a job.
    pub(super) fn has_job(&self, labels: LabelSet) -> bool {
        self.lock().with_jobs.contains(&labels)
    }

    pub(super) fn stood(&self) -> Stood {
        let state = self.lock();
        let mut leading = BTreeMap::<LabelSet, BTreeSet<Arc<str>>>::new();
        for ((lock, labels), _) in state.standing.iter().filter(|(_, candidates)| candidates.leading > 0) {
            leading.entry(*labels).or_default().insert(lock.clone());
        }
        Stood { leading, all: state.standing.keys().map(|(_, labels)| *labels).collect() }
    }

    // The state is consistent after every statement, so a poisoned lock does no harm.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Candidacy {
    /// The labels of the election's lock.
    pub(crate) fn labels(&self) -> LabelSet {
        self.election.1
    }

    /// The candidate leads, or does not lead any more.
    pub(crate) fn set_leading(&self, leads: bool) {
        if let Some(candidates) = self.elections.lock().standing.get_mut(&self.election) {
            let leading = candidates.leading;
            candidates.leading = if leads { leading.saturating_add(1) } else { leading.saturating_sub(1) };
        }
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        let mut state = self.elections.lock();
        let Some(candidates) = state.standing.get_mut(&self.election) else { return };
        candidates.all = candidates.all.saturating_sub(1);
        if candidates.all == 0 {
            state.standing.remove(&self.election);
        }
    }
}

impl Stood {
    pub(super) fn elections(&self) -> impl Iterator<Item = LabelSet> + '_ {
        self.all.iter().copied()
    }

    /// Whether a candidate has begun a term under a lease of this lock.
    pub(super) fn leads(&self, lock: &str, labels: LabelSet) -> bool {
        self.leading.get(&labels).is_some_and(|locks| locks.contains(lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_candidates_of_one_lock_stand_in_one_election() {
        let elections = Arc::new(Elections::default());
        let [one, other] = [(); 2].map(|()| elections.stand("a", LabelSet::DEFAULT));
        assert_eq!(elections.stood().elections().count(), 1);
        one.set_leading(true);
        assert!(
            elections.stood().leads("a", LabelSet::DEFAULT) && !elections.stood().leads("b", one.labels())
        );
        one.set_leading(false);
        drop(one);
        assert_eq!(elections.stood().elections().count(), 1);
        assert!(!elections.stood().leads("a", LabelSet::DEFAULT));
        drop(other);
        assert_eq!(elections.stood().elections().count(), 0);
        assert!(elections.has_leader(LabelSet::DEFAULT) && !elections.has_job(LabelSet::DEFAULT));
    }
}
