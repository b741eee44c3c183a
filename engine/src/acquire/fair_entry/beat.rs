//! The beats of the places in the line: each says that its caller still waits, and asks how the line stands.
//!
//! The answer to a beat says nothing of asks that fail: a server without memory answers beats and refuses new places.
//!
//! A beat that is due goes out whatever else is in flight. Others follow these times too, so they are fixed: a waiting
//! place beats every [`BEAT_EVERY`], and a server takes it for alive for [`BEAT`].

use std::time::Duration;

use super::{Cause, FairEntry, PlaceId, Rule, place::Place};
use crate::{
    acquire::{caller::Leaving, clarity::PAST_EXPIRY, queue::Queue},
    clock::Instant,
    owner::Owner,
    transport::{Outcome, Remaining, TransportError},
};

/// How long a place is alive without a beat.
pub(crate) const BEAT: Duration = Duration::from_millis(1_500);
/// The pause between two beats of a place.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(1);
/// The shortest pause before the line is looked at again because a time on the server is up.
const CHECK_MIN: Duration = Duration::from_millis(10);

/// One beat of one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    pub(crate) place: PlaceId,
    pub(crate) owner: Owner,
}

impl FairEntry {
    /// The beats that are due. All of them go out in one batch.
    pub(super) fn take_beats(&mut self, now: Instant) -> Vec<Beat> {
        let is_due = |moment: Option<Instant>| moment.is_some_and(|moment| moment <= now);
        let beats = if is_due(self.next_beat) {
            self.next_beat = Some(now + BEAT_EVERY);
            self.synced = None; // compares the places with the queue once more, in case a change was missed
            self.take_all_beats()
        } else if self.batches_in_flight == 0 {
            self.take_checks(is_due(self.next_check))
        } else {
            Vec::new() // the checks go out together, after the batch in flight is answered
        };
        if !beats.is_empty() {
            self.note_sent(now);
        } else if !self.places.values().any(|place| place.is_in_line()) {
            self.next_beat = None;
        }
        beats
    }

    // An earlier beat or an ask of the place may be unanswered: it may be lost, and the next beat would come too late.
    fn take_all_beats(&mut self) -> Vec<Beat> {
        self.next_check = None;
        self.checks.clear();
        let all: Vec<PlaceId> = self.places.keys().copied().collect();
        all.into_iter().filter_map(|id| self.take_beat(id)).collect()
    }

    fn take_checks(&mut self, looks_at_line: bool) -> Vec<Beat> {
        let mut checks = std::mem::take(&mut self.checks);
        if looks_at_line {
            self.next_check = None;
            checks.extend(self.first_in_line());
        }
        checks.into_iter().filter_map(|id| self.take_beat(id)).collect()
    }

    fn take_beat(&mut self, id: PlaceId) -> Option<Beat> {
        let place = self.places.get(&id).filter(|place| place.is_in_line() && !place.deserted)?;
        Some(Beat { place: id, owner: place.attempt.owner })
    }

    fn first_in_line(&self) -> Option<PlaceId> {
        self.places.iter().find(|(_, place)| place.is_in_line()).map(|(id, _)| *id)
    }

    /// A batch of beats is being sent.
    pub(crate) fn note_batch_sent(&mut self) {
        self.batches_in_flight += 1;
    }

    /// Handles the answers to a batch of beats that was sent at `sent`. Returns the callers that leave, because a server
    /// has refused for good.
    pub(crate) fn handle_beats<S>(
        &mut self,
        callers: &mut Queue<S>,
        answers: Vec<(Beat, Result<Outcome, TransportError>)>,
        sent: Instant,
        now: Instant,
    ) -> Vec<Leaving<S>> {
        self.batches_in_flight -= 1;
        let mut leaving = Vec::new();
        for (beat, answer) in answers {
            if let Err(error) = self.handle_beat(beat, answer, callers.came(), sent, now) {
                leaving.extend(self.refuse_all(callers, &error));
            }
        }
        leaving
    }

