use crate::routing::topology::ClockId;

/// A moment on a server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// Microseconds since the origin of the server's clock.
    pub micros: u64,
    /// The clock from which the time was read.
    pub clock: ClockId,
}

impl ServerTime {
    /// Whether `self` is later than `other` on the same clock; `None` if the clocks differ.
    pub fn is_after(self, other: ServerTime) -> Option<bool> {
        (self.clock == other.clock).then_some(self.micros > other.micros)
    }
}
