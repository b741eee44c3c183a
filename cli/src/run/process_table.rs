//! The processes of this machine, as `/proc` shows them.

use std::fs;

use rustix::process::Pid;

/// Whether a process of this group is suspended.
pub(super) fn has_stopped(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let stat = process.path().join("stat");
        fs::read_to_string(stat).is_ok_and(|stat| is_stopped_member(&stat, group.as_raw_nonzero().get()))
    })
}

/// The process groups with a process that has this variable in the environment that it was started with.
pub(super) fn groups_with(variable: &str, value: &str) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let wanted = format!("{variable}={value}");
    let mut groups: Vec<i32> = processes
        .flatten()
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        })
        .filter_map(|process| group_of(&fs::read_to_string(process.path().join("stat")).ok()?))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().filter(|group| *group > 1).filter_map(Pid::from_raw).collect()
}

/// Reads the group of `pid (name) state parent group ...`.
fn group_of(stat: &str) -> Option<i32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(2)?.parse().ok()
}

/// Reads `pid (name) state parent group ...`. The name may hold anything.
fn is_stopped_member(stat: &str, group: i32) -> bool {
    let Some((_, behind)) = stat.rsplit_once(')') else { return false };
    let words: Vec<&str> = behind.split_whitespace().take(3).collect();
    matches!(words[..], ["T", _parent, of] if of.parse() == Ok(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_environment() {
        let name = "LEASEHOLD_TEST_OF_GROUPS";
        let mut child = std::process::Command::new("sleep").arg("30").env(name, "x").spawn().expect("sleep");
        let mut found = Vec::new();
        while found.is_empty() {
            found = groups_with(name, "x");
        }
        assert!(groups_with(name, "y").is_empty());
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(group_of("4937 (a) b) T 4928 42 4928 34816"), Some(42));
    }

    #[test]
    fn a_suspended_process_of_the_group_is_found() {
        assert!(is_stopped_member("4937 (a) b) T 4928 42 4928 34816", 42));
        for other in
            ["4937 (sh) S 4928 42 4928", "4937 (sh) T 4928 43 4928", "4937 (sh) T", "", "4937 (T 1 42"]
        {
            assert!(!is_stopped_member(other, 42), "{other}");
        }
    }
}
