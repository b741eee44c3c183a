//! Sentinels come and go, each time at another address, and some lists learn about them late. The properties: the
//! set never exceeds its limit, reachable and configured sentinels stay, and in the end the set is exactly the live
//! sentinels.

use super::*;
use crate::test_rng::TestRng;

struct Deployment {
    test_rng: TestRng,
    sentinel_set: SentinelSet,
    /// The live sentinels, with the list that each returns.
    alive: HashMap<Address, Vec<Address>>,
    /// The monitored addresses, according to the reported changes.
    monitored_addresses: Vec<Address>,
    next: u16,
    now: Instant,
}

impl Deployment {
    fn new(test_rng: TestRng) -> Self {
        let first = Address::new("s", 1);
        let now = Instant::from_nanos(0);
        let sentinel_set = SentinelSet::configured(std::slice::from_ref(&first), now);
        let alive = HashMap::from([(first.clone(), Vec::new())]);
        Self { test_rng, sentinel_set, alive, monitored_addresses: vec![first], next: 2, now }
    }

    fn step(&mut self) {
        match self.test_rng.below(10) {
            0 => self.begin(),
            1 => self.end(),
            2..5 => self.gossip(),
            5..9 => self.ask(),
            _ => self.now = self.now + Duration::from_secs(1),
        }
        assert!(
            self.sentinel_set.count() <= SENTINELS_MAX
                && self.sentinel_set.count() == self.monitored_addresses.len()
        );
    }

    fn begin(&mut self) {
        if self.alive.len() < ALIVE_MAX {
            self.alive.insert(Address::new("s", self.next), Vec::new());
            self.next += 1;
        }
    }

    /// The configured sentinel ends too, but comes back at the same address.
    fn end(&mut self) {
        let Some(sentinel) = self.one() else { return };
        self.alive.remove(&sentinel);
        self.sentinel_set.lost(&sentinel, self.now);
        if sentinel.port == 1 {
            self.alive.insert(sentinel, Vec::new());
        }
    }

    fn one(&mut self) -> Option<Address> {
        let mut alive: Vec<_> = self.alive.keys().cloned().collect();
        alive.sort();
        (!alive.is_empty()).then(|| alive.swap_remove(self.test_rng.below(alive.len())))
    }

    /// All live sentinels learn about all others. Dead ones are removed from the lists at once, or stay for now.
    fn gossip(&mut self) {
        let (alive, resets): (Vec<_>, _) = (self.alive.keys().cloned().collect(), self.test_rng.one_in(2));
        for (sentinel, names) in &mut self.alive {
            names.retain(|name| !resets && name != sentinel);
            names.extend(alive.iter().filter(|name| *name != sentinel).cloned());
            names.sort();
            names.dedup();
        }
    }

    /// Polls one of the monitored sentinels.
    fn ask(&mut self) {
        let sentinel = self.one().filter(|sentinel| self.monitored_addresses.contains(sentinel));
        sentinel.iter().for_each(|sentinel| self.listen(sentinel));
    }

    fn listen(&mut self, sentinel: &Address) {
        self.sentinel_set.reached(sentinel, &sentinel.into());
        let reached = self.sentinel_set.members.clone();
        let changes = self.sentinel_set.handle_list(sentinel, &self.alive[sentinel], self.now);
        for removed in &changes.removed {
            let member = &reached[removed];
            assert!(
                !member.is_configured && member.unreachable_since.is_some(),
                "{removed}: {member:?} left"
            );
        }
        self.monitored_addresses.retain(|monitored| !changes.removed.contains(monitored));
        self.monitored_addresses.extend(changes.added);
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.now = self.now + Duration::from_secs(5);
            let alive: Vec<_> = self.alive.keys().cloned().collect();
            for (sentinel, names) in &mut self.alive {
                *names = alive.iter().filter(|name| *name != sentinel).cloned().collect();
            }
            let monitored: Vec<_> =
                alive.iter().filter(|sentinel| self.monitored_addresses.contains(sentinel)).collect();
            monitored.into_iter().for_each(|sentinel| self.listen(sentinel));
        }
        let mut expected: Vec<_> = self.alive.keys().cloned().collect();
        expected.sort();
        self.monitored_addresses.sort();
        assert_eq!(self.monitored_addresses, expected);
    }
}

#[test]
fn l6_in_the_end_all_sentinels_that_live_are_known_and_no_others() {
    let mut deployment = Deployment::new(TestRng::from_env());
    for _ in 0..30 {
        (0..300).for_each(|_| deployment.step());
        deployment.settle();
    }
    assert!(deployment.next > 200, "many came and went");
}

const ALIVE_MAX: usize = 9;
