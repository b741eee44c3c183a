//! Proxies that are programs of their own, from Debian: HAProxy and twemproxy.

use std::fs;
use std::io;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::polling::holds_within;
use crate::harness::port::free_port;
use crate::harness::raw_client::RawClient;
use crate::harness::server::{ServerCommand, ServerProcess};

/// A running proxy. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct ProgramProxy {
    // Before the directory, which has its log.
    _process: ServerProcess,
    port: u16,
    _dir: TempDir,
}

impl ProgramProxy {
    /// HAProxy in front of servers of which one is a master at a time: it sends everybody there, and cuts the connections
    /// to a server that is a master no more. Answers when this returns.
    ///
    /// # Errors
    /// When `haproxy` is not installed or does not start.
    pub fn haproxy(servers: &[u16]) -> io::Result<Self> {
        Self::start(
            "haproxy",
            servers,
            haproxy_config,
            || Ok(["-db", "-f"].map(str::to_owned).to_vec()),
            is_master,
        )
    }

    /// twemproxy in front of servers that know nothing of each other. Accepts connections when this returns.
    ///
    /// # Errors
    /// When `nutcracker` is not installed or does not start.
    pub fn twemproxy(servers: &[u16]) -> io::Result<Self> {
        Self::start("nutcracker", servers, twemproxy_config, statistics_elsewhere, |client| {
            client.command(&["PING"]).is_ok()
        })
    }

    fn start(
        program: &str,
        servers: &[u16],
        config: fn(u16, &[u16]) -> String,
        arguments: fn() -> io::Result<Vec<String>>,
        serves: fn(&mut RawClient) -> bool,
    ) -> io::Result<Self> {
        let (dir, port) = (tempfile::tempdir()?, free_port()?);
        let (file, log) = (dir.path().join("proxy.conf"), dir.path().join("proxy.log"));
        fs::write(&file, config(port, servers))?;
        let mut process = ServerProcess::start(&ServerCommand {
            program: program.into(),
            arguments: arguments()?.into_iter().map(Into::into).chain([file.into()]).collect(),
            env: Vec::new(),
            log: log.clone(),
            remedy: format!("apt-get install {program}"),
        })?;
        // By turns it sends everybody to each server that it takes for a good one.
        let answers = || {
            (0..2 * servers.len())
                .all(|_| RawClient::connect(port).is_ok_and(|mut client| serves(&mut client)))
        };
        let ended = |process: &mut ServerProcess| process.ended().map_or(true, |ended| ended.is_some());
        if !holds_within(START_TAKES_AT_MOST, || ended(&mut process) || answers()) || ended(&mut process) {
            let log = fs::read_to_string(log).unwrap_or_default();
            return Err(io::Error::other(format!("{program} does not serve: {log}")));
        }
        Ok(Self { _process: process, port, _dir: dir })
    }

    /// Where clients connect to, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn is_master(client: &mut RawClient) -> bool {
    let info = client.command(&["INFO", "replication"]);
    info.is_ok_and(|info| info.text().is_some_and(|text| text.contains("role:master")))
}

fn statistics_elsewhere() -> io::Result<Vec<String>> {
    let port = free_port()?.to_string();
    Ok(["-a", "127.0.0.1", "-s", &port, "-c"].map(str::to_owned).to_vec())
}

fn haproxy_config(port: u16, servers: &[u16]) -> String {
    let servers: String =
        servers.iter().map(|server| format!("    server s{server} 127.0.0.1:{server} check\n")).collect();
    format!(
        "global\n    maxconn 1000\n\
         defaults\n    mode tcp\n    timeout connect 1s\n    timeout client 1h\n    timeout server 1h\n    \
         timeout check 1s\n\
         listen redis\n    bind 127.0.0.1:{port}\n    option tcp-check\n    \
         tcp-check send info\\ replication\\r\\n\n    tcp-check expect string role:master\n    \
         default-server inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions\n{servers}"
    )
}

fn twemproxy_config(port: u16, servers: &[u16]) -> String {
    let servers: String = servers.iter().map(|server| format!("   - 127.0.0.1:{server}:1\n")).collect();
    format!(
        "locks:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  redis: true\n  \
         servers:\n{servers}"
    )
}

const START_TAKES_AT_MOST: Duration = Duration::from_secs(20);
