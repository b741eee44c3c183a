//! The number of keys on each node that callers of this engine wait for. The rate of the safety polls of a node depends
//! on it (promise L2).
//!
//! Keys are counted by slot: a key that gets its first caller, or loses its last caller, costs one atomic addition. The
//! sums of the nodes are computed when they are needed and older than [`SUMS_LAST`], or when the slots have moved.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::Instant,
    routing::{
        slot::{SLOTS, Slot},
        topology::{NodeId, Topology},
    },
};

/// The keys of one engine that a driver serves, counted by slot.
#[derive(Debug)]
pub(crate) struct ContendedKeys {
    of_slot: Box<[AtomicU32]>,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    made: Option<(u64, Instant)>,
    of_node: HashMap<NodeId, u64>,
}

impl ContendedKeys {
    pub(crate) fn new() -> Self {
        Self { of_slot: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(), sums: Mutex::default() }
    }

    pub(crate) fn join(&self, slot: Slot) {
        self.of_slot[usize::from(slot.number())].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, slot: Slot) {
        self.of_slot[usize::from(slot.number())].fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of such keys on the node that serves this slot; zero if no node serves it.
    pub(crate) fn around(&self, slot: Slot, topology: &Topology, now: Instant) -> u64 {
        let Some(node) = topology.serving(slot) else { return 0 };
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.made.is_none_or(|(epoch, made)| epoch != topology.epoch() || now - made >= SUMS_LAST) {
            *sums = Sums { made: Some((topology.epoch(), now)), of_node: self.sum(topology) };
        }
        sums.of_node.get(&node.id).copied().unwrap_or(0)
    }

    fn sum(&self, topology: &Topology) -> HashMap<NodeId, u64> {
        let mut of_node = HashMap::new();
        for (number, count) in (0..).zip(&self.of_slot) {
            let count = u64::from(count.load(Ordering::Relaxed));
            let slot = Slot::from_number(number).filter(|_| count > 0);
            if let Some(node) = slot.and_then(|slot| topology.serving(slot)) {
                *of_node.entry(node.id).or_default() += count;
            }
        }
        of_node
    }
}

/// How long the sums are used. The sums cost microseconds, and the polls of a key are at least a second apart.
const SUMS_LAST: Duration = Duration::from_millis(100);
