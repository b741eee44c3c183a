//! Explores every interleaving of asks, beats, releases, notices and departures, for one fair entry and one foreign
//! process.
//!
//! The world has a server with one hold and one line; a connection that carries asks and beats in order, and a second one
//! for releases; notices, whose subscriptions come in force at any moment and may be cut; and a foreign process that
//! releases, joins the line and takes the lock. A driver does what the entry says. Time does not pass, except for
//! back-off and for a limited number of beats. So an event that only a beat would cause is missed once the beats are
//! over, and shows as a caller that waits for a free lock.
//!
//! The search is breadth first and visits each state once, so a failure shows a shortest path.

use std::{
    collections::{HashSet, VecDeque},
    hash::{Hash, Hasher},
    panic::AssertUnwindSafe,
};

use super::*;
use crate::{
    acquire::caller::{Caller, Leaving, Patience, Refusal},
    fencing::FencingToken,
    lease::shared::Terms,
    routing::topology::{ClockId, NodeId},
    transport::{ErrorKind, HoldKind, Op, Outcome, Remaining, ServerTime},
};

const TTL: Duration = Duration::from_secs(30);
const START: Instant = Instant::from_nanos(1_000_000_000);

/// Which events may happen, and how often.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    callers: u64,
    /// Callers that only try and arrive while others wait.
    tries: u64,
    /// The first two callers are of one re-entry scope.
    scope: bool,
    places_max: usize,
    foreign_joins: u32,
    departures: u32,
    /// Asks whose answer is lost. They are executed all the same.
    lost_replies: u32,
    /// How often the server drops a place because it was silent.
    stalls: u32,
    cuts: u32,
    /// Subscriptions take effect, and notices arrive, before anything else happens.
    calm: bool,
    /// How many answers say that the foreign hold has a moment left.
    expires_soon: u32,
    /// How often all places beat.
    beats: u32,
    /// A rule that the entry ignores.
    without: Option<Rule>,
}

