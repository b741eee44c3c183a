use std::sync::Arc;

use leasehold::{
    key::LockKey,
    owner::Owner,
    routing::topology::{NodeId, Topology},
    transport::{
        BoxFuture, Call, Counter, CounterCall, CounterReply, Inspection, Lane, LaneStats, Op, Outcome,
        TransportError, Watch,
    },
};
use tokio::sync::{oneshot, watch};

use super::{Answer, Rule, execution, line::Line, request::Request, watch as relay};

/// A lane that checks every call against the rules, when the call is made.
pub(super) struct FaultyLane {
    line: Arc<Line>,
}

impl FaultyLane {
    pub(super) fn new(line: Line) -> Self {
        Self { line: Arc::new(line) }
    }

    fn ask(&self, request: Request) -> BoxFuture<'_, Answer> {
        let line = &self.line;
        if let Some(cut) = line.faults.cut_of(line.purpose) {
            return answer_of(execution::start(line, cut.as_fault(), None, request));
        }
        match line.faults.decide(line.purpose, request.operation(), &request.keys()) {
            Some(rule) => answer_of(execution::start(line, rule.fault(), Some(rule), request)),
            None => self.pass(request),
        }
    }

    fn pass(&self, request: Request) -> BoxFuture<'_, Answer> {
        let answer = request.send(&*self.line.inner);
        Box::pin(async move {
            let answer = answer.await;
            self.line.count_passed();
            answer
        })
    }

    /// Sends the calls that the rule applies to separately. The whole batch is answered once all calls are.
    fn split(&self, rule: Rule, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        let (hit, spared): (Vec<_>, Vec<_>) = batch.into_iter().partition(|call| rule.is_about(&call.key));
        let hit = execution::start(&self.line, rule.fault(), Some(rule), Request::Batch(node, hit));
        let spared = (!spared.is_empty()).then(|| self.pass(Request::Batch(node, spared)));
        Box::pin(async move {
            let mut answered = match spared {
                Some(spared) => calls(spared.await),
                None => vec![],
            };
            answered.append(&mut calls(answer_of(hit).await));
            answered
        })
    }

    fn call_alike(&self, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        let line = &self.line;
        let request = Request::Batch(node, batch);
        if request.keys().is_empty() || line.faults.cut_of(line.purpose).is_some() {
            let answer = self.ask(request);
            return Box::pin(async move { calls(answer.await) });
        }
        match (line.faults.decide(line.purpose, request.operation(), &request.keys()), request) {
            (Some(rule), Request::Batch(node, batch)) => self.split(rule, node, batch),
            (_, request) => {
                let answer = self.pass(request);
                Box::pin(async move { calls(answer.await) })
            }
        }
    }
}

impl Lane for FaultyLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.line.inner.topology()
    }

    fn call_one(&self, call: Call) -> BoxFuture<'_, Outcome> {
        let answer = self.ask(Request::One(call));
        Box::pin(async move {
            let Answer::One(outcome) = answer.await else { unreachable!("one call was sent") };
            outcome
        })
    }

    // Acquires and releases that are sent together are two requests, so that a rule is about one operation.
    fn call(&self, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        let (releases, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|call| call.op == Op::Release);
        if releases.is_empty() || others.is_empty() {
            return self.call_alike(node, [releases, others].concat());
        }
        let (releases, others) = (self.call_alike(node, releases), self.call_alike(node, others));
        Box::pin(async move {
            let (mut answered, others) = tokio::join!(releases, others);
            answered.extend(others);
            answered
        })
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        relay::start(&self.line, key, self.line.inner.watch(key))
    }

    fn watch_turn(&self, key: &Arc<LockKey>, owner: Owner) -> Watch {
        relay::start(&self.line, key, self.line.inner.watch_turn(key, owner))
    }

    fn count(&self, call: CounterCall) -> BoxFuture<'_, Result<CounterReply, TransportError>> {
        let answer = self.ask(Request::Count(call));
        Box::pin(async move {
            let Answer::Count(reply) = answer.await else { unreachable!("asked to count") };
            reply
        })
    }

    fn watch_counter(&self, key: &Arc<LockKey>, counter: Counter) -> Watch {
        relay::start(&self.line, key, self.line.inner.watch_counter(key, counter))
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        let answer = self.ask(Request::Inspect(key.clone()));
        Box::pin(async move {
            let Answer::Inspect(reply) = answer.await else { unreachable!("asked to inspect") };
            reply
        })
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        let answer = self.ask(Request::ForceRelease(key.clone()));
        Box::pin(async move {
            let Answer::ForceRelease(reply) = answer.await else { unreachable!("asked to force") };
            reply
        })
    }

    fn stats(&self) -> LaneStats {
        self.line.inner.stats()
    }
}

fn calls(answer: Answer) -> Vec<Call> {
    let Answer::Batch(members) = answer else { unreachable!("asked to renew") };
    members
}

// An execution always answers, unless its runtime has ended, and with it the caller's.
fn answer_of(reply_rx: oneshot::Receiver<Answer>) -> BoxFuture<'static, Answer> {
    Box::pin(async move {
        match reply_rx.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    })
}
