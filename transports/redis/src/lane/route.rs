//! Sends a request to the node that serves its slot, and follows redirects.
//!
//! A redirected request was certainly not executed, so following a redirect costs only time. The number of
//! redirects is limited to `HOPS_MAX`, because two nodes may redirect to each other until their cluster has agreed.

use std::sync::Arc;

use leasehold::{
    clock::Instant,
    key::{Family, LockKey},
    owner::Owner,
    routing::{slot::Slot, topology::ClockId},
    transport::{Counter, ErrorKind, TransportError},
};

use super::nodes::Nodes;
use crate::{
    config::RedisTopology,
    connection::{Asking, CallError, Connection, counter_channel},
    wire::{
        names::{channel_of, fair_deadlines, fair_line, fair_places, read_timeout},
        redirect::RedirectKind,
    },
};

/// The route of one request. It starts at the node that serves the slot, and follows each redirect to the node
/// named there.
pub(crate) struct Route<'a> {
    nodes: &'a Nodes,
    slot: Slot,
    until: Instant,
    hops: usize,
    redirected_by: Option<Arc<Connection>>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) asking: Asking,
}

impl Route<'_> {
    /// Makes a call at the node of this route, and again wherever a redirect leads.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub(crate) async fn run<T, F>(
        &mut self,
        call: impl Fn(Arc<Connection>, Asking) -> F,
    ) -> Result<T, TransportError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        loop {
            match call(self.connection.clone(), self.asking).await {
                Ok(answer) => return Ok(answer),
                Err(call_error) => self.follow(call_error).await?,
            }
        }
    }

    /// Follows the redirect in `call_error`, and waits for the connection until the request's deadline.
    ///
    /// # Errors
    /// The error of `call_error` if it is not a redirect. `NotReady` after `HOPS_MAX` redirects. `Unreachable` if
    /// the named node is not connected in time.
    pub(crate) async fn follow(&mut self, call_error: CallError) -> Result<(), TransportError> {
        let redirect = match call_error {
            CallError::Failed(error) => return Err(error),
            CallError::Elsewhere(redirect) => redirect,
        };
        let by = self.connection.clock_id();
        if self.hops == HOPS_MAX {
            return Err(too_many_redirects(self.slot, by));
        }
        self.nodes.count_redirect(redirect.kind);
        let to = self.nodes.deployment().handle_redirect(&redirect, by.node, self.connection.now());
        let before =
            std::mem::replace(&mut self.connection, self.nodes.connection_to(&to, self.until).await?);
        self.hops += 1;
        (self.asking, self.redirected_by) = match redirect.kind {
            RedirectKind::Moved => (Asking::Plain, None),
            RedirectKind::Ask => (Asking::Asking, Some(before)),
        };
        Ok(())
    }

    /// Publishes the end of a hold also at the node that answered `ASK`, and returns whether it did. The release
    /// has published it only at the node where this route ended. During a slot migration keys move one by one, but
    /// sharded channels move only with the whole slot, so subscribers may still be at the first node.
    pub(crate) async fn publish_behind_ask(&self, key: &LockKey) -> bool {
        let Some(redirected_by) = self.redirected_by.as_ref().filter(|from| from.publishes_sharded()) else {
            return false;
        };
        redirected_by.publish_end(key).await;
        true
    }
}

impl Nodes {
    /// Starts a route at the node that serves `slot`.
    ///
    /// # Errors
    /// As [`serving`](Self::serving).
    pub(crate) fn route(&self, slot: Slot, until: Instant) -> Result<Route<'_>, TransportError> {
        Ok(self.route_from(self.serving(slot)?, slot, until))
    }

    /// Starts a route at this node.
    pub(crate) fn route_from(&self, connection: Arc<Connection>, slot: Slot, until: Instant) -> Route<'_> {
        Route { nodes: self, slot, until, hops: 0, redirected_by: None, connection, asking: Asking::Plain }
    }

    /// Checks that the names on the server that belong to the lock are in the slot of its key. Outside of a cluster every
    /// name is accepted.
    ///
    /// # Errors
    /// `Misconfigured` if a slot differs.
    pub(crate) fn must_fit(&self, key: &LockKey) -> Result<(), TransportError> {
        if !self.is_cluster() {
            return Ok(());
        }
        must_share_slot(key, "lock", ("channel", &channel_of(key)))?;
        let name = key.on_server();
        // The names of any owner: owners have no braces.
        let owner = Owner::new(Default::default(), 0);
        match key.family() {
            Family::ReadWrite => must_share_slot(key, "lock", ("timeout key", &read_timeout(key, owner))),
            Family::Fair => {
                must_share_slot(key, "lock", ("line", &fair_line(name)))?;
                must_share_slot(key, "lock", ("deadlines", &fair_deadlines(name)))?;
                must_share_slot(key, "lock", ("places", &fair_places(name)))
            }
            _ => Ok(()),
        }
    }

    /// Checks the same for a counter.
    ///
    /// # Errors
    /// As [`must_fit`](Self::must_fit).
    pub(crate) fn must_fit_counter(&self, key: &LockKey, counter: Counter) -> Result<(), TransportError> {
        if !self.is_cluster() {
            return Ok(());
        }
        let channel = counter_channel(key.on_server(), counter);
        must_share_slot(key, counter.as_str(), ("channel", &channel))
    }

    fn is_cluster(&self) -> bool {
        self.deployment().config.topology == RedisTopology::Cluster
    }
}

fn must_share_slot(key: &LockKey, what: &str, (part, name): (&str, &str)) -> Result<(), TransportError> {
    let (own, other) = (key.slot().number(), Slot::of(name.as_bytes()).number());
    if own == other {
        return Ok(());
    }
    let detail = format!(
        "the {what} {:?} falls into slot {own} and its {part} {name:?} into slot {other}, which cannot work on a \
             cluster; use a name without braces, or with one pair of braces around its hash tag",
        key.on_server()
    );
    Err(TransportError::without_effect(ErrorKind::Misconfigured, None, detail))
}

fn too_many_redirects(slot: Slot, clock: ClockId) -> TransportError {
    let detail = format!(
        "redis: slot {} is redirected more than {HOPS_MAX} times; the cluster has not agreed yet",
        slot.number()
    );
    TransportError::without_effect(ErrorKind::NotReady, Some(clock.node), detail)
}

const HOPS_MAX: usize = 5;
