//! The holds of permits that expire. Pure.
//!
//! A hold is one owner's permits, with one expiry. An expired hold keeps its permits until an acquire reclaims them, or its
//! owner releases them. The available permits are among the [`Counters`]. So the sum of the available permits and of
//! those of all holds changes only with the total.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use leasehold::{
    FencingToken,
    key::LockKey,
    owner::Owner,
    transport::{
        Call, Hold as SeenHold, HoldKind, Inspection, LockMode, Op, Outcome, PermitCount, Remaining,
        ServerTime,
    },
};

use crate::{by_key::ByKey, counters::Counters, hold::expiry, read_write::UNCOUNTED, table::Moment};

/// All holds of permits of one server.
#[derive(Debug, Default)]
pub(crate) struct PermitHolds {
    semaphores: ByKey<Holds>,
}

/// The holds of one semaphore: never empty.
#[derive(Debug, Default)]
struct Holds {
    by_owner: HashMap<Owner, Held>,
    by_expiry: BTreeSet<(u64, Owner)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    permits: u16,
    expires_at: u64,
}

/// What a call did.
struct Effect {
    outcome: Outcome,
    /// How many permits have become available, and how many of the available ones were taken.
    freed: i64,
    taken: i64,
}

impl PermitHolds {
    /// Executes one call. Returns its outcome, and whether the watchers of the key are to be notified.
    pub(crate) fn execute(&mut self, call: &Call, now: Moment, counters: &mut Counters) -> (Outcome, bool) {
        let (at, key) = (now.server, &call.key);
        let HoldKind::Permits(permits) = call.kind else { return (call.unsupported("memory"), false) };
        if call.op.is_limited() && now.ours > call.execute_by {
            return (Outcome::TooLate { at }, false);
        }
        let holds = self.semaphores.entry(key.clone()).or_default();
        let available = counters.available(key);
        let Effect { mut outcome, freed, taken } = match call.op {
            Op::Acquire { ttl } => holds.acquire(call.owner, permits.get(), available, ttl, at),
            Op::Renew { ttl } => Effect::nothing(holds.renew(call.owner, ttl, at)),
            Op::Release => holds.release(call.owner, at),
            _ => Effect::nothing(call.unsupported("memory")),
        };
        if holds.by_owner.is_empty() {
            self.semaphores.remove(key);
        }
        counters.add_available(key, freed - taken);
        let is_told = freed > 0 && available + freed - taken > 0;
        if let Outcome::Released { listeners, .. } = &mut outcome {
            *listeners = UNCOUNTED.filter(|_| is_told);
        }
        (outcome, is_told)
    }

    /// The permits that have expired and were not reclaimed yet.
    pub(crate) fn expired(&self, key: &Arc<LockKey>, at: ServerTime) -> i64 {
        self.semaphores.get(key).map_or(0, |holds| holds.expired(at))
    }

    /// Returns one hold for each permit that is held. `available`: the permits that the semaphore shows.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime, available: i64) -> Inspection {
        let Some(holds) = self.semaphores.get(key) else {
            let count = PermitCount::new(available, 0);
            return Inspection::new(vec![], Remaining::NotKnown, at).with_permits(count);
        };
        let live = holds.by_owner.iter().filter(|(_, held)| held.lives(at));
        let held = live.clone().map(|(_, held)| u64::from(held.permits)).sum();
        let seen = live.flat_map(|(owner, held)| {
            let remaining = Remaining::For(left(held.expires_at, at));
            let id = |index| owner.permit_id(index).as_simple().to_string();
            let hold = move |id| SeenHold::new(id, 1).with_mode(LockMode::Permits).with_remaining(remaining);
            (0..held.permits).map(id).map(hold)
        });
        let seen = seen.take(SHOWN_MAX).collect();
        let last = holds.by_expiry.last();
        let last = last.map_or(Remaining::NotKnown, |(end, _)| Remaining::For(left(*end, at)));
        let count = PermitCount::new(available + holds.expired(at), held);
        Inspection::new(seen, last, at).with_permits(count)
    }

    /// Ends all holds of the semaphore. Returns `false` if there was none.
    pub(crate) fn force_release(
        &mut self,
        key: &Arc<LockKey>,
        at: ServerTime,
        counters: &mut Counters,
    ) -> bool {
        let Some(holds) = self.semaphores.remove(key) else { return false };
        let all = holds.by_owner.values();
        counters.add_available(key, all.clone().map(|held| i64::from(held.permits)).sum());
        all.clone().any(|held| held.lives(at))
    }

    /// Forgets everything, like a server without persistence.
    pub(crate) fn lose_all(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of holds in memory, including expired ones that were not reclaimed yet.
    pub(crate) fn stored(&self) -> usize {
        self.semaphores.values().map(|holds| holds.by_owner.len()).sum()
    }
}

