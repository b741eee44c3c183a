//! Free loopback ports for servers that must come back on the same port.
//!
//! They are taken from *below* the kernel's range for outgoing connections. A port inside that range may be the
//! source of somebody's connection at the moment a server restarts (`bind` fails), and a client that keeps dialling
//! a dead port in the range sooner or later connects to itself and sees an "open" server that echoes.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// A loopback port that nobody listened on a moment ago. Another process may take it first: callers try again.
///
/// # Errors
/// When no port of the range could be bound in a bounded number of draws.
pub fn free_port() -> io::Result<u16> {
    let range = server_ports();
    (0..DRAWS_MAX).map(|_| rand::random_range(range.clone())).find(|port| is_free(*port)).ok_or_else(|| {
        io::Error::other(format!("no free loopback port in {range:?} after {DRAWS_MAX} draws"))
    })
}

/// A free port whose bus port, [`CLUSTER_BUS_OFFSET`] above it, is free as well: for a node of a cluster.
///
/// # Errors
/// As [`free_port`].
pub fn free_cluster_port() -> io::Result<u16> {
    let range = server_ports();
    // Both below the ephemeral ports, where there is room for it.
    let range = match range.end.checked_sub(CLUSTER_BUS_OFFSET) {
        Some(end) if end > range.start => range.start..end,
        _ => return Err(io::Error::other(format!("no room for bus ports in {range:?}"))),
    };
    (0..DRAWS_MAX)
        .map(|_| rand::random_range(range.clone()))
        .find(|port| is_free(*port) && is_free(port + CLUSTER_BUS_OFFSET))
        .ok_or_else(|| {
            io::Error::other(format!("no free pair of ports in {range:?} after {DRAWS_MAX} draws"))
        })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// From the first unprivileged ports we like up to the kernel's first ephemeral port.
fn server_ports() -> Range<u16> {
    let first_ephemeral = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(LINUX_FIRST_EPHEMERAL);
    // Some containers widen the range downwards: then there is no room below it, and any port must do.
    if first_ephemeral > FIRST_PORT + 1_000 { FIRST_PORT..first_ephemeral } else { FIRST_PORT..u16::MAX }
}

/// How far the bus port of a cluster's node is above its port. Servers before 7.0 know no other.
pub const CLUSTER_BUS_OFFSET: u16 = 10_000;

const FIRST_PORT: u16 = 10_000;
const LINUX_FIRST_EPHEMERAL: u16 = 32_768;
const DRAWS_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port().expect("a free port");
        assert!(server_ports().contains(&port));
    }
}
