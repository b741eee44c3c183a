//! Explores every interleaving of asks, answers, releases, notices and one loss, for one entry of a read/write lock and
//! one foreign process that reads and writes.
//!
//! The world is that of `model.rs` with a server that knows many readers or one writer, and a subscription that never
//! breaks. Time does not pass, except for the short waits that an entry requests itself. So an event that only the
//! safety poll would cause never happens, and the missing event shows as a caller that waits for a lock that it could
//! have.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use super::*;
use crate::{
    acquire::caller::Patience,
    fencing::FencingToken,
    key::LockKey,
    lease::{state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    metrics::{ClassId, LabelSet},
    owner::{Owner, OwnerMint},
    routing::topology::{ClockId, NodeId},
    transport::{HoldKind, Outcome, Remaining, ServerTime},
};

const TTL: Duration = Duration::from_secs(30);
const START: Instant = Instant::from_nanos(1_000_000_000);
const PACE: Pace = Pace {
    unavailable_after: Duration::from_secs(10),
    command_timeout: Duration::from_secs(1),
    safety_poll: Duration::from_secs(1),
    round_trip: Duration::from_millis(1),
    hand_offs_max: 0,
    jitter: 0,
};

/// Which events may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The kinds of the callers that are queued from the start, in order.
    queued: &'static [HoldKind],
    /// Callers that come later.
    late_readers: u32,
    late_writers: u32,
    foreign_reads: u32,
    foreign_writes: u32,
    /// How often the caller at the head leaves.
    departures: u32,
    /// How often a hold of this engine is deleted on the server, without a notice.
    deletions: u32,
    /// The leases are in jeopardy as soon as they are held, so no reader joins them.
    jeopardy: bool,
}

