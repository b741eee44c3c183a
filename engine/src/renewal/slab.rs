//! Numbered places with a generation each, so that a ticket of an earlier tenant opens nothing.

/// Places for `T`; a ticket is generation and index in one number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    tenant: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, tenant: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, tenant: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.tenant = Some(tenant);
        ticket(place.generation, index)
    }

    pub(crate) fn get(&self, ticket: u64) -> Option<&T> {
        let place = self.places.get(index(ticket) as usize)?;
        if place.generation == generation(ticket) { place.tenant.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, ticket: u64) -> Option<&mut T> {
        let place = self.places.get_mut(index(ticket) as usize)?;
        if place.generation == generation(ticket) { place.tenant.as_mut() } else { None }
    }

    /// The present tenant of an index, with its ticket.
    pub(crate) fn at(&mut self, index: u32) -> Option<(u64, &mut T)> {
        let place = self.places.get_mut(index as usize)?;
        Some((ticket(place.generation, index), place.tenant.as_mut()?))
    }

    pub(crate) fn remove(&mut self, ticket: u64) -> Option<T> {
        self.get(ticket)?;
        let place = &mut self.places[index(ticket) as usize];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index(ticket));
        place.tenant.take()
    }

    /// What a tenant takes, its generation included.
    #[cfg(test)]
    pub(crate) fn place_bytes() -> usize {
        size_of::<Place<T>>()
    }

    pub(crate) fn for_each(&mut self, mut visit: impl FnMut(u64, &mut T)) {
        for (index, place) in self.places.iter_mut().enumerate() {
            let ticket = ticket(place.generation, index as u32);
            if let Some(tenant) = &mut place.tenant {
                visit(ticket, tenant);
            }
        }
    }
}

/// The place that a ticket names.
pub(crate) fn index(ticket: u64) -> u32 {
    ticket as u32
}

fn generation(ticket: u64) -> u32 {
    (ticket >> 32) as u32
}

fn ticket(generation: u32, index: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

#[cfg(test)]
mod tests {
    use super::*;

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
