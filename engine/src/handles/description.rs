//! What any client sees of a lock, a semaphore or a latch at one moment, for logs and operators. Pure.

use std::{collections::HashMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    fencing::FencingToken,
    foreign_text::ForeignText,
    serialized::millis_if_known,
    transport::{Hold, Inspection, LockMode, Remaining},
};

/// A lock as the server shows it at one moment, with what this engine knows of its own holds.
/// [`Lock::describe`](crate::Lock::describe) reads it.
///
/// `Display` writes one line for the lock, and an indented line for each holder and each place in the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// The name of the lock, without the prefix of the engine.
    pub name: String,
    /// How the lock is held.
    pub mode: LockMode,
    /// The holders. Empty: the lock is free. An owner of another client that reads and writes is here twice.
    pub holders: Vec<Holder>,
    /// How long until the last hold runs out unless it is renewed. `None`: the lock is free, a hold has no expiry, or the
    /// expiry is not known.
    #[serde(rename = "remaining_ms", serialize_with = "millis_if_known")]
    pub remaining: Option<Duration>,
    /// The places in the line of a fair lock, the head first, at most 1,000. Empty for locks that keep no line on the
    /// server.
    pub line: Vec<Place>,
    /// The callers of this engine that wait for the lock. The server does not know them, except those in `line`.
    pub waiting: u64,
}

/// A holder of a lock, as any client sees it on the server. [`Lock::holder`](crate::Lock::holder) and
/// [`Lock::describe`](crate::Lock::describe) read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// Opaque text that names the owner on the server. The owners of other clients have their own format.
    pub owner: String,
    /// How often the lock is held. 1 for a Leasehold client. A Java client may show more.
    pub hold_count: u64,
    /// How long until the hold runs out unless it is renewed. `None`: the hold has no expiry, or its expiry is not
    /// known.
    #[serde(rename = "remaining_ms", serialize_with = "millis_if_known")]
    pub remaining: Option<Duration>,
    /// How the owner holds the lock.
    pub mode: LockMode,
    /// Whether the owner is one of this engine.
    pub is_of_this_engine: bool,
    /// The leases of this engine that share the hold: more than one for a re-entry scope, or for readers that share a
    /// hold. 0 if another client holds the lock, and if this engine has no lease of it: a grant that is being closed,
    /// for example.
    pub leases: u32,
    /// The fencing token of the hold. `None` if another client holds the lock: the server does not tell its token.
    pub token: Option<FencingToken>,
}

/// A place in the line of a fair lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// Opaque text that names the owner of the place on the server.
    pub owner: String,
    /// Whether the owner is one of this engine.
    pub is_of_this_engine: bool,
}

/// A semaphore at one moment. [`Semaphore::describe`](crate::Semaphore::describe) reads it. The server does not know
/// which clients have permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SemaphoreDescription {
    /// The name of the semaphore, without the prefix of the engine.
    pub name: String,
    /// The permits that can be taken now. 0 if the semaphore was never set. May be negative, see
    /// [`Semaphore::add`](crate::Semaphore::add).
    pub available: i64,
    /// The callers of this engine that wait for permits, or for the answer to another operation.
    pub waiting: u64,
}

/// A semaphore whose permits expire, at one moment. [`Permits::describe`](crate::Permits::describe) reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PermitsDescription {
    /// The name of the semaphore, without the prefix of the engine.
    pub name: String,
    /// The permits that can be acquired now; those that have expired count. 0 if no total was set. Negative after the
    /// total was made smaller than what is held.
    pub available: i64,
    /// The permits that are held by any client and have not expired.
    pub held: u64,
    /// The permits that this engine holds.
    pub held_here: u64,
    /// How long until the last permit that is held expires unless it is renewed. `None`: no permit is held, or a
    /// client holds one without expiry.
    #[serde(rename = "remaining_ms", serialize_with = "millis_if_known")]
    pub remaining: Option<Duration>,
    /// The callers of this engine that wait for permits.
    pub waiting: u64,
}

/// A latch at one moment. [`Latch::describe`](crate::Latch::describe) reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LatchDescription {
    /// The name of the latch, without the prefix of the engine.
    pub name: String,
    /// What is left to count down. 0: the latch is open.
    pub count: i64,
    /// The callers of this engine that wait for the latch, or for the answer to another operation.
    pub waiting: u64,
}

