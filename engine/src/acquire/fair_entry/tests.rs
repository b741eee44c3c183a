//! Single histories of a fair entry that time decides, which the model leaves out.

use super::*;
use crate::{
    acquire::caller::{Caller, Patience},
    lease::shared::Terms,
    metrics::LabelSet,
    routing::topology::{ClockId, NodeId},
    transport::{ErrorKind, HoldKind, Outcome, Remaining, ServerTime},
};

const TTL: Duration = Duration::from_secs(30);
const AT: ServerTime = ServerTime { micros: 1, clock: ClockId { node: NodeId(0), epoch: 1 } };
const QUEUED: Outcome = Outcome::Queued { remaining: Remaining::For(TTL), ahead: 3, at: AT };
const GONE: Outcome = Outcome::NotYours { at: AT };

/// An entry with one caller and its place.
struct OnePlace {
    entry: FairEntry,
    callers: Queue<()>,
    mint: OwnerMint,
    now: Instant,
    lost: u64,
}

impl OnePlace {
    fn new() -> Self {
        let mut callers = Queue::default();
        let (renewed, max_hold, labels) = (true, None, LabelSet::DEFAULT);
        let terms = Terms { kind: HoldKind::Fair, ttl: TTL, renewed, max_hold, labels };
        let (side, patience) = (terms.kind, Patience::Wait(None));
        let now = Instant::from_nanos(1_000_000_000);
        callers.push_back(Caller {
            id: CallerId(1),
            terms,
            side,
            patience,
            joined: now,
            scope: None,
            late: 0,
            reply_to: (),
        });
        Self { entry: FairEntry::default(), callers, mint: OwnerMint::new(), now, lost: 0 }
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    fn pace(&self) -> FairPace {
        FairPace {
            unavailable_after: Duration::from_secs(10),
            command_timeout: Duration::from_secs(1),
            terms: PlaceTerms::new(Duration::from_secs(300), BEAT),
            places_max: 10,
        }
    }

    fn step(&mut self, is_permitted: bool) -> Plan {
        let plan = self.entry.take_step(&self.callers, self.now, &self.mint, &self.pace(), is_permitted);
        if !plan.beats.is_empty() {
            self.entry.note_batch_sent();
        }
        self.lost += plan.places_lost;
        plan
    }

    /// All that the next two steps send is answered now.
    fn answer_all(&mut self, ask: impl Fn(Ask) -> Result<Outcome, TransportError>, beat: Outcome) {
        let sent = self.now;
        for _ in 0..2 {
            let plan = self.step(true);
            for asked in plan.asks {
                let answer = Answer { answer: ask(asked), sent, execute_by: sent + TTL };
                self.entry.handle_answer(&mut self.callers, asked.place, answer, sent);
            }
            plan.beats.into_iter().for_each(|sent_beat| self.answer((sent_beat, sent), beat.clone()));
        }
    }

    /// The next step sends an ask, which is answered now.
    fn ask(&mut self, answer: Result<Outcome, TransportError>) {
        let plan = self.step(true);
        let [ask] = plan.asks[..] else { panic!("{plan:?}") };
        let answer = Answer { answer, sent: self.now, execute_by: self.now + Duration::from_secs(1) };
        let verdict = self.entry.handle_answer(&mut self.callers, ask.place, answer, self.now);
        assert!(verdict.leaving.is_empty(), "{verdict:?}");
    }

    /// The next step sends a beat. Its answer comes later.
    fn beat(&mut self) -> (Beat, Instant) {
        let plan = self.step(true);
        let [beat] = plan.beats[..] else { panic!("{plan:?}") };
        (beat, self.now)
    }

    fn answer(&mut self, (beat, sent): (Beat, Instant), outcome: Outcome) {
        let answers = vec![(beat, Ok(outcome))];
        let leaving = self.entry.handle_beats(&mut self.callers, answers, sent, self.now);
        assert!(leaving.is_empty(), "{leaving:?}");
    }
}

fn refused() -> TransportError {
    TransportError::without_effect(ErrorKind::NotReady, None, "out of memory")
}

#[test]
fn a_place_that_is_lost_once_is_counted_once_although_two_beats_did_not_find_it() {
    let mut place = OnePlace::new();
    place.ask(Ok(QUEUED));
    let id = place.step(true).listen[0].0;
    place.pass(980);
    place.entry.handle_notice(id, 0, true, place.now);
    let check = place.beat();
    place.pass(20);
    let beat = place.beat();
    place.pass(5);
    place.answer(check, GONE);
    place.ask(Ok(QUEUED));
    place.pass(5);
    // The server had executed this beat before the place joined again.
    place.answer(beat, GONE);
    let plan = place.step(true);
    assert!(plan.asks.is_empty(), "the place is there: {plan:?}");
    assert_eq!(place.lost, 1);
}

#[test]
fn a_place_that_is_lost_again_joins_again_and_is_counted_again() {
    let mut place = OnePlace::new();
    place.ask(Ok(QUEUED));
    for _ in 0..2 {
        place.pass(1_000);
        let beat = place.beat();
        place.answer(beat, GONE);
        place.ask(Ok(QUEUED));
    }
    place.step(true);
    assert_eq!(place.lost, 2);
}

#[test]
fn a_repeated_ask_needs_a_permit_and_one_that_follows_a_notice_needs_none() {
    let mut place = OnePlace::new();
    place.ask(Ok(QUEUED));
    let id = place.step(true).listen[0].0;
    place.pass(1_000);
    let beat = place.beat();
    place.answer(beat, Outcome::Turn { at: AT });
    let plan = place.step(false);
    assert!(plan.asks.is_empty() && plan.retry_since.is_some(), "{plan:?}");
    place.entry.handle_notice(id, 1, false, place.now);
    let plan = place.step(false);
    assert!(plan.asks.len() == 1 && plan.retry_since.is_none(), "{plan:?}");
}

#[test]
fn l3_a_caller_whose_asks_are_refused_leaves_after_unavailable_after_and_not_before() {
    let mut place = OnePlace::new();
    for _ in 0..10 {
        place.ask(Err(refused()));
        place.pass(999);
    }
    let (held, pace) = (HeldHere { held: false, surely: false }, place.pace());
    let mut overdue = |now| place.entry.take_overdue(&mut place.callers, held, now, &pace).len();
    assert_eq!((overdue(place.now), overdue(place.now + Duration::from_millis(10))), (0, 1));
}

/// A place in the line that cannot take the lock is without an answer, whatever the beats say of the turn.
#[test]
fn l3_a_head_whose_asks_are_refused_leaves_although_its_beats_are_answered() {
    let mut place = OnePlace::new();
    place.ask(Ok(QUEUED));
    place.pass(1_000);
    for _ in 0..10 {
        place.answer_all(|_| Err(refused()), Outcome::Turn { at: AT });
        place.pass(1_000);
    }
    let (held, pace) = (HeldHere { held: false, surely: false }, place.pace());
    assert_eq!(place.entry.take_overdue(&mut place.callers, held, place.now, &pace).len(), 1);
}