const SMALL: Bounds = Bounds {
    queued: &[],
    late_readers: 0,
    late_writers: 0,
    foreign_reads: 0,
    foreign_writes: 0,
    departures: 0,
    deletions: 0,
    jeopardy: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Ask(Owner, HoldKind, u64),
    Release(Owner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Driver {
    InFlight(u64),
    Waiting(Option<Instant>),
    Resting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    ServerTakesCommand,
    AnswerArrives,
    NoticeArrives,
    SubscriptionTakesEffect,
    CloserSends,
    HolderReleases(usize),
    HoldVanishes(usize),
    LossIsNoticed(usize),
    ReaderComes,
    WriterComes,
    HeadDeparts,
    ForeignReads,
    ForeignWrites,
    ForeignReleases,
    ShortWaitEnds,
}

struct World {
    bounds: Bounds,
    entry: Entry<()>,
    mint: OwnerMint,
    now: Instant,
    /// The holds on the server. `None`: the foreign process.
    holds: Vec<(Option<Owner>, HoldKind)>,
    commands: VecDeque<Command>,
    answers: VecDeque<(u64, Outcome)>,
    notices: u64,
    watched: bool,
    in_force: bool,
    seen_in_force: bool,
    driver: Driver,
    closings: Vec<Owner>,
    leases: Vec<Arc<LeaseCore>>,
    asks: u64,
    callers: u64,
    owners: Vec<Owner>,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let mut world = Self {
            bounds,
            entry: Entry::default(),
            mint: OwnerMint::new(),
            now: START,
            holds: Vec::new(),
            commands: VecDeque::new(),
            answers: VecDeque::new(),
            notices: 0,
            watched: false,
            in_force: false,
            seen_in_force: false,
            driver: Driver::Resting,
            closings: Vec::new(),
            leases: Vec::new(),
            asks: 0,
            callers: 0,
            owners: Vec::new(),
        };
        bounds.queued.iter().for_each(|kind| world.come(*kind));
        world.drive();
        world
    }

    fn come(&mut self, kind: HoldKind) {
        let labels = LabelSet::of(kind, ClassId::DEFAULT);
        let terms = Terms { kind, ttl: TTL, renewed: true, max_hold: None, labels };
        if let Some(lease) = self.entry.joinable(terms, self.now) {
            assert!(kind == HoldKind::Read && lease.kind() == HoldKind::Read, "only readers share");
            assert!(
                !self.entry.callers().any(|caller| caller.terms.kind == HoldKind::Write),
                "it passed a writer"
            );
            lease.add_hold(kind);
            return;
        }
        self.callers += 1;
        let (id, patience) = (CallerId(self.callers), Patience::Wait(None));
        self.entry.join(Caller {
            id,
            terms,
            side: terms.kind,
            patience,
            joined: self.now,
            scope: None,
            late: 0,
            reply_to: (),
        });
    }

    fn is_grantable(&self, owner: Option<Owner>, kind: HoldKind) -> bool {
        let is_own = |holder: Option<Owner>| owner.is_some() && holder == owner;
        self.holds.iter().all(|(holder, held)| is_own(*holder) || grants::are_compatible(*held, kind))
    }

    fn actions(&self) -> Vec<Action> {
        let mut all = vec![
            Action::ServerTakesCommand,
            Action::AnswerArrives,
            Action::NoticeArrives,
            Action::SubscriptionTakesEffect,
            Action::CloserSends,
            Action::ReaderComes,
            Action::WriterComes,
            Action::HeadDeparts,
            Action::ForeignReads,
            Action::ForeignWrites,
            Action::ForeignReleases,
            Action::ShortWaitEnds,
        ];
        for place in 0..self.leases.len() {
            all.extend([
                Action::HolderReleases(place),
                Action::HoldVanishes(place),
                Action::LossIsNoticed(place),
            ]);
        }
        all.retain(|action| self.is_possible(*action));
        all
    }

    fn is_possible(&self, action: Action) -> bool {
        let Bounds { late_readers, late_writers, foreign_reads, foreign_writes, deletions, .. } = self.bounds;
        match action {
            Action::ServerTakesCommand => !self.commands.is_empty(),
            Action::AnswerArrives => !self.answers.is_empty(),
            Action::NoticeArrives => self.notices > 0,
            Action::SubscriptionTakesEffect => self.watched && !self.in_force,
            Action::CloserSends => !self.closings.is_empty(),
            Action::ReaderComes => late_readers > 0,
            Action::WriterComes => late_writers > 0,
            Action::HeadDeparts => self.bounds.departures > 0 && !self.entry.callers.is_empty(),
            Action::ForeignReads => foreign_reads > 0 && self.is_grantable(None, HoldKind::Read),
            Action::ForeignWrites => foreign_writes > 0 && self.is_grantable(None, HoldKind::Write),
            Action::ForeignReleases => self.holds.iter().any(|(holder, _)| holder.is_none()),
            Action::ShortWaitEnds => self.short_wait().is_some(),
            Action::HolderReleases(place) => self.is_local(place),
            Action::HoldVanishes(place) => deletions > 0 && self.is_on_server(place) && self.is_local(place),
            Action::LossIsNoticed(place) => self.is_local(place) && !self.is_on_server(place),
        }
    }

    fn is_local(&self, place: usize) -> bool {
        self.entry.leases().any(|lease| Arc::ptr_eq(lease, &self.leases[place]))
    }

    fn is_on_server(&self, place: usize) -> bool {
        self.holds.iter().any(|(holder, _)| *holder == Some(self.leases[place].owner))
    }

    fn short_wait(&self) -> Option<Instant> {
        match self.driver {
            Driver::Waiting(Some(until)) if until < self.now + PACE.safety_poll => Some(until),
            _ => None,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ServerTakesCommand => self.execute(),
            Action::AnswerArrives => self.receive(),
            Action::NoticeArrives => {
                self.notices -= 1;
                self.entry.handle_notices(1, false, self.now, &PACE);
            }
            Action::SubscriptionTakesEffect => self.in_force = true,
            Action::CloserSends => {
                let owner = self.closings.remove(0);
                self.commands.push_back(Command::Release(owner));
            }
            Action::HolderReleases(place) => self.release(place),
            Action::HoldVanishes(place) => {
                self.bounds.deletions -= 1;
                let owner = Some(self.leases[place].owner);
                self.holds.retain(|(holder, _)| *holder != owner);
            }
            Action::LossIsNoticed(place) => {
                let lease = self.leases[place].clone();
                assert!(lease.lose(LossReason::NotOurs));
                self.entry.handle_local_loss(&lease, self.now, PACE.round_trip);
            }
            Action::ReaderComes => {
                self.bounds.late_readers -= 1;
                self.come(HoldKind::Read);
            }
            Action::WriterComes => {
                self.bounds.late_writers -= 1;
                self.come(HoldKind::Write);
            }
            Action::HeadDeparts => {
                self.bounds.departures -= 1;
                let head = self.entry.callers.head().map(|head| head.id);
                head.map(|head| self.entry.depart(head));
            }
            Action::ForeignReads => {
                self.bounds.foreign_reads -= 1;
                self.holds.push((None, HoldKind::Read));
            }
            Action::ForeignWrites => {
                self.bounds.foreign_writes -= 1;
                self.holds.push((None, HoldKind::Write));
            }
            Action::ForeignReleases => self.free(None),
            Action::ShortWaitEnds => self.now = self.short_wait().unwrap_or(self.now),
        }
        self.drive();
        self.check();
    }

    /// Ends one hold. As on a server, only the end of the last hold is told.
    fn free(&mut self, owner: Option<Owner>) {
        let Some(place) = self.holds.iter().position(|(holder, _)| *holder == owner) else { return };
        self.holds.remove(place);
        if self.holds.is_empty() && self.in_force {
            self.notices += 1;
        }
    }

    fn execute(&mut self) {
        match self.commands.pop_front() {
            Some(Command::Ask(owner, kind, ask)) => {
                let is_held = self.holds.contains(&(Some(owner), kind));
                let outcome = if is_held || self.is_grantable(Some(owner), kind) {
                    if !is_held {
                        self.holds.push((Some(owner), kind));
                    }
                    Outcome::Granted { token: FencingToken::at_server_micros(1), at: server() }
                } else {
                    Outcome::Busy { remaining: Remaining::For(TTL), at: server() }
                };
                self.answers.push_back((ask, outcome));
            }
            Some(Command::Release(owner)) => self.free(Some(owner)),
            None => {}
        }
    }

    fn receive(&mut self) {
        let Some((ask, outcome)) = self.answers.pop_front() else { return };
        assert_eq!(self.driver, Driver::InFlight(ask));
        self.driver = Driver::Waiting(None);
        let execute_by = self.now + PACE.command_timeout;
        let verdict = self.entry.handle_answer(Ok(outcome), self.now, execute_by, self.now, &PACE);
        self.close(verdict.closing);
        assert!(verdict.leaving.is_empty(), "no caller only tries");
        verdict.grant.into_iter().for_each(|grant| self.install(grant));
    }

    fn install(&mut self, Grant { receiver, sharers, granted, open, .. }: Grant<()>) {
        let held = self.holds.iter().find(|(holder, _)| *holder == Some(granted.owner));
        assert!(held.is_none_or(|(_, kind)| *kind == receiver.terms.kind), "a grant of another kind");
        let writer = self.entry.callers().find(|caller| caller.terms.kind == HoldKind::Write);
        let is_fit = |caller: &Caller<()>| {
            let is_read = (caller.terms.kind, receiver.terms.kind) == (HoldKind::Read, HoldKind::Read);
            is_read && writer.is_none_or(|writer| writer.id > caller.id)
        };
        assert!(sharers.iter().all(is_fit), "only readers share, and none passes a writer");
        let holders = 1 + u32::try_from(sharers.len()).unwrap_or(u32::MAX);
        let key = LockKey::new("", "a").expect("a name");
        let lease = Arc::new(LeaseCore::new(key, receiver.terms, granted, open, holders));
        lease.take(self.now);
        if self.bounds.jeopardy {
            lease.enter_jeopardy();
        }
        self.leases.push(lease.clone());
        for earlier in self.entry.install(lease, None) {
            assert!(
                !self.holds.iter().any(|(holder, _)| *holder == Some(earlier.lease().owner)),
                "a lease that is held"
            );
            assert!(earlier.lease().lose(LossReason::NotOurs));
        }
    }

    fn release(&mut self, place: usize) {
        let lease = self.leases[place].clone();
        if lease.remove_hold(lease.kind()) == 0 {
            assert!(lease.release());
            self.entry.handle_local_release(&lease, self.now, self.watched && self.in_force, PACE.round_trip);
            self.commands.push_back(Command::Release(lease.owner));
        }
    }

    fn close(&mut self, closing: Option<UnconfirmedOwner>) {
        self.closings.extend(closing.map(|closing| closing.owner));
    }

    fn drive(&mut self) {
        while !matches!(self.driver, Driver::InFlight(_)) {
            if self.watched && self.in_force && !self.seen_in_force {
                self.seen_in_force = true;
                self.entry.handle_notices(0, true, self.now, &PACE);
            }
            let (step, closing) = self.entry.take_step(self.now, &self.mint, &PACE);
            self.close(closing);
            match step {
                Step::Ask(ask) => self.send(ask),
                Step::TakeBack(lease) => panic!("every grant is taken: {lease:?}"),
                Step::Wait { until, watch } => {
                    let look = self.entry.next_look(self.now); // it finds that the grant was taken
                    self.driver = Driver::Waiting(until.filter(|until| Some(*until) != look));
                    self.watched |= watch;
                    return;
                }
                Step::Rest => {
                    self.driver = Driver::Resting;
                    (self.watched, self.in_force, self.seen_in_force, self.notices) =
                        (false, false, false, 0);
                    return;
                }
            }
        }
    }

    fn send(&mut self, ask: Ask) {
        self.asks += 1;
        if !self.owners.contains(&ask.owner) {
            self.owners.push(ask.owner);
        }
        self.entry.note_sent(self.now);
        self.commands.push_back(Command::Ask(ask.owner, ask.kind, self.asks));
        self.driver = Driver::InFlight(self.asks);
    }

    fn check(&self) {
        let writers = self.holds.iter().filter(|(_, kind)| *kind == HoldKind::Write).count();
        assert!(writers == 0 || self.holds.len() == 1, "the world's own server: {:?}", self.holds);
        assert!(self.asks < 40, "asks without end");
        let is_quiet = self.commands.is_empty() && self.answers.is_empty() && self.closings.is_empty();
        let is_told = self.notices == 0 && (!self.watched || self.seen_in_force);
        if !is_quiet || !is_told || self.short_wait().is_some() {
            return;
        }
        if let Some(head) = self.entry.callers.head() {
            let is_excluded =
                self.entry.leases().any(|lease| !grants::are_compatible(lease.kind(), head.terms.kind));
            let could_have = self.is_grantable(Some(self.mint.mint()), head.terms.kind);
            assert!(is_excluded || !could_have, "a caller waits for a lock that it could have");
        }
        for owner in self.holds.iter().filter_map(|(holder, _)| *holder) {
            let is_wanted = self.entry.leases().any(|lease| lease.owner == owner);
            let is_asked = self.entry.attempt.as_ref().is_some_and(|attempt| attempt.owner == owner);
            assert!(is_wanted || is_asked, "a hold that no caller wants");
        }
    }

    /// Every part of the state on which the future depends. Owners are numbered by the order of their creation.
    fn fingerprint(&self) -> String {
        let name = |owner: Owner| self.owners.iter().position(|known| *known == owner);
        let Entry { callers, attempt, next_ask, cause, last_held, standing_back, follow_up, .. } =
            &self.entry;
        let commands = self.commands.iter().map(|command| match command {
            Command::Ask(owner, kind, _) => (name(*owner), Some(*kind)),
            Command::Release(owner) => (name(*owner), None),
        });
        let leases = self.entry.leases().map(|lease| (name(lease.owner), lease.kind(), lease.holds()));
        let answers = self
            .answers
            .iter()
            .map(|(ask, outcome)| (self.asks - ask, matches!(outcome, Outcome::Granted { .. })));
        let holds = self.holds.iter().map(|(holder, kind)| (holder.map(name), *kind));
        format!(
            "{:?}",
            (
                (callers.iter().map(|caller| caller.terms.kind).collect::<Vec<_>>(), next_ask, cause),
                (last_held, standing_back, follow_up, &self.entry.fairness, self.entry.failures),
                (attempt.as_ref().map(|it| (name(it.owner), it.kind)), leases.collect::<Vec<_>>()),
                (holds.collect::<Vec<_>>(), commands.collect::<Vec<_>>(), answers.collect::<Vec<_>>()),
                (self.notices, self.watched, self.in_force, self.seen_in_force, self.now),
                (matches!(self.driver, Driver::InFlight(_)), self.short_wait(), self.bounds),
                (self.closings.iter().map(|it| name(*it)).collect::<Vec<_>>(), self.owners.len()),
            )
        )
    }
}

fn server() -> ServerTime {
    ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 1 } }
}

