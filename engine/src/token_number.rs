//! Fencing tokens as numbers: for SQL columns, for other languages, and back. Pure.

use serde::{Deserialize, Deserializer, de};

use crate::{error::Invalid, fencing::FencingToken};

/// The token as it is stored, for example in a `BIGINT` column.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> i64 {
        token.as_i64()
    }
}

/// The same number. No server gives a negative token.
impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> u64 {
        u64::try_from(token.as_i64()).unwrap_or(0)
    }
}

/// The token that was stored as this number, for example in a `BIGINT` column. 0 is lower than every token of a server,
/// so it may stand for "no token yet".
///
/// # Errors
/// The number is negative.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use leasehold::FencingToken;
///
/// let lease = engine.fenced_lock("orders:42").acquire().await?;
/// let column: i64 = lease.fencing_token().into(); // UPDATE ... SET token = $1 WHERE id = 42 AND token <= $1
/// let stored = FencingToken::try_from(column)?; // SELECT token ...
/// assert_eq!(stored, lease.fencing_token());
/// assert!(FencingToken::try_from(-1_i64).is_err());
/// # Ok(())
/// # }
/// ```
impl TryFrom<i64> for FencingToken {
    type Error = Invalid;

    fn try_from(number: i64) -> Result<Self, Invalid> {
        let number = u64::try_from(number).map_err(|_| refused(&number.to_string()))?;
        Ok(FencingToken::of_counter(number))
    }
}

/// The token with this number.
///
/// # Errors
/// The number is above `i64::MAX`, so it fits no `BIGINT` and no server has given it.
impl TryFrom<u64> for FencingToken {
    type Error = Invalid;

    fn try_from(number: u64) -> Result<Self, Invalid> {
        i64::try_from(number).map_err(|_| refused(&number.to_string()))?;
        Ok(FencingToken::of_counter(number))
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        i64::deserialize(input)?.try_into().map_err(de::Error::custom)
    }
}

fn refused(number: &str) -> Invalid {
    Invalid::new("fencing_token", number, format!("is no token; a token is a number from 0 to {}", i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_bigint_column_is_a_token_unless_it_is_negative() {
        for number in [0, 1, 1_800_000_000_000_000 << 10, i64::MAX] {
            let token = FencingToken::try_from(number).unwrap();
            assert_eq!(
                (i64::from(token), FencingToken::try_from(u64::from(token)).unwrap()),
                (number, token)
            );
        }
        for text in [
            FencingToken::try_from(-1_i64).unwrap_err().to_string(),
            FencingToken::try_from(i64::MAX as u64 + 1).unwrap_err().to_string(),
        ] {
            assert!(
                text.starts_with("fencing_token = ") && text.ends_with("to 9223372036854775807"),
                "{text}"
            );
        }
    }

    #[test]
    fn tokens_are_ordered_as_their_numbers() {
        let of = |number: i64| FencingToken::try_from(number).unwrap();
        assert!(of(7) < of(8) && of(0) < FencingToken::at_server_micros(1));
    }
}
