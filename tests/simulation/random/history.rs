//! What happened in a run, and whether it was right.

use std::{
    collections::HashMap,
    ops::AddAssign,
    sync::{Arc, Mutex},
};

use leasehold::{Engine, FencingToken, Lease, LossEvent, clock::Instant};
use leasehold_tests::harness::{checkers, recorder::Window};

use crate::fixture::now;

/// The windows of all clients of a run. Clones are the same history.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    windows: Vec<Open>,
    /// When the lease with this name and token ended by itself: at its deadline or when its loss was told, whichever was
    /// first.
    ends: HashMap<(String, FencingToken), Instant>,
    totals: Totals,
}

struct Open {
    name: String,
    process: u32,
    token: FencingToken,
    from: Instant,
    until: Instant,
}

/// What was counted over all runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub leases: u64,
    pub reentries: u64,
    pub refused: u64,
    pub cancelled: u64,
    pub lost: u64,
    pub faults: u64,
    pub restarts: u64,
    pub failovers: u64,
    pub moves: u64,
    pub handovers: u64,
    pub ended_engines: u64,
}

impl History {
    pub fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.0.lock().expect("no panic under it").totals);
    }

    pub fn totals(&self) -> Totals {
        self.0.lock().expect("no panic under it").totals
    }

    /// A lease was returned at `from` and is given back or dropped now.
    pub fn add(&self, process: u32, lease: &Lease, from: Instant) {
        let (name, token, until) = (lease.name().to_owned(), lease.fencing_token(), now());
        let window = Open { name, process, token, from, until };
        self.0.lock().expect("no panic under it").windows.push(window);
    }

    /// Writes down when leases of this engine are lost, until it has ended.
    pub async fn hear_losses(self, engine: Engine) {
        let mut losses = engine.losses();
        drop(engine);
        loop {
            let loss = match losses.next().await {
                Some(LossEvent::Lost(loss)) => loss,
                Some(other) => panic!("a reader that keeps up misses none: {other:?}"),
                None => return,
            };
            let mut kept = self.0.lock().expect("no panic under it");
            kept.totals.lost += 1;
            let before =
                kept.ends.insert((loss.name.to_string(), loss.fencing_token), loss.deadline.min(loss.at));
            assert!(before.is_none(), "lost twice: {loss:?}");
        }
    }

    /// The windows as the checkers take them.
    fn windows(&self) -> Vec<Window> {
        let kept = self.0.lock().expect("no panic under it");
        let ended = |open: &Open| {
            let end = kept.ends.get(&(open.name.clone(), open.token));
            end.map_or(open.until, |end| open.until.min(*end))
        };
        let window = |open: &Open| Window {
            key: open.name.clone(),
            holder: format!("{} {}", open.process, open.token),
            process: open.process,
            token: open.token.as_i64(),
            from_ns: open.from.as_nanos(),
            until_ns: ended(open).as_nanos(),
        };
        kept.windows.iter().map(window).collect()
    }

    /// S1, S3, S6.
    pub fn judge_exclusion(&self) {
        let windows = self.windows();
        assert_eq!(checkers::overlaps(&windows).violations, [], "S1");
        // Tokens of fenced and of other locks cannot be compared.
        let comparable: Vec<_> = windows.iter().filter(|window| window.key != "mixed").cloned().collect();
        assert_eq!(checkers::token_order(&comparable), [], "S6");
        let handovers = lost_before_handover(&windows);
        self.count(|totals| totals.handovers += handovers);
    }
}

/// S3: what a lease entitled to has ended when the server executes the next grant. The token tells when that was.
fn lost_before_handover(windows: &[Window]) -> u64 {
    let tells_time = |window: &&Window| !matches!(window.key.as_str(), "ledger" | "mixed");
    let mut windows: Vec<_> = windows.iter().filter(tells_time).collect();
    windows.sort_by_key(|window| (&window.key, window.token));
    let mut handovers = 0;
    for pair in windows.windows(2).filter(|pair| pair[0].key == pair[1].key && pair[0].token < pair[1].token)
    {
        let executed_ns = (pair[1].token as u64 >> TOKEN_BITS) * 1_000 + 999 - SERVER_ORIGIN_NANOS;
        assert!(pair[0].until_ns <= executed_ns, "S3: {pair:?}");
        handovers += 1;
    }
    handovers
}

impl Totals {
    /// A history in which little happened passes every check.
    pub fn assert_that_much_happened(&self, runs: u64) {
        let Totals {
            leases,
            reentries,
            refused,
            cancelled,
            lost,
            faults,
            restarts,
            failovers,
            moves,
            handovers,
            ended_engines,
        } = *self;
        assert!(leases > 20 * runs && handovers > 12 * runs, "{self:?}");
        assert!(faults > 10 * runs && lost > 2 * runs && refused > 5 * runs, "{self:?}");
        assert!(cancelled > 2 * runs && reentries > runs / 2, "{self:?}");
        assert!(restarts > runs / 8 && ended_engines > runs / 8, "{self:?}");
        assert!(failovers > runs / 8 && moves > runs, "{self:?}");
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.leases += other.leases;
        self.reentries += other.reentries;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.lost += other.lost;
        self.faults += other.faults;
        self.restarts += other.restarts;
        self.failovers += other.failovers;
        self.moves += other.moves;
        self.handovers += other.handovers;
        self.ended_engines += other.ended_engines;
    }
}

const TOKEN_BITS: u32 = 10;
/// The memory's server clock runs this far before ours.
const SERVER_ORIGIN_NANOS: u64 = 1_000_000_000_000_000_000;
