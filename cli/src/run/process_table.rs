//! The processes of this machine, as `/proc` shows them.

use std::{fs, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// Whether a process of this group is suspended.
pub(super) fn has_stopped(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let stat = process.path().join("stat");
        fs::read_to_string(stat).is_ok_and(|stat| is_stopped_member(&stat, group.as_raw_nonzero().get()))
    })
}

/// The process groups with a process that was started with this value in the list of this variable.
pub(super) fn groups_with(variable: &str, value: &str) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let is_wanted = |entry: &[u8]| {
        let marks = entry.strip_prefix(variable.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        marks.is_some_and(|marks| marks.split(|byte| *byte == b',').any(|mark| mark == value.as_bytes()))
    };
    let mut groups: Vec<i32> = processes
        .flatten()
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(is_wanted)
        })
        .filter_map(|process| group_of(&fs::read_to_string(process.path().join("stat")).ok()?))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().filter(|group| *group > 1).filter_map(Pid::from_raw).collect()
}

/// In the environment of a command: the marks of all runs that it is below, with commas between them.
pub(super) const VARIABLE: &str = "LEASEHOLD_GUARD";

/// Sends a signal to this group, and to every group with a process that has the mark. A suspended one goes on.
pub(super) fn signal_all(group: Option<Pid>, mark: &str, signal: Signal) {
    for group in groups_with(VARIABLE, mark).into_iter().chain(group) {
        let _ = kill_process_group(group, signal);
        let _ = kill_process_group(group, Signal::CONT);
    }
}

/// Kills until nothing is found: a process may fork between the look and the signal.
pub(super) fn kill_all(group: Option<Pid>, mark: &str) {
    for _ in 0..KILL_ROUNDS {
        signal_all(group, mark, Signal::KILL);
        if groups_with(VARIABLE, mark).is_empty() {
            return;
        }
        thread::sleep(BETWEEN_KILLS);
    }
}

/// Whether the group, or a process with the mark, is there.
pub(super) fn is_alive(group: Option<Pid>, mark: &str) -> bool {
    group.is_some_and(|group| test_kill_process_group(group).is_ok())
        || !groups_with(VARIABLE, mark).is_empty()
}

const KILL_ROUNDS: u32 = 100;
const BETWEEN_KILLS: Duration = Duration::from_millis(2);

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
