//! What this process has used.

use std::{fs, ops::Sub, time::Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Time, and processor time of all threads.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, earlier: Usage) -> Usage {
        Usage { seconds: self.seconds - earlier.seconds, cpu_seconds: self.cpu_seconds - earlier.cpu_seconds }
    }
}

/// So far.
pub(crate) fn usage(since: Instant) -> Usage {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    Usage {
        seconds: since.elapsed().as_secs_f64(),
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
    }
}

/// Resident memory in bytes.
pub(crate) fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("this machine is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says how much");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    1024.0 * kilobytes
}