    // `Err`: asking again is useless.
    fn handle_beat(
        &mut self,
        Beat { place: id, .. }: Beat,
        answer: Result<Outcome, TransportError>,
        came: u64,
        sent: Instant,
        now: Instant,
    ) -> Result<(), TransportError> {
        match answer {
            Ok(Outcome::Queued { remaining, ahead, .. }) => {
                self.unclear = None;
                self.held_after = Some(came);
                self.mark_clear(id);
                self.handle_in_line(id, remaining, ahead, sent, now);
            }
            Ok(Outcome::Turn { .. }) => {
                // If asks for the free lock fail, the turn does not make clear why.
                if self.failures == 0 {
                    self.unclear = None;
                }
                self.confirm_place(id, sent);
                self.places.get_mut(&id).into_iter().for_each(|place| place.has_turn = true);
                if !self.lacks(Rule::TakeTurn) {
                    self.follow(id, now, Cause::SafetyPoll);
                }
            }
            Ok(Outcome::NotYours { .. }) => {
                self.unclear = None;
                self.handle_place_gone(id, sent, now);
            }
            Ok(_too_late) => {}
            Err(error) if error.kind.is_final() => return Err(error),
            Err(error) => self.note_error(&error),
        }
        Ok(())
    }

    /// The place is in the line. The head asks again when the hold in front of it is over; the first place of this engine
    /// beats when the time of a silent head is up.
    pub(super) fn handle_in_line(
        &mut self,
        id: PlaceId,
        remaining: Remaining,
        ahead: u32,
        sent: Instant,
        now: Instant,
    ) {
        self.confirm_place(id, sent);
        let Remaining::For(left) = remaining else { return };
        if left.saturating_add(PAST_EXPIRY) >= BEAT_EVERY {
            return;
        }
        let over = now + (left + PAST_EXPIRY).max(CHECK_MIN);
        if ahead == 0 {
            self.ask_for(id, over, Cause::Expiry);
        } else if self.first_in_line() == Some(id) {
            self.next_check = Some(self.next_check.map_or(over, |planned| planned.min(over)));
        }
    }

    fn confirm_place(&mut self, id: PlaceId, sent: Instant) {
        let Some(place) = self.places.get_mut(&id).filter(|place| !place.deserted) else { return };
        let until = sent + BEAT;
        place.in_line_until = Some(place.in_line_until.map_or(until, |known| known.max(until)));
        (place.lost, place.has_turn) = (false, false);
        if !std::mem::replace(&mut place.was_in_line, true) {
            self.listen.push((id, place.attempt.owner));
        }
        self.next_beat.get_or_insert(sent + BEAT_EVERY);
    }

    // The place may have become a hold by an ask that was not answered. So the same owner joins again: a server grants to
    // an owner that holds already.
    //
    // A command that was sent after the beat has found the place: the beat is from before the place joined again.
    fn handle_place_gone(&mut self, id: PlaceId, sent: Instant, now: Instant) {
        let joins_again = !self.lacks(Rule::JoinAgain);
        let is_found_since = |place: &Place| place.in_line_until.is_some_and(|until| until > sent + BEAT);
        let may_be_gone = |place: &&mut Place| place.is_idle() && !is_found_since(place);
        let Some(place) = self.places.get_mut(&id).filter(may_be_gone) else { return };
        (place.in_line_until, place.lost) = (None, true);
        if joins_again {
            self.ask_for(id, now, Cause::SafetyPoll);
        }
    }

    /// Handles what the watch of a place reports: new notices, and whether notices may have been missed before the watch
    /// came in force (again).
    pub(crate) fn handle_notice(&mut self, id: PlaceId, notices: u64, resync: bool, now: Instant) {
        if notices > 0 && !self.lacks(Rule::FollowNotice) {
            if let Some(place) = self.places.get_mut(&id) {
                place.noticed.get_or_insert(now);
            }
            self.follow(id, now, Cause::Notice);
        } else if resync && !self.lacks(Rule::CheckSubscription) {
            self.check(id);
        }
    }

    fn check(&mut self, id: PlaceId) {
        match self.places.get_mut(&id) {
            Some(place) if place.asking.is_some() => place.follow_up = true,
            Some(_) => drop(self.checks.insert(id)),
            None => {}
        }
    }

    fn follow(&mut self, id: PlaceId, now: Instant, cause: Cause) {
        let remembers = !self.lacks(Rule::RememberNotice);
        match self.places.get_mut(&id) {
            Some(place) if place.asking.is_some() => place.follow_up = remembers,
            Some(place) => {
                // Before the asks of places that are new.
                let moment = if place.is_in_line() { now.min(place.joined) } else { now };
                self.ask_for(id, moment, cause);
            }
            None => {}
        }
    }
}
