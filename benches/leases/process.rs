//! What another process has used, as the kernel tells it.

use std::fs;

/// Processor time of all its threads, in seconds.
pub(super) fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    // The program's name, which may hold anything, ends with the last bracket; its state is the next field.
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
    let ticks = fields.split(' ').skip(USER_TIME_FIELD).take(2).map(|field| field.parse::<f64>());
    ticks.map(|ticks| ticks.expect("a number")).sum::<f64>() / TICKS_A_SECOND
}

/// Resident memory in bytes.
pub(super) fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says how much");
    1024.0 * line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number")
}

/// Counted from the state; the next field is the time in the kernel.
const USER_TIME_FIELD: usize = 11;
/// `USER_HZ`, which is 100 on every Linux machine that Rust runs on.
const TICKS_A_SECOND: f64 = 100.0;
