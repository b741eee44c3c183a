//! A few servers take turns as master, and switch messages arrive late. Two properties: the recorded master of an
//! epoch was master at that epoch, and once all messages have arrived, the next reply of each sentinel is enough to
//! find the master.

use std::collections::VecDeque;

use super::*;
use crate::test_rng::TestRng;

struct World {
    test_rng: TestRng,
    master_election: MasterElection,
    /// The master of each epoch.
    masters: Vec<Address>,
    /// The last epoch that each sentinel knows.
    known: [usize; SENTINELS],
    /// The messages of each sentinel that are on their way, in order.
    switches: [VecDeque<Switch>; SENTINELS],
    /// Polls with their replies.
    reports: Vec<(usize, Instant, Option<usize>)>,
    now: Instant,
}

impl World {
    fn new(test_rng: TestRng) -> Self {
        Self {
            test_rng,
            master_election: MasterElection::default(),
            masters: vec![server(0)],
            known: [0; SENTINELS],
            switches: Default::default(),
            reports: Vec::new(),
            now: Instant::from_nanos(1),
        }
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_nanos(1);
        let sentinel = self.test_rng.below(SENTINELS);
        match self.test_rng.below(12) {
            0 => self.fail_over(sentinel),
            1..3 => self.learn(sentinel),
            3..5 => self.reports.push((sentinel, self.now, None)),
            5..7 => self.answer(),
            7..10 => self.arrive(),
            _ => self.deliver_switch(sentinel),
        }
        let epoch = usize::try_from(self.master_election.epoch).unwrap();
        let master = self.master_election.master();
        assert!(master.is_none_or(|master| *master == self.masters[epoch]), "{master:?} at {epoch}");
    }

    fn fail_over(&mut self, by: usize) {
        if self.known[by] + 1 == self.masters.len() {
            let other = 1 + self.test_rng.below(SERVERS - 1);
            let before = usize::from(self.masters[self.known[by]].port) - 1;
            self.masters.push(server((before + other) % SERVERS));
            self.learn(by);
        }
    }

    /// The sentinel may skip failovers. A switch from a server to itself is not published.
    fn learn(&mut self, sentinel: usize) {
        let from = self.masters[self.known[sentinel]].clone();
        self.known[sentinel] = self.masters.len() - 1;
        let to = self.masters[self.known[sentinel]].clone();
        if from != to {
            self.switches[sentinel].push_back(Switch { service: "m".into(), from, to });
        }
    }

    fn answer(&mut self) {
        let known = self.known;
        let open = self.reports.iter_mut().find(|(_, _, said)| said.is_none());
        open.into_iter().for_each(|(sentinel, _, said)| *said = Some(known[*sentinel]));
    }

    fn arrive(&mut self) {
        if self.reports.is_empty() {
            return;
        }
        let (sentinel, asked, said) = self.reports.swap_remove(self.test_rng.below(self.reports.len()));
        said.into_iter().for_each(|said| self.deliver_reply(sentinel, said, asked));
    }

    fn deliver_reply(&mut self, sentinel: usize, said: usize, asked: Instant) {
        let before = self.master_election.master().cloned();
        let report = MasterReport { address: self.masters[said].clone(), epoch: said as u64 };
        let changed =
            self.master_election.handle_report(&name(sentinel), report, SENTINELS, (asked, self.now));
        assert_eq!(changed, before.as_ref() != self.master_election.master());
    }

    fn deliver_switch(&mut self, sentinel: usize) {
        let Some(switch) = self.switches[sentinel].pop_front() else { return };
        let is_ours = self.master_election.master() == Some(&switch.from);
        assert_eq!(self.master_election.handle_switch(&name(sentinel), &switch, self.now), is_ours);
        assert!(!is_ours || self.master_election.master().is_none(), "left at once");
    }

    /// All messages are sent and read. Then each sentinel is polled once, in any order.
    fn settle(&mut self) {
        for sentinel in 0..SENTINELS {
            self.learn(sentinel);
            while !self.switches[sentinel].is_empty() {
                self.deliver_switch(sentinel);
            }
        }
        self.reports.clear();
        let asked = self.now + Duration::from_nanos(1);
        self.now = asked;
        let first = self.test_rng.below(SENTINELS);
        for sentinel in 0..SENTINELS {
            let sentinel = (first + sentinel) % SENTINELS;
            self.deliver_reply(sentinel, self.known[sentinel], asked);
        }
        assert_eq!(self.master_election.master(), self.masters.last());
    }
}

fn server(number: usize) -> Address {
    Address::new("m", 1 + u16::try_from(number).unwrap())
}

fn name(sentinel: usize) -> SentinelId {
    (&Address::new("s", 1 + u16::try_from(sentinel).unwrap())).into()
}

#[test]
fn l5_whatever_switch_is_told_late_the_next_words_find_the_master() {
    let mut test_rng = TestRng::from_env();
    for _ in 0..ROUNDS {
        let mut world = World::new(test_rng.another());
        for _ in 0..5 {
            (0..60).for_each(|_| world.step());
            world.settle();
        }
    }
}

const SENTINELS: usize = 4;
const SERVERS: usize = 3;
const ROUNDS: usize = 500;
