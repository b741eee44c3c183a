//! What a process has to tell at its end.

use std::fmt::Display;

/// Counts, and the first trouble in words.
#[derive(Debug, Default)]
pub struct Tally {
    /// Leases taken.
    pub granted: u64,
    /// Of these, released and confirmed.
    pub released: u64,
    /// Of these, lost before.
    pub lost: u64,
    /// Of these, released without a clear answer.
    pub unclear: u64,
    /// Acquires that failed in another way than by the end of the wait.
    pub failed: u64,
    /// The first of those.
    pub last_error: Option<String>,
    /// Times a server was asked for a lock.
    pub asks: u64,
    /// Locks whose release the shutdown could not confirm.
    pub unconfirmed: Vec<String>,
    /// Leases, callers, entries and open owners that the engines still had after the shutdown.
    pub left_behind: u64,
}

impl Tally {
    /// One more failed acquire.
    pub fn fail(&mut self, last_error: &impl Display) {
        self.failed += 1;
        self.last_error.get_or_insert_with(|| last_error.to_string());
    }

    /// Another task's counts.
    pub fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.released += other.released;
        self.lost += other.lost;
        self.unclear += other.unclear;
        self.failed += other.failed;
        self.last_error = self.last_error.take().or(other.last_error);
    }

    /// One line.
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "granted": self.granted,
            "released": self.released,
            "lost": self.lost,
            "unclear": self.unclear,
            "failed": self.failed,
            "trouble": self.last_error,
            "asks": self.asks,
            "unconfirmed": self.unconfirmed,
            "left_behind": self.left_behind,
        })
        .to_string()
    }
}
