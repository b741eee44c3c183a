//! A fair lock and its line as they ought to be, after each script of ours and of Redisson. Pure.
//!
//! Every time is in ms from now, so that two states are equal whenever they were reached.

use std::collections::BTreeMap;

use crate::ours::{BEAT, WAIT};

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Queue(i64),
    Acquire(i64),
    Beat,
    Release,
    Force,
    /// Of a peer: lease, and how long it waits.
    Lock(i64, i64),
    TryLock(i64, i64),
    Unlock,
    GiveUp(i64),
    /// So many ms pass.
    Pass(i64),
}

/// What the actor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted,
    Busy(i64),
    Waits(i64, i64),
    /// The time left, and what became of the place: as in the script.
    Beaten(i64, i64),
    Released,
    NotYours,
    /// Of a peer.
    Nil,
    Number(i64),
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) actor: usize,
    pub(crate) count: i64,
    pub(crate) left: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Model {
    pub(crate) hold: Option<Hold>,
    pub(crate) line: Vec<usize>,
    pub(crate) deadlines: BTreeMap<usize, i64>,
    /// In half ms: an odd number is a suspect.
    pub(crate) alive: BTreeMap<usize, i64>,
    /// When the keys of the line, the deadlines and the places expire.
    pub(crate) ends: [Option<i64>; 3],
}

const LINE: usize = 0;
const DEADLINES: usize = 1;
const ALIVE: usize = 2;

const SUSPICION: i64 = 2_400;
const SUSPICION_AFTER_STALL: i64 = 4_000;
const UNHEARD: i64 = 1_000;
const AHEAD_MAX: i64 = 10_000;
const SILENT_MAX: usize = 16;
/// The lease that a peer's unlock sets if it holds more than once.
pub(crate) const PEER_LEASE: i64 = 30_000;

/// The name of an actor. Those from 100 on are peers; the others are of the client that their tens name.
pub(crate) fn name(actor: usize) -> String {
    let client = actor / 10;
    format!("{client:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{}", actor % 10 + 1)
}

/// What is told after a step, the state then, and the actors that were told that the lock is free.
pub(crate) type Step = (Answer, Model, Vec<usize>);

impl Model {
    pub(crate) fn step(&self, actor: usize, op: Op) -> Step {
        let (mut after, mut told) = (self.clone(), Vec::new());
        let answer = match op {
            Op::Queue(ttl) => after.queue(actor, ttl, BEAT, &mut told),
            Op::Acquire(ttl) => after.queue(actor, ttl, 0, &mut told),
            Op::Beat => {
                let (left, places) = after.beat(&[actor], &mut told);
                Answer::Beaten(left, places[0])
            }
            Op::Release => after.release(actor, &mut told),
            Op::Force => after.force(&mut told),
            Op::Lock(lease, wait) => after.lock(actor, lease, wait, true),
            Op::TryLock(lease, wait) => after.lock(actor, lease, wait, false),
            Op::Unlock => after.unlock(actor, &mut told),
            Op::GiveUp(wait) => after.give_up(actor, wait),
            Op::Pass(ms) => after.pass(ms),
        };
        after.settle();
        (answer, after, told)
    }

    /// The state after a beat of several places, what it says, and who was told.
    pub(crate) fn step_beat(&self, actors: &[usize]) -> ((i64, Vec<i64>), Model, Vec<usize>) {
        let (mut after, mut told) = (self.clone(), Vec::new());
        let answer = after.beat(actors, &mut told);
        after.settle();
        (answer, after, told)
    }

    /// A collection without members is no key.
    pub(crate) fn settle(&mut self) {
        for (key, is_empty) in
            [self.line.is_empty(), self.deadlines.is_empty(), self.alive.is_empty()].into_iter().enumerate()
        {
            if is_empty {
                self.ends[key] = None;
            }
        }
    }

    fn pass(&mut self, ms: i64) -> Answer {
        if let Some(hold) = &mut self.hold {
            hold.left -= ms;
        }
        self.hold.take_if(|hold| hold.left < 0);
        self.deadlines.values_mut().for_each(|deadline| *deadline -= ms);
        self.alive.values_mut().for_each(|lives| *lives -= 2 * ms);
        self.ends.iter_mut().flatten().for_each(|ends| *ends -= ms);
        let is_over = self.ends.map(|ends| ends.is_some_and(|ends| ends < 0));
        if is_over[LINE] {
            self.line.clear();
        }
        if is_over[DEADLINES] {
            self.deadlines.clear();
        }
        if is_over[ALIVE] {
            self.alive.clear();
        }
        Answer::None
    }

