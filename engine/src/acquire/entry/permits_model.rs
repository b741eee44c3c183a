//! Explores every interleaving of asks, answers, lost answers, releases, notices and one loss, for one entry of a
//! semaphore whose permits expire and one foreign process.
//!
//! The world is that of `read_write_model.rs` with a server that knows a number of permits, and whose notices come with
//! each release. Time does not pass, except for the short waits that an entry requests itself. So an event that only the
//! safety poll would cause never happens, and the missing event shows as a caller that waits for permits that it could
//! have.

use std::{
    collections::{HashSet, VecDeque},
    num::NonZeroU16,
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
    transport::{ErrorKind, HoldKind, Outcome, Remaining, ServerTime, TransportError},
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
    total: u16,
    /// How many permits each of the callers wants that are queued from the start, in order.
    queued: &'static [u16],
    /// What a caller wants that comes later, if one does.
    late: Option<u16>,
    /// How often the foreign process takes one permit.
    foreign: u32,
    /// How often the caller at the head leaves.
    departures: u32,
    /// How often a hold of this engine is given back by a peer.
    losses: u32,
    /// How often an answer is lost.
    lost_answers: u32,
}

const SMALL: Bounds =
    Bounds { total: 2, queued: &[], late: None, foreign: 0, departures: 0, losses: 0, lost_answers: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Ask(Owner, u16, u64),
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
    AnswerIsLost,
    NoticeArrives,
    SubscriptionTakesEffect,
    CloserSends,
    HolderReleases(usize),
    PeerGivesBack(usize),
    LossIsNoticed(usize),
    CallerComes,
    HeadDeparts,
    ForeignTakes,
    ForeignReleases,
    ShortWaitEnds,
}

struct World {
    bounds: Bounds,
    entry: Entry<()>,
    mint: OwnerMint,
    now: Instant,
    /// The holds on the server. `None`: the foreign process.
    holds: Vec<(Option<Owner>, u16)>,
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

fn of(permits: u16) -> HoldKind {
    HoldKind::Permits(NonZeroU16::new(permits).expect("above zero"))
}

fn count(kind: HoldKind) -> u16 {
    let HoldKind::Permits(permits) = kind else { panic!("{kind:?}") };
    permits.get()
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
        bounds.queued.iter().for_each(|permits| world.come(*permits));
        world.drive();
        world
    }

    fn come(&mut self, permits: u16) {
        let kind = of(permits);
        let labels = LabelSet::of(kind, ClassId::DEFAULT);
        let terms = Terms { kind, ttl: TTL, renewed: true, max_hold: None, labels };
        assert!(self.entry.joinable(terms, self.now).is_none(), "each caller has permits of its own");
        self.callers += 1;
        let (id, patience) = (CallerId(self.callers), Patience::Wait(None));
        let caller =
            Caller { id, terms, side: kind, patience, joined: self.now, scope: None, late: 0, reply_to: () };
        self.entry.join(caller);
    }

    fn available(&self) -> u16 {
        self.bounds.total - self.holds.iter().map(|(_, permits)| permits).sum::<u16>()
    }

    fn actions(&self) -> Vec<Action> {
        let mut all = vec![
            Action::ServerTakesCommand,
            Action::AnswerArrives,
            Action::AnswerIsLost,
            Action::NoticeArrives,
            Action::SubscriptionTakesEffect,
            Action::CloserSends,
            Action::CallerComes,
            Action::HeadDeparts,
            Action::ForeignTakes,
            Action::ForeignReleases,
            Action::ShortWaitEnds,
        ];
        for place in 0..self.leases.len() {
            all.extend([
                Action::HolderReleases(place),
                Action::PeerGivesBack(place),
                Action::LossIsNoticed(place),
            ]);
        }
        all.retain(|action| self.is_possible(*action));
        all
    }

