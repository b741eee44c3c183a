//! Renewals by hand: who wants a lease renewed beyond its regular renewals, and who hears of which answer. Pure.
//!
//! A wish that is spoken while a renewal of its lease is in flight goes out with the next one; only then its answer
//! counts for it.

use std::{collections::HashMap, time::Duration};

use tokio::sync::oneshot;

use crate::{guard, lease::state::LossReason, transport::TransportError};

/// The answer to a renewal by hand.
#[derive(Clone, Debug)]
pub(crate) enum ByHand {
    Renewed,
    Lost(LossReason),
    /// The lease was released meanwhile.
    Released,
    Failed(TransportError),
}

impl ByHand {
    /// The answer for a lease that has ended: lost for this reason, or released.
    pub(crate) fn ended(loss: Option<LossReason>) -> Self {
        loss.map_or(ByHand::Released, ByHand::Lost)
    }
}

/// Where that answer goes.
pub(crate) type AnswerTo = oneshot::Sender<ByHand>;

/// The wishes of one shard, by the ticket of their lease.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    of: HashMap<u64, Wish>,
}

#[derive(Debug, Default)]
struct Wish {
    /// The largest of them.
    ttl: Duration,
    waiting: Vec<AnswerTo>,
    /// Answered with the renewal that is in flight.
    sent: Vec<AnswerTo>,
}

impl Wishes {
    /// Somebody wants at least this ttl.
    pub(crate) fn speak(&mut self, ticket: u64, ttl: Duration, answer_to: AnswerTo) {
        let wish = self.of.entry(ticket).or_default();
        wish.ttl = wish.ttl.max(ttl);
        wish.waiting.push(answer_to);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn is_any(&self, ticket: u64) -> bool {
        self.of.contains_key(&ticket)
    }

    /// A renewal of the lease goes out: the ttl that is wished for with it.
    pub(crate) fn send(&mut self, ticket: u64) -> Option<Duration> {
        let wish = self.of.get_mut(&ticket)?;
        wish.sent.append(&mut wish.waiting);
        Some(wish.ttl)
    }

    /// The renewal that was in flight is answered. `true`: more wishes wait for the next one.
    pub(crate) fn answer_sent(&mut self, ticket: u64, answer: &ByHand) -> bool {
        let Some(wish) = self.of.get_mut(&ticket) else { return false };
        wish.sent.drain(..).for_each(|answer_to| tell(answer_to, answer.clone()));
        let more = !wish.waiting.is_empty();
        if !more {
            self.of.remove(&ticket);
        }
        more
    }

    /// The lease is gone.
    pub(crate) fn answer_all(&mut self, ticket: u64, answer: &ByHand) {
        if let Some(wish) = self.of.remove(&ticket) {
            wish.sent.into_iter().chain(wish.waiting).for_each(|answer_to| tell(answer_to, answer.clone()));
        }
    }
}

/// Answers. It wakes the holder, whose waker is user code.
pub(crate) fn tell(answer_to: AnswerTo, answer: ByHand) {
    let _ = guard::call(|| answer_to.send(answer));
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Wake, Waker},
    };

    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_no_other_holder_from_its_answer() {
        let mut wishes = Wishes::default();
        let ((one_to, one), (two_to, mut two)) = (oneshot::channel(), oneshot::channel());
        let mut one = pin!(one);
        assert!(one.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
        wishes.speak(7, Duration::from_secs(1), one_to);
        wishes.speak(7, Duration::from_secs(1), two_to);
        wishes.answer_all(7, &ByHand::Renewed);
        assert!(matches!(two.try_recv(), Ok(ByHand::Renewed)));
    }
}
