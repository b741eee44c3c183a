//! A server process of a test: started by name, ended by process id, gone with the test whatever happens to it.
//!
//! Two belts. Dropping the [`ServerProcess`] kills and reaps it. And the kernel kills it when the test runner
//! dies without dropping anything (`setpriv --pdeathsig KILL`). That signal is bound to the *thread* that started the
//! child, not to its process, so one thread that lives as long as the process starts them all: a server started from
//! a pool's worker would otherwise die when the pool shrinks.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::polling::{found_within, holds_within};

/// What to start.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// A program on the `PATH`, or a path to one.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables set for it besides those of the test.
    pub env: Vec<(OsString, OsString)>,
    /// Where its output goes; made anew.
    pub log: PathBuf,
    /// How to get the program when it is missing: a command, for the error message.
    pub remedy: String,
}

/// A running, stopped or dead process that belongs to this test.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Starts it. It may not be ready to serve yet.
    ///
    /// # Errors
    /// When the program is missing, with the command that installs it, or cannot be started.
    pub fn start(command: &ServerCommand) -> io::Result<Self> {
        let program = installed(&command.program, &command.remedy)?;
        let setpriv = installed(Path::new("setpriv"), "apt-get install util-linux")?;
        let log = File::create(&command.log)?;
        let mut bound = Command::new(setpriv);
        bound.args(["--pdeathsig", "KILL", "/bin/sh", "-c", EXEC_UNLESS_ORPHANED]);
        bound.arg(process::id().to_string()).arg(program).args(&command.arguments);
        bound.envs(command.env.iter().cloned());
        bound.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { child: spawned_for_life(bound)? })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// SIGKILL, and waits until it is gone. A process that is gone already is no error.
    ///
    /// # Errors
    /// When the signal is refused.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// SIGSTOP: it keeps its sockets and answers nobody. Returns when it has stopped.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        self.wait_until_stopped()
    }

    /// SIGCONT: it goes on where it stopped.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cont(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM, and waits for the end: a server saves what it saves at an orderly end.
    ///
    /// # Errors
    /// When the process is gone, is stopped and so does not end in time, or ended in another way.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        // A stopped process takes the signal only when it goes on, so the wait needs a bound.
        let status = found_within(ORDERLY_END_TAKES_AT_MOST, || self.ended().transpose());
        let status = status.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
        match status.success() || status.signal() == Some(Signal::TERM.as_raw()) {
            true => Ok(()),
            false => Err(io::Error::other(format!("an orderly end was asked for, but: {status}"))),
        }
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Only we reap it, so as long as it has not ended here its id cannot have become somebody else's.
        match self.ended()? {
            Some(status) => Err(io::Error::other(format!("the process has ended: {status}"))),
            None => Ok(kill_process(Pid::from_child(&self.child), signal)?),
        }
    }

    /// The signal is delivered a little later than `kill` returns, and a test must not measure from before that.
    fn wait_until_stopped(&self) -> io::Result<()> {
        let stat = format!("/proc/{}/stat", self.pid());
        // The state letter stands behind the program's name, which may hold anything but ends with `)`.
        let stopped = || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "));
        match holds_within(STOP_TAKES_AT_MOST, stopped) {
            true => Ok(()),
            false => Err(io::Error::other("the process did not stop")),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nobody is left to hear of an error, and a process that is gone is what was wanted.
        let _ = self.kill();
    }
}

/// The program's place, or an error that says how to get it. A test without its server fails; it never passes.
fn installed(program: &Path, remedy: &str) -> io::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/bin".into(), "/usr/sbin".into()]);
    // Joining an absolute path gives that path.
    places.map(|place| place.join(program)).find(|place| place.is_file()).ok_or_else(|| {
        let name = program.display();
        io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed: {remedy}"))
    })
}

