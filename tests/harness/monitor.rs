//! What a server executes, as its `MONITOR` command reports it.
//!
//! Each line bears the time of the server's clock at which the command was executed. A server writes the lines to its
//! socket later: after a stop it also sends lines of commands that it executed before the stop. So a test judges a line
//! by the time in it, never by the time at which the line arrives.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::harness::{node::Node, polling::found_within, raw_client::RawClient};

/// Reads the lines of one server until the test ends it.
#[derive(Debug)]
pub struct Monitor {
    node: Arc<Node>,
    lines: Arc<Mutex<Vec<Line>>>,
    /// Of the connection that listens.
    client_id: String,
    thread: JoinHandle<()>,
}

/// One command that the server executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The server's clock, in µs.
    pub at: u64,
    /// A script called it, not a client.
    pub by_script: bool,
    /// The command and its arguments. Bytes that are no text are escaped as `MONITOR` does it.
    pub words: Vec<String>,
}

/// One script that the server ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The server's clock when the script began, in µs. Its look at the clock comes at that moment (Redis 7.2 and later,
    /// Valkey) or behind it, and not before: but for the microseconds in which a server of 7.2 and later takes the time
    /// and has not reported the command yet.
    pub began: u64,
    /// The command as the client sent it.
    pub words: Vec<String>,
    /// What the script called.
    pub calls: Vec<Line>,
}

impl Monitor {
    /// Listens to a server. Everything that the server executes after this returns is reported.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn start(node: &Arc<Node>) -> Self {
        let mut client = node.client().expect("a connection");
        let client_id = client.command(&["CLIENT", "ID"]).expect("a reply").integer().expect("an id");
        assert!(client.command(&["MONITOR"]).expect("a reply").is_ok(), "MONITOR was refused");
        client.wait_for_replies(None).expect("a connection without a time limit");
        let lines = Arc::<Mutex<Vec<Line>>>::default();
        let thread = thread::spawn({
            let lines = lines.clone();
            move || listen(&mut client, &lines)
        });
        Self { node: node.clone(), lines, client_id: client_id.to_string(), thread }
    }

    /// Takes all lines of commands that the server has executed so far and that were not taken before. The server must
    /// run. If it has closed the connection (a sentinel makes an old master do so), those until then.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn take(&mut self) -> Vec<Line> {
        let mark = format!("mark-{}", server_micros());
        let is_mark = |line: &Line| line.words.get(1) == Some(&mark);
        self.node.command(&["ECHO", &mark]).expect("a reply");
        let taken = found_within(PATIENCE, || {
            let is_closed = self.thread.is_finished();
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let count = lines.iter().position(is_mark).map(|place| place + 1);
            let count = count.or(is_closed.then_some(lines.len()))?;
            Some(lines.drain(..count).collect())
        });
        taken.unwrap_or_else(|| panic!("MONITOR did not report {mark} within {PATIENCE:?}"))
    }

    /// As [`Self::take`], and closes the connection.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn end(mut self) -> Vec<Line> {
        let lines = self.take();
        self.node.command(&["CLIENT", "KILL", "ID", &self.client_id]).expect("a reply");
        self.thread.join().expect("no panic in the thread that listens");
        lines
    }
}

impl Line {
    /// `<time> [<database> <client or lua>] "<command>" "<argument>" ...`
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (time, rest) = text.split_once(" [")?;
        let (by, command) = rest.split_once("] ")?;
        let (seconds, micros) = time.split_once('.')?;
        let at = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
        Some(Self { at, by_script: by.ends_with("lua"), words: words(command) })
    }

    /// The command in capital letters.
    #[must_use]
    pub fn command(&self) -> String {
        self.words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default()
    }

    /// Whether it is a call of a script that changes a lock.
    #[must_use]
    pub fn is_write_of_a_script(&self) -> bool {
        self.by_script
            && matches!(
                self.command().as_str(),
                "HSET" | "HINCRBY" | "HDEL" | "DEL" | "PEXPIRE" | "PEXPIREAT"
            )
    }
}

/// The scripts in these lines, in the order in which the server ran them. Calls of a script whose beginning is not among
/// the lines are left out.
#[must_use]
pub fn scripts(lines: &[Line]) -> Vec<Script> {
    let mut scripts = Vec::<Script>::new();
    for line in lines {
        match scripts.last_mut() {
            Some(script) if line.by_script => script.calls.push(line.clone()),
            _ if !line.by_script && line.command().starts_with("EVAL") => {
                scripts.push(Script { began: line.at, words: line.words.clone(), calls: Vec::new() });
            }
            _ => {}
        }
    }
    scripts
}

/// The clock of all servers of this machine, in µs.
///
/// # Panics
/// If the clock stands before 1970.
#[must_use]
pub fn server_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(since.as_micros()).expect("a time before the year 500,000")
}

// A quote within an argument is escaped.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut open: Option<String> = None;
    let mut escaped = false;
    for letter in command.chars() {
        match &mut open {
            None if letter == '"' => open = Some(String::new()),
            None => {}
            Some(_) if letter == '"' && !escaped => words.extend(open.take()),
            Some(word) => word.push(letter),
        }
        escaped = letter == '\\' && !escaped;
    }
    words
}

fn listen(client: &mut RawClient, lines: &Mutex<Vec<Line>>) {
    loop {
        match client.read() {
            Ok(value) => {
                let line = value.text().and_then(|text| Line::parse(&text));
                lines.lock().unwrap_or_else(PoisonError::into_inner).extend(line);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::parse(text).expect("a line")
    }

    #[test]
    fn a_line_has_the_servers_time_in_microseconds() {
        let told = line(r#"1795346178.459602 [0 lua] "hset" "k" "u:1" "1""#);
        assert_eq!((told.at, told.by_script), (1_795_346_178_459_602, true));
        assert_eq!(told.words, ["hset", "k", "u:1", "1"]);
        assert!(told.is_write_of_a_script());
        assert!(!line(r#"1.000002 [0 127.0.0.1:1] "pexpire" "k" "2000""#).is_write_of_a_script());
        assert_eq!(Line::parse("OK"), None);
    }

    #[test]
    fn a_quote_within_an_argument_does_not_end_it() {
        let told = line(r#"1.000002 [0 127.0.0.1:1] "set" "a\" \"b" "c\\" "d""#);
        assert_eq!(told.words, ["set", r#"a\" \"b"#, r"c\\", "d"]);
    }

    #[test]
    fn the_calls_behind_a_script_are_its_own() {
        let lines = [
            r#"1.000001 [0 lua] "hset" "of a script" "whose beginning" "was not reported""#,
            r#"1.000002 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "k" "2000" "u:1" "17""#,
            r#"1.000003 [0 lua] "time""#,
            r#"1.000004 [0 127.0.0.1:1] "PING""#,
            r#"1.000005 [0 127.0.0.1:1] "EVALSHA" "cd" "1" "k" "u:1" "redisson_lock__channel:{k}" "publish""#,
        ];
        let scripts = scripts(&lines.map(line));
        let seen: Vec<_> = scripts.iter().map(|script| (script.began, script.calls.len())).collect();
        assert_eq!(seen, [(1_000_002, 1), (1_000_005, 0)]);
    }
}
