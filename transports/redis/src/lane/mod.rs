//! A lane: its nodes, the topology that it publishes, and the tasks that keep its routes up to date. Dropping the
//! lane ends all of them.

mod alone;
mod beats;
mod direct;
mod group_commit;
mod node;
pub(crate) mod nodes;
mod renewals;
mod route;
mod task;
mod topology_publisher;

use std::sync::Arc;

use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
    routing::topology::{NodeId, Topology},
    transport::{
        AnswerTo, AnswersTo, AuditContext, BoxFuture, Call, Counter, CounterCall, CounterReply, Finding,
        HoldKind, Inspection, Lane, LanePurpose, LaneStats, OpenLane, Outcome, TransportError, Watch,
    },
};
use tokio::sync::watch;

use self::{alone::is_renewal, beats::is_beat, group_commit::is_groupable};
pub(crate) use self::{nodes::Nodes, task::Task};
use crate::{
    audit::audit,
    config::RedisTopology,
    connection::refusal,
    discovery::{deployment::Deployment, find_cluster, find_master, monitor_sentinels, poll_cluster},
    notices::{Subscriber, no_watch},
};

/// The connections of one lane to all servers of a deployment.
pub(crate) struct RedisLane {
    lane: OpenLane,
    nodes: Arc<Nodes>,
    _tasks: Vec<Task>,
}

impl RedisLane {
    /// Finds the servers, and opens all connections that the lane needs.
    pub(crate) async fn open(deployment: Arc<Deployment>, lane: OpenLane) -> Result<Self, TransportError> {
        let topology = deployment.config.topology;
        match topology {
            RedisTopology::Single => {}
            RedisTopology::Sentinel => find_master(&deployment, lane).await?,
            RedisTopology::Cluster => find_cluster(&deployment, lane).await?,
        }
        let subscriber =
            (lane.purpose == LanePurpose::Calls).then(|| Arc::new(Subscriber::new(lane, deployment.clone())));
        let nodes = Arc::new(Nodes::new(lane, deployment.clone(), subscriber));
        nodes.open().await?;
        let mut tasks = vec![Task::spawn(nodes.clone().keep_following(deployment.changes()))];
        match topology {
            RedisTopology::Single => {}
            RedisTopology::Sentinel => {
                tasks.push(Task::spawn(monitor_sentinels(deployment, lane, nodes.clone())))
            }
            RedisTopology::Cluster => tasks.push(Task::spawn(poll_cluster(deployment, lane, nodes.clone()))),
        }
        Ok(Self { lane, nodes, _tasks: tasks })
    }

    async fn call_mixed(&self, node: NodeId, batch: Vec<Call>) -> Vec<Call> {
        let is_renewed = |call: &Call| is_renewal(call) && refusal(call).is_none();
        let (renewals, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_renewed);
        let is_beaten = |call: &Call| is_beat(call) && refusal(call).is_none();
        let (beats, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_beaten);
        let (group, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_groupable);
        let (mut answered, beats, group, others) = tokio::join!(
            self.nodes.renew(node, renewals),
            self.nodes.beat(beats),
            self.nodes.call_group(node, group),
            self.nodes.call_each(others)
        );
        answered.extend(beats.into_iter().chain(group).chain(others));
        answered
    }
}

impl Lane for RedisLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.nodes.topology_publisher().topology()
    }

    fn call_one(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.nodes.call_alone(&call).await.into() })
    }

    fn begin(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        self.nodes.begin(call, answer_to)
    }

    fn call(&self, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        Box::pin(async move {
            if batch.iter().all(is_plain_renewal) {
                return self.nodes.renew_alike(node, batch).await; // the usual case
            }
            // Boxed: these are rarer than renewals, and their futures would make that of every batch larger.
            if batch.iter().all(is_groupable) {
                return Box::pin(self.nodes.call_group(node, batch)).await;
            }
            Box::pin(self.call_mixed(node, batch)).await
        })
    }

    fn begin_many(
        &self,
        node: NodeId,
        batch: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        self.nodes.begin_group(node, batch, answers_to)
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        let fits = self.nodes.must_fit(key).is_ok();
        let subscriber = self.nodes.subscriber().filter(|_| fits);
        subscriber.map_or_else(no_watch, |subscriber| subscriber.watch(key))
    }

    fn watch_turn(&self, key: &Arc<LockKey>, owner: Owner) -> Watch {
        let fits = self.nodes.must_fit(key).is_ok();
        let subscriber = self.nodes.subscriber().filter(|_| fits);
        subscriber.map_or_else(no_watch, |subscriber| subscriber.watch_turn(key, owner))
    }

    fn count(&self, call: CounterCall) -> BoxFuture<'_, Result<CounterReply, TransportError>> {
        Box::pin(async move {
            let call = &call;
            self.nodes.must_fit_counter(&call.key, call.counter)?;
            let mut route = self.nodes.route(call.key.slot(), call.execute_by)?;
            route.run(|connection, asking| async move { connection.count(call, asking).await }).await
        })
    }

    fn watch_counter(&self, key: &Arc<LockKey>, counter: Counter) -> Watch {
        let fits = self.nodes.must_fit_counter(key, counter).is_ok();
        let subscriber = self.nodes.subscriber().filter(|_| fits);
        subscriber.map_or_else(no_watch, |subscriber| subscriber.watch_counter(key, counter))
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        let key = key.clone();
        Box::pin(async move {
            let key = &key;
            let mut route = self.nodes.route(key.slot(), self.nodes.until())?;
            route.run(|connection, asking| async move { connection.inspect(key, asking).await }).await
        })
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        let key = key.clone();
        Box::pin(async move {
            let key = &key;
            self.nodes.must_fit(key)?;
            let mut route = self.nodes.route(key.slot(), self.nodes.until())?;
            let freed = route
                .run(|connection, asking| async move { connection.force_release(key, asking).await })
                .await?;
            if freed {
                route.publish_behind_ask(key).await;
            }
            Ok(freed)
        })
    }

    fn audit(&self, terms: AuditContext) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(audit(&self.nodes, self.lane, terms))
    }

    fn stats(&self) -> LaneStats {
        self.nodes.stats()
    }
}

// A renewal that can share a script with every other one.
fn is_plain_renewal(call: &Call) -> bool {
    let is_exclusive = matches!(call.kind, HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_));
    is_renewal(call) && is_exclusive && call.key.family() == Family::Exclusive
}
