//! What a server executes, as `MONITOR` tells it, also right after it was woken.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold_tests::harness::{node::Node, raw_client::RawClient};

/// Listens until it is ended, or the server closes the connection.
pub(crate) struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What was executed of ours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executed {
    pub(crate) acquires: usize,
    pub(crate) renewals: usize,
    pub(crate) releases: usize,
    /// What the scripts have set or prolonged.
    pub(crate) writes: usize,
}

impl Monitor {
    pub(crate) fn start(node: &Node) -> Self {
        let mut client = node.client().expect("a connection");
        assert!(client.command(&["MONITOR"]).expect("a reply").is_ok());
        client.wait_for_replies(Some(LOOK)).expect("a timeout");
        let (lines, over) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let thread = thread::spawn({
            let (lines, over) = (lines.clone(), over.clone());
            move || listen(&mut client, &lines, &over)
        });
        Self { lines, over, thread }
    }

    /// Forgets what it has heard.
    pub(crate) fn clear(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What was executed since it was cleared.
    pub(crate) fn end(self) -> Executed {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().expect("no panic");
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut executed = Executed::default();
        lines.iter().for_each(|line| executed.add(line));
        executed
    }
}

impl Executed {
    /// `<time> [<database> <client or lua>] "<command>" "<argument>" ...`
    fn add(&mut self, line: &str) {
        let Some((by, command)) = line.split_once("] ") else { return };
        let words: Vec<&str> = command.trim_matches('"').split("\" \"").collect();
        match words.as_slice() {
            ["hset" | "hincrby" | "pexpire", ..] if by.ends_with("lua") => self.writes += 1,
            ["EVALSHA" | "EVAL" | "evalsha" | "eval", ..] => *self.count_of(&words) += 1,
            _ => {}
        }
    }

    // A release names a channel, an acquire ends with a time, a renewal with what is packed.
    fn count_of(&mut self, words: &[&str]) -> &mut usize {
        if words.iter().any(|word| word.starts_with("redisson_lock__channel:")) {
            &mut self.releases
        } else if words.last().is_some_and(|word| word.parse::<u64>().is_ok()) {
            &mut self.acquires
        } else {
            &mut self.renewals
        }
    }
}

fn listen(client: &mut RawClient, lines: &Mutex<Vec<String>>, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        match client.read() {
            Ok(line) => lines.lock().unwrap_or_else(PoisonError::into_inner).extend(line.text()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_write_is_told_from_what_they_are_asked() {
        let mut executed = Executed::default();
        for line in [
            r#"1.2 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "k" "2000" "u:1" "17""#,
            r#"1.2 [0 lua] "time""#,
            r#"1.2 [0 lua] "hset" "k" "u:1" "1""#,
            r#"1.2 [0 127.0.0.1:1] "EVALSHA" "ab" "0" "17" "2000" "u:" "\x92\xa1k\x01""#,
            r#"1.2 [0 lua] "pexpire" "k" "2000""#,
            r#"1.2 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "k" "u:1" "redisson_lock__channel:{k}" "publish""#,
            r#"1.2 [0 127.0.0.1:1] "pexpire" "k" "2000""#,
        ] {
            executed.add(line);
        }
        let Executed { acquires, renewals, releases, writes } = executed;
        assert_eq!((acquires, renewals, releases, writes), (1, 1, 1, 2));
    }
}
