//! What a contender is told to do.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The command line.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The servers, as any of the URLs of a `RedisConfig`.
    pub url: String,
    /// Its number, and that of its first engine.
    pub process: u32,
    /// Engines in this process; each counts as a process of its own.
    pub engines: u32,
    /// Tasks of each engine.
    pub tasks: u32,
    /// Locks, named prefix and number.
    pub keys: u32,
    /// Before the number.
    pub prefix: String,
    /// For how long it asks.
    pub time: Duration,
    /// For how long a task holds, picked anew each time.
    pub hold: RangeInclusive<u64>,
    /// The locks' ttl.
    pub ttl: Duration,
    /// Leases are not renewed.
    pub no_renewal: bool,
    /// A task holds until its lease is over, whatever `hold` says.
    pub stay: bool,
    /// The locks are fair ones.
    pub fair: bool,
    /// Where its windows are written.
    pub windows: PathBuf,
    /// Says `granted NAME` and `over NAME` for each lease.
    pub announce: bool,
    /// Of its random choices.
    pub seed: u64,
}

impl Arguments {
    /// Reads pairs of a flag and its value.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--no-renewal" => arguments.no_renewal = true,
                "--stay" => arguments.stay = true,
                "--fair" => arguments.fair = true,
                "--announce" => arguments.announce = true,
                _ => {
                    let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
                    arguments.set(&flag, value)?;
                }
            }
        }
        match arguments.url.is_empty() || arguments.windows.as_os_str().is_empty() {
            true => Err("--url and --windows are needed".into()),
            false => Ok(arguments),
        }
    }

    fn set(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "--url" => self.url = value,
            "--windows" => self.windows = value.into(),
            "--prefix" => self.prefix = value,
            "--process" => self.process = number(flag, &value)?,
            "--engines" => self.engines = number(flag, &value)?,
            "--tasks" => self.tasks = number(flag, &value)?,
            "--keys" => self.keys = number(flag, &value)?,
            "--seed" => self.seed = number(flag, &value)?,
            "--run-ms" => self.time = Duration::from_millis(number(flag, &value)?),
            "--ttl-ms" => self.ttl = Duration::from_millis(number(flag, &value)?),
            "--hold-us" => {
                let (from, to) = value.split_once("..").ok_or("--hold-us takes FROM..TO")?;
                self.hold = number(flag, from)?..=number(flag, to)?;
            }
            _ => return Err(format!("unknown flag {flag}")),
        }
        Ok(())
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            url: String::new(),
            process: 0,
            engines: 1,
            tasks: 1,
            keys: 1,
            prefix: "contended-".into(),
            time: Duration::from_secs(1),
            hold: 0..=2_000,
            ttl: Duration::from_secs(30),
            no_renewal: false,
            stay: false,
            fair: false,
            windows: PathBuf::new(),
            announce: false,
            seed: 0,
        }
    }
}

fn number<N: FromStr>(flag: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{flag} takes a number, not {value:?}"))
}

/// For who calls it by hand.
pub const USAGE: &str = "contender --url redis[-sentinel|-cluster]://HOST:PORT... --windows DIR [--process N] [--engines N] [--tasks N] \
[--keys N] [--prefix P] [--run-ms N] [--hold-us FROM..TO] [--ttl-ms N] [--no-renewal] [--stay] [--fair] [--announce] [--seed N]";
