//! A lane to all nodes.

use std::sync::Arc;

use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::topology::{ClockId, NodeId, Topology},
    transport::{
        Acquire, AcquireReply, BoxFuture, ErrorKind, Inspection, Lane, OpenLane, Release, ReleaseReply,
        Renewal, RenewalAnswer, ServerTime, TransportError, Watch,
    },
};
use tokio::sync::watch;

use super::{
    Cluster,
    map::{Meets, on_clock},
    part_of,
    queue::{Request, What},
};

pub struct ClusterLane {
    cluster: Cluster,
    parts: Vec<Arc<dyn Lane>>,
    open: OpenLane,
}

impl ClusterLane {
    pub fn new(cluster: Cluster, parts: Vec<Arc<dyn Lane>>, open: OpenLane) -> Self {
        Self { cluster, parts, open }
    }

    fn lane(&self, key: &LockKey) -> &Arc<dyn Lane> {
        &self.parts[part_of(key)]
    }

    // Who answers for a key: its clock, or how the request fails. Then the request was kept if the node stands still.
    async fn meet(
        &self,
        key: &Arc<LockKey>,
        until: Instant,
        keep: impl FnOnce() -> What,
    ) -> Result<ClockId, TransportError> {
        let meets = self.cluster.map(|map| map.meets(part_of(key)));
        match meets {
            Meets::Answers(clock) => Ok(clock),
            Meets::Nobody => Err(refused(ErrorKind::NotReady, None, "no node serves this slot")),
            Meets::NoConnection(clock) => {
                Err(refused(ErrorKind::Unreachable, Some(clock.node), "not connected"))
            }
            Meets::StandsStill(clock) => {
                self.keep(clock.node, key, keep());
                let not_after = self.at(key, until, clock).await;
                self.open.clock.sleep_until(until).await;
                Err(TransportError::unknown(ErrorKind::TimedOut, not_after, "it stands still"))
            }
        }
    }

    fn keep(&self, node: NodeId, key: &Arc<LockKey>, what: What) {
        let request = Request { node, lane: self.lane(key).clone(), key: key.clone(), what };
        self.cluster.map(|map| map.keep(node, request));
    }

    // What a moment of ours is on the clock of a node.
    async fn at(&self, key: &Arc<LockKey>, moment: Instant, clock: ClockId) -> ServerTime {
        let now = self.open.clock.now();
        let at = self.lane(key).inspect(key).await.expect("memory answers").at;
        on_clock(ServerTime { micros: at.micros + (moment - now).as_micros() as u64, ..at }, clock)
    }

    fn command_timeout(&self) -> Instant {
        self.open.clock.now() + self.open.command_timeout
    }

    async fn renew_all(&self, node: NodeId, batch: Vec<Renewal>) -> Vec<Renewal> {
        let slots = batch.iter().map(|member| member.key.slot()).collect();
        self.cluster.map(|map| map.batches.push(slots));
        let meets = self.cluster.map(|map| map.meets_node(node.0));
        match meets {
            Meets::Nobody => fail_all(batch, &refused(ErrorKind::Unreachable, Some(node), "gone")),
            Meets::NoConnection(_) => {
                fail_all(batch, &refused(ErrorKind::Unreachable, Some(node), "not connected"))
            }
            Meets::StandsStill(clock) => self.renew_later(clock, batch).await,
            Meets::Answers(clock) => self.renew_now(clock, batch).await,
        }
    }

    async fn renew_later(&self, clock: ClockId, mut batch: Vec<Renewal>) -> Vec<Renewal> {
        let until = batch.iter().map(|member| member.execute_by).min().expect("not empty");
        for member in &mut batch {
            self.keep(clock.node, &member.key, What::Renewal(member.clone()));
            let not_after = self.at(&member.key, member.execute_by, clock).await;
            let error = TransportError::unknown(ErrorKind::TimedOut, not_after, "it stands still");
            member.answer = RenewalAnswer::Failed(error);
        }
        self.open.clock.sleep_until(until).await;
        batch
    }

