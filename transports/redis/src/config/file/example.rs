//! Tests that `leasehold.example.toml` has every setting, with its real default.

use std::path::Path;

use super::{ConfigFile, keys};

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../leasehold.example.toml");
    std::fs::read_to_string(path).expect("leasehold.example.toml at the root of the repository")
}

fn parse(text: &str) -> ConfigFile {
    ConfigFile::parse(text, "leasehold.example.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the setting in a line, whether it is commented out or not.
fn setting(line: &str) -> Option<&str> {
    let bare = line.strip_prefix('#').unwrap_or(line);
    let is_setting = bare.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    (is_setting || bare.starts_with('[')).then_some(bare)
}

/// Returns the text with the commented settings of some paragraphs in force.
fn with_settings(of: impl Fn(&str) -> bool) -> String {
    let text = example();
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let in_force = |line| if of(paragraph) { setting(line).unwrap_or(line) } else { line };
        paragraph.lines().map(in_force).collect::<Vec<_>>().join("\n")
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn it_is_read_as_it_stands_and_says_nothing_but_one_address() {
    let file = parse(&example());
    assert_eq!(file.engine, leasehold::EngineConfig::default());
    let by_default = crate::RedisConfig::single("127.0.0.1", 6379);
    assert_eq!(format!("{:?}", file.redis), format!("{by_default:?}"));
}

#[test]
fn it_has_every_key_of_every_section_and_no_other() {
    let (text, mut section, mut shown) = (example(), "", Vec::new());
    for line in text.lines().filter_map(setting) {
        match line.split_once(" = ") {
            Some((key, _)) => shown.push((section, key)),
            None => section = line.trim_matches(['[', ']']),
        }
    }
    let keys = |(section, keys): (&'static str, &'static [&'static str])| {
        keys.iter().map(move |key| (section, *key)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = keys::sections().into_iter().flat_map(keys).collect();
    // The file shows them as separate sections.
    all.retain(|key| ![("redis", "tls"), ("redis", "sentinel_tls")].contains(key));
    shown.sort();
    all.sort();
    assert_eq!(shown, all);
}

#[test]
fn what_it_shows_as_a_default_is_one() {
    let defaults =
        with_settings(|paragraph| !paragraph.contains("No default") && !paragraph.contains("[redis.tls]"));
    assert!(
        defaults.contains("\nttl_ms = 30000\n") && defaults.contains("\nnotices = \"auto\"\n"),
        "{defaults}"
    );
    let (as_it_stands, with_defaults) = (parse(&example()), parse(&defaults));
    assert_eq!(with_defaults.engine, as_it_stands.engine);
    assert_eq!(format!("{:?}", with_defaults.redis), format!("{:?}", as_it_stands.redis));
}

#[test]
fn all_of_it_is_accepted_together_with_sentinels() {
    let all = with_settings(|_| true).replace("topology = \"single\"", "topology = \"sentinel\"");
    let redis = parse(&all).redis;
    let tls = redis.tls.expect("[redis.tls]");
    assert!(tls.ca.is_some() && tls.cert.is_some() && tls.key.is_some() && tls.server_name.is_some());
    let sentinel_tls = redis.sentinel_tls.expect("[redis.sentinel_tls]");
    assert!(!sentinel_tls.plain && sentinel_tls.ca.is_some() && sentinel_tls.server_name.is_some());
    assert!(redis.username.is_some() && redis.password.is_some() && redis.service_name.is_some());
    assert!(redis.sentinel_username.is_some() && redis.sentinel_password.is_some());
}

#[test]
fn the_readme_names_every_key_of_the_transport() {
    let readme = include_str!("../../../README.md");
    for key in
        keys::sections().into_iter().filter(|section| section.0 != "engine").flat_map(|section| section.1)
    {
        assert!(readme.contains(&format!("`{key}`")), "{key}");
    }
}
