//! What happened in a run, and whether it was right.

use std::{
    collections::HashMap,
    ops::AddAssign,
    sync::{Arc, Mutex},
};

use leasehold::{Engine, FencingToken, Lease, LossEvent, clock::Instant};
use leasehold_tests::harness::{checkers, recorder::Window};

use super::world::LINE;
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
    side: Side,
}

/// What kind of lock a lease was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Exclusive,
    Read,
    Write,
}

/// What was counted over all runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub leases: u64,
    pub reentries: u64,
    pub reads: u64,
    pub read_together: u64,
    pub writes: u64,
    pub downgrades: u64,
    pub refused: u64,
    pub cancelled: u64,
    pub lost: u64,
    pub faults: u64,
    pub restarts: u64,
    pub failovers: u64,
    pub moves: u64,
    pub handovers: u64,
    /// Leases of the fair lock.
    pub fair: u64,
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
    pub fn add(&self, process: u32, side: Side, lease: &Lease, from: Instant) {
        let (name, token, until) = (lease.name().to_owned(), lease.fencing_token(), now());
        let window = Open { name, process, token, from, until, side };
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

    /// The windows of these sides as the checkers take them.
    fn windows(&self, sides: &[Side]) -> Vec<Window> {
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
        kept.windows.iter().filter(|open| sides.contains(&open.side)).map(window).collect()
    }

    /// S1, S3, S6.
    pub fn judge_exclusion(&self) {
        let windows = self.windows(&[Side::Exclusive]);
        assert_eq!(checkers::overlaps(&windows).violations, [], "S1");
        // Tokens of fenced and of other locks cannot be compared.
        let comparable: Vec<_> = windows.iter().filter(|window| window.key != "mixed").cloned().collect();
        assert_eq!(checkers::token_order(&comparable), [], "S6");
        let handovers = lost_before_handover(&windows);
        let fair = windows.iter().filter(|window| window.key == LINE).count() as u64;
        self.count(|totals| {
            totals.handovers += handovers;
            totals.fair += fair;
        });
    }
}

/// Readers and writers.
impl History {
    /// S1, S3 and S6 of the read/write locks.
    pub fn judge_readers_and_writers(&self) {
        let (reads, writes) = (self.windows(&[Side::Read]), self.windows(&[Side::Write]));
        assert_eq!(checkers::overlaps(&writes).violations, [], "S1: two writers");
        assert_eq!(checkers::token_order(&writes), [], "S6");
        let mut together = 0;
        for read in &reads {
            let others = |windows: &[Window]| windows.iter().filter(|other| overlap(read, other)).count();
            assert_eq!(others(&writes), 0, "S1: a reader beside a writer: {read:?} {writes:?}");
            together += u64::from(others(&reads) > 1);
        }
        lost_before_writers(&reads, &writes);
        self.count(|totals| {
            (totals.reads, totals.writes) = (reads.len() as u64, writes.len() as u64);
            totals.read_together = together;
        });
    }
}

fn overlap(one: &Window, other: &Window) -> bool {
    one.key == other.key && one.from_ns.max(other.from_ns) < one.until_ns.min(other.until_ns)
}

/// S3: when the server executes a grant to a writer, every reader before it has ended, and the other way round.
fn lost_before_writers(reads: &[Window], writes: &[Window]) {
    for write in writes {
        // A writer that was downgraded reads with its own token.
        for read in reads.iter().filter(|read| read.key == write.key && read.token != write.token) {
            let (earlier, later) = if read.token < write.token { (read, write) } else { (write, read) };
            assert!(earlier.until_ns <= executed_ns(later), "S3: {earlier:?} {later:?}");
        }
    }
}

/// The end of the microsecond in which the server executed the grant.
fn executed_ns(window: &Window) -> u64 {
    (window.token as u64 >> TOKEN_BITS) * 1_000 + 999 - SERVER_ORIGIN_NANOS
}

/// S3: what a lease entitled to has ended when the server executes the next grant. The token tells when that was.
fn lost_before_handover(windows: &[Window]) -> u64 {
    let tells_time = |window: &&Window| !matches!(window.key.as_str(), "ledger" | "mixed");
    let mut windows: Vec<_> = windows.iter().filter(tells_time).collect();
    windows.sort_by_key(|window| (&window.key, window.token));
    let mut handovers = 0;
    for pair in windows.windows(2).filter(|pair| pair[0].key == pair[1].key && pair[0].token < pair[1].token)
    {
        let begins = match pair[0].token >> TOKEN_BITS == pair[1].token >> TOKEN_BITS {
            true => pair[1].from_ns, // handed off by its engine
            false => executed_ns(pair[1]),
        };
        assert!(pair[0].until_ns <= begins, "S3: {pair:?}");
        handovers += 1;
    }
    handovers
}

impl Totals {
    /// A history in which little happened passes every check. Each number is at most two thirds of the least
    /// that eight seeds showed.
    pub fn assert_that_much_happened(&self, runs: u64) {
        let Totals {
            leases,
            reentries,
            reads,
            read_together,
            writes,
            downgrades,
            refused,
            cancelled,
            lost,
            faults,
            restarts,
            failovers,
            moves,
            handovers,
            fair,
            ended_engines,
        } = *self;
        assert!(fair > 3 * runs, "{self:?}");
        assert!(leases > 20 * runs && handovers > 7 * runs, "{self:?}");
        assert!(faults > 10 * runs && lost > 2 * runs && refused > 5 * runs, "{self:?}");
        assert!(reads > 5 * runs && writes > runs && read_together > runs, "{self:?}");
        assert!(downgrades > runs / 4, "{self:?}");
        assert!(cancelled > runs && reentries > runs / 2, "{self:?}");
        assert!(restarts > runs / 16 && ended_engines > runs / 16, "{self:?}");
        assert!(failovers > runs / 16 && moves > runs, "{self:?}");
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.leases += other.leases;
        self.reentries += other.reentries;
        self.reads += other.reads;
        self.read_together += other.read_together;
        self.writes += other.writes;
        self.downgrades += other.downgrades;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.lost += other.lost;
        self.faults += other.faults;
        self.restarts += other.restarts;
        self.failovers += other.failovers;
        self.moves += other.moves;
        self.handovers += other.handovers;
        self.fair += other.fair;
        self.ended_engines += other.ended_engines;
    }
}

const TOKEN_BITS: u32 = 10;
/// The memory's server clock runs this far before ours.
const SERVER_ORIGIN_NANOS: u64 = 1_000_000_000_000_000_000;
