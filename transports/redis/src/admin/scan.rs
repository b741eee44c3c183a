//! A scan for locks, at a limited rate.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use fred::types::Resp3Frame as Frame;
use futures_util::future::join_all;
use leasehold::transport::{Hold, LockMode, Remaining, TransportError};
use serde::Serialize;

use super::master::Master;
use crate::{
    connection::requests::text,
    wire::{arg::Arg, lock_hash, names::fair_line, reply},
};

/// A scan for locks. [`RedisAdmin::locks`](crate::RedisAdmin::locks) begins it.
///
/// A lock that is held during the whole scan is found once. A lock that is taken, released, or moved to another node
/// meanwhile may be left out.
pub struct LockScan<'a> {
    masters: &'a [Master],
    timeout: Duration,
    pattern: String,
    keys_per_second: u32,
    /// The index of the master, and its cursor.
    place: (usize, String),
    found: VecDeque<FoundLock>,
    /// A server may name a key several times.
    seen: HashSet<String>,
    scanned: u64,
}

/// A key that is a lock of Leasehold or Redisson: a hash in which each field names an owner, `<uuid>:<number>`.
///
/// serde writes it as `leasehold list --json` does: `holds` as `holders`, and `remaining_ms`, which is null if the lock
/// has no expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FoundLock {
    /// The name on the server: the `name_prefix` of an engine is part of it.
    pub name: String,
    /// The address of the server.
    pub server: String,
    /// How the lock is held. A fair lock is `Exclusive` here.
    pub mode: LockMode,
    /// The holds. The time that a single hold of a read/write lock lasts is not known.
    #[serde(rename = "holders")]
    pub holds: Vec<Hold>,
    /// How long the lock lasts unless it is renewed.
    #[serde(rename = "remaining_ms")]
    pub remaining: Remaining,
    /// How many owners wait in the line of a fair lock. 0 for other locks, and if the user has no right to the line.
    pub in_line: u64,
}

impl<'a> LockScan<'a> {
    pub(super) fn new(masters: &'a [Master], timeout: Duration, pattern: String) -> Self {
        Self {
            masters,
            timeout,
            pattern,
            keys_per_second: KEYS_PER_SECOND,
            place: (0, START.to_owned()),
            found: VecDeque::new(),
            seen: HashSet::new(),
            scanned: 0,
        }
    }

    /// Sets at most how many keys a server looks at in a second. Default 20,000, which is about 1 % of a server's
    /// time. 0 counts as 1.
    pub fn keys_per_second(mut self, keys: u32) -> Self {
        self.keys_per_second = keys.max(1);
        self
    }

    /// How many hashes were read so far to see whether they are locks.
    pub fn read(&self) -> u64 {
        self.scanned
    }

    /// Returns the next lock. `None`: the scan is over.
    ///
    /// # Errors
    /// A master does not answer, or refuses: the user needs the rights to `SCAN`, `HSCAN` and `PTTL`. The next call
    /// tries the same step again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call repeats the step.
    pub async fn next(&mut self) -> Result<Option<FoundLock>, TransportError> {
        loop {
            if let Some(lock) = self.found.pop_front() {
                return Ok(Some(lock));
            }
            let masters = self.masters;
            let Some(master) = masters.get(self.place.0) else { return Ok(None) };
            let (cursor, keys) = self.page(master).await?;
            let locks = locks(master, &keys, self.timeout).await?;
            tokio::time::sleep(self.pause(keys.len())).await;
            self.scanned += keys.len() as u64;
            self.found.extend(locks.into_iter().filter(|lock| self.seen.insert(lock.name.clone())));
            let is_over = cursor == START;
            self.place = if is_over { (self.place.0 + 1, START.to_owned()) } else { (self.place.0, cursor) };
        }
    }

    async fn page(&self, master: &Master) -> Result<(String, Vec<String>), TransportError> {
        let count = Arg::Number(self.count().into());
        let args = vec![
            text(&self.place.1),
            text("MATCH"),
            text(&self.pattern),
            text("COUNT"),
            count,
            text("TYPE"),
            text("hash"),
        ];
        let answer = master.ask("SCAN", args, self.timeout).await?;
        answer.as_ref().and_then(page_of).ok_or_else(|| master.misread("SCAN"))
    }

    /// Keys of one page.
    fn count(&self) -> u32 {
        (self.keys_per_second / PAGES_PER_SECOND).clamp(1, PAGE_MAX)
    }