impl Effect {
    fn nothing(outcome: Outcome) -> Self {
        Self { outcome, freed: 0, taken: 0 }
    }
}

impl Held {
    fn lives(self, at: ServerTime) -> bool {
        at.micros < self.expires_at
    }
}

impl Holds {
    fn acquire(
        &mut self,
        owner: Owner,
        permits: u16,
        available: i64,
        ttl: Duration,
        at: ServerTime,
    ) -> Effect {
        let granted = Outcome::Granted { token: FencingToken::at_server_micros(at.micros), at };
        if self.extend(owner, ttl, at).is_some() {
            return Effect::nothing(granted);
        }
        let own = self.remove(owner).map_or(0, |held| i64::from(held.permits));
        let freed = own + self.reclaim(RECLAIMED_MAX.max(permits.into()), at);
        let wanted = i64::from(permits);
        if available + freed < wanted {
            return Effect { outcome: Outcome::Busy { remaining: self.remaining(at), at }, freed, taken: 0 };
        }
        self.insert(owner, Held { permits, expires_at: expiry(at, ttl) });
        Effect { outcome: granted, freed, taken: wanted }
    }

    fn renew(&mut self, owner: Owner, ttl: Duration, at: ServerTime) -> Outcome {
        match self.extend(owner, ttl, at) {
            Some(found) => Outcome::Renewed { found, at },
            None => Outcome::NotYours { at },
        }
    }

    // The permits of a hold that has expired go back too, unless they were reclaimed.
    fn release(&mut self, owner: Owner, at: ServerTime) -> Effect {
        let Some(held) = self.remove(owner) else { return Effect::nothing(Outcome::NotYours { at }) };
        let outcome = match held.lives(at) {
            true => Outcome::Released { listeners: None, at },
            false => Outcome::NotYours { at },
        };
        Effect { outcome, freed: held.permits.into(), taken: 0 }
    }

    /// Lets a live hold last at least `ttl` from now, never less than is left. Returns what was left.
    fn extend(&mut self, owner: Owner, ttl: Duration, at: ServerTime) -> Option<Duration> {
        let held = self.by_owner.get(&owner).copied().filter(|held| held.lives(at))?;
        self.remove(owner);
        self.insert(owner, Held { expires_at: held.expires_at.max(expiry(at, ttl)), ..held });
        Some(left(held.expires_at, at))
    }

    /// Ends expired holds, the oldest first, until so many permits are reclaimed. Returns how many were.
    fn reclaim(&mut self, at_most: i64, at: ServerTime) -> i64 {
        let mut reclaimed = 0;
        while let Some((_, owner)) = self.by_expiry.first().copied().filter(|(end, _)| *end <= at.micros) {
            if reclaimed >= at_most {
                break;
            }
            reclaimed += self.remove(owner).map_or(0, |held| i64::from(held.permits));
        }
        reclaimed
    }

    fn expired(&self, at: ServerTime) -> i64 {
        let expired = self.by_expiry.iter().take_while(|(end, _)| *end <= at.micros);
        expired.filter_map(|(_, owner)| self.by_owner.get(owner)).map(|held| i64::from(held.permits)).sum()
    }

    fn remaining(&self, at: ServerTime) -> Remaining {
        let first = self.by_expiry.first();
        first.map_or(Remaining::NotKnown, |(end, _)| Remaining::For(left(*end, at)))
    }

    fn insert(&mut self, owner: Owner, held: Held) {
        self.by_owner.insert(owner, held);
        self.by_expiry.insert((held.expires_at, owner));
    }

    fn remove(&mut self, owner: Owner) -> Option<Held> {
        let held = self.by_owner.remove(&owner)?;
        self.by_expiry.remove(&(held.expires_at, owner));
        Some(held)
    }
}

fn left(expires_at: u64, at: ServerTime) -> Duration {
    Duration::from_micros(expires_at.saturating_sub(at.micros))
}

/// So many permits are shown, as by a Redis server.
const SHOWN_MAX: usize = 1_000;
/// An acquire reclaims so many expired permits, or as many as it wants. So it takes a bounded time.
const RECLAIMED_MAX: i64 = 1_000;
