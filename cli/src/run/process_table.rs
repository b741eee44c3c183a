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
    fn a_suspended_process_of_the_group_is_found() {
        assert!(is_stopped_member("4937 (a) b) T 4928 42 4928 34816", 42));
        for other in
            ["4937 (sh) S 4928 42 4928", "4937 (sh) T 4928 43 4928", "4937 (sh) T", "", "4937 (T 1 42"]
        {
            assert!(!is_stopped_member(other, 42), "{other}");
        }
    }
}
