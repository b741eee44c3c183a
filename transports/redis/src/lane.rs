//! A lane: one node's command connection and, for calls, the subscriber connection; ended by dropping it.

use std::sync::Arc;

use leasehold::{
    key::LockKey,
    routing::topology::{NodeId, Topology},
    transport::{
        Acquire, AcquireReply, BoxFuture, ErrorKind, Inspection, Lane, LanePurpose, OpenLane, Release,
        ReleaseReply, Renewal, RenewalAnswer, TransportError, Watch,
    },
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    connection::answer_all,
    node::{NODE, Node, Server},
    notices::{Subscriber, no_watch},
};

/// One lane to a single server.
pub(crate) struct RedisLane {
    node: Arc<Node>,
    subscriber: Option<Arc<Subscriber>>,
    _tasks: Vec<Task>,
}

impl RedisLane {
    /// Connects everything the lane needs, at once; fails at the first failure.
    pub(crate) async fn open(server: Arc<Server>, lane: OpenLane) -> Result<Self, TransportError> {
        match lane.purpose {
            LanePurpose::Renewals => Self::open_renewals(server, lane).await,
            LanePurpose::Calls => Self::open_calls(server, lane).await,
        }
    }

    async fn open_renewals(server: Arc<Server>, lane: OpenLane) -> Result<Self, TransportError> {
        let (node, connection) = Node::open(server, lane).await?;
        let tasks = vec![Task::spawn(node.clone().keep_connected(connection))];
        Ok(Self { node, subscriber: None, _tasks: tasks })
    }

    async fn open_calls(server: Arc<Server>, lane: OpenLane) -> Result<Self, TransportError> {
        let subscriber = Arc::new(Subscriber::new(server.clone(), lane));
        let ((node, connection), subscribed) =
            tokio::try_join!(Node::open(server, lane), subscriber.connect())?;
        let tasks = vec![
            Task::spawn(node.clone().keep_connected(connection)),
            Task::spawn(subscriber.clone().keep_subscribed(subscribed)),
        ];
        Ok(Self { node, subscriber: Some(subscriber), _tasks: tasks })
    }
}

impl Lane for RedisLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.node.topology()
    }

    fn acquire(&self, request: Acquire) -> BoxFuture<'_, Result<AcquireReply, TransportError>> {
        Box::pin(async move { self.node.connection()?.acquire(request).await })
    }

    fn release(&self, request: Release) -> BoxFuture<'_, Result<ReleaseReply, TransportError>> {
        Box::pin(async move { self.node.connection()?.release(request).await })
    }

    fn renew(&self, node: NodeId, mut batch: Vec<Renewal>) -> BoxFuture<'_, Vec<Renewal>> {
        Box::pin(async move {
            match self.connection_of(node) {
                Ok(connection) => connection.renew(batch).await,
                Err(error) => {
                    answer_all(&mut batch, &RenewalAnswer::Failed(error));
                    batch
                }
            }
        })
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        self.subscriber.as_ref().map_or_else(no_watch, |subscriber| subscriber.watch(key))
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        let key = key.clone();
        Box::pin(async move { self.node.connection()?.inspect(&key).await })
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        let key = key.clone();
        Box::pin(async move { self.node.connection()?.force_release(&key).await })
    }
}

impl RedisLane {
    fn connection_of(&self, node: NodeId) -> Result<Arc<crate::connection::Connection>, TransportError> {
        if node == NODE {
            return self.node.connection();
        }
        let detail = format!("there is no node {}: a single server is node {}", node.0, NODE.0);
        Err(TransportError::without_effect(ErrorKind::Misconfigured, Some(node), detail))
    }
}

/// A task that ends with its owner.
struct Task(JoinHandle<()>);

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
