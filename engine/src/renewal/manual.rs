//! Manual renewals: holders that request a renewal beyond the regular renewals, and the answer that each of them gets.
//! Pure.
//!
//! A request that arrives while a renewal of its lease is in flight is sent with the next renewal. Only the answer to
//! that next renewal counts for the request.

use std::{collections::HashMap, fmt, time::Duration};

use crate::{guard, lease::state::LossReason, transport::TransportError};

/// The answer to a manual renewal.
#[derive(Clone, Debug)]
pub(crate) enum ManualOutcome {
    Renewed,
    Lost(LossReason),
    /// The lease was released meanwhile.
    Released,
    Failed(TransportError),
}

impl ManualOutcome {
    /// The answer for a lease that has ended: lost for this reason, or released.
    pub(crate) fn ended(loss: Option<LossReason>) -> Self {
        loss.map_or(ManualOutcome::Released, ManualOutcome::Lost)
    }
}

/// Takes the answer.
pub(crate) struct AnswerTo(Box<dyn FnOnce(ManualOutcome) + Send>);

impl AnswerTo {
    pub(crate) fn new(take: impl FnOnce(ManualOutcome) + Send + 'static) -> Self {
        Self(Box::new(take))
    }

    /// Gives the answer. That wakes the holder, whose waker is user code and may panic.
    pub(crate) fn answer(self, answer: ManualOutcome) {
        let _ = guard::call(|| (self.0)(answer));
    }
}

impl fmt::Debug for AnswerTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerTo")
    }
}

/// The requested renewals, by the ticket of their lease.
#[derive(Debug, Default)]
pub(crate) struct ManualRenewals {
    of: HashMap<u64, ManualRenewal>,
}

#[derive(Debug, Default)]
struct ManualRenewal {
    /// The largest requested ttl.
    ttl: Duration,
    waiting: Vec<AnswerTo>,
    /// Requests that get the answer to the renewal in flight.
    sent: Vec<AnswerTo>,
}

impl ManualRenewals {
    /// Records a request for a ttl of at least `ttl`.
    pub(crate) fn request(&mut self, ticket: u64, ttl: Duration, answer_to: AnswerTo) {
        let request = self.of.entry(ticket).or_default();
        request.ttl = request.ttl.max(ttl);
        request.waiting.push(answer_to);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn is_any(&self, ticket: u64) -> bool {
        self.of.contains_key(&ticket)
    }

    /// A renewal of the lease is about to be sent. Returns the ttl that was requested for the lease.
    pub(crate) fn send(&mut self, ticket: u64) -> Option<Duration> {
        let request = self.of.get_mut(&ticket)?;
        request.sent.append(&mut request.waiting);
        Some(request.ttl)
    }

    /// Answers the requests of the renewal that was in flight. Returns `true` if more requests wait for the next
    /// renewal.
    pub(crate) fn answer_sent(&mut self, ticket: u64, answer: &ManualOutcome) -> bool {
        let Some(request) = self.of.get_mut(&ticket) else { return false };
        request.sent.drain(..).for_each(|answer_to| answer_to.answer(answer.clone()));
        let more = !request.waiting.is_empty();
        if !more {
            self.of.remove(&ticket);
        }
        more
    }

    /// Answers every request of a lease that has ended.
    pub(crate) fn answer_all(&mut self, ticket: u64, answer: &ManualOutcome) {
        if let Some(request) = self.of.remove(&ticket) {
            request
                .sent
                .into_iter()
                .chain(request.waiting)
                .for_each(|answer_to| answer_to.answer(answer.clone()));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Wake, Waker},
    };

    use tokio::sync::oneshot;

    use super::*;

    /// Where an answer goes, and where it arrives.
    pub(crate) fn channel() -> (AnswerTo, oneshot::Receiver<ManualOutcome>) {
        let (sender, receiver) = oneshot::channel();
        (AnswerTo::new(|answer| drop(sender.send(answer))), receiver)
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_no_other_holder_from_its_answer() {
        let mut manual = ManualRenewals::default();
        let ((one_to, one), (two_to, mut two)) = (channel(), channel());
        let mut one = pin!(one);
        assert!(one.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
        manual.request(7, Duration::from_secs(1), one_to);
        manual.request(7, Duration::from_secs(1), two_to);
        manual.answer_all(7, &ManualOutcome::Renewed);
        assert!(matches!(two.try_recv(), Ok(ManualOutcome::Renewed)));
    }
}
