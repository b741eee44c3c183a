//! A lane: its nodes, the topology that it publishes, and the tasks that keep its routes up to date. Dropping the
//! lane ends all of them.

mod beats;
mod node;
pub(crate) mod nodes;
mod renewals;
mod route;
mod task;
mod topology_publisher;

use std::sync::Arc;

use futures_util::future::join_all;
use leasehold::{
    clock::Instant,
    key::{Family, LockKey},
    owner::Owner,
    routing::topology::{NodeId, Topology},
    transport::{
        AuditContext, BoxFuture, Call, Counter, CounterCall, CounterReply, Finding, HoldKind, Inspection,
        Lane, LanePurpose, LaneStats, Op, OpenLane, Outcome, TransportError, Watch,
    },
};
use tokio::sync::watch;

use self::{beats::is_beat, route::Route};
pub(crate) use self::{nodes::Nodes, task::Task};
use crate::{
    audit::audit,
    config::RedisTopology,
    connection::{Connection, is_passing, is_read, refusal},
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

    async fn call_alone(&self, call: &Call) -> Result<Outcome, TransportError> {
        if let Some(refused) = refusal(call) {
            return Ok(refused);
        }
        if is_renewal(call) {
            return Ok(self.nodes.renew_alone(call.clone()).await.outcome);
        }
        if is_beat(call) {
            return Ok(self.beat_alone(call.clone()).await);
        }
        if call.op != Op::Release {
            self.nodes.must_fit(&call.key)?;
        }
        let mut route = self.nodes.route(call.key.slot(), call.execute_by)?;
        let outcome =
            route.run(|connection, asking| async move { connection.call(call, asking).await }).await;
        match outcome {
            Err(error) if is_split(call, &error) && call.kind == HoldKind::Fair => {
                self.release_hold(call, error).await
            }
            Err(error) if is_split(call, &error) => self.release_split(call).await,
            outcome => Ok(publish_everywhere(outcome?, &route, call).await),
        }
    }

    async fn beat_alone(&self, call: Call) -> Outcome {
        let mut answered = self.nodes.beat(vec![call]).await;
        answered.pop().map_or(Outcome::Pending, |call| call.outcome)
    }

    // While its slot is being moved, a fair lock's line cannot be looked at, but its hold can be ended. An owner without
    // a hold may still have a place.
    async fn release_hold(&self, call: &Call, refused: TransportError) -> Result<Outcome, TransportError> {
        let mut route = self.nodes.route(call.key.slot(), call.execute_by)?;
        let release =
            |connection: Arc<Connection>, asking| async move { connection.release(call, asking).await };
        match route.run(release).await? {
            Outcome::NotYours { .. } => Err(refused),
            outcome => Ok(outcome),
        }
    }

    // The timeout key stays until it expires.
    async fn release_split(&self, call: &Call) -> Result<Outcome, TransportError> {
        let mut route = self.nodes.route(call.key.slot(), call.execute_by)?;
        let release = |connection: Arc<Connection>, asking| async move {
            connection.release_read(call, false, asking).await
        };
        let outcome = route.run(release).await?;
        Ok(publish_everywhere(outcome, &route, call).await)
    }

    // The deadline of requests that carry no `execute_by` of their own.
    fn until(&self) -> Instant {
        self.lane.clock.now() + self.lane.command_timeout
    }
}

impl Lane for RedisLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.nodes.topology_publisher().topology()
    }

    fn call_one(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.call_alone(&call).await.into() })
    }

    fn call(&self, node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        Box::pin(async move {
            if batch.iter().all(is_plain_renewal) {
                return self.nodes.renew_alike(node, batch).await; // the usual case
            }
            let is_renewed = |call: &Call| is_renewal(call) && refusal(call).is_none();
            let (renewals, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_renewed);
            let is_beaten = |call: &Call| is_beat(call) && refusal(call).is_none();
            let (beats, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_beaten);
            let others = join_all(others.into_iter().map(async |call| {
                let outcome = self.call_alone(&call).await.into();
                call.answered(outcome)
            }));
            let (mut answered, beats, others) =
                tokio::join!(self.nodes.renew(node, renewals), self.nodes.beat(beats), others);
            answered.extend(beats);
            answered.extend(others);
            answered
        })
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
            let mut route = self.nodes.route(key.slot(), self.until())?;
            route.run(|connection, asking| async move { connection.inspect(key, asking).await }).await
        })
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        let key = key.clone();
        Box::pin(async move {
            let key = &key;
            self.nodes.must_fit(key)?;
            let mut route = self.nodes.route(key.slot(), self.until())?;
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

fn is_renewal(call: &Call) -> bool {
    matches!(call.op, Op::Renew { .. })
}

// Whether the keys of a hold were refused together, because some of them have moved to another node and others have
// not.
fn is_split(call: &Call, error: &TransportError) -> bool {
    let has_many_keys = is_read(call) || call.kind == HoldKind::Fair;
    has_many_keys && call.op == Op::Release && is_passing(error)
}

// After an `ASK`, subscribers are at two nodes, and neither node counts those at the other. So the count is
// unknown.
async fn publish_everywhere(outcome: Outcome, route: &Route<'_>, call: &Call) -> Outcome {
    match outcome {
        Outcome::Released { at, .. } if call.kind.notifies() && route.publish_behind_ask(&call.key).await => {
            Outcome::Released { listeners: None, at }
        }
        Outcome::Downgraded { at, .. } if route.publish_behind_ask(&call.key).await => {
            Outcome::Downgraded { listeners: None, at }
        }
        outcome => outcome,
    }
}
