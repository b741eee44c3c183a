//! Which server is the master, by the word of several sentinels. Pure.
//!
//! A failover raises the *configuration epoch* that each sentinel keeps for the master, so of two words the one with
//! the higher epoch is the later one, whoever says it and whenever it comes. `+switch-master` carries no epoch: the old
//! master is left at once, and the next word that is not older and names another one names the new one. (Not only one
//! with a higher epoch: a sentinel raises it before it tells the switch.) An operator who makes sentinels
//! forget a master and monitor it anew begins at epoch 0 again: most of them agreeing counts for more than an epoch,
//! unless there was a change within the last seconds, of which most of them need not have heard.

use std::{collections::HashMap, time::Duration};

use leasehold::clock::Instant;

use crate::{
    config::Address,
    wire::sentinel::{MasterWord, Switch},
};

/// What is known of the master.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    master: Option<Address>,
    /// Who was master until a switch was told, as long as there is none.
    left: Option<Address>,
    /// Words below it are old.
    epoch: u64,
    words: HashMap<Address, Heard>,
    changed_at: Instant,
}

#[derive(Debug)]
struct Heard {
    word: MasterWord,
    at: Instant,
}

impl Succession {
    pub(crate) fn master(&self) -> Option<&Address> {
        self.master.as_ref()
    }

    /// One of `known` sentinels has named the master. Whether that is another one than before.
    pub(crate) fn handle_word(
        &mut self,
        sentinel: &Address,
        word: MasterWord,
        known: usize,
        now: Instant,
    ) -> bool {
        self.words.retain(|_, heard| now - heard.at <= LATELY);
        self.words.insert(sentinel.clone(), Heard { word: word.clone(), at: now });
        let takes_over = self.master.is_none() && self.left.as_ref() != Some(&word.address);
        let later = word.epoch > self.epoch || (word.epoch == self.epoch && takes_over);
        if !later && !self.is_word_of_most(&word.address, known, now) {
            return false;
        }
        self.epoch = word.epoch;
        let changed = self.master.as_ref() != Some(&word.address);
        if changed {
            (self.master, self.left, self.changed_at) = (Some(word.address), None, now);
        }
        changed
    }

    /// A sentinel has told a failover. Whether it is that of our master, who is none from now on.
    pub(crate) fn handle_switch(&mut self, switch: &Switch, now: Instant) -> bool {
        let ours = self.master.as_ref() == Some(&switch.from) && switch.to != switch.from;
        if ours {
            (self.master, self.left, self.changed_at) = (None, self.master.take(), now);
        }
        ours
    }

    // All that spoke lately, and more than half of those that there are.
    fn is_word_of_most(&self, address: &Address, known: usize, now: Instant) -> bool {
        if now - self.changed_at <= LATELY {
            return false;
        }
        let lately = || self.words.values().filter(|heard| now - heard.at <= LATELY);
        lately().count() * 2 > known && lately().all(|heard| heard.word.address == *address)
    }
}

const LATELY: Duration = Duration::from_secs(12);

#[cfg(test)]
mod chance;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn address(port: u16) -> Address {
        Address::new("h", port)
    }

    fn word(port: u16, epoch: u64) -> MasterWord {
        MasterWord { address: address(port), epoch }
    }

    fn switch(from: u16, to: u16) -> Switch {
        Switch { service: "m".into(), from: address(from), to: address(to) }
    }

    /// Three sentinels, 11 to 13, that all name 1 at epoch 3.
    fn settled() -> Succession {
        let mut succession = Succession::default();
        for sentinel in 11..=13 {
            succession.handle_word(&address(sentinel), word(1, 3), 3, at(0));
        }
        succession
    }

    #[test]
    fn the_first_word_is_taken() {
        let mut succession = Succession::default();
        assert_eq!(succession.master(), None);
        assert!(succession.handle_word(&address(11), word(1, 0), 3, at(0)));
        assert!(!succession.handle_word(&address(12), word(1, 0), 3, at(0)));
        assert_eq!(succession.master(), Some(&address(1)));
    }

    #[test]
    fn l5_a_later_epoch_is_believed_at_once_and_an_old_word_never_takes_it_back() {
        let mut succession = settled();
        assert!(succession.handle_word(&address(11), word(2, 4), 3, at(1)));
        assert!(!succession.handle_word(&address(12), word(1, 3), 3, at(1)));
        assert!(!succession.handle_word(&address(13), word(1, 3), 3, at(2)));
        assert_eq!(succession.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_switch_leaves_the_old_master_before_the_new_one_is_known() {
        let mut succession = settled();
        assert!(succession.handle_switch(&switch(1, 2), at(1)));
        assert_eq!(succession.master(), None);
        // Those who have not heard of it still name the old one.
        assert!(!succession.handle_word(&address(12), word(1, 3), 3, at(1)));
        assert!(!succession.handle_word(&address(13), word(1, 3), 3, at(1)));
        assert!(succession.handle_word(&address(11), word(2, 4), 3, at(1)));
        assert!(!succession.handle_switch(&switch(1, 2), at(1)), "the second sentinel tells the same");
        assert_eq!(succession.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_sentinel_that_told_the_epoch_before_the_switch_is_believed_after_it() {
        let mut succession = settled();
        // Its epoch rises before it calls the old master anything else.
        assert!(!succession.handle_word(&address(11), word(1, 4), 3, at(1)));
        assert!(succession.handle_switch(&switch(1, 2), at(1)));
        assert!(!succession.handle_word(&address(12), word(1, 4), 3, at(1)), "the one that was left");
        assert!(succession.handle_word(&address(11), word(2, 4), 3, at(1)));
        assert_eq!(succession.master(), Some(&address(2)));
    }

    #[test]
    fn l6_the_words_of_sentinels_that_left_are_forgotten() {
        let mut succession = settled();
        for sentinel in 0..100 {
            let now = at(100 + 10 * u64::from(sentinel));
            succession.handle_word(&address(20 + sentinel), word(1, 3), 3, now);
        }
        assert_eq!(succession.words.len(), 2);
    }

    #[test]
    fn a_switch_of_another_master_changes_nothing() {
        let mut succession = settled();
        assert!(!succession.handle_switch(&switch(7, 8), at(1)));
        assert_eq!(succession.master(), Some(&address(1)));
    }

    #[test]
    fn sentinels_that_were_set_up_anew_are_believed_once_most_of_them_agree() {
        let mut succession = settled();
        assert!(!succession.handle_word(&address(11), word(5, 0), 3, at(100)), "one of three");
        assert!(succession.handle_word(&address(12), word(5, 0), 3, at(101)));
        assert_eq!(succession.master(), Some(&address(5)));
    }
}