    pub(crate) fn left(&self) -> i64 {
        self.hold.as_ref().map_or(-2, |hold| hold.left)
    }

    fn is_mixed(&self) -> bool {
        self.line.len() != self.alive.len()
    }

    fn queue(&mut self, actor: usize, ttl: i64, beat: i64, told: &mut Vec<usize>) -> Answer {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.actor == actor) {
            hold.left = hold.left.max(ttl);
            return Answer::Granted;
        }
        let place = self.deadlines.get(&actor).copied();
        let silent = match place {
            Some(_) if beat > 0 => {
                self.begin();
                let silent = self.find_silent();
                self.refresh(actor);
                silent
            }
            _ => self.find_silent(),
        };
        self.remove_silent(&silent);
        let since = self.left().max(0);
        let (head, judged) = self.judge_head();
        if self.hold.is_none() && head.is_none_or(|head| head == actor) {
            self.hold = Some(Hold { actor, count: 1, left: ttl });
            if head.is_some() {
                self.leave(actor);
                self.expire();
            }
            return Answer::Granted;
        }
        let left = if self.hold.is_none() {
            told.extend(head);
            judged
        } else {
            self.left()
        };
        if beat == 0 {
            return Answer::Busy(left);
        }
        let ahead = match place {
            Some(_) => self.ahead(actor),
            None => self.join(actor, since),
        };
        self.expire();
        Answer::Waits(left, ahead)
    }

    fn join(&mut self, actor: usize, since: i64) -> i64 {
        let ahead = i64::try_from(self.line.len()).unwrap();
        let base = self.line.last().map_or(since, |tail| self.deadlines[tail]);
        let base = if self.is_mixed() { base.max(since) } else { base.min(since + ahead * WAIT) };
        self.alive.insert(actor, 2 * BEAT);
        self.deadlines.insert(actor, base + WAIT);
        self.line.push(actor);
        ahead
    }

    fn beat(&mut self, actors: &[usize], told: &mut Vec<usize>) -> (i64, Vec<i64>) {
        self.begin();
        let silent = self.find_silent();
        let has_place: Vec<_> = actors.iter().map(|actor| self.deadlines.contains_key(actor)).collect();
        for (actor, has_place) in actors.iter().zip(&has_place) {
            if *has_place {
                self.refresh(*actor);
            } else {
                self.alive.remove(actor);
            }
        }
        self.remove_silent(&silent);
        let (head, judged) = self.judge_head();
        self.expire();
        let is_free = self.hold.is_none();
        let mut ranks = self.ranks(actors, &has_place).into_iter();
        let places = actors.iter().zip(has_place).map(|(actor, has_place)| match has_place {
            false => -2,
            true if head == Some(*actor) => {
                ranks.next();
                if is_free { -1 } else { 0 }
            }
            true => ranks.next().unwrap().max(1),
        });
        let places: Vec<_> = places.collect();
        if is_free {
            told.extend(head.filter(|head| !actors.contains(head)));
        }
        (if is_free { judged } else { self.left() }, places)
    }

    fn release(&mut self, actor: usize, told: &mut Vec<usize>) -> Answer {
        let had_hold = self.hold.take_if(|hold| hold.actor == actor).is_some();
        let had_place = self.leave(actor);
        self.settle();
        self.look(told);
        if had_hold || had_place { Answer::Released } else { Answer::NotYours }
    }

    fn force(&mut self, told: &mut Vec<usize>) -> Answer {
        if self.hold.take().is_none() {
            return Answer::NotYours;
        }
        self.look(told);
        Answer::Released
    }

    fn look(&mut self, told: &mut Vec<usize>) {
        let silent = self.find_silent();
        self.remove_silent(&silent);
        let (head, _) = self.judge_head();
        if self.hold.is_none() {
            told.extend(head);
        }
    }

    fn begin(&mut self) {
        if !self.alive.is_empty() {
            self.ends[ALIVE] = Some(WAIT);
        }
    }

    fn refresh(&mut self, actor: usize) {
        self.alive.insert(actor, 2 * BEAT);
        self.raise(actor);
    }

    fn raise(&mut self, actor: usize) {
        if self.deadlines[&actor] < WAIT / 2 {
            self.deadlines.insert(actor, WAIT);
        }
    }

    fn find_silent(&mut self) -> Vec<usize> {
        let lowest = self.alive.values().min().copied().unwrap_or(1);
        let highest = self.alive.values().max().copied().unwrap_or(1);
        if lowest > 0 && highest <= 2 * AHEAD_MAX {
            return Vec::new();
        }
        let is_stall = highest <= -2 * UNHEARD;
        let mark = 1 + 2 * if is_stall { SUSPICION_AFTER_STALL } else { SUSPICION };
        let mut silent = Vec::new();
        for (actor, lives) in self.alive.clone() {
            if lives > 2 * AHEAD_MAX {
                self.alive.insert(actor, 1 + 2 * SUSPICION);
            } else if lives > 0 {
            } else if !self.deadlines.contains_key(&actor) {
                self.alive.remove(&actor);
            } else if lives % 2 == 0 {
                self.alive.insert(actor, mark);
            } else {
                silent.push((lives, name(actor), actor));
            }
        }
        silent.sort();
        silent.into_iter().map(|(_, _, actor)| actor).collect()
    }

    fn remove_silent(&mut self, silent: &[usize]) {
        for actor in silent.iter().take(SILENT_MAX) {
            if self.alive.get(actor).is_some_and(|lives| *lives <= 0) {
                self.remove(*actor);
            }
        }
    }

    fn judge_head(&mut self) -> (Option<usize>, i64) {
        while let Some(head) = self.line.first().copied() {
            let is_free = self.hold.is_none();
            let latest = if is_free { WAIT } else { i64::MAX };
            let deadline = self.deadlines[&head].min(latest);
            match self.alive.get(&head).copied() {
                Some(lives) if lives > 0 => {
                    self.deadlines.insert(head, deadline);
                    self.raise(head);
                    self.bring_forward(latest);
                    return (Some(head), (lives + 1) / 2 + if lives % 2 == 0 { SUSPICION } else { 0 });
                }
                None if deadline > 0 => {
                    self.deadlines.insert(head, deadline);
                    self.bring_forward(latest);
                    return (Some(head), deadline);
                }
                _ => drop(self.remove(head)),
            }
        }
        (None, 0)
    }

    fn bring_forward(&mut self, latest: i64) {
        let places = if self.is_mixed() { self.line.len() } else { 0 };
        for (actor, number) in self.line[..places].iter().zip(1..) {
            if self.alive.contains_key(actor) {
                let deadline = self.deadlines[actor].min(latest.saturating_mul(number));
                self.deadlines.insert(*actor, deadline);
            }
        }
    }

    fn remove(&mut self, actor: usize) -> bool {
        let place = self.line.iter().position(|other| *other == actor);
        place.map(|place| self.line.remove(place));
        self.alive.remove(&actor);
        self.deadlines.remove(&actor).is_some()
    }

    fn leave(&mut self, actor: usize) -> bool {
        let is_mixed = self.is_mixed();
        let place = self.line.iter().position(|other| *other == actor);
        let followers = place.filter(|_| is_mixed).map(|place| self.line[place + 1..].to_vec());
        let had_place = self.remove(actor);
        for follower in followers.unwrap_or_default() {
            let before = self.deadlines[&follower];
            let is_ours = self.alive.contains_key(&follower);
            let least = if is_ours { i64::MIN } else { before.min(WAIT) };
            self.deadlines.insert(follower, (before - WAIT).max(least));
            if is_ours {
                self.raise(follower);
            }
        }
        had_place
    }

    fn expire(&mut self) {
        let Some(tail) = self.line.last() else { return };
        let ends = self.deadlines[tail].max(0) + WAIT;
        let of_line = (!self.is_mixed()).then_some(ends);
        self.ends = [of_line, of_line, Some(ends)];
    }

    fn rank(&self, actor: usize) -> i64 {
        let key = |actor: usize| (self.deadlines[&actor], name(actor));
        let before = self.line.iter().filter(|other| key(**other) < key(actor)).count();
        i64::try_from(before).unwrap()
    }

    /// Of those that have a place: the first and the last are counted, those between lie in between.
    fn ranks(&self, actors: &[usize], has_place: &[bool]) -> Vec<i64> {
        let placed: Vec<_> = actors.iter().zip(has_place).filter(|(_, has_place)| **has_place).collect();
        let (Some((first, _)), Some((last, _))) = (placed.first(), placed.last()) else { return Vec::new() };
        let (first, last) = (self.rank(**first), self.rank(**last));
        let gaps = i64::try_from(placed.len() - 1).unwrap().max(1);
        (0..).take(placed.len()).map(|n: i64| first + ((last - first) * n).div_euclid(gaps)).collect()
    }

    /// What one owner is told.
    fn ahead(&self, actor: usize) -> i64 {
        if self.line.first() == Some(&actor) { 0 } else { self.rank(actor).max(1) }
    }
}