    async fn renew_now(&self, clock: ClockId, batch: Vec<Renewal>) -> Vec<Renewal> {
        let is_theirs = |member: &Renewal| {
            self.cluster.map(|map| map.answering[part_of(&member.key)]) == Some(clock.node.0)
        };
        let (theirs, moved): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_theirs);
        self.cluster.map(|map| map.moved += moved.len() as u64);
        let mut answered = fail_all(moved, &refused(ErrorKind::NotReady, Some(clock.node), "MOVED"));
        for member in theirs {
            let lane = self.lane(&member.key).clone();
            let renewed = lane.renew(NodeId(0), vec![member]).await;
            answered.extend(renewed.into_iter().map(|member| on_clock_of(member, clock)));
        }
        answered
    }
}

impl Lane for ClusterLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.cluster.0.topology.subscribe()
    }

    fn acquire(&self, request: Acquire) -> BoxFuture<'_, Result<AcquireReply, TransportError>> {
        Box::pin(async move {
            let (key, until) = (request.key.clone(), request.execute_by);
            self.cluster.map(|map| map.count_ask(part_of(&key)));
            let clock = self.meet(&key, until, || What::Acquire(request.clone())).await?;
            Ok(match self.lane(&key).acquire(request).await? {
                AcquireReply::Granted { token, at } => {
                    AcquireReply::Granted { token, at: on_clock(at, clock) }
                }
                AcquireReply::Held { remaining, at } => {
                    AcquireReply::Held { remaining, at: on_clock(at, clock) }
                }
                AcquireReply::TooLate { at } => AcquireReply::TooLate { at: on_clock(at, clock) },
            })
        })
    }

    fn release(&self, request: Release) -> BoxFuture<'_, Result<ReleaseReply, TransportError>> {
        Box::pin(async move {
            let (key, until) = (request.key.clone(), self.command_timeout());
            let clock = self.meet(&key, until, || What::Release(request.clone())).await?;
            Ok(match self.lane(&key).release(request).await? {
                ReleaseReply::Released { listeners, at } => {
                    ReleaseReply::Released { listeners, at: on_clock(at, clock) }
                }
                ReleaseReply::NotYours { at } => ReleaseReply::NotYours { at: on_clock(at, clock) },
            })
        })
    }

    fn renew(&self, node: NodeId, batch: Vec<Renewal>) -> BoxFuture<'_, Vec<Renewal>> {
        Box::pin(self.renew_all(node, batch))
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        self.lane(key).watch(key)
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        let key = key.clone();
        Box::pin(async move {
            let clock = self.meet(&key, self.command_timeout(), || What::Nothing).await?;
            let seen = self.lane(&key).inspect(&key).await?;
            Ok(Inspection { at: on_clock(seen.at, clock), ..seen })
        })
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        let key = key.clone();
        Box::pin(async move {
            self.meet(&key, self.command_timeout(), || What::Nothing).await?;
            self.lane(&key).force_release(&key).await
        })
    }
}

fn refused(kind: ErrorKind, node: Option<NodeId>, why: &str) -> TransportError {
    TransportError::without_effect(kind, node, why)
}

fn fail_all(mut batch: Vec<Renewal>, error: &TransportError) -> Vec<Renewal> {
    batch.iter_mut().for_each(|member| member.answer = RenewalAnswer::Failed(error.clone()));
    batch
}

fn on_clock_of(mut member: Renewal, clock: ClockId) -> Renewal {
    member.answer = match member.answer {
        RenewalAnswer::Renewed { found, at } => RenewalAnswer::Renewed { found, at: on_clock(at, clock) },
        RenewalAnswer::NotYours { at } => RenewalAnswer::NotYours { at: on_clock(at, clock) },
        RenewalAnswer::TooLate { at } => RenewalAnswer::TooLate { at: on_clock(at, clock) },
        answer @ (RenewalAnswer::Failed(_) | RenewalAnswer::None) => answer,
    };
    member
}
