//! A lane of any round trip: a renewal batch reaches the server half a round trip after it was sent, and its answer
//! reaches the engine half a round trip later.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    routing::topology::NodeId,
    transport::{BoxFuture, Renewal},
};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

/// The round trip of renewals, and what was sent over it. Clones are the same.
#[derive(Clone, Default)]
pub struct Link(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    round_trip: Duration,
    batches: u64,
    members: u64,
}

/// A transport behind such a link.
pub type Far<T> = Interposed<T, Link>;

impl Link {
    /// From now on; whole milliseconds, as paused time has no finer grain.
    pub fn set_round_trip(&self, round_trip: Duration) {
        self.state(|state| state.round_trip = round_trip);
    }

    /// The batches and their members since the last call.
    pub fn take_sent(&self) -> (u64, u64) {
        self.state(|state| (std::mem::take(&mut state.batches), std::mem::take(&mut state.members)))
    }

    /// Counts a batch and says how long its way there and its way back take.
    fn send(&self, members: usize) -> (Duration, Duration) {
        self.state(|state| {
            (state.batches, state.members) = (state.batches + 1, state.members + members as u64);
            let there = Duration::from_millis(state.round_trip.as_millis() as u64 / 2);
            (there, state.round_trip - there)
        })
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().expect("no panic under it"))
    }
}

impl Hand for Link {
    fn renew<'a>(
        &'a self,
        behind: &'a Behind,
        node: NodeId,
        batch: Vec<Renewal>,
    ) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(async move {
            let (there, back) = self.send(batch.len());
            behind.clock.sleep_until(behind.clock.now() + there).await;
            let answered = behind.lane.renew(node, batch).await;
            behind.clock.sleep_until(behind.clock.now() + back).await;
            answered
        })
    }
}
