//! A behaviour that is in no list is a test that nobody runs.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_behaviour_is_in_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transports/conformance/src");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a readable source file");
    let (list, mut missing) = (read("lib.rs"), BTreeSet::new());
    let listed: BTreeSet<_> = list.lines().map(|line| line.trim().trim_end_matches(',')).collect();
    for file in fs::read_dir(&folder).expect("the suite's folder") {
        let name = file.expect("an entry").file_name().into_string().expect("a plain name");
        for behaviour in read(&name).lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let behaviour = behaviour.split('<').next().unwrap_or(behaviour);
            if !listed.contains(behaviour) {
                missing.insert(format!("{name}: {behaviour}"));
            }
        }
    }
    assert!(missing.is_empty(), "not in the macro of lib.rs: {missing:?}");
}
