//! One call, sent alone to the node that serves its key.

use std::sync::Arc;

use leasehold::transport::{Call, HoldKind, Op, Outcome, TransportError};

use super::{beats::is_beat, nodes::Nodes, route::Route};
use crate::connection::{Connection, is_passing, is_read, refusal};

impl Nodes {
    /// Makes one call of any kind, and follows redirects.
    ///
    /// # Errors
    /// Why there is no outcome.
    pub(super) async fn call_alone(&self, call: &Call) -> Result<Outcome, TransportError> {
        if let Some(refused) = refusal(call) {
            return Ok(refused);
        }
        if is_renewal(call) {
            return Ok(self.renew_alone(call.clone()).await.outcome);
        }
        if is_beat(call) {
            return Ok(self.beat_alone(call.clone()).await);
        }
        if call.op != Op::Release {
            self.must_fit(&call.key)?;
        }
        let mut route = self.route(call.key.slot(), call.execute_by)?;
        self.call_on(&mut route, call).await
    }

    /// Makes a call that is neither a renewal nor a beat, from the present node of the route on.
    ///
    /// # Errors
    /// Why there is no outcome.
    pub(super) async fn call_on(
        &self,
        route: &mut Route<'_>,
        call: &Call,
    ) -> Result<Outcome, TransportError> {
        let outcome =
            route.run(|connection, asking| async move { connection.call(call, asking).await }).await;
        match outcome {
            Err(error) if is_split(call, &error) && call.kind == HoldKind::Fair => {
                self.release_hold(call, error).await
            }
            Err(error) if is_split(call, &error) => self.release_split(call).await,
            outcome => Ok(publish_everywhere(outcome?, route, call).await),
        }
    }

    async fn beat_alone(&self, call: Call) -> Outcome {
        let mut answered = self.beat(vec![call]).await;
        answered.pop().map_or(Outcome::Pending, |call| call.outcome)
    }

    // While its slot is being moved, a fair lock's line cannot be looked at, but its hold can be ended. An owner without
    // a hold may still have a place.
    async fn release_hold(&self, call: &Call, refused: TransportError) -> Result<Outcome, TransportError> {
        let mut route = self.route(call.key.slot(), call.execute_by)?;
        let release =
            |connection: Arc<Connection>, asking| async move { connection.release(call, asking).await };
        match route.run(release).await? {
            Outcome::NotYours { .. } => Err(refused),
            outcome => Ok(outcome),
        }
    }

    // The timeout key stays until it expires.
    async fn release_split(&self, call: &Call) -> Result<Outcome, TransportError> {
        let mut route = self.route(call.key.slot(), call.execute_by)?;
        let release = |connection: Arc<Connection>, asking| async move {
            connection.release_read(call, false, asking).await
        };
        let outcome = route.run(release).await?;
        Ok(publish_everywhere(outcome, &route, call).await)
    }
}

/// Whether the call is a renewal.
pub(super) fn is_renewal(call: &Call) -> bool {
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
