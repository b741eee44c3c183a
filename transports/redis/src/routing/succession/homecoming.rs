//! Few servers that are master by turns, and switches that arrive late: whoever is taken for the master of an epoch was
//! master at that epoch, and as soon as all was told, the next word of each sentinel is enough.

use std::collections::VecDeque;

use super::*;
use crate::dice::Dice;

struct World {
    dice: Dice,
    succession: Succession,
    /// Who was made master at which epoch.
    masters: Vec<Address>,
    /// The last epoch that each sentinel has heard of.
    heard: [usize; SENTINELS],
    /// Told by each sentinel and on its way, in this order.
    switches: [VecDeque<Switch>; SENTINELS],
    /// Questions that were asked, and what was answered.
    words: Vec<(usize, Instant, Option<usize>)>,
    now: Instant,
}

impl World {
    fn new(dice: Dice) -> Self {
        Self {
            dice,
            succession: Succession::default(),
            masters: vec![server(0)],
            heard: [0; SENTINELS],
            switches: Default::default(),
            words: Vec::new(),
            now: Instant::from_nanos(1),
        }
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_nanos(1);
        let sentinel = self.dice.below(SENTINELS);
        match self.dice.below(12) {
            0 => self.fail_over(sentinel),
            1..3 => self.learn(sentinel),
            3..5 => self.words.push((sentinel, self.now, None)),
            5..7 => self.answer(),
            7..10 => self.arrive(),
            _ => self.be_told(sentinel),
        }
        let epoch = usize::try_from(self.succession.epoch).unwrap();
        let master = self.succession.master();
        assert!(master.is_none_or(|master| *master == self.masters[epoch]), "{master:?} at {epoch}");
    }

    fn fail_over(&mut self, by: usize) {
        if self.heard[by] + 1 == self.masters.len() {
            let other = 1 + self.dice.below(SERVERS - 1);
            let before = usize::from(self.masters[self.heard[by]].port) - 1;
            self.masters.push(server((before + other) % SERVERS));
            self.learn(by);
        }
    }

    /// It may have missed some; between two of the same server there is nothing to tell.
    fn learn(&mut self, sentinel: usize) {
        let from = self.masters[self.heard[sentinel]].clone();
        self.heard[sentinel] = self.masters.len() - 1;
        let to = self.masters[self.heard[sentinel]].clone();
        if from != to {
            self.switches[sentinel].push_back(Switch { service: "m".into(), from, to });
        }
    }

    fn answer(&mut self) {
        let heard = self.heard;
        let open = self.words.iter_mut().find(|(_, _, said)| said.is_none());
        open.into_iter().for_each(|(sentinel, _, said)| *said = Some(heard[*sentinel]));
    }

    fn arrive(&mut self) {
        if self.words.is_empty() {
            return;
        }
        let (sentinel, asked, said) = self.words.swap_remove(self.dice.below(self.words.len()));
        said.into_iter().for_each(|said| self.tell(sentinel, said, asked));
    }

    fn tell(&mut self, sentinel: usize, said: usize, asked: Instant) {
        let before = self.succession.master().cloned();
        let word = MasterWord { address: self.masters[said].clone(), epoch: said as u64 };
        let changed = self.succession.handle_word(&name(sentinel), word, SENTINELS, (asked, self.now));
        assert_eq!(changed, before.as_ref() != self.succession.master());
    }

    fn be_told(&mut self, sentinel: usize) {
        let Some(switch) = self.switches[sentinel].pop_front() else { return };
        let is_ours = self.succession.master() == Some(&switch.from);
        assert_eq!(self.succession.handle_switch(&name(sentinel), &switch, self.now), is_ours);
        assert!(!is_ours || self.succession.master().is_none(), "left at once");
    }

    /// All was told and heard; then each is asked once, in any order.
    fn settle(&mut self) {
        for sentinel in 0..SENTINELS {
            self.learn(sentinel);
            while !self.switches[sentinel].is_empty() {
                self.be_told(sentinel);
            }
        }
        self.words.clear();
        let asked = self.now + Duration::from_nanos(1);
        self.now = asked;
        let first = self.dice.below(SENTINELS);
        for sentinel in 0..SENTINELS {
            let sentinel = (first + sentinel) % SENTINELS;
            self.tell(sentinel, self.heard[sentinel], asked);
        }
        assert_eq!(self.succession.master(), self.masters.last());
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
    let mut dice = Dice::thrown();
    for _ in 0..ROUNDS {
        let mut world = World::new(dice.another());
        for _ in 0..5 {
            (0..60).for_each(|_| world.step());
            world.settle();
        }
    }
}

const SENTINELS: usize = 4;
const SERVERS: usize = 3;
const ROUNDS: usize = 500;