const SMALL: Bounds = Bounds {
    callers: 2,
    tries: 0,
    scope: false,
    places_max: 10,
    foreign_joins: 0,
    departures: 0,
    lost_replies: 0,
    stalls: 0,
    cuts: 0,
    calm: false,
    expires_soon: 0,
    beats: 0,
    without: None,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Free,
    Foreign,
    Ours(Owner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Foreign,
    Ours(Owner),
}

#[derive(Clone, Debug)]
enum Command {
    Ask { number: u64, owner: Owner, joins: bool },
    Beats(Vec<Beat>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Granted,
    Queued(u32),
    Busy,
    Turn,
    Gone,
}

/// An ask that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    place: PlaceId,
    owner: Owner,
}

/// An owner that is to be closed. `open`: one of its asks was never answered, so its release is repeated until that ask
/// cannot be executed any more.
#[derive(Clone, Copy, Debug)]
struct Closing {
    owner: Owner,
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    ServerTakesCommand,
    AskIsAnswered,
    BeatsAreAnswered,
    AnswerIsLost,
    CloserSends,
    ServerTakesRelease,
    ForeignReleases,
    ForeignJoins,
    ForeignTakes,
    SubscriptionTakesEffect,
    NoteArrives,
    NoticesAreCut,
    ServerDropsHead,
    ServerDropsLast,
    OurHolderReleases,
    BackOffEnds,
    BeatsAreDue,
    TryComes,
    FirstDeparts,
    LastDeparts,
}

const ACTIONS: [Action; 20] = [
    Action::ServerTakesCommand,
    Action::AskIsAnswered,
    Action::BeatsAreAnswered,
    Action::AnswerIsLost,
    Action::CloserSends,
    Action::ServerTakesRelease,
    Action::ForeignReleases,
    Action::ForeignJoins,
    Action::ForeignTakes,
    Action::SubscriptionTakesEffect,
    Action::NoteArrives,
    Action::NoticesAreCut,
    Action::ServerDropsHead,
    Action::ServerDropsLast,
    Action::OurHolderReleases,
    Action::BackOffEnds,
    Action::BeatsAreDue,
    Action::TryComes,
    Action::FirstDeparts,
    Action::LastDeparts,
];

/// What a subscription reports. `true`: a notice. `false`: it came in force.
type Note = (PlaceId, bool);

#[derive(Clone)]
struct World {
    bounds: Bounds,
    entry: FairEntry,
    callers: Queue<()>,
    mint: OwnerMint,
    now: Instant,
    hold: Hold,
    line: VecDeque<Member>,
    commands: VecDeque<Command>,
    ask_replies: VecDeque<(u64, Reply)>,
    beat_replies: VecDeque<Vec<(Beat, Reply)>>,
    waiting: VecDeque<Waiting>,
    closings: VecDeque<Closing>,
    releases: VecDeque<Owner>,
    /// The subscriptions, and whether each is in force.
    watches: BTreeMap<PlaceId, (Owner, bool)>,
    notes: VecDeque<Note>,
    /// The lease of this engine.
    lease: Option<Owner>,
    /// Owners that the server has dropped from the line, and that have not beaten since.
    dropped: Vec<Owner>,
    is_done: bool,
    asks: u64,
    next_caller: u64,
    /// The order of the places may differ from the order of the callers: an ask was lost before it was executed, or a
    /// place was dropped.
    disordered: bool,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let mut world = Self {
            bounds,
            entry: FairEntry { without: bounds.without, ..FairEntry::default() },
            callers: Queue::default(),
            mint: OwnerMint::new(),
            now: START,
            hold: Hold::Foreign,
            line: VecDeque::new(),
            commands: VecDeque::new(),
            ask_replies: VecDeque::new(),
            beat_replies: VecDeque::new(),
            waiting: VecDeque::new(),
            closings: VecDeque::new(),
            releases: VecDeque::new(),
            watches: BTreeMap::new(),
            notes: VecDeque::new(),
            lease: None,
            dropped: Vec::new(),
            is_done: false,
            asks: 0,
            next_caller: 0,
            disordered: false,
        };
        (0..bounds.callers).for_each(|_| world.join(Patience::Wait(None)));
        world.drive();
        world
    }

    fn join(&mut self, patience: Patience) {
        self.next_caller += 1;
        let terms = Terms {
            kind: HoldKind::Fair,
            ttl: TTL,
            renewed: true,
            max_hold: None,
            labels: crate::metrics::LabelSet::DEFAULT,
        };
        let (id, side) = (CallerId(self.next_caller), terms.kind);
        let scope = (self.bounds.scope && id.0 <= 2).then(|| ScopeId::new(1));
        self.callers.push_back(Caller {
            id,
            terms,
            side,
            patience,
            joined: self.now,
            scope,
            late: 0,
            reply_to: (),
        });
    }

    fn pace(&self) -> FairPace {
        FairPace {
            unavailable_after: Duration::from_secs(3_600),
            command_timeout: Duration::from_secs(1),
            terms: PlaceTerms::new(Duration::from_secs(300), BEAT),
            places_max: self.bounds.places_max,
        }
    }

    fn actions(&self) -> Vec<Action> {
        let bounds = self.bounds;
        let may = |action: &Action| match action {
            Action::ServerTakesCommand => !self.commands.is_empty(),
            Action::AskIsAnswered => !self.ask_replies.is_empty(),
            Action::BeatsAreAnswered => !self.beat_replies.is_empty(),
            Action::AnswerIsLost => bounds.lost_replies > 0 && !self.waiting.is_empty(),
            Action::CloserSends => self.closable().is_some(),
            Action::ServerTakesRelease => !self.releases.is_empty(),
            Action::ForeignReleases => self.hold == Hold::Foreign,
            Action::ForeignJoins => bounds.foreign_joins > 0 && self.hold != Hold::Free,
            Action::ForeignTakes => self.hold == Hold::Free && self.line.front() == Some(&Member::Foreign),
            Action::SubscriptionTakesEffect => self.watches.values().any(|(_, in_force)| !in_force),
            Action::NoteArrives => !self.notes.is_empty(),
            Action::NoticesAreCut => bounds.cuts > 0 && self.watches.values().any(|(_, in_force)| *in_force),
            Action::ServerDropsHead => bounds.stalls > 0 && !self.line.is_empty(),
            Action::ServerDropsLast => bounds.stalls > 0 && self.line.len() > 1,
            Action::OurHolderReleases => self.lease.is_some(),
            Action::BackOffEnds => self.back_off().is_some(),
            Action::BeatsAreDue => bounds.beats > 0 && self.entry.next_beat.is_some(),
            Action::TryComes => bounds.tries > 0,
            Action::FirstDeparts => bounds.departures > 0 && !self.callers.is_empty(),
            Action::LastDeparts => bounds.departures > 0 && self.callers.len() > 1,
        };
        ACTIONS.into_iter().filter(may).collect()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ServerTakesCommand => self.execute(),
            Action::AskIsAnswered => self.receive_ask(),
            Action::BeatsAreAnswered => self.receive_beats(),
            Action::AnswerIsLost => self.lose_answer(),
            Action::CloserSends => self.send_release(),
            Action::ServerTakesRelease => self.execute_release(),
            Action::ForeignReleases => self.free(),
            Action::ForeignJoins => {
                self.bounds.foreign_joins -= 1;
                self.line.push_back(Member::Foreign);
            }
            Action::ForeignTakes => {
                self.line.pop_front();
                self.hold = Hold::Foreign;
            }
            Action::SubscriptionTakesEffect => self.subscribe(),
            Action::NoteArrives => self.hear(),
            Action::NoticesAreCut => self.cut(),
            Action::ServerDropsHead => self.drop_place(0),
            Action::ServerDropsLast => self.drop_place(self.line.len() - 1),
            Action::OurHolderReleases => self.releases.extend(self.lease.take()),
            Action::BackOffEnds => self.now = self.back_off().unwrap(),
            Action::BeatsAreDue => {
                self.bounds.beats -= 1;
                self.now = self.now.max(self.entry.next_beat.unwrap());
            }
            Action::TryComes => {
                self.bounds.tries -= 1;
                self.join(Patience::Try);
            }
            Action::FirstDeparts => self.depart(self.callers.head().unwrap().id),
            Action::LastDeparts => self.depart(self.callers.iter().last().unwrap().id),
        }
        self.drive();
        while self.bounds.calm && self.has_news() {
            self.watches.values().any(|(_, in_force)| !in_force).then(|| self.subscribe());
            self.hear();
            self.drive();
        }
        self.check();
    }

    fn has_news(&self) -> bool {
        !self.notes.is_empty() || self.watches.values().any(|(_, in_force)| !in_force)
    }

    fn subscribe(&mut self) {
        let (place, (_, in_force)) = self.watches.iter_mut().find(|(_, (_, in_force))| !in_force).unwrap();
        *in_force = true;
        self.notes.push_back((*place, false));
    }

    fn hear(&mut self) {
        let (place, is_notice) = self.notes.pop_front().unwrap();
        self.entry.handle_notice(place, u64::from(is_notice), !is_notice, self.now);
    }

    // --- the server ---

    fn execute(&mut self) {
        match self.commands.pop_front().unwrap() {
            Command::Ask { number, owner, joins } => {
                let reply = self.ask(owner, joins);
                self.ask_replies.push_back((number, reply));
            }
            Command::Beats(beats) => {
                let replies = beats.into_iter().map(|beat| (beat, self.beat(beat.owner))).collect();
                self.beat_replies.push_back(replies);
            }
        }
    }

    fn ask(&mut self, owner: Owner, joins: bool) -> Reply {
        let is_first = self.line.front().is_none_or(|head| *head == Member::Ours(owner));
        if self.hold == Hold::Ours(owner) {
            return Reply::Granted;
        }
        if self.hold == Hold::Free && is_first {
            self.line.pop_front();
            self.hold = Hold::Ours(owner);
            return Reply::Granted;
        }
        self.tell_head();
        if !joins {
            return Reply::Busy;
        }
        if self.ahead_of(owner).is_none() {
            self.line.push_back(Member::Ours(owner));
        }
        Reply::Queued(self.ahead_of(owner).unwrap())
    }

    fn beat(&mut self, owner: Owner) -> Reply {
        self.dropped.retain(|dropped| *dropped != owner);
        match self.ahead_of(owner) {
            None => Reply::Gone,
            Some(0) if self.hold == Hold::Free => Reply::Turn,
            Some(ahead) => Reply::Queued(ahead),
        }
    }

    fn ahead_of(&self, owner: Owner) -> Option<u32> {
        self.line.iter().position(|member| *member == Member::Ours(owner)).map(|ahead| ahead as u32)
    }

    fn execute_release(&mut self) {
        let owner = self.releases.pop_front().unwrap();
        let was_head = self.line.front() == Some(&Member::Ours(owner));
        self.line.retain(|member| *member != Member::Ours(owner));
        if self.hold == Hold::Ours(owner) {
            self.free();
        } else if was_head {
            self.tell_head();
        }
    }

    fn free(&mut self) {
        self.hold = Hold::Free;
        self.tell_head();
    }

    fn tell_head(&mut self) {
        if self.hold != Hold::Free {
            return;
        }
        let Some(Member::Ours(head)) = self.line.front().copied() else { return };
        let watch = self.watches.iter().find(|(_, (owner, in_force))| *owner == head && *in_force);
        self.notes.extend(watch.map(|(place, _)| (*place, true)));
    }

    fn drop_place(&mut self, at: usize) {
        self.bounds.stalls -= 1;
        self.disordered = true;
        if let Some(Member::Ours(owner)) = self.line.remove(at) {
            self.dropped.push(owner);
        }
        self.tell_head();
    }

    fn cut(&mut self) {
        self.bounds.cuts -= 1;
        self.notes.clear();
        let gaps: Vec<_> = self.watches.keys().copied().collect();
        self.watches.values_mut().for_each(|(_, in_force)| *in_force = false);
        gaps.into_iter().for_each(|place| self.entry.handle_notice(place, 0, true, self.now));
    }

    fn outcome(&mut self, reply: Reply) -> Outcome {
        let is_soon = self.bounds.expires_soon > 0 && matches!(reply, Reply::Queued(_));
        self.bounds.expires_soon -= u32::from(is_soon);
        let left = if is_soon { Duration::from_millis(499) } else { TTL };
        let (remaining, at) = (Remaining::For(left), server());
        match reply {
            Reply::Granted => Outcome::Granted { token: FencingToken::at_server_micros(1), at },
            Reply::Queued(ahead) => Outcome::Queued { remaining, ahead, at },
            Reply::Busy => Outcome::Busy { remaining, at },
            Reply::Turn => Outcome::Turn { at },
            Reply::Gone => Outcome::NotYours { at },
        }
    }

    // --- the engine ---

    fn receive_ask(&mut self) {
        let (number, reply) = self.ask_replies.pop_front().unwrap();
        if let Some(waiting) = self.take_waiting(number) {
            let outcome = self.outcome(reply);
            self.answered(waiting, Ok(outcome));
        }
    }

    fn receive_beats(&mut self) {
        let replies = self.beat_replies.pop_front().unwrap();
        let answers = replies.into_iter().map(|(beat, reply)| (beat, Ok(self.outcome(reply)))).collect();
        let leaving = self.entry.handle_beats(&mut self.callers, answers, self.now, self.now);
        assert!(leaving.is_empty());
    }

    fn lose_answer(&mut self) {
        self.bounds.lost_replies -= 1;
        let waiting = self.waiting.pop_front().unwrap();
        self.disordered |= self.is_unexecuted(waiting.owner);
        self.answered(waiting, Err(TransportError::unknown(ErrorKind::TimedOut, server(), "no answer")));
    }

    fn answered(&mut self, waiting: Waiting, answer: Result<Outcome, TransportError>) {
        let answer = Answer { answer, sent: self.now, execute_by: self.now + Duration::from_secs(1) };
        let verdict = self.entry.handle_answer(&mut self.callers, waiting.place, answer, self.now);
        for Leaving { caller, refusal } in verdict.leaving {
            assert!(caller.patience == Patience::Try && matches!(refusal, Refusal::Held), "{caller:?}");
        }
        if let Some(grant) = verdict.grant {
            let owner = grant.granted.owner;
            assert_eq!(self.hold, Hold::Ours(owner), "a grant of a hold that is not there");
            assert!(self.lease.is_none(), "two grants");
            let passed =
                |caller: &Caller<()>| caller.id < grant.receiver.id && caller.patience != Patience::Try;
            let in_order = self.disordered || !self.callers.iter().any(passed);
            assert!(in_order || grant.receiver.patience == Patience::Try, "out of order");
            self.lease = Some(owner);
        }
    }

    fn take_waiting(&mut self, number: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.number == number)?;
        self.waiting.remove(at)
    }

    fn is_unexecuted(&self, owner: Owner) -> bool {
        let asks =
            |command: &Command| matches!(command, Command::Ask { owner: asker, .. } if *asker == owner);
        self.commands.iter().any(asks)
    }

    /// The first owner whose release may be sent and counts. The release of an open owner is repeated until its asks are
    /// executed or too late.
    fn closable(&self) -> Option<usize> {
        self.closings.iter().position(|closing| !closing.open || !self.is_unexecuted(closing.owner))
    }

    fn send_release(&mut self) {
        let closing = self.closings.remove(self.closable().unwrap()).unwrap();
        self.releases.push_back(closing.owner);
    }

    fn depart(&mut self, id: CallerId) {
        self.bounds.departures -= 1;
        self.callers.take(id);
    }

    fn back_off(&self) -> Option<Instant> {
        let due = self.entry.due.first().map(|(moment, _)| *moment)?;
        let next = if self.entry.failures > 0 { due.max(self.entry.retry_at) } else { due };
        let in_flight = self.entry.asks_in_flight + self.entry.batches_in_flight;
        (next > self.now && in_flight == 0).then_some(next)
    }

    /// Does what the entry says.
    fn drive(&mut self) {
        let (pace, held) = (self.pace(), self.held_here());
        for Leaving { caller, refusal } in self.entry.take_overdue(&mut self.callers, held, self.now, &pace) {
            assert!(caller.patience == Patience::Try && matches!(refusal, Refusal::Held), "{caller:?}");
        }
        while self.step(&pace) {}
    }

    /// Does one step. Returns whether another ask waits for a permit, which it gets at once.
    fn step(&mut self, pace: &FairPace) -> bool {
        let plan = self.entry.take_step(&self.callers, self.now, &self.mint, pace, true);
        for ask in plan.asks {
            self.send(ask);
        }
        if !plan.beats.is_empty() {
            self.entry.note_batch_sent();
            self.commands.push_back(Command::Beats(plan.beats));
        }
        for place in plan.ignore {
            self.watches.remove(&place);
            self.notes.retain(|(noted, _)| *noted != place);
        }
        self.watches.extend(plan.listen.into_iter().map(|(place, owner)| (place, (owner, false))));
        let closing =
            |closing: UnconfirmedOwner| Closing { owner: closing.owner, open: !closing.open.is_closed() };
        self.closings.extend(plan.closing.into_iter().map(closing));
        self.is_done = plan.is_done;
        plan.retry_since.is_some()
    }

    fn held_here(&self) -> HeldHere {
        HeldHere { held: self.lease.is_some(), surely: self.lease.is_some() }
    }

    fn send(&mut self, ask: Ask) {
        self.asks += 1;
        self.entry.note_limit(ask.place, self.now + Duration::from_secs(1));
        let (number, place, owner) = (self.asks, ask.place, ask.owner);
        let is_new = !self.waiting.iter().any(|waiting| waiting.place == place);
        assert!(is_new, "two asks of one place in flight");
        self.waiting.push_back(Waiting { number, place, owner });
        let joins = matches!(ask.op, Op::Queue { .. });
        self.commands.push_back(Command::Ask { number, owner, joins });
    }

    // --- what must be true ---

    fn check(&self) {
        let is_kept = |id| self.entry.places.contains_key(id);
        assert!(self.watches.keys().all(is_kept), "a watch of a place that is gone");
        let has_place = |caller: &Caller<()>| self.entry.by_caller.get(&caller.id);
        for caller in self.callers.iter().filter(|caller| caller.patience == Patience::Try) {
            let owner = has_place(caller).and_then(|id| self.entry.places.get(id)).map(|it| it.attempt.owner);
            assert!(owner.is_none_or(|owner| self.ahead_of(owner).is_none()), "a try has joined the line");
        }
        let in_flight =
            self.commands.is_empty() && self.ask_replies.is_empty() && self.beat_replies.is_empty();
        let closing = self.closings.is_empty() && self.releases.is_empty();
        let quiet = in_flight && closing && self.waiting.is_empty() && self.entry.due.is_empty();
        if quiet && !self.has_news() {
            self.check_quiet();
        }
    }

    fn check_quiet(&self) {
        assert_eq!((self.entry.asks_in_flight, self.entry.batches_in_flight), (0, 0));
        let has_place = |caller: &Caller<()>| {
            let of_scope = caller.scope.and_then(|scope| self.entry.by_scope.get(&scope));
            self.entry.by_caller.get(&caller.id).or(of_scope)
        };
        let is_full = self.entry.places.len() >= self.bounds.places_max;
        for caller in self.callers.iter() {
            assert!(caller.patience != Patience::Try, "a try that is not answered");
            let Some(id) = has_place(caller) else {
                assert!(is_full, "no place for {caller:?}");
                continue;
            };
            let owner = self.entry.places[id].attempt.owner;
            let is_known = self.ahead_of(owner).is_some() || self.dropped.contains(&owner);
            assert!(is_known, "a caller has lost its place for good");
        }
        let wanted = |owner: Owner| self.entry.places.values().any(|place| place.attempt.owner == owner);
        for member in &self.line {
            let is_wanted = matches!(member, Member::Ours(owner) if wanted(*owner));
            assert!(is_wanted || *member == Member::Foreign, "a place that no caller wants");
        }
        let waits = matches!(self.line.front(), Some(Member::Ours(_)));
        assert!(!(self.hold == Hold::Free && waits), "a caller waits for a free lock");
        if let Hold::Ours(owner) = self.hold {
            assert!(self.lease == Some(owner) || wanted(owner), "a hold that no caller wants");
        }
        assert_eq!(self.is_done, self.callers.is_empty(), "{:?}", self.entry);
    }

    /// Every part of the state on which the future depends. Moments are relative to now.
    fn fingerprint(&self) -> String {
        let now = self.now;
        let away = |moment: Instant| if moment > now { moment - now } else { Duration::ZERO };
        let entry = &self.entry;
        let places = entry.places.iter().map(|(id, place)| {
            (
                (id, place.attempt.owner.number(), place.caller, place.waits, place.asking.is_some()),
                (place.next.map(|(moment, _)| away(moment)), place.deserted, place.lost, place.follow_up),
                (place.in_line_until.map(away), place.was_in_line, !place.attempt.open.is_closed()),
            )
        });
        let due = entry.due.iter().map(|(moment, id)| (away(*moment), id)).collect::<Vec<_>>();
        let synced = entry.synced == Some((self.callers.came(), self.callers.returned(), self.callers.len()));
        let beats = |beats: &[Beat]| beats.iter().map(|it| it.place).collect::<Vec<_>>();
        let commands = self.commands.iter().map(|command| match command {
            Command::Ask { number, owner, joins } => {
                (Some((self.asks - number, owner.number(), *joins)), vec![])
            }
            Command::Beats(sent) => (None, beats(sent)),
        });
        let beat_replies = self
            .beat_replies
            .iter()
            .map(|replies| replies.iter().map(|(beat, reply)| (beat.place, *reply)).collect::<Vec<_>>());
        let number = |owner: &Owner| owner.number();
        let line = self.line.iter().map(|member| match member {
            Member::Ours(owner) => owner.number(),
            Member::Foreign => 0,
        });
        let hold = match self.hold {
            Hold::Ours(owner) => Ok(owner.number()),
            Hold::Free => Err(false),
            Hold::Foreign => Err(true),
        };
        format!(
            "{:?}",
            (
                (places.collect::<Vec<_>>(), due, &entry.checks, entry.next_beat.map(away), synced),
                (entry.batches_in_flight, entry.asks_in_flight, entry.failures, away(entry.retry_at)),
                (self.callers.iter().map(|it| (it.id, it.patience)).collect::<Vec<_>>(), self.bounds),
                (hold, line.collect::<Vec<_>>(), commands.collect::<Vec<_>>()),
                self.ask_replies.iter().map(|(ask, reply)| (self.asks - ask, *reply)).collect::<Vec<_>>(),
                beat_replies.collect::<Vec<_>>(),
                self.waiting.iter().map(|it| (self.asks - it.number, it.place)).collect::<Vec<_>>(),
                self.closings.iter().map(|it| (it.owner.number(), it.open)).collect::<Vec<_>>(),
                self.releases.iter().map(number).collect::<Vec<_>>(),
                self.watches.iter().map(|(id, (owner, live))| (id, owner.number(), live)).collect::<Vec<_>>(),
                (&self.notes, self.lease.map(|owner| owner.number()), self.disordered),
                self.dropped.iter().map(number).collect::<Vec<_>>(),
            )
        )
    }
}

