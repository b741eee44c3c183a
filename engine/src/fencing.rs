//! Fencing tokens: numbers that rise with each grant of a lock, so that a resource can refuse an earlier holder.
//!
//! The token of [`Engine::lock`](crate::Engine::lock) is the server's time of the grant in microseconds, times 1,024.
//! It rises strictly on one server whose clock does not step back. The token of
//! [`Engine::fenced_lock`](crate::Engine::fenced_lock) comes from a counter that the server keeps beside the lock, so it
//! rises strictly whatever the clock does; [`FencingMode`] says how. It is about a thousandth of the other token, or
//! less. So tokens of the two kinds of locks must not be compared, not even for one name. The idea is from Kleppmann ("How to do distributed
//! locking", 2016) and Chubby's sequencer (Burrows, OSDI 2006): the lock service only gives out numbers, and the
//! *resource* compares them. The [guide](crate::guide::fencing) shows how.

use std::fmt;

use serde::{Deserialize, Serialize};

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
///
/// With serde a token is its number. A token of [`Engine::lock`](crate::Engine::lock) is above 2^53: JavaScript rounds
/// such a number when it reads JSON, so send it to a browser as a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of a grant at this server time, in microseconds. The low ten bits are left for hand-offs within one
    /// grant. For transports.
    pub const fn at_server_micros(micros: u64) -> Self {
        Self((micros << HANDOFF_BITS) as i64)
    }

    /// The token of a grant that moved the lock's counter to this number. At most `i64::MAX`. For transports.
    pub const fn of_counter(number: u64) -> Self {
        Self(if number > i64::MAX as u64 { i64::MAX } else { number as i64 })
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

    /// How often the grant with this token was handed off within its engine. Only for tokens of server times.
    pub(crate) const fn hand_offs(self) -> u16 {
        (self.0 & HAND_OFFS_MAX as i64) as u16
    }

    /// The token of the next holder of the same grant, which has a spare token: above this one, and below that of the
    /// server's next grant.
    pub(crate) const fn of_next_holder(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// How the counter of a [fenced lock](crate::Engine::fenced_lock) moves with each grant. One setting for the engine:
/// [`EngineConfig::fencing`](crate::EngineConfig::fencing). Engines with different modes may share a lock: each grant
/// has a higher token than the one before, whatever the modes.
///
/// # Examples
/// ```
/// use leasehold::{EngineConfig, FencingMode};
///
/// let mut config = EngineConfig::default();
/// assert_eq!(config.fencing, FencingMode::Hybrid);
/// config.fencing = FencingMode::Counter;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FencingMode {
    /// One more than the token before, as Redisson counts. The first token is 1. If the counter is lost, with the data
    /// of its server or by Redisson's `delete()`, tokens begin at 1 again, and a resource refuses them.
    Counter,
    /// Higher than the token before, and at least the server's time in microseconds. A lost counter is made up for: the
    /// next token is higher than all before it, unless the server's clock stepped back too. While several callers of an
    /// engine wait, a grant keeps further tokens for them
    /// ([`hand_offs_max`](crate::EngineConfig::hand_offs_max)), so numbers may be left out, and the counter may be ahead of the
    /// server's time: by less than 2.1 ms for each engine. A counter that is lost sooner than that after such a grant is not
    /// made up for.
    #[default]
    Hybrid,
}

impl FencingMode {
    /// The token that follows `last` at this server time, in microseconds. For transports.
    pub const fn next(self, last: u64, micros: u64) -> u64 {
        let next = last.saturating_add(1);
        match self {
            FencingMode::Hybrid if micros > next => micros,
            FencingMode::Hybrid | FencingMode::Counter => next,
        }
    }

    /// The word for the mode in settings: `counter`, `hybrid`.
    pub const fn as_str(self) -> &'static str {
        match self {
            FencingMode::Counter => "counter",
            FencingMode::Hybrid => "hybrid",
        }
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

/// How often a grant can be handed off: the low bits of its token count the hand-offs.
pub(crate) const HAND_OFFS_MAX: u16 = (1 << HANDOFF_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_microsecond_later_is_a_higher_token() {
        let now = 1_800_000_000_000_000;
        assert!(FencingToken::at_server_micros(now + 1) > FencingToken::at_server_micros(now));
        assert!(FencingToken::at_server_micros(now).as_i64() > 0);
    }

    #[test]
    fn s6_each_holder_of_a_grant_has_a_higher_token_and_the_next_grant_a_higher_one_still() {
        let granted = FencingToken::at_server_micros(1_800_000_000_000_000);
        let last = (0..HAND_OFFS_MAX).fold(granted, |token, count| {
            assert_eq!(token.hand_offs(), count);
            assert!(token.of_next_holder() > token);
            token.of_next_holder()
        });
        assert_eq!(last.hand_offs(), HAND_OFFS_MAX);
        assert!(FencingToken::at_server_micros(1_800_000_000_000_001) > last);
    }

    #[test]
    fn a_counter_moves_by_one_and_in_hybrid_mode_to_the_time_at_least() {
        assert_eq!((FencingMode::Counter.next(0, 700), FencingMode::Counter.next(7, 700)), (1, 8));
        assert_eq!((FencingMode::Hybrid.next(0, 700), FencingMode::Hybrid.next(7, 700)), (700, 700));
        assert_eq!(FencingMode::Hybrid.next(700, 700), 701, "two grants in one microsecond");
        assert_eq!(FencingMode::Hybrid.next(900, 700), 901, "the clock stepped back");
        assert!(FencingToken::of_counter(701) > FencingToken::of_counter(700));
        assert_eq!(FencingToken::of_counter(u64::MAX).as_i64(), i64::MAX);
    }
}
