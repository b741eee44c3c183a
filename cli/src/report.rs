//! What `inspect` shows: text for people, and JSON. Pure.

use std::{fmt, time::Duration};

use leasehold::{Holder, transport::ForeignText};
use serde_json::{Value, json};

use crate::{
    duration::{millis, shown},
    look::{Look, Shape},
};

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// `exclusive`, `fair`, `read_write` or `permits`.
    pub(crate) kind: &'static str,
    /// How it is held: `free`, `exclusive`, `fair`, `read`, `write` or `permits`.
    pub(crate) mode: &'static str,
    pub(crate) remaining: Option<Duration>,
    pub(crate) holders: Vec<OwnerReport>,
    /// The owners that wait in the line of a fair lock, the head first.
    pub(crate) line: Vec<ForeignText<String>>,
    /// Available and held.
    pub(crate) permits: Option<(i64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerReport {
    pub(crate) owner: ForeignText<String>,
    pub(crate) mode: &'static str,
    pub(crate) count: u64,
    pub(crate) remaining: Option<Duration>,
}

impl Report {
    /// What was seen.
    pub(crate) fn of(look: Look) -> Self {
        match look {
            Look::Lock(shape, seen) => Self {
                name: seen.name,
                kind: shape.as_str(),
                mode: seen.mode.as_str(),
                remaining: seen.remaining,
                holders: seen.holders.into_iter().map(OwnerReport::of).collect(),
                line: seen.line.into_iter().map(|place| ForeignText(place.owner)).collect(),
                permits: None,
            },
            Look::Permits(seen) => Self {
                name: seen.name,
                kind: "permits",
                mode: if seen.held == 0 { "free" } else { "permits" },
                remaining: seen.remaining,
                holders: Vec::new(),
                line: Vec::new(),
                permits: Some((seen.available, seen.held)),
            },
        }
    }

    /// Whether no client holds the lock.
    pub(crate) fn is_free(&self) -> bool {
        self.mode == "free"
    }

    /// Those that hold it.
    pub(crate) fn owners(&self) -> Vec<&str> {
        self.holders.iter().map(|holder| &*holder.owner.0).collect()
    }

    /// The same without the times that are left.
    pub(crate) fn without_times(&self) -> Self {
        let holder = |holder: &OwnerReport| OwnerReport { remaining: None, ..holder.clone() };
        Self { remaining: None, holders: self.holders.iter().map(holder).collect(), ..self.clone() }
    }

    /// As a JSON document. Times are in milliseconds; `null`: no expiry, or not known.
    pub(crate) fn json(&self) -> Value {
        let mut document = json!({
            "name": self.name,
            "kind": self.kind,
            "mode": self.mode,
            "remaining_ms": self.remaining.map(millis),
            "holders": self.holders.iter().map(OwnerReport::json).collect::<Vec<_>>(),
            "line": self.line.iter().map(|owner| &owner.0).collect::<Vec<_>>(),
        });
        if let (Some((available, held)), Value::Object(fields)) = (self.permits, &mut document) {
            fields.insert("available".to_owned(), available.into());
            fields.insert("held".to_owned(), held.into());
        }
        document
    }
}

impl OwnerReport {
    fn of(holder: Holder) -> Self {
        let Holder { owner, hold_count: count, remaining, mode, .. } = holder;
        Self { owner: ForeignText(owner), mode: mode.as_str(), count, remaining }
    }

    fn json(&self) -> Value {
        json!({
            "owner": self.owner.0,
            "client": client_of(&self.owner.0),
            "mode": self.mode,
            "count": self.count,
            "remaining_ms": self.remaining.map(millis),
        })
    }
}

/// The part of an owner that names its process: what stands before the last `:`.
pub(crate) fn client_of(owner: &str) -> &str {
    owner.rsplit_once(':').map_or(owner, |(client, _)| client)
}

impl Shape {
    fn as_str(self) -> &'static str {
        match self {
            Shape::Exclusive => "exclusive",
            Shape::Fair => "fair",
            Shape::ReadWrite => "read_write",
        }
    }
}

/// How long a hold lasts, in words.
pub(crate) fn left(remaining: Option<Duration>) -> String {
    remaining.map_or_else(|| "no known expiry".to_owned(), |left| format!("{} left", shown(left)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.name)?;
        match self.permits {
            // A semaphore and a latch are such a number, too.
            Some((number, 0)) => {
                write!(f, "the number {number}: permits, none of them held, or a semaphore or a latch")?
            }
            Some((available, held)) => write!(f, "permits, {available} available, {held} held")?,
            None if self.is_free() => f.write_str("free")?,
            None => write!(f, "held, {}", self.mode)?,
        }
        if self.permits.is_some() && !self.is_free() {
            write!(f, ", {} of the last", left(self.remaining))?;
        }
        self.holders.iter().try_for_each(|holder| write!(f, "\n  held by {holder}"))?;
        let places = self.line.iter().zip(1..);
        places.into_iter().try_for_each(|(owner, place)| write!(f, "\n  {place}. in line {owner}"))
    }
}

impl fmt::Display for OwnerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.owner, self.mode, left(self.remaining))?;
        if self.count != 1 { write!(f, ", taken {} times", self.count) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let remaining = Some(Duration::from_millis(27_300));
        let holder = OwnerReport { owner: ForeignText("c-1:7".into()), mode: "fair", count: 1, remaining };
        Report {
            name: "printer".into(),
            kind: "fair",
            mode: "fair",
            remaining,
            holders: vec![holder],
            line: vec![ForeignText("c-2:1".into())],
            permits: None,
        }
    }

    #[test]
    fn holders_and_the_line_are_shown() {
        let text = "\"printer\": held, fair\n  held by c-1:7, fair, 27.3s left\n  1. in line c-2:1";
        assert_eq!(report().to_string(), text);
        let json = report().json();
        assert_eq!((&json["holders"][0]["client"], &json["remaining_ms"]), (&json!("c-1"), &json!(27_300)));
    }

    #[test]
    fn a_lock_without_expiry_and_a_free_one_are_shown() {
        let mut report = report();
        report.holders[0] = OwnerReport { remaining: None, count: 2, ..report.holders[0].clone() };
        assert!(report.to_string().contains("no known expiry, taken 2 times"), "{report}");
        let free = Report { mode: "free", holders: vec![], line: vec![], ..report };
        assert_eq!(free.to_string(), "\"printer\": free");
    }

    #[test]
    fn permits_are_numbers() {
        let remaining = Some(Duration::from_secs(3));
        let (holders, line) = (vec![], vec![]);
        let permits = Some((2, 1));
        let report =
            Report { kind: "permits", mode: "permits", remaining, holders, line, permits, ..report() };
        assert_eq!(report.to_string(), "\"printer\": permits, 2 available, 1 held, 3s left of the last");
        assert_eq!(report.json()["available"], 2);
        let number = Report { mode: "free", permits: Some((3, 0)), ..report };
        assert!(number.to_string().starts_with("\"printer\": the number 3: permits, none"), "{number}");
    }
}
