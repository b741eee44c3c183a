//! Every secret of a test bears the marker by which a test run is searched for it.

use leasehold_tests::harness::secrets::MARKER;

use crate::sources::all;

/// What stands before a secret in a test.
const BEFORE: [&str; 5] =
    [".password(\"", ".sentinel_password(\"", "Secret::new(\"", " on >", "const PASSWORD: &str = \""];

#[test]
fn every_secret_of_a_test_bears_the_marker() {
    let mut found = 0;
    for source in all().iter().filter(|source| !source.path.ends_with("tidy/secrets.rs")) {
        for before in BEFORE {
            for (at, _) in source.text.match_indices(before) {
                let secret = &source.text[at + before.len()..];
                let secret = secret.split(['"', ' ', '\n']).next().unwrap_or_default();
                found += 1;
                let is_marked = secret.contains(MARKER) || secret.contains('{');
                assert!(is_marked, "{:?}: {before}{secret} has no {MARKER:?} in it", source.path);
            }
        }
    }
    assert!(found >= 20, "{found} secrets: the tests were not found");
}
