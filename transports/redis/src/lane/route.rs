//! Brings a request to the node that serves its slot, wherever the slot is by now.
//!
//! A request that was sent elsewhere was certainly not executed, so following costs nothing but time; how often is
//! bounded, since two nodes may send a request to each other until their cluster has agreed.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::{
        slot::Slot,
        topology::{ClockId, NodeId},
    },
    transport::{ErrorKind, Renewal, RenewalAnswer, TransportError},
};

use super::nodes::Nodes;
use crate::{
    config::RedisTopology,
    connection::{Batches, Connection, Denial, Manner, answer_all, is_refused_together},
    wire::{names::lock_channel, redirect::RedirectKind},
};

/// One request's way. Its first stop is who serves the slot; a denial that names another node leads there.
pub(crate) struct Route<'a> {
    nodes: &'a Nodes,
    slot: Slot,
    until: Instant,
    hops: usize,
    asked_by: Option<Arc<Connection>>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) manner: Manner,
}

impl Route<'_> {
    /// Goes to where the last stop has sent it, within its time.
    ///
    /// # Errors
    /// The denial is a definite one, or this goes in circles.
    pub(crate) async fn follow(&mut self, denial: Denial) -> Result<(), TransportError> {
        let redirect = match denial {
            Denial::Failed(error) => return Err(error),
            Denial::Elsewhere(redirect) => redirect,
        };
        let by = self.connection.clock_id();
        if self.hops == HOPS_MAX {
            return Err(went_in_circles(self.slot, by));
        }
        self.nodes.count_followed(redirect.kind);
        let to = self.nodes.atlas().handle_redirect(&redirect, by.node, self.connection.now());
        let before = std::mem::replace(&mut self.connection, self.nodes.named(&to, self.until).await?);
        self.hops += 1;
        (self.manner, self.asked_by) = match redirect.kind {
            RedirectKind::Moved => (Manner::Plain, None),
            RedirectKind::Ask => (Manner::Asking, Some(before)),
        };
        Ok(())
    }

    /// The end of a hold was told where this route has ended. Behind an `ASK` others listen where it came from: a slot
    /// takes its sharded channels along when all of it has moved, its keys one by one before. Whether it did so.
    pub(crate) async fn tell_those_left_behind(&self, key: &LockKey) -> bool {
        let Some(asked_by) = self.asked_by.as_ref().filter(|from| from.publishes_sharded()) else {
            return false;
        };
        asked_by.tell_end(key).await;
        true
    }
}

impl Nodes {
    /// Begins at who serves `slot`.
    pub(crate) fn route(&self, slot: Slot, until: Instant) -> Result<Route<'_>, TransportError> {
        let connection = self.serving(slot)?;
        Ok(Route { nodes: self, slot, until, hops: 0, asked_by: None, connection, manner: Manner::Plain })
    }

    /// Renews many locks of one node. Those it does not serve any more are brought to who does, one by one.
    pub(crate) async fn renew(&self, node: NodeId, mut members: Vec<Renewal>) -> Vec<Renewal> {
        match self.connection(node) {
            Ok(connection) if connection.batches() == Batches::BySlot => self.renew_by_slot(members).await,
            Ok(connection) => {
                let renewed = connection.renew(&mut members).await;
                self.finish_renewal(renewed, members).await
            }
            Err(error) => {
                answer_all(&mut members, &RenewalAnswer::Failed(error));
                members
            }
        }
    }

    async fn finish_renewal(&self, renewed: Result<(), Denial>, mut members: Vec<Renewal>) -> Vec<Renewal> {
        if renewed.is_err() || members.first().is_some_and(is_refused_for_company) {
            answer_all(&mut members, &RenewalAnswer::None);
        }
        let is_open = |member: &Renewal| matches!(member.answer, RenewalAnswer::None);
        if !members.iter().any(is_open) {
            return members; // as nearly always
        }
        let (open, mut done): (Vec<_>, Vec<_>) = members.into_iter().partition(is_open);
        done.extend(join_all(open.into_iter().map(|member| self.renew_alone(member))).await);
        done
    }

    async fn renew_by_slot(&self, members: Vec<Renewal>) -> Vec<Renewal> {
        let mut slots: BTreeMap<Slot, Vec<Renewal>> = BTreeMap::new();
        for member in members {
            slots.entry(member.key.slot()).or_default().push(member);
        }
        let renewed = join_all(slots.into_values().map(|members| self.renew_slot(members))).await;
        renewed.into_iter().flatten().collect()
    }

    // While a slot is on its way, keys that share a command must all have arrived or all have stayed.
    async fn renew_slot(&self, members: Vec<Renewal>) -> Vec<Renewal> {
        let members = self.renew_together(members).await;
        self.finish_renewal(Ok(()), members).await
    }

    async fn renew_alone(&self, member: Renewal) -> Renewal {
        let mut alone = self.renew_together(vec![member]).await;
        let mut member = alone.pop().expect("one went in");
        if matches!(member.answer, RenewalAnswer::None) {
            member.answer = RenewalAnswer::Failed(on_its_way(member.key.slot()));
        }
        member
    }

    async fn renew_together(&self, mut members: Vec<Renewal>) -> Vec<Renewal> {
        if let Err(error) = self.bring_renewal(&mut members).await {
            answer_all(&mut members, &RenewalAnswer::Failed(error));
        }
        members
    }

    async fn bring_renewal(&self, members: &mut [Renewal]) -> Result<(), TransportError> {
        let mut route = self.route(members[0].key.slot(), members[0].execute_by)?;
        while let Err(denial) = route.connection.renew_slot(members, route.manner).await {
            route.follow(denial).await?;
        }
        Ok(())
    }

    /// On a cluster all names of a lock must fall into one slot.
    pub(crate) fn must_fit(&self, key: &LockKey) -> Result<(), TransportError> {
        if self.atlas().config.topology != RedisTopology::Cluster {
            return Ok(());
        }
        let channel = lock_channel(key.on_server());
        let (own, other) = (key.slot().number(), Slot::of(channel.as_bytes()).number());
        if own == other {
            return Ok(());
        }
        let detail = format!(
            "the lock {:?} falls into slot {own} and its channel {channel:?} into slot {other}, which cannot work on a \
             cluster; use a name without braces, or with one pair of braces around its hash tag",
            key.on_server()
        );
        Err(TransportError::without_effect(ErrorKind::Misconfigured, None, detail))
    }
}

fn is_refused_for_company(member: &Renewal) -> bool {
    matches!(&member.answer, RenewalAnswer::Failed(error) if is_refused_together(error))
}

fn went_in_circles(slot: Slot, clock: ClockId) -> TransportError {
    let detail = format!(
        "redis: slot {} is redirected more than {HOPS_MAX} times; the cluster has not agreed yet",
        slot.number()
    );
    TransportError::without_effect(ErrorKind::NotReady, Some(clock.node), detail)
}

fn on_its_way(slot: Slot) -> TransportError {
    let detail = format!("redis: slot {} is being moved; ask again", slot.number());
    TransportError::without_effect(ErrorKind::NotReady, None, detail)
}

const HOPS_MAX: usize = 5;