/// What the engine knows of a key of its own.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The common beginning of the text of every owner of the engine.
    pub(super) client: String,
    /// The leases that hold the key: the number of the owner, the token and the number of leases.
    pub(super) leases: HashMap<u64, (FencingToken, u32)>,
    /// The permits of these leases, if the key is a semaphore whose permits expire.
    pub(super) permits: u64,
    /// The callers that wait for the key.
    pub(super) waiting: usize,
}

impl Known {
    fn is_ours(&self, owner: &str) -> bool {
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        owner.strip_prefix(&*self.client).is_some_and(is_number)
    }

    fn lease_of(&self, owner: &str) -> Option<(FencingToken, u32)> {
        let number: u64 = owner.strip_prefix(&*self.client)?.parse().ok()?;
        self.leases.get(&number).copied()
    }

    fn holder(&self, hold: Hold, alone: Remaining) -> Holder {
        let is_of_this_engine = self.is_ours(&hold.owner);
        let lease = if is_of_this_engine { self.lease_of(&hold.owner) } else { None };
        Holder {
            hold_count: hold.count,
            remaining: time_of(hold.remaining).or(time_of(alone)),
            mode: hold.mode,
            is_of_this_engine,
            leases: lease.map_or(0, |(_, leases)| leases),
            token: lease.map(|(token, _)| token),
            owner: hold.owner,
        }
    }

    fn place(&self, owner: String) -> Place {
        Place { is_of_this_engine: self.is_ours(&owner), owner }
    }
}

impl Description {
    /// What the server has shown, and what the engine knows beside it.
    pub(super) fn new(name: &str, seen: Inspection, known: &Known) -> Self {
        let mode = seen.mode();
        // A transport that tells no time of each hold tells that of the only one with that of the lock.
        let alone = if seen.holds.len() == 1 { seen.remaining } else { Remaining::NotKnown };
        Self {
            name: name.to_owned(),
            mode,
            remaining: time_of(seen.remaining).filter(|_| mode != LockMode::Free),
            holders: seen.holds.into_iter().map(|hold| known.holder(hold, alone)).collect(),
            line: seen.line.into_iter().map(|owner| known.place(owner)).collect(),
            waiting: u64::try_from(known.waiting).unwrap_or(u64::MAX),
        }
    }
}

impl PermitsDescription {
    /// What the server has shown, and what the engine knows beside it.
    /// `None`: the transport has told no numbers of permits.
    pub(super) fn new(name: &str, seen: &Inspection, known: &Known) -> Option<Self> {
        let count = seen.permits?;
        Some(Self {
            name: name.to_owned(),
            available: count.available,
            held: count.held,
            held_here: known.permits,
            remaining: time_of(seen.remaining).filter(|_| count.held > 0),
            waiting: u64::try_from(known.waiting).unwrap_or(u64::MAX),
        })
    }
}

fn time_of(remaining: Remaining) -> Option<Duration> {
    match remaining {
        Remaining::For(left) => Some(left),
        Remaining::NoExpiry | Remaining::NotKnown => None,
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?}: {}", self.name, self.mode)?;
        if !self.line.is_empty() {
            write!(f, ", {} in line", self.line.len())?;
        }
        write!(f, ", {} waiting here", self.waiting)?;
        self.holders.iter().try_for_each(|holder| write!(f, "\n  held by {holder}"))?;
        self.line.iter().zip(1..).try_for_each(|(place, number)| write!(f, "\n  {number}. {place}"))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}, count {}", ForeignText(&self.owner), self.mode, self.hold_count)?;
        match self.remaining {
            Some(left) => write!(f, ", {left:.1?} left")?,
            None => f.write_str(", no known expiry")?,
        }
        if self.is_of_this_engine {
            write!(f, ", this engine, {} leases", self.leases)?;
        }
        self.token.iter().try_for_each(|token| write!(f, ", token {token}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}{}",
            ForeignText(&self.owner),
            if self.is_of_this_engine { ", this engine" } else { "" }
        )
    }
}

impl fmt::Display for SemaphoreDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, available, waiting } = self;
        write!(f, "semaphore {name:?}: {available} permits available, {waiting} waiting here")
    }
}

impl fmt::Display for PermitsDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, available, held, held_here, waiting, .. } = self;
        write!(
            f,
            "permits {name:?}: {available} available, {held} held, {held_here} of them here, {waiting} waiting here"
        )
    }
}

