//! The key of a lock: its checked name with the prefix, its slot and its hash, computed once for each handle.

use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Arc, LazyLock},
};

use arrayvec::ArrayString;

use crate::routing::slot::Slot;

/// The longest name of a lock on the server in bytes, prefix included.
pub const NAME_BYTES_MAX: usize = 8 * 1024;

/// A lock's name with what follows from it: the key on the server, the slot and a hash.
///
/// # Examples
/// ```
/// use leasehold::key::LockKey;
///
/// let key = LockKey::new("{app}:", "orders:42").map_err(|fault| fault.to_string())?;
/// assert_eq!((key.name(), key.on_server()), ("orders:42", "{app}:orders:42"));
/// # Ok::<(), String>(())
/// ```
pub struct LockKey {
    text: Text,
    family: Family,
    prefix_bytes: u16,
    slot: Slot,
    hash: u64,
}

/// Kinds of locks that share their notices. Two families with one name are two keys of an engine. Their locks exclude
/// each other on the server: of the families [`Exclusive`](Self::Exclusive), [`ReadWrite`](Self::ReadWrite) and
/// [`Fair`](Self::Fair) one is held at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Locks with one holder.
    #[default]
    Exclusive,
    /// Locks with many readers or one writer.
    ReadWrite,
    /// Locks that are granted in the order of arrival.
    Fair,
    /// Semaphores whose permits have owners and expire.
    Permits,
}

/// A short name lies in the key itself, which saves a memory access at every renewal. Most names are short.
enum Text {
    Short(ArrayString<SHORT>),
    Long(Box<str>),
}

impl Text {
    fn of(prefix: &str, name: &str) -> Self {
        let mut short = ArrayString::new();
        match short.try_push_str(prefix).and_then(|()| short.try_push_str(name)) {
            Ok(()) => Self::Short(short),
            Err(_too_long) => Self::Long([prefix, name].concat().into()),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Text::Short(text) => text,
            Text::Long(text) => text,
        }
    }
}

/// Why a text cannot be the name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// The name is empty.
    Empty,
    /// The name and its prefix have this number of bytes, more than [`NAME_BYTES_MAX`].
    TooLong(usize),
}

impl LockKey {
    /// The key of the exclusive lock `name` under `prefix`, which may be empty.
    ///
    /// # Errors
    /// [`NameFault::Empty`], or [`NameFault::TooLong`] for more than [`NAME_BYTES_MAX`] bytes with the prefix.
    pub fn new(prefix: &str, name: &str) -> Result<Arc<LockKey>, NameFault> {
        Self::with_family(prefix, name, Family::Exclusive)
    }

    /// The key of a lock of this family.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_family(prefix: &str, name: &str, family: Family) -> Result<Arc<LockKey>, NameFault> {
        let bytes = prefix.len() + name.len();
        if name.is_empty() {
            return Err(NameFault::Empty);
        }
        if bytes > NAME_BYTES_MAX {
            return Err(NameFault::TooLong(bytes));
        }
        let prefix_bytes = u16::try_from(prefix.len()).unwrap_or(u16::MAX);
        Ok(Arc::new(Self::of_text(Text::of(prefix, name), prefix_bytes, family)))
    }

    /// The keys of the same name whose locks exclude each other on the server, this one among them.
    pub(crate) fn of_one_lock(self: &Arc<Self>) -> Vec<Arc<LockKey>> {
        if self.family == Family::Permits {
            return vec![self.clone()];
        }
        let families = [Family::Exclusive, Family::ReadWrite, Family::Fair];
        // The name is that of a key, so it is valid.
        families
            .into_iter()
            .filter_map(|family| Self::with_family("", self.on_server(), family).ok())
            .collect()
    }

    fn of_text(text: Text, prefix_bytes: u16, family: Family) -> Self {
        let (slot, hash) = (Slot::of(text.as_str().as_bytes()), hash(family, text.as_str()));
        Self { text, family, prefix_bytes, slot, hash }
    }

    /// The family of the locks with this key.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The name without the prefix.
    pub fn name(&self) -> &str {
        &self.on_server()[usize::from(self.prefix_bytes)..]
    }

    /// The name on the server: prefix and name.
    pub fn on_server(&self) -> &str {
        self.text.as_str()
    }

    /// The slot of the name on the server.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// A hash of the family and the name on the server, computed once. It differs from process to process.
    pub fn hash_value(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, self.family) == (other.hash, other.family) && self.on_server() == other.on_server()
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

impl std::error::Error for NameFault {}

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

/// Passes on the hash that a [`LockKey`] carries, for maps keyed by it.
#[derive(Clone, Copy, Default)]
pub struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
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

// Most keys are of exclusive locks, and hash a few bytes less.
fn hash(family: Family, name: &str) -> u64 {
    match family {
        Family::Exclusive => HASHER.hash_one(name),
        other => HASHER.hash_one((other, name)),
    }
}

/// The longest name in bytes that is stored in the key itself, prefix included.
const SHORT: usize = 32;

// Seeded at random: names come from outside, and an attacker must not be able to choose names of the same hash.
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
    fn short_and_long_names_are_what_they_were_made_of() {
        for bytes in [1, SHORT - 2, SHORT - 1, SHORT, 1_000] {
            let name = "é".repeat(bytes / 2) + &"x".repeat(bytes % 2);
            let key = LockKey::new("p:", &name).unwrap();
            assert_eq!((key.name(), key.on_server()), (&*name, &*format!("p:{name}")));
            assert_eq!(key.slot(), Slot::of(key.on_server().as_bytes()));
            assert_eq!(matches!(key.text, Text::Short(_)), bytes + 2 <= SHORT);
        }
        assert!(size_of::<LockKey>() <= 56, "{}", size_of::<LockKey>());
    }

    #[test]
    fn families_of_one_name_are_two_keys_in_one_slot() {
        let key = LockKey::new("{app}:", "orders:42").unwrap();
        let other = LockKey::with_family("{app}:", "orders:42", Family::ReadWrite).unwrap();
        assert_eq!(
            (other.name(), other.on_server(), other.slot()),
            (key.name(), key.on_server(), key.slot())
        );
        assert!(other != key && other.hash_value() != key.hash_value());
        assert_eq!((other.family(), key.family()), (Family::ReadWrite, Family::Exclusive));
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
