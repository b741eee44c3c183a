//! Sentinels learn about failovers at different times, and replies arrive late. Two properties: no reply leads back
//! to an older master, and in the end the last master is found.

use super::*;
use crate::test_rng::TestRng;

/// The sentinels, and their replies on the way to us.
struct Sentinels {
    test_rng: TestRng,
    master_election: MasterElection,
    /// Master `n` was promoted at epoch `n`.
    failovers: Vec<Address>,
    /// The last failover that each sentinel knows.
    known: [usize; SENTINELS],
    /// Replies that were sent and have not arrived.
    reports: Vec<(usize, usize, Instant)>,
    now: Instant,
}

impl Sentinels {
    fn new(test_rng: TestRng) -> Self {
        let failovers = vec![address(0)];
        Self {
            test_rng,
            master_election: MasterElection::default(),
            failovers,
            known: [0; SENTINELS],
            reports: Vec::new(),
            now: at(100),
        }
    }

    fn step(&mut self) {
        let sentinel = self.test_rng.below(SENTINELS);
        match self.test_rng.below(12) {
            0 => self.fail_over(sentinel),
            1..3 => self.catch_up(sentinel),
            3..7 => self.reports.push((sentinel, self.known[sentinel], self.now)),
            7..11 => self.arrive(),
            _ => self.now = self.now + Duration::from_millis(300),
        }
    }

    fn master(&self) -> Option<usize> {
        let master = self.master_election.master()?;
        Some(self.failovers.iter().position(|address| address == master).expect("somebody's word"))
    }

    /// Each master has a new address. The epoch alone tells an old reply from a new one.
    fn fail_over(&mut self, by: usize) {
        if self.known[by] + 1 == self.failovers.len() {
            self.failovers.push(address(u16::try_from(self.failovers.len()).unwrap()));
            self.learn(by);
        }
    }

    fn catch_up(&mut self, sentinel: usize) {
        if self.known[sentinel] + 1 < self.failovers.len() {
            self.learn(sentinel);
        }
    }

    /// The sentinel publishes the switch at once, or never.
    fn learn(&mut self, sentinel: usize) {
        let before = self.known[sentinel];
        self.known[sentinel] = self.failovers.len() - 1;
        let (from, to) = (self.failovers[before].clone(), self.failovers[self.known[sentinel]].clone());
        if !self.test_rng.one_in(3) {
            let master = self.master();
            let is_ours = master == Some(before);
            let switch = Switch { service: "m".into(), from, to };
            assert_eq!(self.master_election.handle_switch(&name(sentinel), &switch, self.now), is_ours);
            assert_eq!(self.master(), if is_ours { None } else { master });
        }
    }

    fn arrive(&mut self) {
        if self.reports.is_empty() {
            return;
        }
        let (sentinel, said, asked) = self.reports.swap_remove(self.test_rng.below(self.reports.len()));
        let (before, newest) = (self.master(), self.master_election.epoch);
        let left = self.master_election.former.clone();
        let changed = self.deliver_reply(sentinel, said, asked);
        assert_eq!(changed, before != self.master());
        if changed {
            assert_eq!(self.master(), Some(said), "nobody else was named");
            assert!(said as u64 >= newest, "{said} after epoch {newest}");
            assert!(before.is_none_or(|before| before < said), "{said} after {before:?}");
            assert_ne!(left, self.master_election.master().cloned(), "the one that was left");
        }
    }

    fn deliver_reply(&mut self, sentinel: usize, said: usize, asked: Instant) -> bool {
        let report = MasterReport { address: self.failovers[said].clone(), epoch: said as u64 };
        self.master_election.handle_report(&name(sentinel), report, SENTINELS, (asked, self.now))
    }

    /// All sentinels know all failovers, and one publishes that.
    fn settle(&mut self) {
        self.reports.clear();
        self.known = [self.failovers.len() - 1; SENTINELS];
        let sentinel = self.test_rng.below(SENTINELS);
        self.deliver_reply(sentinel, self.known[sentinel], self.now);
        assert_eq!(self.master(), Some(self.failovers.len() - 1));
    }

    /// An operator makes all sentinels forget the master and monitor another one.
    fn begin_anew(&mut self) {
        self.failovers = vec![address(5_000), address(5_001)];
        self.now = self.now + RECENT + RECENT;
        self.known = [0; SENTINELS];
        for sentinel in 0..SENTINELS {
            let said = self.deliver_reply(sentinel, 0, self.now);
            let most = (sentinel + 1) * 2 > SENTINELS;
            assert_eq!(
                self.master_election.master() == Some(&address(5_000)),
                most,
                "{sentinel}, news: {said}"
            );
        }
    }
}

fn name(sentinel: usize) -> SentinelId {
    (&address(1_000 + u16::try_from(sentinel).unwrap())).into()
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn address(number: u16) -> Address {
    Address::new("h", 1 + number)
}

#[test]
fn l5_nobody_goes_back_to_an_older_master_and_the_last_one_is_found() {
    let mut test_rng = TestRng::from_env();
    for _ in 0..ROUNDS {
        let mut sentinels = Sentinels::new(test_rng.another());
        for _ in 0..4 {
            (0..100).for_each(|_| sentinels.step());
            sentinels.settle();
        }
        sentinels.begin_anew();
    }
}

const SENTINELS: usize = 5;
const ROUNDS: usize = 100;
