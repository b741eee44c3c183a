//! Moves the clock of a server while it runs, and of no other process.
//!
//! `clock_shim.c` is compiled when a test asks for it and preloaded into the server. It moves callers of libc only:
//! a process that reads its clock through `rustix`, as the recorder does, is not moved by it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// One set of clock offsets, shared by all processes started with its [`ClockShim::env`].
#[derive(Debug)]
pub struct ClockShim {
    dir: TempDir,
    offsets: File,
}

/// A clock of the kernel that can be moved. The value is its place in the offsets file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShimmedClock {
    /// The wall clock: what Redis counts expiry with.
    Realtime = 0,
    /// What `std::time::Instant` reads.
    Monotonic = 1,
    /// Goes on through suspend.
    Boottime = 2,
}

impl ClockShim {
    /// Compiles the shim with `cc`; all clocks start unmoved.
    ///
    /// # Errors
    /// When there is no C compiler (`apt-get install gcc libc6-dev`) or it refuses.
    pub fn new() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("leasehold-clock-").tempdir()?;
        compile(&library(dir.path()))?;
        let offsets =
            File::options().read(true).write(true).create_new(true).open(offsets_path(dir.path()))?;
        offsets.set_len(FILE_BYTES)?;
        Ok(Self { dir, offsets })
    }

    /// The variables that put a process under this shim, for `RedisServerBuilder::env`.
    pub fn env(&self) -> [(OsString, OsString); 2] {
        let dir = self.dir.path();
        [("LD_PRELOAD".into(), library(dir).into()), ("CLOCKSHIM".into(), offsets_path(dir).into())]
    }

    /// Steps the wall clock by so many milliseconds, back if negative, from where it is now.
    ///
    /// # Errors
    /// When the offsets file cannot be written.
    pub fn step_realtime(&self, by_ms: i64) -> io::Result<()> {
        self.step(ShimmedClock::Realtime, by_ms)
    }

    /// Steps a clock by so many milliseconds, back if negative, from where it is now.
    ///
    /// # Errors
    /// When the offsets file cannot be written.
    pub fn step(&self, clock: ShimmedClock, by_ms: i64) -> io::Result<()> {
        let at = 8 * clock as u64;
        let mut offset_ns = [0; 8];
        self.offsets.read_exact_at(&mut offset_ns, at)?;
        let stepped = i64::from_le_bytes(offset_ns) + by_ms * 1_000_000;
        // Eight aligned bytes in one write: no reader sees half a step.
        self.offsets.write_all_at(&stepped.to_le_bytes(), at)
    }
}

fn compile(library: &Path) -> io::Result<()> {
    let source = library.with_extension("c");
    fs::write(&source, SOURCE)?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(library).arg(&source);
    let missing = |error: io::Error| {
        io::Error::new(error.kind(), format!("cc: {error}: apt-get install gcc libc6-dev"))
    };
    let output = cc.output().map_err(missing)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn library(dir: &Path) -> PathBuf {
    dir.join("clock_shim.so")
}

fn offsets_path(dir: &Path) -> PathBuf {
    dir.join("offsets")
}

/// Carried inside the test binary, so it runs from any directory.
const SOURCE: &str = include_str!("clock_shim.c");
const FILE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::raw_client::RawClient;
    use crate::harness::redis_server::RedisServer;

    fn shimmed_server() -> (ClockShim, RedisServer, RawClient) {
        let shim = ClockShim::new().expect("a shim");
        let server = RedisServer::builder().env(shim.env()).start().expect("a server");
        let client = server.client().expect("a connection");
        (shim, server, client)
    }

    fn server_seconds(client: &mut RawClient) -> i64 {
        client.command(&["TIME"]).expect("a reply").texts()[0].parse().expect("seconds")
    }

    fn pttl_ms(client: &mut RawClient) -> i64 {
        client.command(&["PTTL", "k"]).expect("a reply").integer().expect("a ttl")
    }

    #[test]
    fn a_step_forward_shows_in_time_and_cuts_ttls() {
        let (shim, _server, mut client) = shimmed_server();
        client.command(&["SET", "k", "v", "PX", "30000"]).expect("a reply");
        let before = server_seconds(&mut client);
        shim.step_realtime(20_000).expect("stepped");
        assert!((20..25).contains(&(server_seconds(&mut client) - before)));
        assert!((5_000..=10_000).contains(&pttl_ms(&mut client)));
    }

    #[test]
    fn steps_add_up_and_go_back() {
        let (shim, _server, mut client) = shimmed_server();
        let before = server_seconds(&mut client);
        shim.step_realtime(20_000).expect("stepped");
        shim.step_realtime(-3_620_000).expect("stepped");
        assert!((-3600..-3595).contains(&(server_seconds(&mut client) - before)));
    }

    #[test]
    fn a_server_whose_offsets_are_missing_does_not_start_with_its_true_clock() {
        let shim = ClockShim::new().expect("a shim");
        let [preload, (name, _)] = shim.env();
        let server = RedisServer::builder().env([preload, (name, "/no/such/file".into())]).start();
        assert!(server.expect_err("no clock").to_string().contains("clock shim"));
    }
}