/// Visits every reachable state, and returns the number of states.
fn explore(bounds: Bounds) -> usize {
    let mut visited = HashSet::new();
    let mut paths = VecDeque::from([Vec::new()]);
    while let Some(path) = paths.pop_front() {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(bounds);
            path.iter().for_each(|action| world.act(*action));
            (world.fingerprint(), world.actions())
        });
        let Ok((fingerprint, actions)) = outcome else { panic!("{bounds:?}: {path:?}") };
        if visited.insert(fingerprint) {
            paths.extend(actions.into_iter().map(|action| [&path[..], &[action]].concat()));
        }
    }
    visited.len()
}

const READ: HoldKind = HoldKind::Read;
const WRITE: HoldKind = HoldKind::Write;
const ORDERS: [&[HoldKind]; 6] = [
    &[READ, READ, WRITE, WRITE],
    &[READ, WRITE, READ, WRITE],
    &[READ, WRITE, WRITE, READ],
    &[WRITE, READ, READ, WRITE],
    &[WRITE, READ, WRITE, READ],
    &[WRITE, WRITE, READ, READ],
];

#[test]
fn l2_no_reader_and_no_writer_waits_for_a_lock_that_it_could_have() {
    for queued in ORDERS {
        for jeopardy in [false, true] {
            let states = explore(Bounds { queued, jeopardy, deletions: 1, ..SMALL });
            assert!(states > 20, "{states}");
        }
    }
}

