//! `leasehold completions` and `leasehold man`, and the page for people.

use crate::program::Program;

fn page(arguments: &[&str]) -> String {
    Program::start_with(&[], arguments).end().expect_code(0).stdout
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(page(&["completions", shell]).contains("inspect"), "{shell}");
    }
}

#[test]
fn man_pages_have_the_options_and_the_exit_codes() {
    assert!(page(&["man"]).contains("was not acquired in time"));
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("not/there/yet");
    page(&["man", "--dir", folder.to_str().expect("UTF-8")]);
    let run = std::fs::read_to_string(folder.join("leasehold-run.1")).expect("written");
    assert!(run.contains("conflict") && run.contains("LEASEHOLD_TOKEN"), "{run}");
}

#[test]
fn the_page_for_people_has_every_command_and_every_exit_code() {
    let readme = include_str!("../README.md");
    let help = page(&["--help"]);
    let commands =
        help.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next()).expect("commands");
    let commands: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(readme.contains(&format!("| `leasehold {command}")), "{command}");
    }
    let codes = help.split("Exit codes:").nth(1).expect("codes");
    for code in codes
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u8>().is_ok())
    {
        assert!(readme.contains(&format!("| {code}")) || readme.contains(&format!(", {code} |")), "{code}");
    }
}