    fn is_possible(&self, action: Action) -> bool {
        let Bounds { late, foreign, departures, losses, lost_answers, .. } = self.bounds;
        match action {
            Action::ServerTakesCommand => !self.commands.is_empty(),
            Action::AnswerArrives => !self.answers.is_empty(),
            Action::AnswerIsLost => lost_answers > 0 && !self.answers.is_empty(),
            Action::NoticeArrives => self.notices > 0,
            Action::SubscriptionTakesEffect => self.watched && !self.in_force,
            Action::CloserSends => !self.closings.is_empty(),
            Action::CallerComes => late.is_some(),
            Action::HeadDeparts => departures > 0 && !self.entry.callers.is_empty(),
            Action::ForeignTakes => foreign > 0 && self.available() > 0,
            Action::ForeignReleases => self.holds.iter().any(|(holder, _)| holder.is_none()),
            Action::ShortWaitEnds => self.short_wait().is_some(),
            Action::HolderReleases(place) => self.is_local(place),
            Action::PeerGivesBack(place) => losses > 0 && self.is_on_server(place) && self.is_local(place),
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
            Action::AnswerArrives => self.receive(Ok),
            Action::AnswerIsLost => {
                self.receive(|_| Err(TransportError::unknown(ErrorKind::TimedOut, server(), "lost")));
                self.bounds.lost_answers -= 1;
            }
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
            Action::PeerGivesBack(place) => {
                self.bounds.losses -= 1;
                self.free(Some(self.leases[place].owner));
            }
            Action::LossIsNoticed(place) => {
                let lease = self.leases[place].clone();
                assert!(lease.lose(LossReason::NotOurs));
                self.entry.handle_local_loss(&lease, self.now, PACE.round_trip);
            }
            Action::CallerComes => {
                if let Some(permits) = self.bounds.late.take() {
                    self.come(permits);
                }
            }
            Action::HeadDeparts => {
                self.bounds.departures -= 1;
                let head = self.entry.callers.head().map(|head| head.id);
                head.map(|head| self.entry.depart(head));
            }
            Action::ForeignTakes => {
                self.bounds.foreign -= 1;
                self.holds.push((None, 1));
            }
            Action::ForeignReleases => self.free(None),
            Action::ShortWaitEnds => self.now = self.short_wait().unwrap_or(self.now),
        }
        self.drive();
        self.check();
    }

    /// Ends one hold. Each end is told.
    fn free(&mut self, owner: Option<Owner>) {
        let Some(place) = self.holds.iter().position(|(holder, _)| *holder == owner) else { return };
        self.holds.remove(place);
        if self.in_force {
            self.notices += 1;
        }
    }

    fn execute(&mut self) {
        match self.commands.pop_front() {
            Some(Command::Ask(owner, permits, ask)) => {
                let held = self.holds.iter().find(|(holder, _)| *holder == Some(owner)).copied();
                assert!(held.is_none_or(|(_, had)| had == permits), "an owner that asks for another number");
                let is_granted = held.is_some() || self.available() >= permits;
                if is_granted && held.is_none() {
                    self.holds.push((Some(owner), permits));
                }
                let outcome = match is_granted {
                    true => Outcome::Granted { token: FencingToken::at_server_micros(1), at: server() },
                    false => Outcome::Busy { remaining: Remaining::For(TTL), at: server() },
                };
                self.answers.push_back((ask, outcome));
            }
            Some(Command::Release(owner)) => self.free(Some(owner)),
            None => {}
        }
    }

    fn receive(&mut self, heard: impl Fn(Outcome) -> Result<Outcome, TransportError>) {
        let Some((ask, outcome)) = self.answers.pop_front() else { return };
        assert_eq!(self.driver, Driver::InFlight(ask));
        self.driver = Driver::Waiting(None);
        let execute_by = self.now + PACE.command_timeout;
        let verdict = self.entry.handle_answer(heard(outcome), self.now, execute_by, self.now, &PACE);
        self.closings.extend(verdict.closing.map(|closing| closing.owner));
        assert!(verdict.leaving.is_empty(), "no caller only tries");
        verdict.grant.into_iter().for_each(|grant| self.install(grant));
    }

