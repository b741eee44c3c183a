//! A read/write lock and its holders as they ought to be: two of ours, and one client of Redisson. Pure.
//!
//! A time is a small number of units that never pass. So a model says exactly what must be on the server.

use std::collections::BTreeMap;

use crate::{
    keyspace::{Content, Keyspace, LOCK, timeout_key},
    redisson::Version,
};

/// Who acts. The first two are ours.
pub(crate) const OWNERS: [&str; 3] = [
    "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1",
    "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb:2",
    "cccccccc-cccc-4ccc-8ccc-cccccccccccc:63",
];
pub(crate) const PEER: usize = 2;

/// A unit of time in ms: so long that none passes in a test.
pub(crate) const UNIT: i64 = 10_000_000;

/// What an actor does, with a ttl in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Read(i64),
    Write(i64),
    RenewRead(i64),
    RenewWrite(i64),
    Downgrade(i64),
    ReleaseRead,
    ReleaseWrite,
    /// Ends every hold.
    ForceRelease,
    /// The timeout keys of the actor's read holds expire.
    Expire,
}

/// What the actor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Granted, released, renewed or downgraded.
    Yes,
    No,
}

/// What one actor holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hold {
    /// The number of read holds. Ours: at most one.
    pub(crate) reads: u32,
    /// The timeout keys that are there, also of holds that ended with the lock.
    pub(crate) timeouts: BTreeMap<u32, i64>,
    /// The number of write holds. Ours: at most one.
    pub(crate) writes: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Model {
    pub(crate) holds: [Hold; 3],
    /// The expiry of the lock.
    pub(crate) ttl: i64,
}

impl Hold {
    /// How long its read holds last that have a timeout key.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = i64> {
        self.timeouts.range(..=self.reads).map(|(_, left)| *left)
    }
}

impl Model {
    /// What must be on the server.
    pub(crate) fn keyspace(&self) -> Keyspace {
        let mut all = Keyspace::default();
        let mut fields = BTreeMap::new();
        for (hold, owner) in self.holds.iter().zip(OWNERS) {
            if hold.reads > 0 {
                fields.insert(owner.to_owned(), hold.reads.to_string());
            }
            if hold.writes > 0 {
                fields.insert(format!("{owner}:write"), hold.writes.to_string());
            }
            for (number, left) in &hold.timeouts {
                let entry = (Content::Text("1".into()), Some(left * UNIT));
                all.0.insert(timeout_key(owner, *number), entry);
            }
        }
        if !fields.is_empty() {
            let mode = if self.writer().is_some() { "write" } else { "read" };
            fields.insert("mode".into(), mode.into());
            all.0.insert(LOCK.into(), (Content::Hash(fields), Some(self.ttl * UNIT)));
        }
        all
    }

    pub(crate) fn writer(&self) -> Option<usize> {
        self.holds.iter().position(|hold| hold.writes > 0)
    }

    /// Whether an actor has a read hold that others must respect.
    pub(crate) fn reads(&self, actor: usize) -> bool {
        self.holds[actor].lasting().next().is_some()
    }

    fn is_free(&self) -> bool {
        self.holds.iter().all(|hold| hold.reads == 0 && hold.writes == 0)
    }

    /// The timeout key that lasts longest, of those that belong to a hold.
    fn longest(&self) -> Option<i64> {
        self.holds.iter().flat_map(Hold::lasting).max()
    }

    /// Nobody holds it any more. Timeout keys of holds that were there stay until they expire.
    fn clear(&mut self) {
        for hold in &mut self.holds {
            (hold.reads, hold.writes) = (0, 0);
        }
        self.settle();
    }

    fn settle(&mut self) {
        if self.is_free() {
            self.ttl = 0;
        }
    }

    /// What the actor is told, and what is there afterwards. `None`: not looked at.
    pub(crate) fn step(&self, actor: usize, op: Op, version: Version) -> Option<(Answer, Self)> {
        let mut after = self.clone();
        let answer = if actor == PEER { after.peer(op, version)? } else { after.ours(actor, op)? };
        after.settle();
        Some((answer, after))
    }

