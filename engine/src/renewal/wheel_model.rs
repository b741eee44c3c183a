//! Tests the wheel together with the slab's tickets, as the scheduler uses them, against a plain list that is searched from
//! end to end. Runs at least a million operations.

use proptest::prelude::*;

use super::{
    slab::{self, Slab},
    wheel::Wheel,
};

/// All cases together run at least a million operations, in a few seconds of a debug build.
const CASES: u32 = 2_000;
const OPERATIONS: usize = 500;
/// A low limit, so that buckets and tickets are reused again and again.
const ENTRIES_MAX: usize = 48;
/// Longer than one revolution.
const FAR: u64 = 3_000;

#[derive(Clone, Debug)]
enum Op {
    Begin {
        ahead: u64,
    },
    Move {
        which: usize,
        ahead: u64,
    },
    End {
        which: usize,
    },
    /// The entry ends in the tick in which it began.
    BeginAndEnd {
        ahead: u64,
    },
    EndAgain {
        which: usize,
    },
    Advance {
        by: u64,
        again: Option<u64>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let ahead = || prop_oneof![3 => 0..40u64, 1 => 0..FAR];
    let which = || 0..usize::MAX;
    prop_oneof![
        4 => ahead().prop_map(|ahead| Op::Begin { ahead }),
        2 => (which(), ahead()).prop_map(|(which, ahead)| Op::Move { which, ahead }),
        2 => which().prop_map(|which| Op::End { which }),
        1 => ahead().prop_map(|ahead| Op::BeginAndEnd { ahead }),
        2 => which().prop_map(|which| Op::EndAgain { which }),
        4 => (prop_oneof![6 => 0..4u64, 1 => 0..FAR], prop::option::of(ahead()))
            .prop_map(|(by, again)| Op::Advance { by, again }),
    ]
}

/// An entry of the plain list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: u64,
    name: u32,
    due: Option<u64>,
}

struct World {
    wheel: Wheel,
    slab: Slab<u32>,
    tick: u64,
    begun: u32,
    entries: Vec<Entry>,
    stale: Vec<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            wheel: Wheel::new(0),
            slab: Slab::default(),
            tick: 0,
            begun: 0,
            entries: Vec::new(),
            stale: Vec::new(),
        }
    }

    fn act(&mut self, op: &Op) {
        match *op {
            Op::Begin { .. } if self.entries.len() == ENTRIES_MAX => self.end(0),
            Op::Begin { ahead } => self.begin(ahead),
            Op::Move { which, ahead } => self.at_some(which, |world, place| world.put(place, ahead)),
            Op::End { which } => self.at_some(which, World::end),
            Op::BeginAndEnd { ahead } => {
                self.begin(ahead);
                self.end(self.entries.len() - 1);
            }
            Op::EndAgain { which } => self.end_again(which),
            Op::Advance { by, again } => self.advance(by, again),
        }
    }

    fn at_some(&mut self, which: usize, act: impl FnOnce(&mut Self, usize)) {
        if let Some(place) = which.checked_rem(self.entries.len()) {
            act(self, place);
        }
    }

    fn begin(&mut self, ahead: u64) {
        let name = self.begun;
        self.begun += 1;
        let ticket = self.slab.insert(name);
        self.entries.push(Entry { ticket, name, due: None });
        self.put(self.entries.len() - 1, ahead);
    }

    // Some entries are due in the past.
    fn put(&mut self, place: usize, ahead: u64) {
        let due = (self.tick + ahead).saturating_sub(10);
        self.wheel.insert(slab::index(self.entries[place].ticket), due);
        self.entries[place].due = Some(due.max(self.tick + 1));
    }

    fn end(&mut self, place: usize) {
        let Entry { ticket, name, .. } = self.entries.swap_remove(place);
        assert_eq!(self.cancel(ticket), Some(name));
        self.stale.push(ticket);
    }

    // Cancels as the scheduler does.
    fn cancel(&mut self, ticket: u64) -> Option<u32> {
        let name = self.slab.remove(ticket)?;
        self.wheel.cancel(slab::index(ticket));
        Some(name)
    }

    /// A stale ticket cancels nothing, although a new entry may have the same slab place. The next `check` sees that
    /// all entries are still there.
    fn end_again(&mut self, which: usize) {
        if let Some(place) = which.checked_rem(self.stale.len()) {
            assert_eq!(self.cancel(self.stale[place]), None);
        }
    }

    /// The wheel fires exactly the entries that are due by now, each entry once.
    fn advance(&mut self, by: u64, again: Option<u64>) {
        self.tick += by;
        let (tick, mut fired) = (self.tick, Vec::new());
        self.wheel.advance(tick, &mut fired);
        let names = fired.iter().map(|number| *self.slab.at(*number).expect("an entry in the slab").1);
        let mut fired: Vec<u32> = names.collect();
        let is_due = |entry: &&mut Entry| entry.due.is_some_and(|due| due <= tick);
        let due = self.entries.iter_mut().filter(is_due).map(|entry| (entry.due.take(), entry.name).1);
        let mut due: Vec<u32> = due.collect();
        fired.sort_unstable();
        due.sort_unstable();
        assert_eq!(fired, due, "at tick {tick}");
        if let Some(ahead) = again {
            let is_out = |place: &usize| due.contains(&self.entries[*place].name);
            let out: Vec<usize> = (0..self.entries.len()).filter(is_out).collect();
            out.into_iter().for_each(|place| self.put(place, ahead));
        }
        self.check();
    }

    fn check(&mut self) {
        assert_eq!(self.slab.len(), self.entries.len());
        for entry in &self.entries {
            assert_eq!(self.slab.get(entry.ticket), Some(&entry.name));
            assert_eq!(self.wheel.due(slab::index(entry.ticket)), entry.due, "{entry:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::with_cases(CASES) })]
    #[test]
    fn never_early_never_lost_never_twice_and_a_stale_ticket_cancels_nothing(
        ops in prop::collection::vec(op(), OPERATIONS)
    ) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.act(op));
        // Every entry that is still in the wheel fires.
        world.advance(2 * FAR, None);
        assert!(world.entries.iter().all(|entry| entry.due.is_none()));
    }
}

/// The bound includes the spare capacity of the vector.
#[test]
fn a_lease_takes_at_most_64_bytes_of_the_wheel() {
    for leases in [1_000, 12_500, 65_537, 100_000, 1_000_000] {
        let mut wheel = Wheel::new(0);
        (0..leases).for_each(|number| wheel.insert(number, 1 + u64::from(number % 200)));
        let each = wheel.bytes() as f64 / f64::from(leases);
        println!("{leases} leases: {each:.1} bytes each");
        assert!(each <= 64.0, "{leases} leases: {each} bytes each");
    }
}
