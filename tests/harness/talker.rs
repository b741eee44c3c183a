//! A program that is told what to do on stdin and says on stdout what happened, line by line.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The program. Dropping it kills and reaps it.
///
/// Its stdin ends with this process, so a program that ends with its stdin outlives no test.
#[derive(Debug)]
pub struct Talker {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    heard: Arc<Heard>,
    name: String,
}

/// What it has said.
#[derive(Debug, Default)]
struct Heard {
    told: Mutex<Told>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    lines: Vec<String>,
    ended: bool,
}

impl Talker {
    /// Starts it; its stderr is the test's.
    ///
    /// # Errors
    /// When the program is not there or cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let heard = Arc::new(Heard::default());
        if let Some(stdout) = stdout {
            let heard = heard.clone();
            thread::spawn(move || heard.listen(stdout));
        }
        Ok(Self { child, stdin: Mutex::new(stdin), heard, name })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line.
    ///
    /// # Errors
    /// When it has ended or stdin was closed.
    pub fn say(&self, line: &str) -> io::Result<()> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{line}\n").as_bytes())?;
        stdin.flush()
    }

    /// Ends its stdin.
    pub fn hang_up(&mut self) {
        *self.stdin.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The first line ever said that fits; waits for it.
    ///
    /// # Errors
    /// When it has not come within that time, or the program ended without it. The error has the last lines said.
    pub fn line(&self, within: Duration, fits: impl Fn(&str) -> bool) -> io::Result<String> {
        self.nth_line(1, within, fits)
    }

    /// The `nth` line ever said that fits, counted from 1; waits for it.
    ///
    /// # Errors
    /// As [`Self::line`].
    pub fn nth_line(&self, nth: usize, within: Duration, fits: impl Fn(&str) -> bool) -> io::Result<String> {
        let deadline = Instant::now() + within;
        let mut told = self.heard.lock();
        loop {
            if let Some(line) = told.lines.iter().filter(|line| fits(line)).nth(nth - 1) {
                return Ok(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if told.ended || left.is_zero() {
                return Err(self.silence(&told));
            }
            told = self.heard.news.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether some line fits by now.
    pub fn has_said(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.heard.lock().lines.iter().any(|line| fits(line))
    }

    /// The last line, once it has ended by itself.
    ///
    /// # Errors
    /// When it still runs after that time, or has said nothing.
    pub fn last_words(&self, within: Duration) -> io::Result<String> {
        let deadline = Instant::now() + within;
        let mut told = self.heard.lock();
        while !told.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.silence(&told));
            }
            told = self.heard.news.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        told.lines.last().cloned().ok_or_else(|| self.silence(&told))
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cont(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }

    fn silence(&self, told: &Told) -> io::Error {
        let last = &told.lines[told.lines.len().saturating_sub(LAST_LINES)..];
        let state = if told.ended { "has ended" } else { "still runs" };
        io::Error::new(io::ErrorKind::TimedOut, format!("{} {state}; its last lines: {last:#?}", self.name))
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // It may have ended by itself; what matters is that it is reaped.
        let _ = self.kill();
    }
}

impl Heard {
    fn listen(&self, stdout: ChildStdout) {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            self.lock().lines.push(line);
            self.news.notify_all();
        }
        self.lock().ended = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const LAST_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn it_is_told_and_it_answers_until_it_is_hung_up_on() {
        let mut echo = Talker::start(&mut Command::new("cat")).expect("cat");
        for line in ["one", "two", "one"] {
            echo.say(line).expect("it reads");
        }
        assert_eq!(echo.nth_line(2, SOON, |line| line == "one").expect("a line"), "one");
        assert!(echo.has_said(|line| line == "two") && !echo.has_said(|line| line == "three"));
        assert!(echo.line(Duration::ZERO, |line| line == "three").is_err());
        echo.hang_up();
        assert!(echo.say("four").is_err());
        assert_eq!(echo.last_words(SOON).expect("the last line"), "one");
    }

    #[test]
    fn one_that_ends_without_the_line_is_not_waited_for() {
        let silent = Talker::start(&mut Command::new("true")).expect("true");
        let begun = Instant::now();
        assert!(silent.line(Duration::from_secs(60), |_| true).is_err());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