/// Starts it from the thread that ends last.
fn spawned_for_life(command: Command) -> io::Result<Child> {
    static PARENT: OnceLock<mpsc::Sender<Birth>> = OnceLock::new();
    let (started, child) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts servers is gone");
    PARENT.get_or_init(parent_thread).send((command, started)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

type Birth = (Command, mpsc::Sender<io::Result<Child>>);

fn parent_thread() -> mpsc::Sender<Birth> {
    let (asks, births) = mpsc::channel::<Birth>();
    thread::spawn(move || {
        for (mut command, started) in births {
            // A test that no longer waits leaves the child unowned; dropping the answer must not lose it.
            if let Err(mpsc::SendError(Ok(mut orphan))) = started.send(command.spawn()) {
                let _ = orphan.kill().and_then(|()| orphan.wait());
            }
        }
    });
    asks
}

/// A runner that is killed before `setpriv` has asked for the signal would never cause it (seen in 6 of 100 runs on a
/// busy machine). So once it is asked for, the child looks whether its parent is still the one that started it.
const EXEC_UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

const STOP_TAKES_AT_MOST: Duration = Duration::from_secs(5);
const ORDERLY_END_TAKES_AT_MOST: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path) -> ServerCommand {
        ServerCommand {
            program: "sleep".into(),
            arguments: vec!["60".into()],
            env: Vec::new(),
            log: dir.join("log"),
            remedy: "apt-get install coreutils".into(),
        }
    }

    /// A zombie is dead: whose parent was killed waits for init to reap it.
    fn is_alive(pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_missing_program_is_an_error_that_says_how_to_install_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (program, remedy) = ("no-such-server".into(), "apt-get install some-server".into());
        let missing = ServerCommand { program, remedy, ..sleeper(dir.path()) };
        let error = ServerProcess::start(&missing).expect_err("it is missing");
        assert_eq!(error.to_string(), "no-such-server is not installed: apt-get install some-server");
    }

    #[test]
    fn dropping_it_leaves_no_process_not_even_a_stopped_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = ServerProcess::start(&sleeper(dir.path())).expect("started");
        let pid = process.pid();
        process.stop().expect("stopped");
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[test]
    fn it_outlives_the_thread_that_asked_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let command = sleeper(dir.path());
        let mut process =
            thread::spawn(move || ServerProcess::start(&command)).join().expect("joined").expect("started");
        let died = holds_within(Duration::from_millis(100), || process.ended().expect("known").is_some());
        assert!(!died);
    }

    /// The test starts itself again as the runner that will be killed.
    #[test]
    fn it_dies_with_a_test_runner_that_is_killed() {
        if let Some(note) = env::var_os(RUNNER_NOTE) {
            run_until_killed(Path::new(&note));
        }
        let dir = tempfile::tempdir().expect("a directory");
        let note = dir.path().join("pid");
        let mut runner = ServerProcess::start(&runner(dir.path(), &note)).expect("a runner");
        let noted = || fs::read_to_string(&note).ok()?.strip_suffix('\n')?.parse().ok();
        let pid = found_within(Duration::from_secs(10), noted).expect("a server of the runner");
        assert!(is_alive(pid));
        runner.kill().expect("killed");
        assert!(holds_within(Duration::from_secs(5), || !is_alive(pid)));
    }

    fn runner(dir: &Path, note: &Path) -> ServerCommand {
        ServerCommand {
            program: env::current_exe().expect("this program"),
            arguments: vec!["it_dies_with_a_test_runner_that_is_killed".into()],
            env: vec![(RUNNER_NOTE.into(), note.into())],
            ..sleeper(dir)
        }
    }

    fn run_until_killed(note: &Path) -> ! {
        let dir = tempfile::tempdir_in(note.parent().expect("a directory")).expect("a directory");
        let server = ServerProcess::start(&sleeper(dir.path())).expect("started");
        fs::write(note, format!("{}\n", server.pid())).expect("noted");
        loop {
            thread::park();
        }
    }

    const RUNNER_NOTE: &str = "LEASEHOLD_TEST_RUNNER_NOTE";

    #[test]
    fn a_process_that_has_ended_takes_no_signal() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut process = ServerProcess::start(&sleeper(dir.path())).expect("started");
        process.terminate().expect("terminated");
        assert!(process.stop().is_err());
        process.kill().expect("killing the dead is no error");
    }
}
