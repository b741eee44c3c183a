//! All losses of one engine in one stream, over a ring of the last 2^17. A reader that falls behind is told how many
//! it missed, never silently less.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{clock::Instant, engine::Handle, fencing::FencingToken, lease::state::LossReason};

/// How many losses are kept for readers.
pub const LOSSES_KEPT: usize = 1 << 17;

/// One lost lease.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The lock's name, as the user wrote it.
    pub name: Arc<str>,
    /// The token of the lost lease.
    pub fencing_token: FencingToken,
    /// Why.
    pub reason: LossReason,
    /// When the loss was told, on the engine's clock.
    pub at: Instant,
    /// The deadline it had: nothing was to be believed after it.
    pub deadline: Instant,
    /// How long it had been held.
    pub held: Duration,
}

/// What a reader of the losses gets.
#[derive(Clone, Debug)]
pub enum LossNotice {
    /// A lease was lost.
    Lost(Loss),
    /// The reader fell behind, and this many losses are not kept any more.
    Missed(u64),
}

#[derive(Debug, Default)]
pub(crate) struct LossRing {
    kept: Mutex<Kept>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    losses: VecDeque<Loss>,
    /// The number of the first loss that is kept.
    first: u64,
}

impl LossRing {
    pub(crate) fn push(&self, loss: Loss) {
        let mut kept = self.lock();
        if kept.losses.len() == LOSSES_KEPT {
            kept.losses.pop_front();
            kept.first += 1;
        }
        kept.losses.push_back(loss);
        drop(kept);
        self.news.notify_waiters();
    }

    fn end(&self) -> u64 {
        let kept = self.lock();
        kept.first + kept.losses.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, next: &mut u64) -> Option<LossNotice> {
        let kept = self.lock();
        if *next < kept.first {
            let missed = kept.first - *next;
            *next = kept.first;
            return Some(LossNotice::Missed(missed));
        }
        let loss = kept.losses.get(usize::try_from(*next - kept.first).ok()?)?;
        *next += 1;
        Some(LossNotice::Lost(loss.clone()))
    }
}

/// A reader of all losses from the moment it was made. It keeps the engine alive.
pub struct Losses {
    ring: Arc<LossRing>,
    next: u64,
    _engine: Handle,
}

impl Losses {
    pub(crate) fn new(ring: Arc<LossRing>, engine: Handle) -> Self {
        let next = ring.end();
        Self { ring, next, _engine: engine }
    }

    /// The next loss; waits for one.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn next(&mut self) -> LossNotice {
        loop {
            let news = self.ring.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if let Some(notice) = self.ring.read(&mut self.next) {
                return notice;
            }
            news.await;
        }
    }

    /// The next loss, if there is one already.
    pub fn try_next(&mut self) -> Option<LossNotice> {
        self.ring.read(&mut self.next)
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Losses(next {})", self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(n: u64) -> Loss {
        Loss {
            name: "a".into(),
            fencing_token: FencingToken::at_server_micros(n),
            reason: LossReason::Expired,
            at: Instant::default(),
            deadline: Instant::default(),
            held: Duration::ZERO,
        }
    }

    #[test]
    fn who_falls_behind_is_told_how_many_were_missed() {
        let (ring, mut next) = (LossRing::default(), 0);
        for n in 0..LOSSES_KEPT as u64 + 3 {
            ring.push(loss(n));
        }
        assert!(matches!(ring.read(&mut next), Some(LossNotice::Missed(3))));
        let Some(LossNotice::Lost(first)) = ring.read(&mut next) else { panic!("kept") };
        assert_eq!(first.fencing_token, FencingToken::at_server_micros(3));
        next = ring.end();
        assert!(ring.read(&mut next).is_none());
    }
}