    fn ours(&mut self, actor: usize, op: Op) -> Option<Answer> {
        let (writer, free) = (self.writer(), self.is_free());
        let holds = self.holds[actor].clone();
        Some(match op {
            Op::Read(_) if writer.is_some() => Answer::No,
            Op::Read(ttl) => {
                self.holds[actor].reads = 1;
                self.raise(actor, ttl);
                Answer::Yes
            }
            Op::Write(ttl) if free || holds.writes > 0 => {
                self.holds[actor].writes = 1;
                self.ttl = self.ttl.max(ttl);
                Answer::Yes
            }
            Op::Write(_) => Answer::No,
            Op::RenewRead(ttl) | Op::Downgrade(ttl) if self.reads(actor) => {
                self.raise(actor, ttl);
                Answer::Yes
            }
            Op::RenewWrite(ttl) if holds.writes > 0 => {
                self.ttl = self.ttl.max(ttl);
                Answer::Yes
            }
            Op::Downgrade(ttl) if holds.writes > 0 => {
                (self.holds[actor].writes, self.holds[actor].reads) = (0, 1);
                self.holds[actor].timeouts.clear();
                self.raise(actor, ttl);
                Answer::Yes
            }
            Op::RenewRead(_) | Op::RenewWrite(_) | Op::Downgrade(_) => Answer::No,
            Op::ReleaseRead => self.release_read(actor),
            Op::ReleaseWrite if holds.writes > 0 => {
                self.holds[actor].writes = 0;
                Answer::Yes
            }
            Op::ReleaseWrite => Answer::No,
            Op::ForceRelease if free => Answer::No,
            Op::ForceRelease => {
                for hold in &mut self.holds {
                    hold.timeouts.retain(|number, _| *number > hold.reads);
                }
                self.clear();
                Answer::Yes
            }
            Op::Expire => self.expire(actor)?,
        })
    }

    /// The read hold and the lock last at least so long.
    fn raise(&mut self, actor: usize, ttl: i64) {
        let timeout = self.holds[actor].timeouts.entry(1).or_insert(ttl);
        *timeout = ttl.max(*timeout);
        self.ttl = self.ttl.max(ttl);
    }

    /// Ends both: the hold may be one whose downgrade was not answered.
    fn release_read(&mut self, actor: usize) -> Answer {
        let held = std::mem::take(&mut self.holds[actor]);
        if held.reads == 0 && held.writes == 0 {
            return Answer::No;
        }
        if self.is_free() || self.writer().is_some() {
            return Answer::Yes;
        }
        match self.longest() {
            Some(longest) => self.ttl = longest,
            None => self.clear(),
        }
        Answer::Yes
    }

    fn expire(&mut self, actor: usize) -> Option<Answer> {
        let hold = &mut self.holds[actor];
        if hold.timeouts.is_empty() {
            return None;
        }
        hold.timeouts.clear();
        Some(Answer::Yes)
    }

    fn peer(&mut self, op: Op, version: Version) -> Option<Answer> {
        let (writer, free) = (self.writer(), self.is_free());
        let holds = self.holds[PEER].clone();
        Some(match op {
            Op::Read(_) if writer.is_some_and(|writer| writer != PEER) => Answer::No,
            Op::Read(_) if holds.reads == 2 => return None,
            Op::Read(ttl) => {
                self.holds[PEER].reads += 1;
                self.holds[PEER].timeouts.insert(holds.reads + 1, ttl);
                self.ttl = self.ttl.max(ttl);
                Answer::Yes
            }
            Op::Write(_) if holds.writes == 2 => return None,
            Op::Write(ttl) if free || holds.writes > 0 => {
                self.holds[PEER].writes += 1;
                self.ttl += ttl;
                Answer::Yes
            }
            Op::Write(_) => Answer::No,
            Op::RenewRead(_) if holds.reads == 0 => Answer::No,
            Op::RenewRead(ttl) => {
                let of_all = version == Version::V3_27;
                for (actor, hold) in self.holds.iter_mut().enumerate() {
                    if actor == PEER || of_all {
                        hold.timeouts.range_mut(..=hold.reads).for_each(|(_, left)| *left = ttl);
                    }
                }
                self.ttl = ttl;
                Answer::Yes
            }
            Op::ReleaseRead => self.peer_releases_read(version),
            Op::ReleaseWrite if free && version == Version::V3_27 => Answer::Yes,
            Op::ReleaseWrite if holds.writes == 0 => Answer::No,
            Op::ReleaseWrite => {
                self.holds[PEER].writes -= 1;
                if holds.writes == 2 {
                    self.ttl = PEER_LEASE;
                }
                Answer::Yes
            }
            Op::Expire => self.expire(PEER)?,
            Op::RenewWrite(_) | Op::Downgrade(_) | Op::ForceRelease => return None,
        })
    }

    fn peer_releases_read(&mut self, version: Version) -> Answer {
        if self.is_free() && version == Version::V3_27 {
            return Answer::Yes;
        }
        let reads = self.holds[PEER].reads;
        if reads == 0 {
            return Answer::No;
        }
        self.holds[PEER].reads -= 1;
        self.holds[PEER].timeouts.remove(&reads);
        if self.is_free() {
            return Answer::Yes;
        }
        match (self.longest(), self.writer()) {
            // Also beside the peer's own write hold, which it shortens.
            (Some(longest), _) => self.ttl = longest,
            (None, Some(_)) => {}
            (None, None) => self.clear(),
        }
        Answer::Yes
    }
}

/// What a peer that gives back one of two write holds sets: the lease of its lock object.
pub(crate) const PEER_LEASE: i64 = 2;
