//! Acquires and releases of locks with one holder without a task, where the first answer most often is the outcome. A redirect
//! and a script that the server has forgotten are left to a task.

use std::sync::Arc;

use leasehold::transport::{AnswerTo, Call, Op, Outcome, TransportError};

use super::nodes::Nodes;
use crate::connection::{CallError, Connection, Indirect, refusal};

impl Nodes {
    /// Begins a call without a future; see [`Lane::begin`](leasehold::transport::Lane::begin).
    pub(super) fn begin(self: &Arc<Self>, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        let connection = self.direct(&call);
        let Some((connection, ready)) =
            connection.and_then(|connection| connection.ready(&call).map(|ready| (connection, ready)))
        else {
            return Some((call, answer_to));
        };
        let (nodes, asked, sent) = (self.clone(), connection.clone(), call.clone());
        connection.begin(&call, ready, move |result| match result {
            Ok(outcome) => answer_to.answer(outcome),
            Err(Indirect::Error(CallError::Failed(error))) => answer_to.answer(Outcome::Failed(error)),
            Err(indirect) => nodes.go_on(asked, sent, indirect, answer_to),
        });
        None
    }

    fn direct(&self, call: &Call) -> Option<Arc<Connection>> {
        let fits = call.op == Op::Release || self.must_fit(&call.key).is_ok();
        if !fits || refusal(call).is_some() {
            return None;
        }
        self.serving(call.key.slot()).ok()
    }

    fn go_on(self: Arc<Self>, asked: Arc<Connection>, call: Call, why: Indirect, answer_to: AnswerTo) {
        let runtime = self.runtime().clone();
        runtime.spawn(async move {
            let outcome: Outcome = self.call_indirect(asked, &call, why).await.into();
            answer_to.answer(outcome);
        });
    }

    async fn call_indirect(
        &self,
        asked: Arc<Connection>,
        call: &Call,
        why: Indirect,
    ) -> Result<Outcome, TransportError> {
        match why {
            Indirect::Forgotten => self.call_alone(call).await,
            Indirect::Error(error) => {
                let mut route = self.route_from(asked, call.key.slot(), call.execute_by);
                route.follow(error).await?;
                self.call_on(&mut route, call).await
            }
        }
    }
}
