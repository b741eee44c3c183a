//! The key of a lock: its valid name with the prefix, and the slot, computed once per handle.

use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Arc, LazyLock},
};

use crate::routing::slot::Slot;

/// The longest name of a lock on the server, prefix included, in bytes.
pub const NAME_BYTES_MAX: usize = 8 * 1024;

/// A lock's name with everything that follows from it.
pub struct LockKey {
    text: Box<str>,
    prefix_bytes: u16,
    slot: Slot,
    hash: u64,
}

/// Why a name is no name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// It has no character.
    Empty,
    /// Name and prefix together are this many bytes, more than [`NAME_BYTES_MAX`].
    TooLong(usize),
}

impl LockKey {
    /// The key of the lock `name` under `prefix` (which may be empty).
    ///
    /// # Errors
    /// An empty name, or one that is too long together with the prefix.
    pub fn new(prefix: &str, name: &str) -> Result<Arc<LockKey>, NameFault> {
        let bytes = prefix.len() + name.len();
        if name.is_empty() {
            return Err(NameFault::Empty);
        }
        if bytes > NAME_BYTES_MAX {
            return Err(NameFault::TooLong(bytes));
        }
        let text = if prefix.is_empty() { Box::from(name) } else { [prefix, name].concat().into() };
        Ok(Arc::new(Self::of_text(text, u16::try_from(prefix.len()).unwrap_or(u16::MAX))))
    }

    fn of_text(text: Box<str>, prefix_bytes: u16) -> Self {
        let (slot, hash) = (Slot::of(text.as_bytes()), HASHER.hash_one(&*text));
        Self { text, prefix_bytes, slot, hash }
    }

    /// The name as the user wrote it.
    pub fn name(&self) -> &str {
        &self.text[usize::from(self.prefix_bytes)..]
    }

    /// The name on the server: prefix and name.
    pub fn on_server(&self) -> &str {
        &self.text
    }

    /// The slot of the name on the server.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// A hash of the name on the server, computed once; differs from process to process.
    pub fn hash_value(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for LockKey {}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockKey({:?}, slot {})", self.on_server(), self.slot.number())
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::Empty => write!(f, "is empty; give the lock a name of 1 to {NAME_BYTES_MAX} bytes"),
            NameFault::TooLong(bytes) => write!(
                f,
                "has {bytes} bytes with its prefix, more than {NAME_BYTES_MAX}; use a shorter name, or a digest of it"
            ),
        }
    }
}

/// Passes the hash that a [`LockKey`] carries on unchanged, for maps keyed by it.
#[derive(Clone, Copy, Default)]
pub struct CarriedHash(u64);

impl Hasher for CarriedHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("a LockKey hashes itself as one u64");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

// Names come from outside: a hash that an attacker cannot predict keeps the maps flat.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_counts_for_the_slot_but_not_for_the_name() {
        let key = LockKey::new("{app}:", "orders:42").unwrap();
        assert_eq!((key.name(), key.on_server()), ("orders:42", "{app}:orders:42"));
        assert_eq!(key.slot(), Slot::of(b"app"));
    }

    #[test]
    fn bad_names_are_refused_with_the_remedy() {
        assert_eq!(LockKey::new("p:", "").unwrap_err(), NameFault::Empty);
        let long = "x".repeat(NAME_BYTES_MAX);
        assert!(LockKey::new("", &long).is_ok());
        let fault = LockKey::new("p:", &long).unwrap_err();
        assert_eq!(fault, NameFault::TooLong(NAME_BYTES_MAX + 2));
        assert!(fault.to_string().contains("digest"));
    }
}
