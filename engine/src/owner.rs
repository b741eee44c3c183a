//! The owner of a lock on the server: `<client uuid>:<n>`. An owner is minted for each requested grant, is never
//! reused, and is never an input of the API. This file is the only place that formats it.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

/// The owner of one grant. 122 random bits name the engine, `n` names the grant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    client: Uuid,
    n: u64,
}

impl Owner {
    /// An owner from its parts; for the tests of transports.
    pub const fn new(client: Uuid, n: u64) -> Self {
        Self { client, n }
    }

    /// The part that names the engine.
    pub const fn client(&self) -> Uuid {
        self.client
    }

    /// The common beginning of the text of every owner of this engine; [`Self::number`] follows it.
    pub fn client_spelling(&self) -> String {
        format!("{}:", self.client.as_hyphenated())
    }

    /// The part that names the grant.
    pub const fn number(&self) -> u64 {
        self.n
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client.as_hyphenated(), self.n)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// Mints the owners of one engine.
#[derive(Debug)]
pub struct OwnerMint {
    client: Uuid,
    next: AtomicU64,
}

impl OwnerMint {
    /// A mint with a new client id from the operating system's random source.
    pub fn new() -> Self {
        Self { client: Uuid::new_v4(), next: AtomicU64::new(1) }
    }

    /// The part that names the engine in all its owners.
    pub fn client(&self) -> Uuid {
        self.client
    }

    /// An owner that was never returned before.
    pub fn mint(&self) -> Owner {
        Owner { client: self.client, n: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A model that goes on in several ways from one state mints the same owners in each.
#[cfg(test)]
impl Clone for OwnerMint {
    fn clone(&self) -> Self {
        Self { client: self.client, next: AtomicU64::new(self.next.load(Ordering::Relaxed)) }
    }
}

impl Default for OwnerMint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_spelled_like_redissons() {
        let owner = Owner::new(Uuid::nil(), 7);
        assert_eq!(owner.to_string(), "00000000-0000-0000-0000-000000000000:7");
        assert_eq!(owner.to_string(), format!("{}{}", owner.client_spelling(), owner.number()));
    }

    #[test]
    fn a_mint_never_repeats_itself() {
        let (one, two) = (OwnerMint::new(), OwnerMint::new());
        assert_ne!(one.mint(), one.mint());
        assert_ne!(one.mint(), two.mint());
    }
}
