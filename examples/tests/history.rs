//! What fleets wrote down with `--log`, read and put together: windows for the judges, and losses.

use std::{collections::HashMap, fs, path::Path};

use leasehold_tests::harness::recorder::Window;
use serde_json::Value;

/// The logs of some processes, numbered in the order in which they were given.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) windows: Vec<Window>,
    pub(crate) lost: Vec<Lost>,
}

/// A lease that was lost.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) name: String,
    pub(crate) reason: String,
    pub(crate) deadline_ns: u64,
    /// When the engine told it.
    pub(crate) told_ns: u64,
    /// When its holder's task heard of it; `None` if that gave it back meanwhile.
    pub(crate) heard_ns: Option<u64>,
}

/// The events of one lease.
#[derive(Default)]
struct Life {
    granted_ns: Option<u64>,
    released_ns: Option<u64>,
    heard_ns: Option<u64>,
    lost: Option<Value>,
}

impl History {
    /// Reads logs of runs that have ended. Every lease in them has a beginning and an end.
    pub(crate) fn read<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let mut history = Self::default();
        for (process, path) in (0..).zip(paths) {
            let text = fs::read_to_string(path).expect("a log");
            let lives = lives(&text);
            lives.into_iter().for_each(|((name, token), life)| history.add(process, name, token, &life));
        }
        history
    }

    fn add(&mut self, process: u32, key: String, token: i64, life: &Life) {
        let lost = life.lost.as_ref().map(|lost| Lost::of(&key, lost, life.heard_ns));
        // A lease that was lost before its caller had it entitled nobody.
        if let Some(from_ns) = life.granted_ns {
            let lost_ns = lost.as_ref().map(|lost| lost.told_ns.min(lost.deadline_ns));
            let until_ns = [life.released_ns, lost_ns].into_iter().flatten().min();
            let until_ns = until_ns.unwrap_or_else(|| panic!("{key} with token {token} has no end"));
            let holder = format!("{process}/{token}");
            self.windows.push(Window { key, holder, process, token, from_ns, until_ns });
        }
        self.lost.extend(lost);
    }
}

impl Lost {
    fn of(name: &str, event: &Value, heard_ns: Option<u64>) -> Self {
        Self {
            name: name.to_owned(),
            reason: event["reason"].as_str().expect("a reason").to_owned(),
            deadline_ns: number(event, "deadline_ns"),
            told_ns: number(event, "at_ns"),
            heard_ns,
        }
    }
}

fn lives(text: &str) -> HashMap<(String, i64), Life> {
    let mut lives: HashMap<_, Life> = HashMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let name = event["name"].as_str().unwrap_or_else(|| panic!("no name in {line}")).to_owned();
        let life = lives.entry((name, event["token"].as_i64().expect("a token"))).or_default();
        match event["event"].as_str() {
            Some("granted") => life.granted_ns = Some(number(&event, "at_ns")),
            Some("released") => life.released_ns = Some(number(&event, "at_ns")),
            Some("heard") => life.heard_ns = Some(number(&event, "at_ns")),
            Some("lost") => life.lost = Some(event),
            _ => panic!("what is {line}"),
        }
    }
    lives
}

fn number(event: &Value, field: &str) -> u64 {
    event[field].as_u64().unwrap_or_else(|| panic!("no {field} in {event}"))
}
