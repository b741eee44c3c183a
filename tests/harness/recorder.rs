//! Who believed to hold what, and when: one line per lease, written by each process into a file of its own.
//!
//! All processes of a test run on one machine, so its boot-time clock orders them all and the checks need no search.
//! Lines are buffered: a process that is killed loses its last ones, and a line that was cut off is not read. What is
//! lost can hide a violation, never invent one. A test that kills holders calls [`Recorder::flush`] where it matters.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// The time in which one lease entitled its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The lock's name.
    pub key: String,
    /// Unique for each lease, over all processes.
    pub holder: String,
    /// The process that held it, as its test numbers them.
    pub process: u32,
    /// The fencing token.
    pub token: i64,
    /// When the lease was returned to its caller, on [`boot_ns`].
    pub from_ns: u64,
    /// When it ended: the earliest of its deadline, the call of release, and its loss.
    pub until_ns: u64,
}

/// Nanoseconds of CLOCK_BOOTTIME, the one clock of all processes.
///
/// It is read without libc, so a clock shim in front of libc does not move it.
pub fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanos
}

/// Writes the windows of one process.
#[derive(Debug)]
pub struct Recorder {
    lines: BufWriter<File>,
}

impl Recorder {
    /// Makes the file `<process>.windows` in a directory that [`read_windows`] is later given.
    ///
    /// # Errors
    /// When the file exists (two processes must not share one) or cannot be made.
    pub fn create(dir: &Path, process: u32) -> io::Result<Self> {
        let file = File::create_new(dir.join(format!("{process}.{EXTENSION}")))?;
        Ok(Self { lines: BufWriter::with_capacity(BUFFER_BYTES, file) })
    }

    /// Adds one window.
    ///
    /// # Errors
    /// When the disk is full, or a name holds a tab or a line end.
    pub fn record(&mut self, window: &Window) -> io::Result<()> {
        let Window { key, holder, process, token, from_ns, until_ns } = window;
        if [key, holder].iter().any(|name| name.contains(['\t', '\n'])) {
            return Err(io::Error::other(format!("a tab or line end in a name: {window:?}")));
        }
        writeln!(self.lines, "{key}\t{holder}\t{process}\t{token}\t{from_ns}\t{until_ns}")
    }

    /// Writes out what is buffered. Dropping the recorder does so, too, but hides the error.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }
}

/// The windows of all files that recorders have left in a directory.
///
/// # Errors
/// When a file cannot be read, or a complete line is no window.
pub fn read_windows(dir: &Path) -> io::Result<Vec<Window>> {
    let mut windows = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(EXTENSION)) {
            windows.extend(parsed(&fs::read_to_string(&path)?)?);
        }
    }
    Ok(windows)
}

fn parsed(lines: &str) -> io::Result<Vec<Window>> {
    // What stands behind the last line end is a line that its process did not live to finish.
    let complete = lines.rfind('\n').map_or("", |end| &lines[..end]);
    complete
        .lines()
        .map(|line| window(line).ok_or_else(|| io::Error::other(format!("no window: {line:?}"))))
        .collect()
}

fn window(line: &str) -> Option<Window> {
    let mut columns = line.split('\t');
    let window = Window {
        key: columns.next()?.to_owned(),
        holder: columns.next()?.to_owned(),
        process: columns.next()?.parse().ok()?,
        token: columns.next()?.parse().ok()?,
        from_ns: columns.next()?.parse().ok()?,
        until_ns: columns.next()?.parse().ok()?,
    };
    columns.next().is_none().then_some(window)
}

const EXTENSION: &str = "windows";
const BUFFER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn window_of(process: u32) -> Window {
        let (key, holder) = ("orders: 42".to_owned(), format!("lease-{process}"));
        Window { key, holder, process, token: -1, from_ns: 1, until_ns: u64::MAX }
    }

    #[test]
    fn what_several_processes_wrote_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        for process in [1, 2] {
            let mut recorder = Recorder::create(dir.path(), process).expect("a file");
            recorder.record(&window_of(process)).expect("written");
        }
        let mut windows = read_windows(dir.path()).expect("windows");
        windows.sort_by_key(|window| window.process);
        assert_eq!(windows, [window_of(1), window_of(2)]);
    }

    #[test]
    fn a_line_cut_off_by_a_kill_is_left_out_and_a_wrong_line_is_an_error() {
        let whole = "k\th\t1\t2\t3\t4\n";
        assert_eq!(parsed(&format!("{whole}k\th\t1\t2\t3\t")).expect("one window").len(), 1);
        assert_eq!(parsed("k\th").expect("no window").len(), 0);
        assert!(parsed("k\th\t1\n").is_err());
    }

    #[test]
    fn one_file_per_process_and_no_tab_in_a_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut recorder = Recorder::create(dir.path(), 1).expect("a file");
        assert!(Recorder::create(dir.path(), 1).is_err());
        assert!(recorder.record(&Window { key: "a\tb".into(), ..window_of(1) }).is_err());
    }

    #[test]
    fn the_clock_runs_forward() {
        let first = boot_ns();
        assert!(first > 0 && boot_ns() >= first);
    }
}