    // A key that is read costs the server about as much as this many keys that are passed by.
    fn pause(&self, read: usize) -> Duration {
        let keys = f64::from(self.count()) + READ_COSTS * read as f64;
        Duration::from_secs_f64(keys / f64::from(self.keys_per_second))
    }
}

/// The next cursor, and the keys of a page. Names of locks are UTF-8; other keys are left out.
fn page_of(frame: &Frame) -> Option<(String, Vec<String>)> {
    let [cursor, keys] = reply::array(frame)? else { return None };
    let keys = reply::array(keys)?.iter().filter_map(reply::text).map(str::to_owned).collect();
    Some((reply::text(cursor)?.to_owned(), keys))
}

async fn locks(
    master: &Master,
    keys: &[String],
    timeout: Duration,
) -> Result<Vec<FoundLock>, TransportError> {
    let found = join_all(keys.iter().map(|key| lock(master, key, timeout))).await;
    let found: Result<Vec<_>, _> = found.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

// `HSCAN` reads a part of a large hash, so that a hash that is no lock does not hold up the server. A small hash comes
// whole.
async fn lock(master: &Master, key: &str, timeout: Duration) -> Result<Option<FoundLock>, TransportError> {
    let args = vec![text(key), text(START), text("COUNT"), Arg::Number(FIELDS)];
    let Some(fields) = master.ask("HSCAN", args, timeout).await? else { return Ok(None) };
    let Some((mode, holds)) = holds_of(&fields).ok_or_else(|| master.misread("HSCAN"))? else {
        return Ok(None);
    };
    let line = fair_line(key);
    let (left, in_line) = tokio::join!(
        master.ask("PTTL", vec![text(key)], timeout),
        master.ask("LLEN", vec![text(&line)], timeout)
    );
    let Some(left) = left?.as_ref().and_then(reply::number).filter(|left| *left >= -1) else {
        return Ok(None);
    };
    let in_line = in_line.ok().flatten().as_ref().and_then(reply::number).unwrap_or(0);
    Ok(Some(FoundLock {
        name: key.to_owned(),
        server: master.server.name.to_string(),
        mode,
        holds,
        remaining: remaining(left),
        in_line: u64::try_from(in_line).unwrap_or(0),
    }))
}

/// `None`: the reply has another format. `Some(None)`: the hash is no lock.
fn holds_of(frame: &Frame) -> Option<Option<(LockMode, Vec<Hold>)>> {
    let [_cursor, fields] = reply::array(frame)? else { return None };
    let texts: Option<Vec<&str>> = reply::array(fields)?.iter().map(reply::text).collect();
    let pairs = |texts: Vec<&str>| {
        let pairs: Vec<_> =
            texts.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
        lock_hash::read(pairs)
    };
    Some(texts.and_then(pairs))
}

fn remaining(left: i64) -> Remaining {
    u64::try_from(left).map_or(Remaining::NoExpiry, |left| Remaining::For(Duration::from_millis(left)))
}

const START: &str = "0";
const KEYS_PER_SECOND: u32 = 20_000;
const PAGES_PER_SECOND: u32 = 50;
const PAGE_MAX: u32 = 500;
const READ_COSTS: f64 = 4.0;
/// Fields of one look at a hash.
const FIELDS: i64 = 100;

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    fn found(remaining: Remaining) -> FoundLock {
        FoundLock {
            name: "app:job".into(),
            server: "127.0.0.1:6379".into(),
            mode: LockMode::Read,
            holds: vec![Hold::new("c-1:7", 2).with_mode(LockMode::Read)],
            remaining,
            in_line: 3,
        }
    }

    #[test]
    fn serde_writes_a_lock_as_the_program_lists_it() {
        let expected = json!({
            "name": "app:job",
            "server": "127.0.0.1:6379",
            "mode": "read",
            "holders": [{ "owner": "c-1:7", "count": 2, "mode": "read" }],
            "remaining_ms": 1_500,
            "in_line": 3,
        });
        assert_eq!(to_value(found(Remaining::For(Duration::from_millis(1_500)))).unwrap(), expected);
        let endless = to_value(found(Remaining::NoExpiry)).unwrap();
        assert_eq!(endless["remaining_ms"], json!(null), "{endless}");
    }

    #[test]
    fn a_ttl_of_minus_one_is_no_expiry() {
        assert_eq!(remaining(-1), Remaining::NoExpiry);
        assert_eq!(remaining(1_500), Remaining::For(Duration::from_millis(1_500)));
    }
}
