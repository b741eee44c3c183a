//! The command line. Not `Debug`: a URL may have a password.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::{
    duration,
    endpoints::Address,
    kind::{Acquired, Inspected},
    place::Named,
};

/// Distributed locks on Redis and Valkey, compatible with Redisson: runs commands under a lock, shows who holds locks,
/// lists and releases them, and checks the servers.
#[derive(Parser)]
#[command(name = "leasehold", version, after_help = AFTER_HELP)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    servers: Servers,

    /// Prints JSON, one document a line: results to stdout, events and errors to stderr. `completions`, `man`, `--help` and
    /// `--version` print text in any case.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args)]
struct Servers {
    /// The configuration: `leasehold.toml`, or the YAML or JSON file of a Redisson client. Environment: LEASEHOLD_CONFIG,
    /// or without a file LEASEHOLD_REDIS__ADDRESSES.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The servers: redis://HOST:PORT/DATABASE, redis-sentinel://HOST:PORT?sentinelServiceName=NAME&node=HOST:PORT or
    /// redis-cluster://HOST:PORT?node=HOST:PORT; rediss for TLS. Every user of the machine can see it with `ps`, so give a
    /// password in the environment or in a file. Environment: LEASEHOLD_URL.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
}

impl Arguments {
    /// What names the servers.
    pub(crate) fn take_servers(&mut self) -> Named {
        Named { config: self.servers.config.take(), url: self.servers.url.take() }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Inspect(Inspect),
    Who(Who),
    List(List),
    Top(Top),
    Watch(Watch),
    Release(Release),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
    #[command(hide = true)]
    Guard,
    #[command(hide = true)]
    Foreground {
        group: i32,
    },
}

/// Runs a command while it holds a lock.
///
/// The exit code is that of the command. If the lease is lost, or nearly, the command gets SIGTERM, and SIGKILL
/// before the lease's deadline; the exit code is then 79. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are
/// passed on to the command, and the lock is released once it has ended. The command finds LEASEHOLD_NAME,
/// LEASEHOLD_TOKEN (the fencing token; permits have none) and LEASEHOLD_DEADLINE (unix time in ms, at the start) in its
/// environment.
#[derive(Args)]
#[command(after_help = "Exit codes: see `leasehold --help`.")]
pub(crate) struct Run {
    /// The name of the lock, without the name_prefix of the configuration.
    pub(crate) name: String,

    /// The kind of the lock.
    #[arg(long, value_enum, default_value_t = Acquired::Exclusive)]
    pub(crate) kind: Acquired,

    /// How long to wait for the lock. 0: try once. Default: `wait_ms` of the configuration, else no limit.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,

    /// How long the server keeps the lock unless it is renewed. Default: ttl_ms of the configuration, 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,

    /// How long the command has between SIGTERM and SIGKILL if the lease is lost. At most a third of the ttl.
    /// Default: a sixth of the ttl, at most 10s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,

    /// The exit code if the lock was not acquired in time.
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = crate::exit::NO)]
    pub(crate) conflict_exit_code: u8,

    /// Tries once, and ends with code 0 if the lock is held: for a job that several hosts start at the same time. Short
    /// for `--wait 0 --conflict-exit-code 0`. See --at-least.
    #[arg(long, conflicts_with_all = ["wait", "conflict_exit_code"])]
    pub(crate) once: bool,

    /// Keeps the lock for at least this time, counted from its start, also if the command ends before. So a host whose
    /// clock is late does not run a short job again.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) at_least: Option<Duration>,

    /// `--kind permits`: how many permits to take. Default: 1.
    #[arg(long, value_name = "PERMITS", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) count: Option<u32>,

    /// `--kind permits`: the number of permits, set if it was never set. Otherwise it is ignored, with a warning if it
    /// differs.
    #[arg(long, value_name = "PERMITS", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub(crate) limit: Option<u32>,

    /// Also tells when the lock is acquired and when it is released.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// The command and its arguments, behind `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Shows who holds a lock, for how long, and who waits in its line.
#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) lock: Lock,
}

#[derive(Args)]
pub(crate) struct Lock {
    /// The name of the lock, without the name_prefix of the configuration.
    pub(crate) name: String,

    /// The kind of the lock.
    #[arg(long, value_enum, default_value_t = Inspected::Auto)]
    pub(crate) kind: Inspected,
}

/// Shows which clients hold a lock or wait in its line, with their connections.
///
/// An engine of Leasehold puts its client id into the names of its connections, so `CLIENT LIST` of the servers shows
/// its address: that of a proxy, if there is one between. Redisson does not, so only the id of a Java client can be
/// shown.
#[derive(Args)]
#[command(group(ArgGroup::new("whose").required(true).args(["name", "owner"])))]
pub(crate) struct Who {
    /// The name of the lock, without the name_prefix of the configuration.
    pub(crate) name: Option<String>,

    /// The kind of the lock.
    #[arg(long, value_enum, default_value_t = Inspected::Auto, conflicts_with = "owner")]
    pub(crate) kind: Inspected,

