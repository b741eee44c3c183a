//! What a semaphore with permits that expire does, in a few lines of Rust.

use std::collections::BTreeMap;

use crate::{ours, state::State};

/// Times of histories are multiples of this, so that no expiry comes by itself.
pub(crate) const UNIT: i64 = 100_000;

/// How many permits each owner asks for.
pub(crate) const COUNTS: [usize; 3] = [1, 2, 4];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Acquire(i64),
    Renew(i64),
    Release,
    /// The owner's permits run out.
    Expire,
    /// A peer gives one of the owner's permits back.
    TakeAway,
    ForceRelease,
    /// The total changes.
    Add(i64),
}

/// Holds by owner and index, in units; none left: expired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    total: i64,
    held: BTreeMap<(usize, usize), i64>,
}

impl Model {
    /// Executes an operation. Returns the code of the reply.
    pub(crate) fn step(&mut self, owner: usize, op: Op) -> i64 {
        match op {
            Op::Acquire(units) => self.acquire(owner, units),
            Op::Renew(units) => self.renew(owner, units),
            Op::Release => self.release(owner),
            Op::Expire => self.each_of(owner, |_| 0),
            Op::TakeAway => self.held.remove(&(owner, 0)).is_some().into(),
            Op::ForceRelease => i64::from(!std::mem::take(&mut self.held).is_empty()),
            Op::Add(permits) => {
                self.total += permits;
                1
            }
        }
    }

    pub(crate) fn available(&self) -> i64 {
        self.total - i64::try_from(self.held.len()).unwrap()
    }

    pub(crate) fn expired(&self) -> i64 {
        self.held.values().filter(|units| **units == 0).count().try_into().unwrap()
    }

    pub(crate) fn state(&self) -> State {
        let held = self.held.iter().map(|((owner, index), units)| (id(*owner, *index), *units));
        State { available: Some(self.available()), held: held.collect() }
    }

    fn acquire(&mut self, owner: usize, units: i64) -> i64 {
        if self.live(owner) == COUNTS[owner] {
            return self.each_of(owner, |left| left.max(units));
        }
        let before = self.held.clone();
        self.held.retain(|(holder, _), left| *left > 0 && *holder != owner);
        if self.available() >= i64::try_from(COUNTS[owner]).unwrap() {
            self.held.extend((0..COUNTS[owner]).map(|index| ((owner, index), units)));
            return 1;
        }
        assert!(self.held.len() <= before.len());
        0
    }

    fn renew(&mut self, owner: usize, units: i64) -> i64 {
        match self.live(owner) == COUNTS[owner] {
            true => self.each_of(owner, |left| left.max(units)),
            false => -2,
        }
    }

    fn release(&mut self, owner: usize) -> i64 {
        let live = self.live(owner);
        self.held.retain(|(holder, _), _| *holder != owner);
        (live == COUNTS[owner]).into()
    }

    fn live(&self, owner: usize) -> usize {
        self.held.iter().filter(|((holder, _), left)| *holder == owner && **left > 0).count()
    }

    fn each_of(&mut self, owner: usize, change: impl Fn(i64) -> i64) -> i64 {
        let own = self.held.iter_mut().filter(|((holder, _), _)| *holder == owner);
        own.for_each(|(_, left)| *left = change(*left));
        1
    }
}

/// All ids of an owner.
pub(crate) fn ids_of(owner: usize) -> Vec<u8> {
    ours::ids(owner.try_into().unwrap(), COUNTS[owner])
}

fn id(owner: usize, index: usize) -> Vec<u8> {
    ids_of(owner)[16 * index..16 * index + 16].to_vec()
}
