//! What came of a field: what was lost, when its holder heard of it, what overlapped, what was late.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use leasehold::{Loss, LossEvent, Losses, margin};
use leasehold_tests::harness::{
    checkers::{Overlap, overlaps, token_order},
    stall::no_stall_excuses,
};
use tokio::runtime::Runtime;

use crate::{
    leases::{Held, LEASES_ENGINE},
    log::{Holder, Log},
    moment::Moment,
};

pub(crate) struct Report {
    /// Held leases that were lost, by part and reason.
    pub(crate) lost: BTreeMap<usize, BTreeMap<&'static str, usize>>,
    /// Held leases that were not lost but renewed after their deadline less a third of the ttl, by part: later than the
    /// longest stall of this machine explains.
    pub(crate) late: BTreeMap<usize, usize>,
    /// How late a holder heard of a loss, after its deadline, at most.
    pub(crate) told_late: Duration,
    /// How near a held lease of each part came to its deadline without being lost, in parts of its ttl.
    pub(crate) nearest: BTreeMap<usize, f64>,
    /// How long waiters waited for what was released at the end.
    pub(crate) woken: BTreeMap<String, Duration>,
    pub(crate) overlaps: Vec<Overlap>,
    /// How long a thread of this machine was kept waiting, at most.
    pub(crate) stall: Duration,
    /// What callers were told instead of a lease.
    pub(crate) errors: BTreeMap<String, usize>,
    /// Why releases were not confirmed.
    pub(crate) unreleased: BTreeMap<String, usize>,
    held: Vec<Arc<Held>>,
    losses: HashMap<Holder, Loss>,
}

impl Report {
    pub(crate) fn new(
        held: Vec<Arc<Held>>,
        losses: [Losses; 2],
        stall: Duration,
        errors: BTreeMap<String, usize>,
    ) -> Self {
        let losses =
            losses.into_iter().enumerate().flat_map(|(engine, losses)| all(engine, losses)).collect();
        let mut report = Self {
            lost: BTreeMap::new(),
            late: BTreeMap::new(),
            told_late: Duration::ZERO,
            nearest: BTreeMap::new(),
            woken: BTreeMap::new(),
            overlaps: Vec::new(),
            stall,
            errors,
            unreleased: BTreeMap::new(),
            held,
            losses,
        };
        report.look_at_leases();
        report
    }

    fn look_at_leases(&mut self) {
        for held in &self.held {
            match self.losses.get(&holder(held)) {
                Some(loss) => {
                    *self.lost.entry(held.part).or_default().entry(loss.reason.as_str()).or_default() += 1;
                    self.told_late = self.told_late.max(told_after_deadline(held, loss));
                }
                None => {
                    assert!(held.lease.is_held(), "{:?} is not held and no loss was told", held.lease);
                    *self.late.entry(held.part).or_default() += usize::from(held.is_late(self.stall));
                    let nearest = self.nearest.entry(held.part).or_insert(1.0);
                    *nearest = nearest.min(held.lowest().as_secs_f64() / held.ttl.as_secs_f64());
                }
            }
        }
    }

    /// Gives one lease back.
    pub(crate) fn release(&mut self, runtime: &Runtime, log: &Log, key: &str) {
        let at = self.held.iter().position(|held| held.lease.name() == key).expect("held");
        release(runtime, log, self.held.swap_remove(at));
    }

    /// Gives all leases back.
    pub(crate) fn release_all(&mut self, runtime: &Runtime, log: &Log) {
        self.held.drain(..).for_each(|held| release(runtime, log, held));
    }

    /// Finds overlaps. Tokens rise in any case.
    pub(crate) fn judge_windows(&mut self, log: &Log) {
        let windows = log.windows(&self.losses);
        let found = overlaps(&windows);
        assert!(found.windows > 100, "{} windows", found.windows);
        no_stall_excuses(|| assert_eq!(token_order(&windows), []));
        self.overlaps = found.violations;
        self.unreleased = log.unreleased();
    }

    /// How many leases this engine told to be lost, held through everything or not.
    pub(crate) fn losses_of(&self, engine: usize) -> usize {
        self.losses.keys().filter(|(of, ..)| *of == engine).count()
    }

    pub(crate) fn lost_on(&self, part: usize) -> usize {
        self.lost.get(&part).map_or(0, |reasons| reasons.values().sum())
    }

    /// What must hold whatever fails: holders hear of losses in time, and parts that nothing happened to notice nothing.
    pub(crate) fn assert_only(&self, struck: &[usize]) {
        for part in self.late.keys().filter(|part| !struck.contains(part)) {
            assert_eq!(self.lost_on(*part), 0, "lost on part {part}, which was not struck: {self}");
            assert_eq!(self.late[part], 0, "renewed late on part {part}, which was not struck: {self}");
        }
    }
}

impl Report {
    /// No two held a lock at once.
    pub(crate) fn assert_nothing_shared(&self) {
        no_stall_excuses(|| assert_eq!(self.overlaps, []));
    }

    /// Nobody noticed anything: nothing lost, late, shared, refused or kept.
    pub(crate) fn assert_nothing(&self) {
        self.assert_only(&[]);
        self.assert_nothing_shared();
        assert!(self.errors.is_empty(), "{self}");
        assert!(self.unreleased.is_empty(), "{self}");
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let woken = self.woken.values().max().copied().unwrap_or_default();
        let (lost, late, told, stall) = (&self.lost, &self.late, self.told_late, self.stall);
        write!(f, "lost {lost:?}, told at most {told:?} after the deadline; renewed late {late:?}; ")?;
        write!(
            f,
            "nearest to the deadline {:.2?} of the ttl; {} overlaps; ",
            self.nearest,
            self.overlaps.len()
        )?;
        write!(f, "{} waiters woken within {woken:?}; threads stalled for {stall:?}", self.woken.len())?;
        let told = [("errors", &self.errors), ("releases that were not confirmed", &self.unreleased)];
        let mut told = told.into_iter().filter(|(_, list)| !list.is_empty());
        told.try_for_each(|(what, list)| write!(f, "; {what} {list:?}"))
    }
}

fn all(engine: usize, mut losses: Losses) -> impl Iterator<Item = (Holder, Loss)> {
    std::iter::from_fn(move || losses.try_next()).map(move |notice| match notice {
        LossEvent::Lost(loss) => ((engine, loss.name.to_string(), loss.fencing_token.as_i64()), loss),
        other => panic!("not every loss is kept: {other:?}"),
    })
}

fn holder(held: &Held) -> Holder {
    (LEASES_ENGINE, held.lease.name().to_owned(), held.lease.fencing_token().as_i64())
}

/// Zero if it was told before.
fn told_after_deadline(held: &Held, loss: &Loss) -> Duration {
    let deadline = Moment::from(loss.deadline);
    let told = held.told().expect("told to its holder");
    // `is_held` reads the clock, so it is false from the deadline on, whenever the holder is told.
    assert!(!held.lease.is_held());
    let given_away = deadline.after(margin(held.ttl));
    let at = Moment::from(loss.at);
    assert!(at <= given_away.after(NOISE), "told {:?} after {:?}", at.since(deadline), held.lease);
    told.since(deadline)
}

fn release(runtime: &Runtime, log: &Log, held: Arc<Held>) {
    let held = Arc::into_inner(held).expect("nobody else looks at it any more");
    let turn = held.turn.end(&held.lease);
    log.add_release(runtime.block_on(held.lease.release()));
    log.add(turn);
}

const NOISE: Duration = Duration::from_millis(100);
