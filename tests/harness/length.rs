//! How long the tests run: short in `cargo test`, at full length with `LEASEHOLD_LONG=1`.

use std::env;

/// Whether they are to run at full length.
pub fn is_long() -> bool {
    env::var("LEASEHOLD_LONG").is_ok_and(|text| text == "1")
}