fn server() -> ServerTime {
    ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 1 } }
}

/// Visits every reachable state. Returns the number of states, or the path to the first one that breaks a rule.
fn search(bounds: Bounds) -> Result<usize, Vec<Action>> {
    let start = World::new(bounds);
    let mut visited = HashSet::from([hash(start.fingerprint())]);
    let mut states = VecDeque::from([(start, Vec::new())]);
    while let Some((world, path)) = states.pop_front() {
        for action in world.actions() {
            let path = [&path[..], &[action]].concat();
            let mut next = world.clone();
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| next.act(action)));
            if outcome.is_err() {
                return Err(path);
            }
            if visited.insert(hash(next.fingerprint())) {
                states.push_back((next, path));
            }
        }
    }
    Ok(visited.len())
}

fn hash(text: String) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn explore(bounds: Bounds) {
    match search(bounds) {
        Ok(states) => assert!(states > 100, "{states}"),
        Err(path) => panic!("{bounds:?}: {path:?}"),
    }
}

#[test]
fn callers_are_granted_in_order_whatever_the_order_of_events() {
    explore(Bounds { callers: 3, ..SMALL });
    explore(Bounds { foreign_joins: 1, beats: 1, ..SMALL });
}

#[test]
fn nobody_waits_for_a_free_lock_when_answers_are_lost() {
    explore(Bounds { callers: 3, lost_replies: 1, ..SMALL });
    explore(Bounds { lost_replies: 1, foreign_joins: 1, beats: 1, calm: true, ..SMALL });
}

