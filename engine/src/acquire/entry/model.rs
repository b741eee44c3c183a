//! Explores every interleaving of release, notice, ask and answer, for one entry and one foreign process.
//!
//! The world has a server that knows one hold; a connection that carries asks, releases and their answers in order; a
//! second connection for notices, whose subscription comes in force at any moment and may be cut; and a foreign process
//! that releases and takes the lock again. A driver does what the entry says. Time does not pass, except for the short
//! waits that an entry requests itself (standing back, back-off). So an event that only the safety poll would cause
//! never happens, and the missing event shows as a caller that waits for a free lock.
//!
//! The search is breadth first and visits each state once, so a failure shows a shortest path. A path is a list of
//! choices that is replayed from the beginning.

use std::collections::{HashSet, VecDeque};

use std::time::Duration;

use super::{hand_off::spare_tokens, *};
use crate::{
    acquire::caller::{Leaving, Patience, Refusal},
    fencing::FencingToken,
    key::LockKey,
    lease::{state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    owner::{Owner, OwnerMint},
    routing::topology::{ClockId, NodeId},
    transport::{ErrorKind, HoldKind, Outcome, Remaining, ServerTime, TransportError, WatchState},
};

const TTL: Duration = Duration::from_secs(30);
const FENCED: HoldKind = HoldKind::Fenced(crate::FencingMode::Hybrid);
const START: Instant = Instant::from_nanos(1_000_000_000);
const PACE: Pace = Pace {
    unavailable_after: Duration::from_secs(10),
    command_timeout: Duration::from_secs(1),
    safety_poll: Duration::from_secs(1),
    jitter: 0,
    hand_offs_max: 512,
    round_trip: Duration::from_millis(1),
};

/// Which events may happen, how often, and how the driver behaves.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    callers: u64,
    /// Callers that only try and arrive while others wait.
    tries: u64,
    /// Callers with a wait of zero that arrive while others wait.
    zero_waits: u64,
    foreign_takes: u32,
    cuts: u32,
    timeouts: u32,
    departures: u32,
    /// The driver looks at notices also while an ask is in flight.
    looks_in_flight: bool,
    /// The subscription stays warm when the driver drops its watch.
    warm: bool,
    /// The process has had its streak: it stands back after each release.
    stands_back: bool,
    /// This engine's leases are in jeopardy as soon as they are held, so callers that only try ask the server.
    jeopardy: bool,
    /// How often this engine's hold is deleted, without a notice.
    deletions: u32,
    /// How often the moment comes to ask whether the server still has this engine's hold.
    confirms: u32,
    /// Every second caller wants a fenced lock. The others want a plain one.
    two_kinds: bool,
    /// How often the server refuses an ask for a fenced lock for good.
    refusals: u32,
    /// A fault: the entry takes all callers for callers of one kind.
    ignores_kinds: bool,
    /// How often one grant is handed off at most.
    hand_offs: u16,
    /// Every caller wants a fenced lock.
    all_fenced: bool,
    /// A fault: each send reserves as many tokens as a new attempt would.
    reserves_anew: bool,
    /// A fault: the server moves the counter by one.
    reserves_nothing: bool,
    /// How many grants their callers do not take at first, because their futures are not polled.
    untaken: u32,
    /// Whether the driver wakes up to look at a grant, as the real driver does. `false` beside `untaken` is a fault.
    looks: bool,
}