    /// An owner, or the client id before its colon, as a log line or a field of a lock's hash has it: shows the
    /// connections of that client, whatever it holds.
    #[arg(long, value_name = "OWNER", value_parser = owner)]
    pub(crate) owner: Option<String>,
}

fn owner(text: &str) -> Result<String, &'static str> {
    let is_id = !text.is_empty() && !text.contains(char::is_whitespace);
    if is_id { Ok(text.to_owned()) } else { Err("give an owner or a client id, without spaces") }
}

/// Prints each change of the holders of a lock, until it is ended.
///
/// It looks at the lock at an interval, so a hold that is shorter than the interval may be missed.
#[derive(Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) lock: Lock,

    /// How often to look.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Duration,

    /// Ends with code 0 as soon as the lock is free, or held.
    #[arg(long, value_enum)]
    pub(crate) until: Option<Until>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Until {
    Free,
    Held,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    if interval < INTERVAL_MIN { Err("must be at least 100ms".to_owned()) } else { Ok(interval) }
}

/// Prints the completions for a shell.
#[derive(Args)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the man page.
#[derive(Args)]
pub(crate) struct Man {
    /// Writes the pages of all commands into this folder instead, which is made if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

/// Lists the locks that are held, by a scan of every master.
///
/// A lock is a hash in which each field names an owner, a UUID and a number, as Leasehold and Redisson write it. Permits,
/// semaphores and latches are not listed. The list is not of one moment: a lock that is taken or released during the scan may be
/// missing.
#[derive(Args)]
pub(crate) struct List {
    /// Which names, without the name_prefix of the configuration: `*` stands for any text, `?` for any character.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// At most how many keys a second a server looks at.
    #[arg(long, value_name = "KEYS", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,

    /// Ends after this many locks.
    #[arg(long, value_name = "LOCKS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// Shows the locks with the most waiters, again and again, until it is ended.
///
/// With --metrics it asks processes how long their callers waited for each lock in the last one to two minutes, and no
/// server. Otherwise it looks as `list` does, so the keys are scanned at each look. A process whose callers wait for a lock listens to its
/// channel: the listeners are the processes that wait, each once, and those whose last wait ended less than five seconds
/// ago. Callers of a spin lock do not listen. Permits, semaphores and latches are not shown.
#[derive(Args)]
pub(crate) struct Top {
    /// Which names, without the name_prefix of the configuration: `*` stands for any text, `?` for any character.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// At most how many locks to show.
    #[arg(long, value_name = "LOCKS", default_value_t = 20, value_parser = locks)]
    pub(crate) limit: usize,

    /// The pause between two looks.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Duration,

    /// At most how many keys a second a server looks at.
    #[arg(long, value_name = "KEYS", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,

    /// Looks once.
    #[arg(long)]
    pub(crate) once: bool,

    /// Where a process exports its metrics, for example http://10.0.0.7:9464/metrics; may be repeated. Only http, not
    /// https. The waits of all processes are added by the name of the lock, without the name_prefix. Each process names
    /// its ten hottest locks, if its settings have hot_lock_names = true.
    #[arg(long, value_name = "URL", conflicts_with = "rate")]
    pub(crate) metrics: Vec<Address>,
}

fn locks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(locks @ 1..=10_000) => Ok(locks),
        _ => Err("must be a number from 1 to 10000".to_owned()),
    }
}

/// Takes a lock away from its holder.
///
/// The holder is not asked. A holder that still runs goes on until its next renewal, at most a third of its ttl, while
/// others can have the lock: two may work at once. So end the holder first. Exit code 1: nothing was released.
#[derive(Args)]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) lock: Lock,

    /// Required: the present holder loses the lock.
    #[arg(long)]
    pub(crate) force: bool,

    /// Does not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Checks the servers and the settings for what may cost a lock. Exit code 1: something is to be changed.
#[derive(Args)]
pub(crate) struct Doctor {
    /// The least level of findings for exit code 1.
    #[arg(long, value_enum, default_value_t = Level::Error)]
    pub(crate) fail_on: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// With the present setup locks do not work, or are lost.
    Error,
    /// Something may fail one day, or could not be checked.
    Warn,
}

const INTERVAL_MIN: Duration = Duration::from_millis(100);

const AFTER_HELP: &str = "\
Exit codes:
    0  success
    1  run: the lock was not acquired in time (--conflict-exit-code); release: nothing was released; doctor: findings
   64  the arguments cannot be used
   65  the key holds a value that is no lock
   74  the output cannot be written
   75  no server answered in time; the command can be repeated. list, top, who: incomplete, a master could not be asked
   76  the answer of a server makes no sense
   77  a server refuses the user: a wrong password, or a missing right
   78  the configuration cannot be used
   79  run: the lease was lost, or nearly, and the command was stopped
  126  run: the command cannot be started
  127  run: the command was not found
Otherwise `run` ends with the exit code of its command: 128 and the number of the signal, if a signal ended it.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
