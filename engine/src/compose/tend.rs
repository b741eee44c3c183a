//! Watches one member of a holding, and takes it again after a loss. Each member is watched on the calls thread of its
//! own engine, so that the end of one engine stops no other member's.

use std::{sync::Arc, time::Duration};

use super::{holding::Holding, members::Standing};
use crate::{AcquireError, Lease, Lock, LossReason, clock::Instant, inner::Inner, transport::BoxFuture};

/// A try of one member.
pub(super) type Trying = BoxFuture<'static, Result<Option<Lease>, AcquireError>>;

/// One member of a holding.
pub(super) struct Member {
    pub(super) place: usize,
    pub(super) lock: Lock,
    /// The try that was not answered when the holding began.
    pub(super) pending: Option<Trying>,
    /// `None`: a member that is lost is not taken again.
    pub(super) again: Option<Again>,
}

/// How a member is taken again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// The first pause of a member that was not granted when the holding began.
    pub(super) first: Duration,
    /// The longest pause before each further try.
    pub(super) pause: Duration,
    /// From then on the member is not renewed, by the clock of its engine.
    pub(super) until: Option<Instant>,
}

impl Again {
    // Up to a tenth shorter, by `jitter` from 0 to 255. A caller elsewhere that tries the member in the same rhythm would
    // otherwise meet each of these tries, or none.
    fn next_pause(&self, jitter: u64) -> Duration {
        self.pause - self.pause / 10 / 255 * jitter.min(255) as u32
    }
}

/// Watches the member until the holding ends. The last step releases what is left of a holding that was lost.
pub(super) fn start(holding: &Arc<Holding>, member: Member) {
    let engine = member.lock.engine().clone();
    let (holding, watched) = (holding.clone(), engine.clone());
    engine.spawn(async move {
        let ended = tokio::select! {
            biased;
            ended = holding.ended() => ended,
            () = watch(&holding, member) => holding.ended().await,
        };
        if let Standing::Lost(_) = ended {
            // The holder has just been told: its work ends before the members are free.
            sleep(&watched, TELL_FIRST).await;
            holding.release_rest();
        }
    });
}

// Ends when nothing is left to do for this member.
async fn watch(holding: &Arc<Holding>, mut member: Member) {
    let mut pause = member.again.map(|again| again.first);
    loop {
        if let Some(lost) = holding.loss_of(member.place) {
            until_lost(holding, member.place, member.lock.engine(), lost).await;
            holding.clear(member.place);
            pause = None; // the member was lost
        }
        let answer = match member.pending.take() {
            Some(pending) => pending.await,
            None => match next_try(&member.lock, member.again, pause.take()).await {
                Some(trying) => trying.await,
                None => return,
            },
        };
        if let Ok(Some(lease)) = answer {
            holding.join(member.place, lease);
        }
    }
}

// The deadline is looked at as well: a user's waker that panics can keep this task from being told of the loss.
async fn until_lost(
    holding: &Holding,
    place: usize,
    engine: &Inner,
    mut lost: BoxFuture<'static, LossReason>,
) {
    loop {
        let left = holding.remaining_of(place);
        if left.is_zero() {
            return;
        }
        tokio::select! {
            _ = &mut lost => return,
            () = sleep(engine, left) => {}
        }
    }
}

async fn next_try(lock: &Lock, again: Option<Again>, pause: Option<Duration>) -> Option<Trying> {
    let (again, engine) = (again?, lock.engine());
    sleep(engine, pause.unwrap_or_else(|| again.next_pause(engine.jitter()))).await;
    let lock = match again.until.map(|until| until - engine.clock.now()) {
        Some(left) if left.is_zero() => return None,
        Some(left) => lock.clone().max_hold(left),
        None => lock.clone(),
    };
    Some(Box::pin(lock.try_acquire()))
}

async fn sleep(engine: &Inner, time: Duration) {
    engine.clock.sleep_until(engine.clock.now() + time).await;
}

/// One tick of the engine.
const TELL_FIRST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_at_most_a_tenth_shorter_than_the_longest() {
        let [first, pause] = [1, 10].map(Duration::from_secs);
        let again = Again { first, pause, until: None };
        assert_eq!(again.next_pause(0), pause);
        assert!(again.next_pause(1) < pause);
        for jitter in [255, 256, u64::MAX] {
            let shortest = again.next_pause(jitter);
            assert!(
                shortest >= Duration::from_secs(9) && shortest < Duration::from_millis(9_001),
                "{shortest:?}"
            );
        }
    }
}
