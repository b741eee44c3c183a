//! Fencing tokens: numbers that rise with each grant of a lock, so that a resource can refuse an earlier holder.
//!
//! The token of [`Engine::lock`](crate::Engine::lock) is the server's time of the grant in microseconds, times 1,024.
//! It rises strictly on one server whose clock does not step back. The idea is from Kleppmann ("How to do distributed
//! locking", 2016) and Chubby's sequencer (Burrows, OSDI 2006): the lock service only gives out numbers, and the
//! *resource* compares them. The [guide](crate::guide::fencing) shows how.

use std::fmt;

/// A number that is higher than the number of every earlier holder of the same lock.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let first = engine.lock("orders:42").acquire().await?;
/// let token = first.fencing_token();
/// first.release().await?;
/// let second = engine.lock("orders:42").acquire().await?;
/// assert!(second.fencing_token() > token);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of a grant at this server time, in microseconds. The low ten bits are left for hand-offs within one
    /// grant. For transports.
    pub const fn at_server_micros(micros: u64) -> Self {
        Self((micros << HANDOFF_BITS) as i64)
    }

    /// The number to store beside the data. It fits a signed 64-bit column, and is positive.
    ///
    /// # Examples
    /// ```
    /// use leasehold::FencingToken;
    ///
    /// /// What a resource does with a write: it refuses a token below the highest one that it has seen.
    /// fn accepts(highest: &mut i64, token: FencingToken) -> bool {
    ///     let is_new = token.as_i64() >= *highest;
    ///     *highest = token.as_i64().max(*highest);
    ///     is_new
    /// }
    ///
    /// let (older, newer) = (FencingToken::at_server_micros(1), FencingToken::at_server_micros(2));
    /// let mut highest = 0;
    /// assert!(accepts(&mut highest, newer));
    /// assert!(!accepts(&mut highest, older));
    /// ```
    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({})", self.0)
    }
}

const HANDOFF_BITS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_microsecond_later_is_a_higher_token() {
        let now = 1_800_000_000_000_000;
        assert!(FencingToken::at_server_micros(now + 1) > FencingToken::at_server_micros(now));
        assert!(FencingToken::at_server_micros(now).as_i64() > 0);
    }
}
