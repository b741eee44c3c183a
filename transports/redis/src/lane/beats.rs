//! The beats of fair locks: all places of one line in few commands.

use futures_util::future::join_all;
use leasehold::transport::{Call, Op, Outcome, TransportError};

use super::nodes::Nodes;

impl Nodes {
    /// Sends the beats, and sets the answer of each. Beats that follow each other go into one command if they have the
    /// key, the client and the terms in common.
    pub(crate) async fn beat(&self, mut beats: Vec<Call>) -> Vec<Call> {
        let commands = beats
            .chunk_by_mut(are_alike)
            .flat_map(|alike| alike.chunks_mut(PLACES_MAX))
            .map(|members| self.beat_together(members));
        join_all(commands).await;
        beats
    }

    async fn beat_together(&self, members: &mut [Call]) {
        match self.send_beats(members).await {
            Ok(outcomes) => {
                members.iter_mut().zip(outcomes).for_each(|(member, outcome)| member.outcome = outcome)
            }
            Err(error) => {
                members.iter_mut().for_each(|member| member.outcome = Outcome::Failed(error.clone()))
            }
        }
    }

    async fn send_beats(&self, members: &[Call]) -> Result<Vec<Outcome>, TransportError> {
        let key = &members[0].key;
        self.must_fit(key)?;
        // The earliest of all, as in the command.
        let until = members.iter().map(|member| member.execute_by).min().unwrap_or_default();
        let mut route = self.route(key.slot(), until)?;
        route.run(|connection, asking| async move { connection.beat(members, asking).await }).await
    }
}

/// Whether the call is a beat.
pub(super) fn is_beat(call: &Call) -> bool {
    matches!(call.op, Op::Beat { .. })
}

fn are_alike(one: &Call, other: &Call) -> bool {
    one.op == other.op && one.owner.client() == other.owner.client() && one.key == other.key
}

/// The most places in one command. More would keep the server from others for over a millisecond.
const PLACES_MAX: usize = 250;
