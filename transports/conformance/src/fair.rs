//! Fair locks: the line of those that wait.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Context, Fixture, LONG, SHORT, granted, held, is_about, is_too_late};
use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
    transport::{Call, HoldKind, Op, Outcome, PlaceTerms, Remaining, Watch},
};

/// One after the other, whichever process they are in and whoever asks first afterwards.
pub async fn the_line_is_in_the_order_of_arrival<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(4).await;
    line.release(holder).await;
    for (place, owner) in waiting.iter().enumerate() {
        for later in &waiting[place + 1..] {
            assert!(queued(&line.queue(*later).await) > 0);
        }
        granted(&line.queue(*owner).await);
        line.release(*owner).await;
    }
    assert!(line.context.is_free(&line.key).await);
}

/// While the lock is free and the head has not asked yet.
pub async fn nobody_passes_the_head<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(1).await;
    line.release(holder).await;
    let other = line.context.owner();
    assert!(matches!(held(&line.acquire(other).await), Remaining::For(_)));
    assert!(queued(&line.queue(other).await) > 0);
    granted(&line.acquire(waiting[0]).await);
}

/// Neither a lock that is held nor one that others wait for.
pub async fn an_acquire_never_queues<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(1).await;
    let tries = line.context.owner();
    held(&line.acquire(tries).await);
    assert!(is_not_yours(&line.beat(tries).await));
    line.release(waiting[0]).await;
    held(&line.acquire(tries).await);
    line.release(holder).await;
    granted(&line.acquire(line.context.owner()).await);
}

/// The wait for the hold is told, and asking again is asking for the same place.
pub async fn queueing_again_keeps_the_place<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (_, waiting) = line.waiting(2).await;
    for _ in 0..3 {
        is_head_of_a_held_lock(&line.queue(waiting[0]).await);
        assert!(queued(&line.queue(waiting[1]).await) > 0);
    }
}

/// An owner that holds the lock has no place.
pub async fn a_holder_that_queues_is_granted_again<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let owner = line.context.owner();
    let token = granted(&line.queue(owner).await);
    assert!(granted(&line.queue(owner).await) >= token);
    assert!(is_not_yours(&line.beat(owner).await));
    assert!(line.context.is_held_by(&line.key, owner).await);
    line.release(owner).await;
    assert!(line.context.is_free(&line.key).await);
}

/// In front, and in the middle.
pub async fn a_release_leaves_the_line<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(4).await;
    for leaving in [waiting[0], waiting[2]] {
        line.release(leaving).await;
        assert!(is_not_yours(&line.send(line.call(Op::Release, leaving)).await));
        assert!(is_not_yours(&line.beat(leaving).await));
    }
    line.release(holder).await;
    granted(&line.queue(waiting[1]).await);
    line.release(waiting[1]).await;
    granted(&line.queue(waiting[3]).await);
}

/// Whose turn it is, and who has no place.
pub async fn a_beat_says_how_the_line_stands<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(2).await;
    assert_eq!(queued(&line.beat(waiting[0]).await), 0);
    assert!(queued(&line.beat(waiting[1]).await) > 0);
    assert!(is_not_yours(&line.beat(line.context.owner()).await));
    line.release(holder).await;
    let turn = line.beat(waiting[0]).await;
    assert!(matches!(turn, Outcome::Turn { .. }), "{turn:?}");
    assert!(queued(&line.beat(waiting[1]).await) > 0);
    assert!(line.context.is_free(&line.key).await, "a beat takes nothing");
}

/// A batch of beats of one key, of places and of others.
pub async fn a_batch_of_beats_answers_each_place<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (_, waiting) = line.waiting(40).await;
    let strangers: Vec<_> = (0..10).map(|_| line.context.owner()).collect();
    let all = waiting.iter().chain(&strangers);
    let batch = all.clone().map(|owner| line.beat_request(*owner).with_ticket(owner.number())).collect();
    let node = line.context.calls.topology().borrow().serving(line.key.slot()).expect("a node").id;
    let answered = line.context.calls.call(node, batch).await;
    let by_owner: BTreeMap<_, _> = answered.into_iter().map(|call| (call.ticket, call.outcome)).collect();
    assert_eq!(by_owner.len(), 50);
    for (place, owner) in all.enumerate() {
        match &by_owner[&owner.number()] {
            Outcome::Queued { ahead, .. } if place < 40 => assert_eq!(*ahead == 0, place == 0),
            Outcome::NotYours { .. } if place >= 40 => {}
            reply => panic!("{place}: {reply:?}"),
        }
    }
}