#[test]
fn a_caller_that_leaves_leaves_nothing_behind() {
    explore(Bounds { callers: 3, departures: 1, ..SMALL });
    explore(Bounds { departures: 1, lost_replies: 1, ..SMALL });
    explore(Bounds { departures: 2, beats: 1, ..SMALL });
}

#[test]
fn a_place_that_the_server_drops_joins_again() {
    explore(Bounds { stalls: 1, beats: 2, calm: true, ..SMALL });
    explore(Bounds { callers: 1, stalls: 1, departures: 1, lost_replies: 1, beats: 1, ..SMALL });
}

#[test]
fn a_cut_of_the_notices_is_caught_up() {
    explore(Bounds { cuts: 1, foreign_joins: 1, ..SMALL });
}

#[test]
fn callers_of_one_scope_have_one_place() {
    explore(Bounds { callers: 3, scope: true, departures: 1, ..SMALL });
    explore(Bounds { scope: true, departures: 2, lost_replies: 1, ..SMALL });
}

#[test]
fn callers_beyond_the_limit_get_their_places_in_order() {
    explore(Bounds { callers: 3, places_max: 1, departures: 1, ..SMALL });
    explore(Bounds { callers: 3, places_max: 2, lost_replies: 1, ..SMALL });
}

#[test]
fn a_caller_that_only_tries_never_joins() {
    explore(Bounds { tries: 1, lost_replies: 1, ..SMALL });
    explore(Bounds { callers: 1, tries: 2, departures: 1, foreign_joins: 1, ..SMALL });
}

