//! What servers have used, as they tell it.

use std::ops::Sub;

use leasehold_tests::harness::raw_client::RawClient;

/// What a server, or several together, have used since they were started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerUsage {
    pub(crate) cpu_seconds: f64,
    /// Sent by clients, not from within scripts.
    pub(crate) commands: f64,
    /// Times to live that were set, from within scripts, too.
    pub(crate) expiries: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
}

impl ServerUsage {
    /// What the server has used so far.
    pub(crate) fn of(client: &mut RawClient) -> Self {
        let info = client.command(&["INFO", "everything"]).expect("a reply");
        let text = info.text().expect("text").to_owned();
        let field = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
        };
        let calls = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
            line.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok()).unwrap_or(0.0)
        };
        Self {
            cpu_seconds: field("used_cpu_sys") + field("used_cpu_user"),
            commands: calls("evalsha") + calls("eval"),
            expiries: calls("pexpire") + calls("pexpireat"),
            bytes_in: field("total_net_input_bytes"),
            bytes_out: field("total_net_output_bytes"),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            commands: self.commands + other.commands,
            expiries: self.expiries + other.expiries,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }
}

impl Sub for ServerUsage {
    type Output = ServerUsage;

    fn sub(self, earlier: ServerUsage) -> ServerUsage {
        ServerUsage {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            commands: self.commands - earlier.commands,
            expiries: self.expiries - earlier.expiries,
            bytes_in: self.bytes_in - earlier.bytes_in,
            bytes_out: self.bytes_out - earlier.bytes_out,
        }
    }
}