    fn install(&mut self, Grant { receiver, sharers, granted, open, .. }: Grant<()>) {
        let held = self.holds.iter().find(|(holder, _)| *holder == Some(granted.owner));
        assert!(held.is_some_and(|(_, permits)| *permits == count(receiver.terms.kind)), "another number");
        assert!(sharers.is_empty(), "a grant is one caller's");
        let first = self.entry.callers().find(|caller| caller.terms.kind == receiver.terms.kind);
        assert!(first.is_none_or(|caller| caller.id > receiver.id), "it passed a caller that wants as many");
        let key = LockKey::with_family("", "a", crate::key::Family::Permits).expect("a name");
        let lease = Arc::new(LeaseCore::new(key, receiver.terms, granted, open, 1));
        lease.take(self.now);
        self.leases.push(lease.clone());
        let lost = self.entry.install(lease, None);
        assert!(lost.is_empty(), "a second grant proves nothing about the first");
    }

    fn release(&mut self, place: usize) {
        let lease = self.leases[place].clone();
        assert_eq!(lease.remove_hold(lease.kind()), 0);
        assert!(lease.release());
        self.entry.handle_local_release(&lease, self.now, self.watched && self.in_force, PACE.round_trip);
        self.commands.push_back(Command::Release(lease.owner));
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
        self.commands.push_back(Command::Ask(ask.owner, count(ask.kind), self.asks));
        self.driver = Driver::InFlight(self.asks);
    }

    fn check(&self) {
        assert!(self.asks < 40, "asks without end");
        let is_quiet = self.commands.is_empty() && self.answers.is_empty() && self.closings.is_empty();
        let is_told = self.notices == 0 && (!self.watched || self.seen_in_force);
        if !is_quiet || !is_told || self.short_wait().is_some() {
            return;
        }
        if let Some(head) = self.entry.callers.head() {
            assert!(
                self.available() < count(head.terms.kind),
                "a caller waits for permits that it could have"
            );
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
        let Entry { callers, attempt, next_ask, cause, last_held, follow_up, .. } = &self.entry;
        let commands = self.commands.iter().map(|command| match command {
            Command::Ask(owner, permits, _) => (name(*owner), Some(*permits)),
            Command::Release(owner) => (name(*owner), None),
        });
        let leases = self.entry.leases().map(|lease| (name(lease.owner), lease.kind()));
        let answers = self
            .answers
            .iter()
            .map(|(ask, outcome)| (self.asks - ask, matches!(outcome, Outcome::Granted { .. })));
        let holds = self.holds.iter().map(|(holder, permits)| (holder.map(name), *permits));
        format!(
            "{:?}",
            (
                (callers.iter().map(|caller| caller.terms.kind).collect::<Vec<_>>(), next_ask, cause),
                (last_held, follow_up, self.entry.failures),
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

const WANTS: [&[u16]; 4] = [&[1, 1], &[2, 1], &[1, 2], &[2, 2]];

#[test]
fn l2_no_caller_waits_for_permits_that_it_could_have() {
    for queued in WANTS {
        let states = explore(Bounds { queued, losses: 1, lost_answers: 1, ..SMALL });
        assert!(states > 20, "{states}");
    }
}

#[test]
fn l2_nor_beside_a_foreign_holder() {
    for queued in WANTS {
        explore(Bounds { queued, foreign: 2, ..SMALL });
        explore(Bounds { queued, foreign: 1, losses: 1, ..SMALL });
    }
}

#[test]
fn l2_nor_when_the_head_leaves() {
    for queued in WANTS {
        explore(Bounds { queued, departures: 1, foreign: 1, ..SMALL });
        explore(Bounds { queued, departures: 2, lost_answers: 1, ..SMALL });
    }
}

#[test]
fn l2_nor_when_it_comes_later() {
    for queued in WANTS {
        for late in [1, 2] {
            explore(Bounds { total: 3, queued, late: Some(late), foreign: 1, ..SMALL });
            explore(Bounds {
                queued: &queued[..1],
                late: Some(late),
                departures: 1,
                losses: 1,
                foreign: 1,
                ..SMALL
            });
        }
    }
}