#[test]
fn l2_nor_beside_a_foreign_reader_and_a_foreign_writer() {
    for queued in [&ORDERS[0][1..3], &ORDERS[3][..2], &ORDERS[0][..2], &ORDERS[5][..2]] {
        explore(Bounds { queued, foreign_reads: 1, foreign_writes: 1, ..SMALL });
    }
}

#[test]
fn l2_nor_when_the_head_leaves() {
    for queued in ORDERS {
        explore(Bounds { queued, departures: 1, ..SMALL });
        explore(Bounds { queued: &queued[..3], departures: 2, foreign_writes: 1, ..SMALL });
    }
    let late = Bounds { late_readers: 1, late_writers: 1, departures: 1, deletions: 1, ..SMALL };
    explore(Bounds { queued: &[READ], foreign_writes: 1, jeopardy: true, ..late });
}

#[test]
fn l2_nor_when_readers_and_writers_come_later() {
    for queued in [&ORDERS[0][1..3], &ORDERS[3][..2]] {
        for jeopardy in [false, true] {
            explore(Bounds { queued, late_readers: 2, late_writers: 1, jeopardy, ..SMALL });
            explore(Bounds { queued, late_readers: 1, foreign_writes: 1, deletions: 1, jeopardy, ..SMALL });
        }
    }
}