/// Neither may make a place after its limit.
pub async fn a_queue_past_its_limit_is_not_executed<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(1).await;
    let late = line.context.owner();
    for mut request in [line.queue_request(late), line.beat_request(waiting[0])] {
        request.execute_by = line.context.now();
        line.context.sleep(Duration::from_millis(5)).await;
        let outcome = line.context.calls.call_one(request).await;
        assert!(is_too_late(&outcome), "{outcome:?}");
    }
    assert!(is_not_yours(&line.beat(late).await));
    line.release(holder).await;
    granted(&line.queue(waiting[0]).await);
}

/// The head alone, in whichever process it is.
pub async fn the_head_is_told_its_turn<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(3).await;
    let mut turns = Vec::new();
    for owner in &waiting {
        turns.push(line.watch(*owner).await);
    }
    line.release(holder).await;
    for (place, owner) in waiting.iter().enumerate() {
        until_noticed(&mut turns[place], 1).await;
        let later = turns[place + 1..].iter_mut().map(|turn| turn.observe().notices).sum::<u64>();
        assert_eq!(later, 0, "a notice to one that is not the head");
        granted(&line.queue(*owner).await);
        line.release(*owner).await;
    }
}

/// A head that leaves while the lock is free makes way.
pub async fn the_next_is_told_when_the_head_leaves<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(2).await;
    let mut turn = line.watch(waiting[1]).await;
    line.release(holder).await;
    line.release(waiting[0]).await;
    until_noticed(&mut turn, 1).await;
    granted(&line.queue(waiting[1]).await);
}

/// The line does not end with the hold.
pub async fn the_line_outlives_a_hold_that_ran_out<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    granted(&line.send(line.call(Op::Acquire { ttl: SHORT }, line.context.owner())).await);
    let waiting = line.context.owner();
    queued(&line.queue(waiting).await);
    line.context.sleep(SHORT + Duration::from_millis(20)).await;
    held(&line.acquire(line.context.owner()).await);
    granted(&line.queue(waiting).await);
}

/// On the server it is one lock. A release of the other kind tells no head, which finds it by its next beat.
pub async fn a_hold_of_another_kind_holds_up_the_line<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (plain, waits) = (line.context.owner(), line.context.owner());
    granted(&line.plain(Op::Acquire { ttl: LONG }, plain).await);
    assert!(is_for_about(held(&line.acquire(line.context.owner()).await), LONG));
    for _ in 0..2 {
        is_head_of_a_held_lock(&line.queue(waits).await);
        is_head_of_a_held_lock(&line.beat(waits).await);
    }
    let released = line.plain(Op::Release, plain).await;
    assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
    let turn = line.beat(waits).await;
    assert!(matches!(turn, Outcome::Turn { .. }), "{turn:?}");
    granted(&line.queue(waits).await);
    let busy = line.plain(Op::Acquire { ttl: LONG }, line.context.owner()).await;
    assert!(is_for_about(held(&busy), LONG), "{busy:?}");
}

/// The operator's tool ends the hold; the head is next.
pub async fn a_forced_release_makes_way_for_the_head<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (_, waiting) = line.waiting(1).await;
    let mut turn = line.watch(waiting[0]).await;
    assert!(line.context.others.force_release(&line.key).await.expect("a definite answer"));
    until_noticed(&mut turn, 1).await;
    held(&line.acquire(line.context.owner()).await);
    granted(&line.queue(waiting[0]).await);
}

/// A process that died holds up the others for a few seconds.
pub async fn a_silent_head_is_dropped<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(2).await;
    line.release(holder).await;
    line.context
        .until(async || {
            line.context.sleep(STEP).await;
            matches!(line.queue(waiting[1]).await, Outcome::Granted { .. })
        })
        .await;
    assert!(is_not_yours(&line.beat(waiting[0]).await));
}

/// However long it waits, and while nobody else asks.
pub async fn a_place_that_beats_is_kept<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(2).await;
    for _ in 0..12 {
        line.context.sleep(STEP).await;
        for owner in &waiting {
            queued(&line.beat(*owner).await);
        }
    }
    line.release(holder).await;
    assert!(queued(&line.queue(waiting[1]).await) > 0);
    granted(&line.queue(waiting[0]).await);
}

