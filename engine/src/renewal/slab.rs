//! A generational slab: a stale ticket never resolves to a reused place.
//!
//! The places are kept in blocks. A single vector of all places would have up to twice the needed capacity after it has
//! grown.

/// A slab of `T`. A ticket is the generation and the index of a place in one number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Every block but the last is full.
    blocks: Vec<Vec<Place<T>>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    fn places(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let Some(index) = self.free.pop() else { return self.append(value) };
        let place = &mut self.blocks[index as usize / BLOCK][index as usize % BLOCK];
        place.value = Some(value);
        ticket(place.generation, index)
    }

    fn append(&mut self, value: T) -> u64 {
        let index = self.places() as u32;
        if index as usize % BLOCK == 0 {
            // The first block grows step by step, which saves memory for a slab with few entries.
            self.blocks.push(Vec::with_capacity(if index == 0 { 0 } else { BLOCK }));
        }
        let last = self.blocks.len() - 1;
        self.blocks[last].push(Place { generation: 0, value: Some(value) });
        ticket(0, index)
    }

    fn place(&self, index: u32) -> Option<&Place<T>> {
        self.blocks.get(index as usize / BLOCK)?.get(index as usize % BLOCK)
    }

    fn place_mut(&mut self, index: u32) -> Option<&mut Place<T>> {
        self.blocks.get_mut(index as usize / BLOCK)?.get_mut(index as usize % BLOCK)
    }

    pub(crate) fn get(&self, ticket: u64) -> Option<&T> {
        let place = self.place(index(ticket))?;
        if place.generation == generation(ticket) { place.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, ticket: u64) -> Option<&mut T> {
        let place = self.place_mut(index(ticket))?;
        if place.generation == generation(ticket) { place.value.as_mut() } else { None }
    }

    /// The present value at an index, with its ticket.
    pub(crate) fn at(&mut self, index: u32) -> Option<(u64, &mut T)> {
        let place = self.place_mut(index)?;
        Some((ticket(place.generation, index), place.value.as_mut()?))
    }

    pub(crate) fn remove(&mut self, ticket: u64) -> Option<T> {
        self.get(ticket)?;
        self.free.push(index(ticket));
        let place = self.place_mut(index(ticket))?;
        place.generation = place.generation.wrapping_add(1);
        place.value.take()
    }

    /// The number of bytes of one place, its generation included.
    #[cfg(test)]
    pub(crate) fn place_bytes() -> usize {
        size_of::<Place<T>>()
    }

    pub(crate) fn for_each(&mut self, mut visit: impl FnMut(u64, &mut T)) {
        for (index, place) in self.blocks.iter_mut().flatten().enumerate() {
            let ticket = ticket(place.generation, index as u32);
            if let Some(value) = &mut place.value {
                visit(ticket, value);
            }
        }
    }
}

/// The index of the place that a ticket names.
pub(crate) fn index(ticket: u64) -> u32 {
    ticket as u32
}

fn generation(ticket: u64) -> u32 {
    (ticket >> 32) as u32
}

fn ticket(generation: u32, index: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

/// The number of places in a block. A power of two.
const BLOCK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_many_blocks_are_found_and_their_places_used_again() {
        let mut slab = Slab::default();
        let tickets: Vec<_> = (0..3 * BLOCK + 7).map(|number| slab.insert(number)).collect();
        let found = |slab: &Slab<usize>| {
            tickets.iter().filter_map(|ticket| slab.get(*ticket).copied()).collect::<Vec<_>>()
        };
        assert_eq!(found(&slab), (0..3 * BLOCK + 7).collect::<Vec<_>>());
        let (mut gone, mut again) = (Vec::new(), Vec::new());
        for ticket in tickets.iter().step_by(5) {
            gone.extend(slab.remove(*ticket));
        }
        assert_eq!(slab.len() + gone.len(), tickets.len());
        for number in 0..gone.len() {
            again.push(slab.insert(number));
        }
        assert_eq!((slab.len(), slab.places()), (tickets.len(), tickets.len()));
        assert_eq!(found(&slab).len(), tickets.len() - gone.len(), "none under its old ticket");
        assert!(again.iter().enumerate().all(|(number, ticket)| slab.get(*ticket) == Some(&number)));
        let mut visited = 0;
        slab.for_each(|ticket, value| {
            visited += 1;
            assert_eq!(index(ticket) % 5 == 0, again.contains(&ticket), "{value}");
        });
        assert_eq!(visited, tickets.len());
    }

    #[test]
    fn a_stale_ticket_opens_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(index(first), index(second));
        assert_eq!(slab.remove(first), None);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"b")));
        assert_eq!(slab.len(), 1);
    }
}
