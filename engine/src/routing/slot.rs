//! The slot of a key: CRC16 (XMODEM) of its hash tag, modulo 16384. Source: Redis Cluster specification.

use super::hash_tag::hash_tag;

/// The number of slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// One of the 16,384 slots that keys are mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of `key`.
    pub fn of(key: &[u8]) -> Slot {
        Slot(crc16::State::<crc16::XMODEM>::calculate(hash_tag(key)) % SLOTS)
    }

    /// The slot with this number; `None` if the number is not below [`SLOTS`].
    pub fn from_number(number: u16) -> Option<Slot> {
        (number < SLOTS).then_some(Slot(number))
    }

    /// The slot's number: 0 to 16,383.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Which of `shards` equal ranges of slots has this slot.
    pub fn share(self, shards: usize) -> usize {
        usize::from(self.0) * shards / usize::from(SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_slots() {
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("{foo}bar", 12182), ("", 0), ("123456789", 12739)]
        {
            assert_eq!(Slot::of(key.as_bytes()).number(), slot, "{key}");
        }
    }

    #[test]
    fn shares_are_equal_ranges() {
        assert_eq!(Slot(0).share(8), 0);
        assert_eq!(Slot(2047).share(8), 0);
        assert_eq!(Slot(2048).share(8), 1);
        assert_eq!(Slot(16_383).share(8), 7);
        assert!(Slot::from_number(SLOTS).is_none());
    }
}
