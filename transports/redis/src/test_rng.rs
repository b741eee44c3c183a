//! Random numbers for tests. All of them follow from one seed, which is printed.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    thread,
};

/// A random number generator (SplitMix64).
pub(crate) struct TestRng(u64);

impl TestRng {
    /// Takes the seed from `LEASEHOLD_SEED`, or a random one. Prints it with the command that repeats this test.
    pub(crate) fn from_env() -> Self {
        let parsed = |text: String| text.trim().parse().expect("LEASEHOLD_SEED is a number below 2^64");
        let seed = env::var("LEASEHOLD_SEED").map_or_else(|_| RandomState::new().hash_one(0), parsed);
        let test = thread::current().name().unwrap_or_default().to_owned();
        println!(
            "seed {seed}; repeat with: LEASEHOLD_SEED={seed} cargo test -p leasehold-redis --lib {test}"
        );
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a second generator, whose seed follows from this one.
    pub(crate) fn another(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number below `end`, which is more than zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).expect("64 bits are enough")).expect("below a usize")
    }

    /// Returns `true` once in `times` calls, on average.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns the text with up to three characters lost, doubled or replaced, or with its end cut off. Sometimes
    /// the text is unchanged.
    pub(crate) fn damage(&mut self, text: &str) -> String {
        let mut damaged: Vec<char> = text.chars().collect();
        for _ in 0..self.below(4) {
            let place = self.below(damaged.len().max(1));
            match self.below(8) {
                0 => damaged.truncate(place),
                1..3 if place < damaged.len() => drop(damaged.remove(place)),
                3..5 if place < damaged.len() => damaged.insert(place, damaged[place]),
                _ if place < damaged.len() => damaged[place] = ODD[self.below(ODD.len())],
                _ => {}
            }
        }
        damaged.into_iter().collect()
    }
}

/// Characters that have a meaning in server replies, and characters that never occur there.
const ODD: [char; 14] = [' ', '\n', ':', '@', ',', '-', ';', '0', '9', '+', '?', 'm', '\u{0}', 'ß'];