const SMALL: Bounds = Bounds {
    callers: 2,
    tries: 0,
    zero_waits: 0,
    foreign_takes: 2,
    cuts: 1,
    timeouts: 0,
    departures: 0,
    looks_in_flight: true,
    warm: true,
    stands_back: false,
    jeopardy: false,
    deletions: 0,
    confirms: 0,
    two_kinds: false,
    refusals: 0,
    ignores_kinds: false,
    hand_offs: 0,
    all_fenced: false,
    reserves_anew: false,
    reserves_nothing: false,
    untaken: 0,
    looks: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hold {
    Free,
    Foreign,
    Ours(Owner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    /// The owner, the number of the ask, and how many tokens it reserves.
    Ask(Owner, u64, u16),
    Release(Owner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// The number of the ask, and the token.
    Granted(u64, u64),
    Held(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subscription {
    No,
    /// Requested and not confirmed yet, or to be made again after a cut.
    Requested,
    InForce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Note {
    Confirmed,
    Notice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    CloserSends,
    ServerTakesCommand,
    AnswerArrives,
    AskTimesOut,
    AskIsRefused,
    ForeignReleases,
    ForeignTakes,
    SubscriptionTakesEffect,
    NoteArrives,
    NoticesAreCut,
    OurHolderTakes,
    OurHolderReleases,
    OurHoldVanishes,
    OurLossIsNoticed,
    ConfirmIsDue,
    ShortWaitEnds,
    SleeperComesBack,
    TryComes,
    ZeroWaitComes,
    HeadDeparts,
}

/// What is known since a caller with a wait of zero joined.
#[derive(Clone, Copy, Debug)]
struct ZeroWait {
    id: CallerId,
    /// The number of asks that had been sent when it joined.
    came_at: u64,
    /// A server's answer, or a lease of this engine, proved that the lock is held, since the caller joined or still
    /// valid when it joined.
    heard_held: bool,
    /// An ask that was sent since then was answered "held" or was not answered.
    asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Driver {
    InFlight(u64),
    Waiting(Option<Instant>),
    Resting,
}

struct World {
    bounds: Bounds,
    entry: Entry<()>,
    mint: OwnerMint,
    now: Instant,
    hold: Hold,
    /// Owners whose release another task sends later.
    closings: VecDeque<Owner>,
    commands: VecDeque<Command>,
    answers: VecDeque<Answer>,
    subscription: Subscription,
    notes: VecDeque<Note>,
    watch: WatchState,
    seen: Option<WatchState>,
    driver: Driver,
    owners: Vec<Owner>,
    /// The kind that each of these owners has asked for.
    kinds: Vec<HoldKind>,
    asks: u64,
    hints: u64,
    asks_by_hint: u64,
    next_caller: u64,
    zero_waits: Vec<ZeroWait>,
    /// The number of asks that were reported as timed out and may still be executed.
    abandoned: usize,
    /// Nothing has woken the driver since it began to wait.
    sleeps: bool,
    /// The callers whose grants were taken back, and that were not polled since.
    sleepers: u32,
    /// The server's counter of tokens, and the highest token that a holder had.
    counter: u64,
    highest: u64,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let mut world = Self {
            bounds,
            entry: Entry { may_reserve_tokens: true, ..Entry::default() },
            mint: OwnerMint::new(),
            now: START,
            hold: Hold::Foreign,
            closings: VecDeque::new(),
            commands: VecDeque::new(),
            answers: VecDeque::new(),
            subscription: Subscription::No,
            notes: VecDeque::new(),
            watch: WatchState::default(),
            seen: None,
            driver: Driver::Resting,
            owners: Vec::new(),
            kinds: Vec::new(),
            asks: 0,
            hints: 0,
            asks_by_hint: 0,
            next_caller: 0,
            zero_waits: Vec::new(),
            abandoned: 0,
            sleeps: false,
            sleepers: 0,
            counter: 9,
            highest: 9,
        };
        for _ in 0..bounds.callers {
            world.join(Patience::Wait(None), 0);
        }
        world.drive();
        world
    }

    fn pace(&self) -> Pace {
        Pace { hand_offs_max: self.bounds.hand_offs, ..PACE }
    }

    fn join(&mut self, patience: Patience, late: u8) {
        self.next_caller += 1;
        let terms = Terms {
            kind: if self.bounds.ignores_kinds {
                HoldKind::Exclusive
            } else {
                self.kind_of(self.next_caller)
            },
            ttl: TTL,
            renewed: true,
            max_hold: None,
            labels: crate::metrics::LabelSet::DEFAULT,
        };
        let id = CallerId(self.next_caller);
        let caller =
            Caller { id, terms, side: terms.kind, patience, joined: START, scope: None, late, reply_to: () };
        let wakes = self.entry.join(caller);
        self.sleeps = !wakes && matches!(self.driver, Driver::Waiting(_));
    }

    /// The kind that this caller wants.
    fn kind_of(&self, caller: u64) -> HoldKind {
        if self.bounds.all_fenced || self.bounds.two_kinds && caller % 2 == 0 {
            FENCED
        } else {
            HoldKind::Exclusive
        }
    }

    fn kind_of_owner(&self, owner: Owner) -> HoldKind {
        self.kinds[self.owners.iter().position(|known| *known == owner).unwrap()]
    }

    /// The ask that waits for its answer asks for a fenced lock and has not reached the server.
    fn asks_fenced(&self) -> bool {
        let is_fenced = |command: &Command| {
            matches!(command, Command::Ask(owner, ask, _)
                if self.driver == Driver::InFlight(*ask) && self.kind_of_owner(*owner) == FENCED)
        };
        self.commands.front().is_some_and(is_fenced)
    }

    fn actions(&self) -> Vec<Action> {
        let may = |action: &Action| match action {
            Action::CloserSends => !self.closings.is_empty(),
            Action::ServerTakesCommand => !self.commands.is_empty(),
            Action::AnswerArrives => !self.answers.is_empty(),
            Action::AskTimesOut => matches!(self.driver, Driver::InFlight(_)) && self.bounds.timeouts > 0,
            Action::AskIsRefused => self.bounds.refusals > 0 && self.asks_fenced(),
            Action::ForeignReleases => self.hold == Hold::Foreign,
            Action::ForeignTakes => self.hold == Hold::Free && self.bounds.foreign_takes > 0,
            Action::SubscriptionTakesEffect => self.subscription == Subscription::Requested,
            Action::NoteArrives => !self.notes.is_empty(),
            Action::NoticesAreCut => self.subscription == Subscription::InForce && self.bounds.cuts > 0,
            Action::OurHolderTakes => self.untaken().is_some(),
            Action::OurHolderReleases => !self.entry.grants.is_empty() && self.untaken().is_none(),
            Action::OurHoldVanishes => self.bounds.deletions > 0 && self.holds_on_server(),
            Action::OurLossIsNoticed => !self.entry.grants.is_empty() && !self.holds_on_server(),
            Action::ConfirmIsDue => self.bounds.confirms > 0 && self.confirm_is_next(),
            Action::ShortWaitEnds => self.short_wait().is_some(),
            Action::SleeperComesBack => self.sleepers > 0,
            Action::TryComes => self.bounds.tries > 0,
            Action::ZeroWaitComes => self.bounds.zero_waits > 0,
            Action::HeadDeparts => self.bounds.departures > 0 && !self.entry.callers.is_empty(),
        };
        ACTIONS.into_iter().filter(may).collect()
    }

    /// The lease that no caller has taken.
    fn untaken(&self) -> Option<&Arc<LeaseCore>> {
        self.entry.only_lease().filter(|lease| !lease.was_taken())
    }

    fn holds_on_server(&self) -> bool {
        self.entry.only_lease().is_some_and(|lease| self.hold == Hold::Ours(lease.owner))
    }

    /// The driver waits for the end of this engine's hold, and its next step may be to ask the server about that hold.
    fn confirm_is_next(&self) -> bool {
        matches!(self.driver, Driver::Waiting(_)) && self.entry.is_excluded_here()
    }

    /// A wait that the entry requests itself, other than the safety poll and the end of a foreign hold.
    fn short_wait(&self) -> Option<Instant> {
        let Driver::Waiting(until) = self.driver else { return None };
        until.filter(|until| *until < self.now + PACE.safety_poll / 2)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::CloserSends => {
                self.commands.push_back(Command::Release(self.closings.pop_front().unwrap()))
            }
            Action::ServerTakesCommand => self.execute(),
            Action::AnswerArrives => self.receive(),
            Action::AskTimesOut => self.time_out(),
            Action::AskIsRefused => self.refuse(),
            Action::ForeignReleases => self.free(),
            Action::ForeignTakes => {
                self.bounds.foreign_takes -= 1;
                self.hold = Hold::Foreign;
                self.move_counter(1); // the peer counts one by one
                self.highest = self.highest.max(self.counter);
            }
            Action::SubscriptionTakesEffect => {
                self.subscription = Subscription::InForce;
                self.notes.push_back(Note::Confirmed);
            }
            Action::NoteArrives => match self.notes.pop_front().unwrap() {
                Note::Confirmed => self.watch.in_force = true,
                Note::Notice => self.watch.notices += 1,
            },
            Action::NoticesAreCut => {
                self.bounds.cuts -= 1;
                self.notes.clear();
                self.watch.gaps += 1;
                self.watch.in_force = false;
                self.subscription = Subscription::Requested;
            }
            Action::OurHolderTakes => {
                self.untaken().unwrap().take(self.now);
            }
            Action::OurHolderReleases => self.release(),
            Action::OurHoldVanishes => {
                self.bounds.deletions -= 1;
                self.hold = Hold::Free;
            }
            Action::OurLossIsNoticed => {
                let lease = self.entry.only_lease().unwrap().clone();
                assert!(lease.lose(LossReason::NotOurs));
                self.entry.handle_local_loss(&lease, self.now, PACE.round_trip);
            }
            Action::ConfirmIsDue => {
                self.bounds.confirms -= 1;
                self.now = self.entry.next_confirm(self.now, &self.pace());
            }
            Action::ShortWaitEnds => self.now = self.short_wait().unwrap(),
            Action::SleeperComesBack => {
                self.sleepers -= 1;
                self.join(Patience::Wait(None), 1);
            }
            Action::TryComes => {
                self.bounds.tries -= 1;
                if !self.entry.is_known_held_to_newcomers(HoldKind::Exclusive, self.now, &self.pace()) {
                    self.join(Patience::Try, 0);
                }
            }
            Action::ZeroWaitComes => {
                self.bounds.zero_waits -= 1;
                let heard_held = self.is_known_held();
                self.join(Patience::Wait(Some(self.now)), 0);
                let id = CallerId(self.next_caller);
                self.zero_waits.push(ZeroWait { id, came_at: self.asks, heard_held, asked: false });
            }
            Action::HeadDeparts => {
                self.bounds.departures -= 1;
                let id = self.entry.callers.head().unwrap().id;
                self.entry.depart(id);
                self.zero_waits.retain(|caller| caller.id != id);
            }
        }
        if !std::mem::take(&mut self.sleeps) {
            self.drive();
        }
        assert!(action != Action::ConfirmIsDue || matches!(self.driver, Driver::InFlight(_)), "no ask");
        self.check();
    }

    fn free(&mut self) {
        self.hold = Hold::Free;
        if self.subscription == Subscription::InForce {
            self.notes.push_back(Note::Notice);
        }
    }

    fn execute(&mut self) {
        match self.commands.pop_front().unwrap() {
            Command::Ask(owner, ask, reserved) => {
                let reserved = if self.bounds.reserves_nothing { 0 } else { u64::from(reserved) };
                if self.hold == Hold::Free {
                    self.hold = Hold::Ours(owner);
                    self.move_counter(1 + reserved);
                }
                let token = self.counter - reserved;
                let ours = self.hold == Hold::Ours(owner);
                self.answers.push_back(if ours { Answer::Granted(ask, token) } else { Answer::Held(ask) });
            }
            Command::Release(owner) => {
                if self.hold == Hold::Ours(owner) {
                    self.free();
                }
            }
        }
    }

    fn receive(&mut self) {
        let (ask, reply) = match self.answers.pop_front().unwrap() {
            Answer::Granted(ask, token) => {
                let token = FencingToken::of_counter(token);
                (ask, Outcome::Granted { token, at: server() })
            }
            Answer::Held(ask) => (ask, Outcome::Busy { remaining: Remaining::For(TTL), at: server() }),
        };
        if self.driver == Driver::InFlight(ask) {
            self.answered(Ok(reply));
        }
    }

    fn time_out(&mut self) {
        self.bounds.timeouts -= 1;
        self.abandoned += 1;
        self.answered(Err(TransportError::unknown(ErrorKind::TimedOut, server(), "no answer")));
    }

    fn refuse(&mut self) {
        self.bounds.refusals -= 1;
        self.commands.pop_front();
        self.answered(Err(TransportError::without_effect(ErrorKind::WrongType, None, "no counter")));
    }

    fn answered(&mut self, answer: Result<Outcome, TransportError>) {
        self.driver = Driver::Waiting(None);
        self.note_answer(&answer);
        let execute_by = self.now + Duration::from_secs(1);
        let verdict = self.entry.handle_answer(answer, self.now, execute_by, self.now, &self.pace());
        self.close(verdict.closing);
        for Leaving { caller, refusal } in verdict.leaving {
            let is_fenced = self.kind_of(caller.id.0) == FENCED;
            assert!(
                is_fenced || !matches!(refusal, Refusal::Failed(_)),
                "a refusal of another kind: {caller:?}"
            );
            self.zero_waits.retain(|zero| zero.id != caller.id);
        }
        if let Some(grant) = verdict.grant {
            self.zero_waits.retain(|caller| caller.id != grant.receiver.id);
            self.install(grant);
        }
    }

    fn note_answer(&mut self, answer: &Result<Outcome, TransportError>) {
        let granted = matches!(answer, Ok(Outcome::Granted { .. }));
        for caller in &mut self.zero_waits {
            caller.asked |= !granted && caller.came_at < self.asks;
            caller.heard_held |= answer.is_ok();
        }
    }

    fn is_known_held(&self) -> bool {
        !self.entry.grants.is_empty() || self.entry.is_known_held(HoldKind::Exclusive, self.now)
    }

    /// A caller that leaves because its wait has ended gets an answer that is true since it joined.
    fn dismiss(&mut self) {
        for Leaving { caller, refusal } in self.entry.take_overdue(self.now, &self.pace()) {
            let place = self.zero_waits.iter().position(|zero| zero.id == caller.id);
            let Some(place) = place else { continue };
            let zero = self.zero_waits.remove(place);
            match refusal {
                Refusal::TimedOut => assert!(zero.heard_held, "held by hearsay: {zero:?}"),
                Refusal::Unavailable { .. } => assert!(!zero.heard_held && zero.asked, "{zero:?}"),
                Refusal::Held | Refusal::Failed(_) => panic!("{refusal:?}"),
            }
        }
    }

    fn install(&mut self, grant: Grant<()>) {
        let key = LockKey::new("", "a").unwrap();
        let (wanted, kind) = (self.kind_of(grant.receiver.id.0), self.kind_of_owner(grant.granted.owner));
        assert_eq!(wanted, kind, "a grant of another kind: {:?}", grant.receiver);
        let lease = LeaseCore::new(key, grant.receiver.terms, grant.granted, grant.open, 1);
        let lease = Arc::new(lease);
        self.check_token(&lease);
        match self.bounds.untaken.checked_sub(1) {
            Some(left) => self.bounds.untaken = left,
            None => assert_eq!(lease.take(self.now), crate::lease::shared::Taken::First),
        }
        if self.bounds.jeopardy {
            lease.enter_jeopardy();
        }
        self.entry.begin_looks(grant.receiver.late);
        for earlier in self.entry.install(lease, None) {
            let is_vanished = self.hold != Hold::Ours(earlier.lease().owner);
            assert!(is_vanished && earlier.lease().lose(LossReason::NotOurs), "two owners held");
        }
    }

    /// A peer's token would be between two of ours if ours were not reserved on the server.
    fn check_token(&mut self, lease: &LeaseCore) {
        if !self.bounds.all_fenced {
            return;
        }
        let token = lease.token.as_i64().unsigned_abs();
        assert!(token > self.highest, "{token} after {}", self.highest);
        assert!(token <= self.counter, "{token} is not reserved");
        self.highest = token;
    }

    // The tokens of other kinds are the server's time, which does not pass here.
    fn move_counter(&mut self, by: u64) {
        self.counter += if self.bounds.all_fenced { by } else { 0 };
    }

    fn close(&mut self, closing: Option<UnconfirmedOwner>) {
        self.closings.extend(closing.map(|closing| closing.owner));
    }

    fn release(&mut self) {
        let lease = self.entry.only_lease().unwrap().clone();
        if let Some(grant) = self.entry.hand_off(&lease, self.now, self.bounds.hand_offs, |()| false) {
            self.zero_waits.retain(|caller| caller.id != grant.receiver.id);
            self.sleeps = self.entry.is_wanted();
            return self.install(grant);
        }
        assert!(lease.release());
        if self.bounds.stands_back {
            self.entry.fairness.end_streak_for_test(self.now);
        }
        let subscribed = self.seen.is_some() && self.watch.in_force;
        self.entry.handle_local_release(&lease, self.now, subscribed, PACE.round_trip);
        self.commands.push_back(Command::Release(lease.owner));
    }

    /// Runs the driver's loop until it has to wait for something.
    fn drive(&mut self) {
        loop {
            if matches!(self.driver, Driver::InFlight(_)) {
                if self.bounds.looks_in_flight {
                    self.look();
                }
                return;
            }
            self.look();
            self.dismiss();
            let (step, closing) = self.entry.take_step(self.now, &self.mint, &self.pace());
            self.close(closing);
            match step {
                Step::Ask(ask) => self.send(ask),
                Step::TakeBack(lease) => self.take_back(&lease),
                Step::Wait { until, watch } => {
                    let look = self.entry.next_look(self.now).filter(|_| !self.bounds.looks);
                    self.driver = Driver::Waiting(until.filter(|until| Some(*until) != look));
                    if self.set_watch(watch) {
                        continue;
                    }
                    return;
                }
                Step::Rest => {
                    self.driver = Driver::Resting;
                    self.set_watch(false);
                    return;
                }
            }
        }
    }

    fn take_back(&mut self, lease: &Arc<LeaseCore>) {
        assert!(lease.end_untaken() && !self.entry.callers.is_empty());
        let subscribed = self.seen.is_some() && self.watch.in_force;
        self.entry.handle_local_release(lease, self.now, subscribed, PACE.round_trip);
        self.commands.push_back(Command::Release(lease.owner));
        self.sleepers += 1;
    }

    fn send(&mut self, ask: Ask) {
        self.asks += 1;
        if matches!(ask.cause, Cause::Notice | Cause::Resync) {
            self.asks_by_hint += 1;
        }
        if !self.owners.contains(&ask.owner) {
            self.owners.push(ask.owner);
            self.kinds.push(self.kind_of(self.entry.callers.head().unwrap().id.0));
        }
        assert!(self.bounds.ignores_kinds || ask.kind == self.kind_of_owner(ask.owner), "{ask:?}");
        self.entry.note_sent(self.now);
        let anew = self.entry.tokens_to_reserve(ask.kind, &self.pace());
        let reserved = if self.bounds.reserves_anew { anew } else { ask.reserved_tokens };
        self.commands.push_back(Command::Ask(ask.owner, self.asks, reserved));
        self.driver = Driver::InFlight(self.asks);
    }

    /// Returns `true` if a watch was opened that may already have something to report.
    fn set_watch(&mut self, wanted: bool) -> bool {
        match (wanted, self.seen) {
            (true, None) => {
                self.seen = Some(WatchState { in_force: false, ..self.watch });
                if self.subscription == Subscription::No {
                    self.subscription = Subscription::Requested;
                }
                true
            }
            (false, Some(_)) => {
                self.seen = None;
                if !self.bounds.warm {
                    (self.subscription, self.watch.in_force) = (Subscription::No, false);
                    self.notes.clear();
                }
                false
            }
            (true, Some(_)) | (false, None) => false,
        }
    }

    fn look(&mut self) {
        let Some(seen) = self.seen.replace(self.watch).or_else(|| self.seen.take()) else { return };
        let notices = self.watch.notices - seen.notices;
        let resync = self.watch.in_force && !seen.in_force || self.watch.gaps > seen.gaps;
        if notices > 0 || resync {
            self.hints += notices + u64::from(resync);
            self.entry.handle_notices(notices, resync, self.now, &self.pace());
        }
    }

    fn check(&self) {
        let asks = self.commands.iter().filter(|command| matches!(command, Command::Ask(..))).count();
        let unanswered = asks + self.answers.len();
        assert!(unanswered <= 1 + self.abandoned, "{unanswered} asks in flight");
        assert!(self.asks_by_hint <= 2 * self.hints, "{} asks for {}", self.asks_by_hint, self.hints);
        let listens = self.seen.is_some();
        let news_ahead = listens && (self.subscription == Subscription::Requested || !self.notes.is_empty());
        let talks = !(self.closings.is_empty() && self.commands.is_empty() && self.answers.is_empty());
        let quiet = !(talks || news_ahead || matches!(self.driver, Driver::InFlight(_)));
        if !quiet {
            return;
        }
        let waits = !self.entry.callers.is_empty() && self.entry.grants.is_empty();
        let polls = waits && self.short_wait().is_none();
        assert!(
            !polls || self.zero_waits.is_empty(),
            "a caller stays behind its wait: {:?}",
            self.zero_waits
        );
        assert!(!(polls && self.hold == Hold::Free), "a caller waits for a free lock");
        let stands_still = self.untaken().is_some() && self.short_wait().is_none();
        assert!(
            !stands_still || self.entry.callers.is_empty(),
            "callers wait for who does not take the lock"
        );
        if let Hold::Ours(owner) = self.hold {
            let wanted = self.entry.only_lease().is_some_and(|lease| lease.owner == owner)
                || self.entry.attempt.as_ref().is_some_and(|attempt| attempt.owner == owner);
            assert!(wanted, "a hold that no caller wants");
        }
    }

    /// Every part of the state on which the future depends. Owners are numbered by the order of their creation.
    fn fingerprint(&self) -> String {
        let Entry { callers, attempt, next_ask, cause, last_held, standing_back, follow_up, .. } =
            &self.entry;
        let Entry { unclear, failures, fairness, grants, asked, asking, held_after, .. } = &self.entry;
        let granted = grants.only().filter(|_| self.bounds.looks).map(|it| it.lease.granted_at);
        let confirm = (self.bounds.confirms > 0).then(|| self.entry.next_confirm(self.now, &PACE));
        let came = self.entry.callers.came();
        let since = |coming: u64| came - coming;
        let known = (since(*asking), asked.map(since), held_after.map(since));
        let zero_waits = self.zero_waits.iter().map(|zero| (zero.id.0, zero.heard_held, zero.asked));
        let name = |owner: Owner| self.owners.iter().position(|known| *known == owner);
        let hold = match self.hold {
            Hold::Ours(owner) => Err(name(owner)),
            Hold::Free => Ok(false),
            Hold::Foreign => Ok(true),
        };
        let commands = self.commands.iter().map(|command| match command {
            Command::Ask(owner, _, reserved) => (Some(reserved), name(*owner)),
            Command::Release(owner) => (None, name(*owner)),
        });
        let in_flight = |ask: &Answer| match ask {
            Answer::Granted(ask, token) => (Some(self.counter - token), self.asks - ask),
            Answer::Held(ask) => (None, self.asks - ask),
        };
        let driver = match self.driver {
            Driver::InFlight(_) => Err(()),
            Driver::Waiting(until) => Ok(Some(until)),
            Driver::Resting => Ok(None),
        };
        let watch = self
            .seen
            .map(|seen| (seen.in_force, self.watch.notices - seen.notices, self.watch.gaps - seen.gaps));
        format!(
            "{:?}",
            (
                (callers.iter().map(|caller| caller.id.0).collect::<Vec<_>>(), next_ask, cause, last_held),
                (standing_back, follow_up, unclear.is_some(), failures, fairness),
                (
                    attempt.as_ref().map(|it| (name(it.owner), it.kind, it.reserved_tokens)),
                    grants
                        .only()
                        .map(|it| (name(it.lease.owner), spare_tokens(&it.lease, self.bounds.hand_offs))),
                    self.counter - self.highest,
                ),
                (hold, self.closings.iter().map(|it| name(*it)).collect::<Vec<_>>()),
                (commands.collect::<Vec<_>>(), self.answers.iter().map(in_flight).collect::<Vec<_>>()),
                (self.subscription, &self.notes, self.watch.in_force, watch, driver, self.now),
                (known, zero_waits.collect::<Vec<_>>()),
                (confirm, granted, self.untaken().is_some(), self.sleepers, self.entry.looks),
                (self.bounds, self.owners.len(), 2 * self.hints - self.asks_by_hint),
            )
        )
    }
}

const ACTIONS: [Action; 20] = [
    Action::CloserSends,
    Action::ServerTakesCommand,
    Action::AnswerArrives,
    Action::AskTimesOut,
    Action::AskIsRefused,
    Action::ForeignReleases,
    Action::ForeignTakes,
    Action::SubscriptionTakesEffect,
    Action::NoteArrives,
    Action::NoticesAreCut,
    Action::OurHolderTakes,
    Action::OurHolderReleases,
    Action::OurHoldVanishes,
    Action::OurLossIsNoticed,
    Action::ConfirmIsDue,
    Action::ShortWaitEnds,
    Action::SleeperComesBack,
    Action::TryComes,
    Action::ZeroWaitComes,
    Action::HeadDeparts,
];

/// Above every token, so that tokens may be reserved.
const LATE_MICROS: u64 = 1_000;

fn server() -> ServerTime {
    ServerTime { micros: LATE_MICROS, clock: ClockId { node: NodeId(0), epoch: 1 } }
}

fn replay(bounds: Bounds, path: &[Action]) -> World {
    let mut world = World::new(bounds);
    path.iter().for_each(|action| world.act(*action));
    world
}

/// Visits every reachable state, and returns the number of states.
fn explore(bounds: Bounds) -> usize {
    let mut visited = HashSet::new();
    let mut paths = VecDeque::from([Vec::new()]);
    while let Some(path) = paths.pop_front() {
        let outcome = std::panic::catch_unwind(|| {
            let world = replay(bounds, &path);
            (world.fingerprint(), world.actions())
        });
        let Ok((fingerprint, actions)) = outcome else { panic!("{bounds:?}: {path:?}") };
        if visited.insert(fingerprint) {
            paths.extend(actions.into_iter().map(|action| [&path[..], &[action]].concat()));
        }
    }
    visited.len()
}

/// Explores the same bounds with every behaviour of the driver.
fn explore_habits(bounds: Bounds) {
    for habits in 0..8 {
        let (looks_in_flight, warm, stands_back) = (habits & 1 > 0, habits & 2 > 0, habits & 4 > 0);
        let states = explore(Bounds { looks_in_flight, warm, stands_back, ..bounds });
        assert!(states > 100, "{states}");
    }
}

#[test]
fn l2_nobody_waits_for_a_free_lock_whatever_the_order_of_events() {
    explore_habits(SMALL);
}

#[test]
fn l2_nor_when_asks_are_not_answered() {
    explore_habits(Bounds { timeouts: 1, cuts: 0, foreign_takes: 1, ..SMALL });
}

#[test]
fn l2_nor_when_callers_leave() {
    explore_habits(Bounds { departures: 1, cuts: 0, foreign_takes: 1, ..SMALL });
}

#[test]
fn a_grant_goes_to_a_caller_of_its_kind_whatever_the_order_of_events() {
    let two_kinds = Bounds { two_kinds: true, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { callers: 3, departures: 1, foreign_takes: 0, ..two_kinds });
    explore_habits(Bounds { departures: 1, timeouts: 1, foreign_takes: 0, ..two_kinds });
}

#[test]
fn a_refusal_of_one_kind_ends_no_caller_of_the_other_and_strands_none() {
    let refused = Bounds { two_kinds: true, refusals: 1, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { callers: 3, ..refused });
    explore_habits(Bounds { departures: 1, ..refused });
}

#[test]
#[should_panic(expected = "two_kinds: true")]
fn an_entry_that_ignores_the_kind_is_found() {
    let departures = Bounds { two_kinds: true, departures: 1, cuts: 0, foreign_takes: 0, ..SMALL };
    explore(Bounds { ignores_kinds: true, ..departures });
}

#[test]
fn l2_nor_when_somebody_tries_in_jeopardy() {
    explore_habits(Bounds { tries: 1, jeopardy: true, deletions: 1, cuts: 0, foreign_takes: 1, ..SMALL });
}

#[test]
fn l2_a_hold_that_has_vanished_is_asked_about_whatever_the_order_of_events() {
    let confirmed = Bounds { deletions: 1, confirms: 1, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { departures: 1, ..confirmed });
    explore_habits(Bounds { timeouts: 1, foreign_takes: 0, ..confirmed });
    explore_habits(Bounds { callers: 3, hand_offs: 1, foreign_takes: 0, ..confirmed });
}

#[test]
fn l3_a_wait_of_zero_is_told_the_truth_whatever_the_order_of_events() {
    explore_habits(Bounds { callers: 1, zero_waits: 2, cuts: 0, foreign_takes: 1, ..SMALL });
    explore_habits(Bounds { callers: 1, zero_waits: 1, timeouts: 1, cuts: 0, foreign_takes: 1, ..SMALL });
    explore_habits(Bounds { callers: 1, zero_waits: 1, departures: 1, cuts: 0, foreign_takes: 1, ..SMALL });
}

#[test]
fn l2_nobody_waits_for_a_free_lock_when_grants_are_handed_off() {
    let handed = Bounds { hand_offs: 2, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { callers: 3, ..handed });
    explore_habits(Bounds { callers: 3, departures: 1, ..handed });
    explore_habits(Bounds { timeouts: 1, ..handed });
    explore_habits(Bounds { deletions: 1, ..handed });
}

#[test]
fn l3_a_wait_of_zero_is_told_the_truth_when_grants_are_handed_off() {
    let handed = Bounds { hand_offs: 2, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { zero_waits: 2, ..handed });
    explore_habits(Bounds { zero_waits: 1, tries: 1, ..handed });
}

#[test]
fn a_grant_that_is_handed_off_goes_to_a_caller_of_its_kind() {
    let handed = Bounds { hand_offs: 2, two_kinds: true, cuts: 0, foreign_takes: 1, ..SMALL };
    explore_habits(Bounds { callers: 3, departures: 1, ..handed });
}

#[test]
fn l3_a_wait_of_zero_alone_is_one_ask() {
    explore_habits(Bounds { callers: 0, zero_waits: 2, timeouts: 1, cuts: 0, foreign_takes: 2, ..SMALL });
}

const FENCED_GRANTS: Bounds = Bounds { all_fenced: true, hand_offs: 2, cuts: 0, foreign_takes: 1, ..SMALL };

#[test]
fn s6_tokens_rise_when_fenced_grants_are_handed_off_whatever_the_order_of_events() {
    explore_habits(Bounds { callers: 3, ..FENCED_GRANTS });
    explore_habits(Bounds { callers: 3, timeouts: 1, foreign_takes: 0, ..FENCED_GRANTS });
    explore_habits(Bounds { departures: 1, timeouts: 1, foreign_takes: 0, ..FENCED_GRANTS });
    explore_habits(Bounds { callers: 1, zero_waits: 1, timeouts: 1, ..FENCED_GRANTS });
}

#[test]
#[should_panic(expected = "reserves_anew: true")]
fn a_repeat_that_reserves_another_number_of_tokens_is_found() {
    explore(Bounds { callers: 1, zero_waits: 1, timeouts: 1, reserves_anew: true, ..FENCED_GRANTS });
}

#[test]
#[should_panic(expected = "reserves_nothing: true")]
fn a_server_that_reserves_no_tokens_is_found() {
    explore(Bounds { callers: 3, reserves_nothing: true, ..FENCED_GRANTS });
}

const UNTAKEN: Bounds = Bounds { untaken: 1, looks: true, cuts: 0, foreign_takes: 1, ..SMALL };

#[test]
fn l2_nobody_waits_for_who_does_not_take_the_lock_whatever_the_order_of_events() {
    explore_habits(UNTAKEN);
    explore_habits(Bounds { untaken: 2, foreign_takes: 0, ..UNTAKEN });
    explore_habits(Bounds { departures: 1, foreign_takes: 0, ..UNTAKEN });
    explore_habits(Bounds { timeouts: 1, foreign_takes: 0, ..UNTAKEN });
}

#[test]
fn l2_nor_for_who_does_not_take_a_grant_that_was_handed_off() {
    explore_habits(Bounds { hand_offs: 1, untaken: 2, foreign_takes: 0, ..UNTAKEN });
    explore_habits(Bounds { hand_offs: 1, deletions: 1, foreign_takes: 0, ..UNTAKEN });
}

#[test]
#[should_panic(expected = "looks: false")]
fn a_driver_that_does_not_look_at_grants_is_found() {
    explore(Bounds { looks: false, ..UNTAKEN });
}