#[test]
fn three_callers_one_drop_one_lost_reply_and_one_stall() {
    explore(Bounds { callers: 3, departures: 1, lost_replies: 1, stalls: 1, calm: true, ..SMALL });
}

/// Bounds within which an entry without this rule is found.
fn bounds_for(rule: Rule) -> Bounds {
    match rule {
        Rule::CloseOnLeave | Rule::AwaitAnswer | Rule::GiveBack => Bounds { departures: 1, ..SMALL },
        Rule::KeepOwner => Bounds { lost_replies: 1, ..SMALL },
        Rule::OneAskEach => Bounds { callers: 1, beats: 2, expires_soon: 2, ..SMALL },
        Rule::RememberNotice => Bounds { callers: 1, expires_soon: 1, ..SMALL },
        Rule::JoinAgain => Bounds { beats: 2, stalls: 1, calm: true, ..SMALL },
        Rule::FollowNotice | Rule::CheckSubscription | Rule::FirstComeFirst => SMALL,
        Rule::TakeTurn => SMALL,
        Rule::TryOnly => Bounds { tries: 1, ..SMALL },
    }
}

#[test]
fn an_entry_without_any_one_of_its_rules_is_found() {
    for rule in Rule::ALL {
        let bounds = bounds_for(rule);
        assert!(search(Bounds { without: Some(rule), ..bounds }).is_err(), "{rule:?} is not needed");
        assert!(search(bounds).is_ok(), "{rule:?}");
    }
}
