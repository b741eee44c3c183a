//! The seed of a random test: taken from the environment or picked, and always said aloud with the way to repeat it.

use std::env;
use std::thread;

/// The seed from `LEASEHOLD_SEED`, or a fresh one. Prints it with the command that repeats this very test.
///
/// # Panics
/// When `LEASEHOLD_SEED` is set and is not a number: a typo must not run another seed than the one asked for.
pub fn seed() -> u64 {
    let seed = env::var(VARIABLE).map_or_else(|_| rand::random(), |text| parsed(&text));
    // A test runs on a thread that carries its name.
    let test = thread::current().name().unwrap_or_default().to_owned();
    println!("seed {seed}; repeat with: {VARIABLE}={seed} cargo test {test}");
    seed
}

fn parsed(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{VARIABLE} is not a number below 2^64: {text:?}"))
}

const VARIABLE: &str = "LEASEHOLD_SEED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_as_it_is() {
        assert_eq!(parsed(" 18446744073709551615\n"), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "LEASEHOLD_SEED is not a number")]
    fn a_typo_is_no_seed() {
        parsed("12x");
    }
}
