//! A hashed timing wheel over numbered entries (Varghese & Lauck, "Hashed and hierarchical timing wheels", 1987).
//!
//! The wheel knows ticks and entry numbers. It knows neither leases nor a clock. An entry is in at most one bucket. An
//! entry fires in the first `advance` to its tick or beyond, never earlier, and exactly once per insert. Insert and
//! cancel are O(1): buckets are doubly linked lists through one array, 16 bytes per entry. An entry that is further
//! away than one revolution stays in its bucket and is skipped until its own revolution comes.

/// A wheel of [`BUCKETS`] ticks.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    links: Vec<Link>,
    tick: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    due: u64,
}

impl Wheel {
    /// An empty wheel at `tick`. An entry that is due by `tick` fires at the next advance.
    pub(crate) fn new(tick: u64) -> Self {
        Self { heads: vec![END; BUCKETS].into(), links: Vec::new(), tick }
    }

    /// Inserts entry `number` at tick `due`, after removing it from its previous bucket. A tick that has passed counts
    /// as the next tick.
    pub(crate) fn insert(&mut self, number: u32, due: u64) {
        self.make_room(number);
        self.cancel(number);
        let due = due.max(self.tick + 1);
        let head = std::mem::replace(&mut self.heads[bucket(due)], number);
        self.links[number as usize] = Link { next: head, previous: END, due };
        if head != END {
            self.links[head as usize].previous = number;
        }
    }

    /// Removes entry `number` if the wheel has it.
    pub(crate) fn cancel(&mut self, number: u32) {
        let Some(link) = self.links.get(number as usize).copied().filter(Link::is_in) else { return };
        match link.previous {
            END => self.heads[bucket(link.due)] = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        if link.next != END {
            self.links[link.next as usize].previous = link.previous;
        }
        self.links[number as usize] = Link::OUT;
    }

    /// Moves the wheel to `tick`, removes every entry that is due by then, and appends the removed entries to `fired`.
    pub(crate) fn advance(&mut self, tick: u64, fired: &mut Vec<u32>) {
        let from = self.tick;
        self.tick = tick.max(from);
        // After a long sleep one revolution visits every bucket. More ticks would visit buckets twice.
        for visited in (from + 1..=self.tick).take(BUCKETS) {
            self.empty_bucket(bucket(visited), fired);
        }
    }

    /// The tick at which entry `number` fires, if the wheel has the entry.
    #[cfg(test)]
    pub(crate) fn due(&self, number: u32) -> Option<u64> {
        self.links.get(number as usize).filter(|link| link.is_in()).map(|link| link.due)
    }

    /// The number of bytes that the wheel has allocated.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + self.links.capacity() * size_of::<Link>()
    }

    fn empty_bucket(&mut self, bucket: usize, fired: &mut Vec<u32>) {
        let mut number = self.heads[bucket];
        while number != END {
            let link = self.links[number as usize];
            if link.due <= self.tick {
                self.cancel(number);
                fired.push(number);
            }
            number = link.next;
        }
    }

    fn make_room(&mut self, number: u32) {
        if self.links.len() <= number as usize {
            self.links.resize(number as usize + 1, Link::OUT);
        }
    }
}

impl Link {
    const OUT: Link = Link { next: END, previous: END, due: u64::MAX };

    fn is_in(&self) -> bool {
        self.due != u64::MAX
    }
}

fn bucket(tick: u64) -> usize {
    (tick % BUCKETS as u64) as usize
}

/// One revolution of 50 ms ticks takes 51 s, so a lease of the default ttl is never skipped.
const BUCKETS: usize = 1024;
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(wheel: &mut Wheel, tick: u64) -> Vec<u32> {
        let mut fired = Vec::new();
        wheel.advance(tick, &mut fired);
        fired.sort_unstable();
        fired
    }

    #[test]
    fn an_entry_fires_once_and_never_early() {
        let mut wheel = Wheel::new(10);
        wheel.insert(0, 12);
        assert!(advance(&mut wheel, 11).is_empty());
        assert_eq!(advance(&mut wheel, 12), [0]);
        assert!(advance(&mut wheel, 5000).is_empty());
    }

    #[test]
    fn an_entry_due_in_the_past_fires_at_the_next_tick() {
        let mut wheel = Wheel::new(100);
        wheel.insert(3, 7);
        assert_eq!(advance(&mut wheel, 101), [3]);
    }

    #[test]
    fn an_entry_beyond_one_revolution_waits_for_its_turn() {
        let mut wheel = Wheel::new(0);
        let due = 3 * BUCKETS as u64 + 5;
        wheel.insert(1, due);
        for tick in 1..due {
            assert!(advance(&mut wheel, tick).is_empty());
        }
        assert_eq!(advance(&mut wheel, due), [1]);
    }
}
