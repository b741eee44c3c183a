//! A client of one counter, which numbers its operations.

use std::{
    future::{Future, poll_fn},
    num::NonZeroU32,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use leasehold::{
    key::LockKey,
    transport::{Counter, CounterCall, CounterOp, CounterReply, Lane, TransportError},
};
use uuid::Uuid;

use super::Context;

/// One client of one counter.
pub(crate) struct Client<'a> {
    context: &'a Context,
    pub(crate) key: Arc<LockKey>,
    pub(crate) counter: Counter,
    client: Uuid,
    number: u64,
    /// For how long the server remembers its operations.
    pub(crate) remember: Duration,
}

/// That many permits or steps.
pub(crate) fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("above zero")
}

/// A take for callers that want that many permits each.
pub(crate) fn take<const CALLERS: usize>(wants: [u32; CALLERS]) -> CounterOp {
    CounterOp::Take(wants.map(some).to_vec())
}

impl<'a> Client<'a> {
    /// A client that no other test has.
    pub(crate) fn new(context: &'a Context, name: &str, counter: Counter) -> Self {
        let client = context.owner().client();
        Self::of(context, name, counter, client)
    }

    /// Another client of the same counter.
    pub(crate) fn other(&self) -> Self {
        Self { context: self.context, key: self.key.clone(), client: Uuid::new_v4(), number: 0, ..*self }
    }

    fn of(context: &'a Context, name: &str, counter: Counter, client: Uuid) -> Self {
        let remember = Duration::from_secs(300);
        Self { context, key: context.key_of(counter.family(), name), counter, client, number: 0, remember }
    }

    /// The next operation of this client, not sent yet.
    pub(crate) fn next(&mut self, op: CounterOp) -> CounterCall {
        self.number += 1;
        self.numbered(self.number, op)
    }

    /// An operation with a number of choice.
    pub(crate) fn numbered(&self, number: u64, op: CounterOp) -> CounterCall {
        let (key, counter, client, remember) = (self.key.clone(), self.counter, self.client, self.remember);
        let execute_by = self.context.now() + Duration::from_secs(5);
        CounterCall { key, counter, client, number, op, execute_by, remember }
    }

    /// Does an operation once; its result.
    pub(crate) async fn count(&mut self, op: CounterOp) -> i64 {
        let call = self.next(op);
        self.send(&call).await.0
    }

    /// Sends a call; its result, and what is left.
    pub(crate) async fn send(&self, call: &CounterCall) -> (i64, i64) {
        done(self.send_over(&*self.context.calls, call).await)
    }

    /// Sends a call over a lane of choice.
    pub(crate) async fn send_over(
        &self,
        lane: &dyn Lane,
        call: &CounterCall,
    ) -> Result<CounterReply, TransportError> {
        lane.count(call.clone()).await
    }

    /// What the counter shows.
    pub(crate) async fn shown(&self) -> i64 {
        self.send(&self.numbered(0, CounterOp::Read)).await.0
    }

    /// Sets the counter, which must not exist.
    pub(crate) async fn set(&mut self, count: u32) {
        assert_eq!(self.count(CounterOp::SetIfAbsent(count)).await, 1, "it existed");
    }
}

/// Result and rest of a reply.
///
/// # Panics
/// If the operation was not done.
pub(crate) fn done(reply: Result<CounterReply, TransportError>) -> (i64, i64) {
    match reply {
        Ok(CounterReply::Done { result, left, .. }) => (result, left),
        other => panic!("done, not {other:?}"),
    }
}

/// Whether the server says that it did nothing, or says nothing definite.
pub(crate) fn is_not_done(reply: &Result<CounterReply, TransportError>) -> bool {
    !matches!(reply, Ok(CounterReply::Done { .. }))
}

/// Runs all of these at once; their results in the order of their ends.
pub(super) async fn together<F: Future>(works: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<Pin<Box<F>>> = works.into_iter().map(Box::pin).collect();
    let mut ended = Vec::new();
    poll_fn(|context| {
        open.retain_mut(|work| match work.as_mut().poll(context) {
            Poll::Ready(result) => {
                ended.push(result);
                false
            }
            Poll::Pending => true,
        });
        if open.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended
}