/// All places are silent: it was the server that was away.
pub async fn after_a_silence_of_all_nobody_is_dropped<G: Fixture>(fixture: &G) {
    let line = Line::open(fixture).await;
    let (holder, waiting) = line.waiting(3).await;
    line.context.sleep(Duration::from_secs(4)).await;
    line.release(holder).await;
    for owner in waiting.iter().rev() {
        let beat = line.beat(*owner).await;
        assert!(matches!(beat, Outcome::Queued { .. } | Outcome::Turn { .. }), "{beat:?}");
    }
    for owner in waiting {
        granted(&line.queue(owner).await);
        line.release(owner).await;
    }
}

/// One lock and its line.
struct Line {
    context: Context,
    key: Arc<LockKey>,
}

impl Line {
    async fn open<G: Fixture>(fixture: &G) -> Line {
        let context = Context::open(fixture).await;
        let key = context.key_of(HoldKind::Fair.family(), "a");
        Line { context, key }
    }

    /// A holder, and owners that wait, the head first.
    async fn waiting(&self, owners: usize) -> (Owner, Vec<Owner>) {
        let holder = self.context.owner();
        granted(&self.queue(holder).await);
        let mut waiting = Vec::new();
        for place in 0..owners {
            let owner = self.context.owner();
            let lane = if place % 2 == 0 { &self.context.calls } else { &self.context.others };
            let ahead = queued(&lane.call_one(self.queue_request(owner)).await);
            assert_eq!(ahead == 0, place == 0, "{place} has {ahead} before it");
            waiting.push(owner);
        }
        (holder, waiting)
    }

    fn call(&self, op: Op, owner: Owner) -> Call {
        self.context.call_of(HoldKind::Fair, &self.key, op, owner)
    }

    fn queue_request(&self, owner: Owner) -> Call {
        self.call(Op::Queue { ttl: LONG, place: place() }, owner)
    }

    fn beat_request(&self, owner: Owner) -> Call {
        self.call(Op::Beat { place: place() }, owner)
    }

    async fn queue(&self, owner: Owner) -> Outcome {
        self.send(self.queue_request(owner)).await
    }

    async fn beat(&self, owner: Owner) -> Outcome {
        self.send(self.beat_request(owner)).await
    }

    async fn acquire(&self, owner: Owner) -> Outcome {
        self.send(self.call(Op::Acquire { ttl: LONG }, owner)).await
    }

    /// A call on the exclusive lock of the same name.
    async fn plain(&self, op: Op, owner: Owner) -> Outcome {
        let key = self.context.key_of(Family::Exclusive, self.key.name());
        self.send(self.context.call_of(HoldKind::Exclusive, &key, op, owner)).await
    }

    async fn release(&self, owner: Owner) {
        let released = self.send(self.call(Op::Release, owner)).await;
        assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
    }

    async fn send(&self, call: Call) -> Outcome {
        self.context.calls.call_one(call).await.into_result().expect("a definite answer")
    }

    /// The watch of an owner's turn, in force.
    async fn watch(&self, owner: Owner) -> Watch {
        let mut watch = self.context.others.watch_turn(&self.key, owner);
        while !watch.observe().in_force {
            watch.changed().await;
        }
        watch
    }
}

fn place() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_millis(1_500))
}

/// How many places are before it.
fn queued(reply: &Outcome) -> u32 {
    match reply {
        Outcome::Queued { ahead, .. } => *ahead,
        _ => panic!("in the line, not {reply:?}"),
    }
}

/// The reply to the head of the line of a lock that is held for `LONG`.
fn is_head_of_a_held_lock(reply: &Outcome) {
    let Outcome::Queued { remaining, ahead: 0, .. } = reply else { panic!("the head, not {reply:?}") };
    assert!(is_for_about(*remaining, LONG), "{reply:?}");
}

fn is_for_about(remaining: Remaining, ttl: Duration) -> bool {
    matches!(remaining, Remaining::For(left) if is_about(left, ttl))
}

fn is_not_yours(reply: &Outcome) -> bool {
    matches!(reply, Outcome::NotYours { .. })
}

async fn until_noticed(watch: &mut Watch, notices: u64) {
    while watch.observe().notices < notices {
        watch.changed().await;
    }
}

/// Between two beats of a test.
const STEP: Duration = Duration::from_millis(400);