impl fmt::Display for LatchDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, count, waiting } = self;
        match count {
            0 => write!(f, "latch {name:?}: open, {waiting} waiting here"),
            _ => write!(f, "latch {name:?}: {count} left, {waiting} waiting here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        owner::Owner,
        routing::topology::{ClockId, NodeId},
        transport::{PermitCount, ServerTime},
    };

    const SECOND: Duration = Duration::from_secs(1);
    const AT: ServerTime = ServerTime { micros: 7, clock: ClockId { node: NodeId(0), epoch: 1 } };

    fn known() -> Known {
        let owner = Owner::new(Uuid::nil(), 7);
        let leases = HashMap::from([(7, (FencingToken::of_counter(5), 2))]);
        Known { client: owner.client_spelling(), leases, permits: 5, waiting: 3 }
    }

    fn ours(n: u64) -> String {
        Owner::new(Uuid::nil(), n).to_string()
    }

    #[test]
    fn a_free_lock_has_no_holder_and_no_time() {
        let seen = Inspection::new(vec![], Remaining::For(SECOND), AT);
        let free = Description::new("k", seen, &known());
        assert_eq!((free.mode, free.remaining, free.holders.len()), (LockMode::Free, None, 0));
        assert_eq!(free.to_string(), "lock \"k\": free, 3 waiting here");
    }

    #[test]
    fn the_token_and_the_leases_of_our_own_holds_are_told() {
        let holds = vec![Hold::new(ours(7), 1), Hold::new(ours(8), 1), Hold::new("java:63", 3)];
        let told = Description::new("k", Inspection::new(holds, Remaining::For(SECOND), AT), &known());
        let facts = told.holders.iter().map(|h| (h.is_of_this_engine, h.leases, h.token.map(|t| t.as_i64())));
        let facts: Vec<_> = facts.collect();
        assert_eq!(facts, [(true, 2, Some(5)), (true, 0, None), (false, 0, None)]);
        assert!(told.to_string().contains("this engine, 2 leases, token 5"), "{told}");
    }

    #[test]
    fn an_owner_that_only_begins_like_ours_is_not_ours() {
        let known = known();
        for other in [ours(7) + ":1", known.client.clone(), known.client.clone() + "x", "7".into()] {
            assert!(!known.is_ours(&other), "{other}");
        }
    }

    #[test]
    fn each_hold_has_its_own_time_and_a_single_one_that_of_the_lock() {
        let of = |holds, lasts| Description::new("k", Inspection::new(holds, lasts, AT), &known());
        let alone = of(vec![Hold::new("a:1", 1)], Remaining::For(SECOND));
        assert_eq!(alone.holders[0].remaining, Some(SECOND));
        let read = |owner, lasts| Hold::new(owner, 1).with_mode(LockMode::Read).with_remaining(lasts);
        let (first, second) = (read("a:1", Remaining::For(SECOND)), read("b:1", Remaining::NotKnown));
        let both = of(vec![first, second], Remaining::For(2 * SECOND));
        assert_eq!((both.holders[0].remaining, both.holders[1].remaining), (Some(SECOND), None));
        assert_eq!((both.mode, both.remaining), (LockMode::Read, Some(2 * SECOND)));
    }

    #[test]
    fn numbers_of_permits_are_told_and_those_of_this_engine() {
        let seen = Inspection::new(vec![], Remaining::For(SECOND), AT).with_permits(PermitCount::new(-1, 9));
        let told = PermitsDescription::new("k", &seen, &known()).expect("numbers");
        assert_eq!(told.to_string(), "permits \"k\": -1 available, 9 held, 5 of them here, 3 waiting here");
        assert_eq!(told.remaining, Some(SECOND));
        let none = Inspection::new(vec![], Remaining::For(SECOND), AT).with_permits(PermitCount::new(2, 0));
        assert_eq!(PermitsDescription::new("k", &none, &known()).expect("numbers").remaining, None);
        let untold = Inspection::new(vec![], Remaining::NotKnown, AT);
        assert_eq!(PermitsDescription::new("k", &untold, &known()), None);
    }

    #[test]
    fn a_line_is_told() {
        let seen =
            Inspection::new(vec![], Remaining::NotKnown, AT).with_line(vec![ours(9), "java:63".into()]);
        let told = Description::new("k", seen, &known());
        assert_eq!([told.line[0].is_of_this_engine, told.line[1].is_of_this_engine], [true, false]);
        let lines: Vec<_> = told.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "lock \"k\": free, 2 in line, 3 waiting here");
        assert_eq!(lines[2], "  2. \"java:63\"");
    }
}
