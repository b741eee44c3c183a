//! What has passed: every request in order, and how often each command was seen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A request as the proxy read it from a client, whatever a rule did to it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// When it was complete.
    pub at: Instant,
    /// The connection, counted from 1 in the order of accepting.
    pub connection: u64,
    /// The name that the client had given itself by then, with `CLIENT SETNAME` or `HELLO ... SETNAME`.
    pub client: Option<String>,
    /// The command and its arguments.
    pub arguments: Vec<Vec<u8>>,
}

impl SeenRequest {
    /// The command's name in capitals.
    pub fn command(&self) -> String {
        command_of(&self.arguments)
    }
}

#[derive(Debug, Default)]
pub(super) struct Traffic {
    seen: Mutex<Seen>,
    /// By connection; not forgotten by [`Traffic::clear`], because nobody says it again.
    names: Mutex<BTreeMap<u64, String>>,
}

#[derive(Debug, Default)]
struct Seen {
    commands: BTreeMap<String, u64>,
    requests: VecDeque<SeenRequest>,
    counts_by_client: BTreeMap<Option<String>, BTreeMap<String, u64>>,
}

impl Traffic {
    pub(super) fn note(&self, connection: u64, arguments: &[Vec<u8>]) {
        let client = self.name_of(connection, arguments);
        let command = command_of(arguments);
        let mut seen = self.locked();
        *seen.commands.entry(command.clone()).or_default() += 1;
        *seen.counts_by_client.entry(client.clone()).or_default().entry(command).or_default() += 1;
        let request = SeenRequest { at: Instant::now(), connection, client, arguments: arguments.to_vec() };
        if seen.requests.len() == REQUESTS_MAX {
            seen.requests.pop_front();
        }
        seen.requests.push_back(request);
    }

    pub(super) fn commands(&self) -> BTreeMap<String, u64> {
        self.locked().commands.clone()
    }

    pub(super) fn requests_that(&self, fits: impl Fn(&SeenRequest) -> bool) -> Vec<SeenRequest> {
        self.locked().requests.iter().filter(|request| fits(request)).cloned().collect()
    }

    pub(super) fn commands_of(&self, client: Option<&str>) -> BTreeMap<String, u64> {
        self.locked().counts_by_client.get(&client.map(str::to_owned)).cloned().unwrap_or_default()
    }

    pub(super) fn commands_by_client(&self) -> BTreeMap<Option<String>, BTreeMap<String, u64>> {
        self.locked().counts_by_client.clone()
    }

    /// The request that gives a name counts as the named client's own.
    fn name_of(&self, connection: u64, arguments: &[Vec<u8>]) -> Option<String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = name_given(arguments) {
            names.insert(connection, name);
        }
        names.get(&connection).cloned()
    }

    pub(super) fn clear(&self) {
        *self.locked() = Seen::default();
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn command_of(arguments: &[Vec<u8>]) -> String {
    arguments.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap_or_default()
}

/// `CLIENT SETNAME <name>`, or `HELLO <protocol> [AUTH <user> <password>] SETNAME <name>`.
fn name_given(arguments: &[Vec<u8>]) -> Option<String> {
    let at_place = match command_of(arguments).as_str() {
        "CLIENT" => 1..2,
        "HELLO" => 2..arguments.len(),
        _ => return None,
    };
    let at = at_place
        .into_iter()
        .find(|at| arguments.get(*at).is_some_and(|word| word.eq_ignore_ascii_case(b"SETNAME")))?;
    Some(String::from_utf8_lossy(arguments.get(at + 1)?).into_owned())
}

/// The oldest go first, so a run of hours cannot fill the memory. The counts by command stay exact.
pub(super) const REQUESTS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_the_counts_are_not() {
        let traffic = Traffic::default();
        for number in 0..=REQUESTS_MAX {
            traffic.note(1, &[b"ping".to_vec(), number.to_string().into_bytes()]);
        }
        let requests = traffic.requests_that(|_| true);
        assert_eq!((requests.len(), requests[0].arguments[1].as_slice()), (REQUESTS_MAX, b"1".as_slice()));
        assert_eq!(traffic.commands(), BTreeMap::from([("PING".into(), REQUESTS_MAX as u64 + 1)]));
        traffic.clear();
        assert!(traffic.requests_that(|_| true).is_empty() && traffic.commands().is_empty());
    }

    #[test]
    fn requests_are_counted_by_the_names_that_clients_give_themselves() {
        let traffic = Traffic::default();
        let words = |text: &str| text.split(' ').map(Vec::from).collect::<Vec<Vec<u8>>>();
        traffic.note(1, &words("HELLO 3 AUTH default pw SETNAME ours"));
        traffic.note(2, &words("client setname sentinel-1-cmd"));
        for (connection, command) in [(1, "PING"), (2, "INFO"), (3, "PING"), (1, "PING")] {
            traffic.note(connection, &words(command));
        }
        let counts = BTreeMap::from([("HELLO".to_owned(), 1), ("PING".to_owned(), 2)]);
        assert_eq!(traffic.commands_of(Some("ours")), counts);
        assert_eq!(traffic.commands_of(None), BTreeMap::from([("PING".to_owned(), 1)]));
        assert_eq!(traffic.commands_by_client().len(), 3);
        traffic.clear();
        traffic.note(1, &words("PING"));
        assert_eq!(traffic.requests_that(|_| true)[0].client.as_deref(), Some("ours"));
    }
}
