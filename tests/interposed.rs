//! A transport with a hand between it and the engine: it may look at requests, keep them or hold them up; all else is passed
//! on.

use std::{ops::Deref, panic::resume_unwind, sync::Arc};

use leasehold::{
    clock::Clock,
    key::LockKey,
    routing::topology::{NodeId, Topology},
    transport::{
        AnswerTo, AnswersTo, AuditContext, BoxFuture, Call, Capabilities, Counter, CounterCall, CounterReply,
        Finding, Inspection, Lane, LaneStats, Op, OpenLane, Outcome, Transport, TransportError, Watch,
    },
};
use tokio::sync::watch;

/// The lane behind a hand, and the engine's clock.
#[derive(Clone)]
pub struct Behind {
    pub lane: Arc<dyn Lane>,
    pub clock: Clock,
}

/// What is done with requests on their way. What a hand leaves out is passed on.
pub trait Hand: Clone + Send + Sync + 'static {
    /// An engine asks for a lock.
    fn acquire<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        behind.lane.call_one(request)
    }

    /// An engine gives a lock back.
    fn release<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        behind.lane.call_one(request)
    }

    /// An engine begins an acquire or a release without a future.
    fn begin(&self, _behind: &Behind, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        Some((call, answer_to))
    }

    /// An engine begins acquires and releases together without a future.
    fn begin_many(
        &self,
        _behind: &Behind,
        batch: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        Some((batch, answers_to))
    }

    /// An engine counts.
    fn count<'a>(
        &'a self,
        behind: &'a Behind,
        call: CounterCall,
    ) -> BoxFuture<'a, Result<CounterReply, TransportError>> {
        behind.lane.count(call)
    }

    /// An engine renews leases of one node.
    fn renew<'a>(&'a self, behind: &'a Behind, node: NodeId, batch: Vec<Call>) -> BoxFuture<'a, Vec<Call>> {
        behind.lane.call(node, batch)
    }
}

/// A transport with a hand in front of all its lanes.
#[derive(Clone, Debug)]
pub struct Interposed<T, H> {
    inner: T,
    pub hand: H,
}

impl<T, H: Default> Interposed<T, H> {
    pub fn new(inner: T) -> Self {
        Self { inner, hand: H::default() }
    }
}

/// What the hand has seen is asked of the transport.
impl<T, H> Deref for Interposed<T, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hand
    }
}

impl<T: Transport, H: Hand> Transport for Interposed<T, H> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let (opening, hand) = (self.inner.open(open), self.hand.clone());
        Box::pin(async move {
            let behind = Behind { lane: opening.await?, clock: open.clock };
            Ok(Arc::new(InterposedLane { behind, hand }) as Arc<dyn Lane>)
        })
    }
}

#[derive(Clone)]
struct InterposedLane<H> {
    behind: Behind,
    hand: H,
}

impl<H: Hand> InterposedLane<H> {
    async fn call_alone(self, call: Call) -> Call {
        let outcome = self.call_one(call.clone()).await;
        call.answered(outcome)
    }
}

impl<H: Hand> Lane for InterposedLane<H> {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.behind.lane.topology()
    }

    fn call_one(&self, call: Call) -> BoxFuture<'_, Outcome> {
        match call.op {
            Op::Release => self.hand.release(&self.behind, call),
            _ => self.hand.acquire(&self.behind, call),
        }
    }

    fn begin(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        self.hand.begin(&self.behind, call, answer_to)
    }

    fn begin_many(
        &self,
        _node: NodeId,
        batch: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        self.hand.begin_many(&self.behind, batch, answers_to)
    }

    // The hand sees each acquire and release by itself, also those that are sent together.
    fn call(&self, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        let is_group = |call: &Call| matches!(call.op, Op::Acquire { .. } | Op::Release);
        if batch.is_empty() || !batch.iter().all(is_group) {
            return self.hand.renew(&self.behind, node, batch);
        }
        let each: Vec<_> =
            batch.into_iter().map(|call| tokio::spawn(self.clone().call_alone(call))).collect();
        Box::pin(async move {
            let mut answered = Vec::with_capacity(each.len());
            for call in each {
                answered.push(call.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic())));
            }
            answered
        })
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        self.behind.lane.watch(key)
    }

    fn count(&self, call: CounterCall) -> BoxFuture<'_, Result<CounterReply, TransportError>> {
        self.hand.count(&self.behind, call)
    }

    fn watch_counter(&self, key: &Arc<LockKey>, counter: Counter) -> Watch {
        self.behind.lane.watch_counter(key, counter)
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        self.behind.lane.inspect(key)
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        self.behind.lane.force_release(key)
    }

    fn audit(&self, terms: AuditContext) -> BoxFuture<'_, Vec<Finding>> {
        self.behind.lane.audit(terms)
    }

    fn stats(&self) -> LaneStats {
        self.behind.lane.stats()
    }
}
