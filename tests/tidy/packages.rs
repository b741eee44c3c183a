//! What is published is complete: the metadata of each crate, and the files in its package. `tests/publish` packages them.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{rust_version::metadata, sources::root};

/// What is published, in the order in which it has to be. Every other crate says `publish = false`.
const PUBLISHED: [&str; 5] =
    ["leasehold", "leasehold-conformance", "leasehold-memory", "leasehold-redis", "leasehold-cli"];

/// The categories of crates.io that the crates use.
const CATEGORIES: [&str; 6] = [
    "asynchronous",
    "command-line-utilities",
    "concurrency",
    "database",
    "development-tools::testing",
    "network-programming",
];

/// The crates of this workspace.
fn members() -> Vec<Value> {
    let all = metadata()["packages"].as_array().expect("packages").clone();
    all.into_iter().filter(|package| package["source"].is_null()).collect()
}

fn published() -> Vec<Value> {
    members().into_iter().filter(|package| PUBLISHED.contains(&name(package))).collect()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a name")
}

fn texts<'a>(package: &'a Value, field: &str) -> Vec<&'a str> {
    package[field].as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

fn folder(package: &Value) -> PathBuf {
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
    manifest.parent().expect("a folder").to_owned()
}

/// The paths in the package.
fn files(package: &Value) -> BTreeSet<String> {
    let told = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--locked", "--offline", "-p", name(package)])
        .current_dir(root())
        .output()
        .expect("cargo");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn every_crate_is_published_or_says_that_it_is_not() {
    for package in members() {
        let refuses = package["publish"].as_array().is_some_and(Vec::is_empty);
        assert_ne!(refuses, PUBLISHED.contains(&name(&package)), "`publish` of {}", name(&package));
    }
}

#[test]
fn a_published_crate_says_what_it_is() {
    for package in published() {
        let (name, description) = (name(&package), package["description"].as_str().unwrap_or_default());
        assert!(description.ends_with('.') && description.len() <= 150, "{name}: {description:?}");
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{name}");
        assert_eq!(package["readme"], "README.md", "{name}");
        assert!(package["rust_version"].is_string(), "{name}");
    }
}

#[test]
fn a_published_crate_is_found_by_its_keywords_and_categories() {
    let fits = |word: &&str| {
        word.len() <= 20
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte))
    };
    for package in published() {
        let (keywords, categories) = (texts(&package, "keywords"), texts(&package, "categories"));
        assert!((1..=5).contains(&keywords.len()), "{}: {keywords:?}", name(&package));
        assert!(keywords.iter().all(fits), "{}: {keywords:?}", name(&package));
        assert!((1..=5).contains(&categories.len()), "{}: {categories:?}", name(&package));
        assert!(categories.iter().all(|category| CATEGORIES.contains(category)), "{categories:?}");
    }
}

#[test]
fn docs_rs_builds_a_library_on_linux_with_all_its_features() {
    for package in published().iter().filter(|package| name(package) != "leasehold-cli") {
        let settings = &package["metadata"]["docs"]["rs"];
        let has_features = package["features"].as_object().is_some_and(|features| !features.is_empty());
        assert_eq!(settings["targets"][0], "x86_64-unknown-linux-gnu", "{}", name(package));
        assert!(!has_features || settings["all-features"] == true, "{}", name(package));
    }
}

#[test]
fn a_package_has_its_readme_its_licences_and_every_script_and_no_tests() {
    for package in published() {
        let files = files(&package);
        let scripts = fs::read_dir(folder(&package).join("scripts")).into_iter().flatten().flatten();
        let scripts = scripts.map(|script| format!("scripts/{}", script.file_name().to_string_lossy()));
        for wanted in
            ["README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(str::to_owned).into_iter().chain(scripts)
        {
            assert!(files.contains(&wanted), "{} lacks {wanted}", name(&package));
        }
        let unwanted: Vec<_> = files.iter().filter(|file| file.starts_with("tests/")).collect();
        assert!(unwanted.is_empty(), "{}: {unwanted:?}", name(&package));
    }
}

#[test]
fn the_licences_of_a_package_are_those_of_the_project() {
    for package in published() {
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let read = |folder: PathBuf| fs::read_to_string(folder.join(file)).expect("a licence");
            assert_eq!(read(folder(&package)), read(root().to_owned()), "{file} of {}", name(&package));
        }
    }
}

/// Cargo leaves a dev-dependency without a version out of the package. One with a version would have to be published
/// before the crate itself: for `leasehold`, whose tests use a transport, that is a circle.
#[test]
fn a_sibling_has_a_version_where_users_need_it_and_none_where_tests_do() {
    for package in published() {
        let siblings = package["dependencies"].as_array().expect("a list").iter();
        for sibling in siblings.filter(|dependency| dependency["path"].is_string()) {
            let is_for_tests = sibling["kind"] == "dev";
            assert_eq!(is_for_tests, sibling["req"] == "*", "{}: {}", name(&package), sibling["name"]);
        }
    }
}
