//! One process of the tests with several: driven by its arguments and stdin.

fn main() {}
