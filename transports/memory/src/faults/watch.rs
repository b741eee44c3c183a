//! Passes notices from the wrapped lane's watch to the user's watch.

use std::{sync::Arc, time::Duration};

use leasehold::{
    key::LockKey,
    transport::{Watch, WatchState},
};
use tokio::sync::watch;

use super::{
    Fault, Operation,
    cuts::{CutState, Cuts},
    line::Line,
};

type Shown = watch::Sender<WatchState>;

/// Returns a watch of `key` that shows the state of `inner`, the wrapped lane's watch, changed by the faults.
pub(super) fn start(line: &Arc<Line>, key: &Arc<LockKey>, mut inner: Watch) -> Watch {
    let seen = inner.observe();
    let cuts = line.faults.cuts();
    let cut = cuts.borrow().of(line.purpose);
    let in_force = seen.in_force && cut.now.is_none();
    let (shown, state) = watch::channel(WatchState::starting(in_force));
    let cuts_begun = cut.begun;
    let relay =
        Relay { line: line.clone(), key: key.clone(), inner, seen, shown: Arc::new(shown), cuts_begun };
    line.runtime.spawn(relay.run(cuts));
    Watch::new(state, ())
}

struct Relay {
    line: Arc<Line>,
    key: Arc<LockKey>,
    inner: Watch,
    seen: WatchState,
    shown: Arc<Shown>,
    cuts_begun: u64,
}

impl Relay {
    /// Runs until the user's watch is dropped. Then the wrapped watch is dropped too.
    async fn run(mut self, mut cuts: watch::Receiver<Cuts>) {
        loop {
            let cut = cuts.borrow_and_update().of(self.line.purpose);
            self.show(cut);
            tokio::select! {
                () = self.shown.closed() => return,
                () = self.inner.changed() => {}
                // `self.line` owns the sender, so this never fails.
                _ = cuts.changed() => {}
            }
        }
    }

    fn show(&mut self, cut: CutState) {
        let now = self.inner.observe();
        let arrived = if cut.now.is_some() { 0 } else { now.notices - self.seen.notices };
        let gaps = now.gaps - self.seen.gaps + cut.begun - self.cuts_begun;
        let notices = (0..arrived).map(|_| self.copies()).sum::<u64>();
        (self.seen, self.cuts_begun) = (now, cut.begun);
        let in_force = now.in_force && cut.now.is_none();
        self.shown.send_if_modified(|state| {
            let before = *state;
            state.in_force = in_force;
            state.notices += notices;
            state.gaps += gaps;
            *state != before
        });
    }

    /// Returns how many copies of one notice arrive now.
    fn copies(&self) -> u64 {
        let line = &self.line;
        let Some(rule) = line.faults.decide(line.purpose, Operation::Notice, &[&self.key]) else { return 1 };
        rule.count_fired();
        match rule.fault() {
            Fault::DelayRequest(time) | Fault::DelayReply(time) => self.show_later(time, 0),
            Fault::RepeatLater(time) => self.show_later(time, 1),
            Fault::Repeat => 2,
            Fault::LoseRequest | Fault::LoseReply | Fault::LoseHalf | Fault::Reset => 0,
            Fault::Reorder(_) | Fault::Hold | Fault::Refuse(_) => 0,
        }
    }

    fn show_later(&self, time: Duration, now: u64) -> u64 {
        let (line, shown) = (self.line.clone(), Arc::downgrade(&self.shown));
        self.line.runtime.spawn(async move {
            line.sleep(time).await;
            if let Some(shown) = shown.upgrade() {
                shown.send_modify(|state| state.notices += 1);
            }
        });
        now
    }
}
