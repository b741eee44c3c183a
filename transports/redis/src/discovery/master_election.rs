//! Which server is the master, from the replies and messages of several sentinels. Pure.
//!
//! A failover raises the *configuration epoch* that each sentinel keeps for the master. So of two replies, the one
//! with the higher epoch is later, whichever sentinel sends it and whenever it arrives. A `+switch-master` message
//! carries no epoch. It makes us leave the old master at once. The new master is that of the next reply that is not
//! older and names another server. (A higher epoch is not required, because a sentinel raises its epoch before it
//! publishes the switch.)
//!
//! A switch message may arrive late, when its old master is master again. The sentinel that sent it knows its
//! epoch, so a later reply of the same sentinel shows whether the message was news. If the reply's epoch is below
//! the recorded one, or the reply names the master that was left, the switch is taken back. Other sentinels may not
//! know about the switch yet, so their replies prove nothing about it.
//!
//! If an operator makes sentinels forget a master and monitor it again, the epoch starts at 0. So agreement of a
//! majority counts for more than an epoch, unless the master has changed within the last `RECENT`: a majority
//! need not know about that change yet.

use std::{collections::HashMap, sync::Arc, time::Duration};

use leasehold::clock::Instant;

use crate::{
    config::Address,
    wire::sentinel::{MasterReport, Switch},
};

/// One sentinel, under whatever address it was reached: its run id, or its address if it does not report a run id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SentinelId(Arc<str>);

impl SentinelId {
    pub(crate) fn of_run(run_id: &str) -> Self {
        Self(run_id.into())
    }
}

impl From<&Address> for SentinelId {
    fn from(address: &Address) -> Self {
        Self(address.to_string().into())
    }
}

/// The recorded master, and the sentinel reports about it.
#[derive(Debug, Default)]
pub(crate) struct MasterElection {
    master: Option<Address>,
    /// The master at `epoch`, while there is no current master.
    former: Option<Address>,
    /// Reports since then of masters that were replaced.
    replaced: Vec<Replaced>,
    /// Replies with a lower epoch are old.
    epoch: u64,
    reports: HashMap<SentinelId, Received>,
    changed_at: Instant,
}

#[derive(Debug)]
struct Received {
    report: MasterReport,
    at: Instant,
}

/// A master that was replaced, according to one sentinel.
#[derive(Debug)]
struct Replaced {
    address: Address,
    by: SentinelId,
    at: Instant,
}

impl MasterElection {
    pub(crate) fn master(&self) -> Option<&Address> {
        self.master.as_ref()
    }

    /// Takes in a reply that names the master, by one of `known` sentinels, which was asked at `asked`. Returns
    /// whether the master has changed.
    pub(crate) fn handle_report(
        &mut self,
        sentinel: &SentinelId,
        report: MasterReport,
        known: usize,
        (asked, now): (Instant, Instant),
    ) -> bool {
        self.reports.retain(|_, received| now - received.at <= RECENT);
        self.reports.insert(sentinel.clone(), Received { report: report.clone(), at: now });
        let was_reverted = self.revert_switches(sentinel, &report, (asked, now));
        let later = report.epoch > self.epoch || (report.epoch == self.epoch && self.master.is_none());
        let is_newer = later && !self.is_replaced(&report, (asked, now));
        if !is_newer && !self.is_majority_report(&report.address, known, now) {
            return was_reverted;
        }
        self.epoch = report.epoch;
        self.follow(report.address, now) || was_reverted
    }

    fn follow(&mut self, address: Address, now: Instant) -> bool {
        let changed = self.master.as_ref() != Some(&address);
        if changed {
            (self.master, self.former, self.changed_at) = (Some(address), None, now);
            self.replaced.clear();
        }
        changed
    }

    /// Takes in a switch message. Returns whether it replaces our master. If so, there is no master until a reply
    /// names one.
    pub(crate) fn handle_switch(&mut self, sentinel: &SentinelId, switch: &Switch, now: Instant) -> bool {
        if switch.to == switch.from {
            return false;
        }
        let ours = self.master.as_ref() == Some(&switch.from);
        if ours {
            (self.master, self.former, self.changed_at) = (None, self.master.take(), now);
        }
        if self.former.is_some() {
            self.record_replaced(sentinel, &switch.from, now);
        }
        ours
    }

    fn record_replaced(&mut self, by: &SentinelId, address: &Address, at: Instant) {
        self.replaced.retain(|replaced| replaced.address != *address || replaced.by != *by);
        if self.replaced.len() < REPLACED_MAX {
            self.replaced.push(Replaced { address: address.clone(), by: by.clone(), at });
        }
    }

    /// Takes back the switches of a sentinel that its own reply shows to be old. Returns whether the former master
    /// is the master again.
    fn revert_switches(
        &mut self,
        sentinel: &SentinelId,
        report: &MasterReport,
        (asked, now): (Instant, Instant),
    ) -> bool {
        let Self { former, replaced, epoch, reports, .. } = self;
        let Some(former) = former else { return false };
        // If several sentinels share an address, the sender of the switch may never be reached again.
        replaced.retain(|replaced| now - replaced.at <= SILENCE_MAX || reports.contains_key(&replaced.by));
        replaced.retain(|replaced| {
            // At our epoch the former master was master, and a failover of any other master is not later than that.
            let is_old = report.epoch < *epoch || (report.epoch == *epoch && replaced.address != *former);
            replaced.by != *sentinel
                || asked <= replaced.at
                || !(is_old || report.address == replaced.address)
        });
        if replaced.iter().any(|replaced| replaced.address == *former) {
            return false;
        }
        let again = former.clone();
        self.follow(again, now)
    }

    /// Whether a reply names a master that was replaced, as far as is known.
    fn is_replaced(&self, report: &MasterReport, (asked, now): (Instant, Instant)) -> bool {
        let is_former = self.former.as_ref() == Some(&report.address);
        self.replaced.iter().filter(|replaced| replaced.address == report.address).any(|replaced| {
            // The epoch of the former master is known, so a later one makes it master again. The epochs of other
            // masters are not known.
            let is_again = is_former && report.epoch > self.epoch;
            let is_recent = is_former || now - replaced.at <= RECENT;
            asked <= replaced.at || (is_recent && !is_again)
        })
    }

    // All sentinels with a recent reply, and more than half of the known ones.
    fn is_majority_report(&self, address: &Address, known: usize, now: Instant) -> bool {
        if now - self.changed_at <= RECENT {
            return false;
        }
        let recent = || self.reports.values().filter(|received| now - received.at <= RECENT);
        recent().count() * 2 > known && recent().all(|received| received.report.address == *address)
    }
}

/// For this long the switch message of a sentinel without any later reply keeps the old master out. It is far above
/// the 2 s in which sentinels greet each other: by then the others know about a real switch.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const RECENT: Duration = Duration::from_secs(12);
/// More switches than all sentinels report between two replies.
const REPLACED_MAX: usize = 256;

#[cfg(test)]
mod late_switch_tests;
#[cfg(test)]
mod random_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn address(port: u16) -> Address {
        Address::new("h", port)
    }

    fn sentinel(port: u16) -> SentinelId {
        (&address(port)).into()
    }

    fn report(port: u16, epoch: u64) -> MasterReport {
        MasterReport { address: address(port), epoch }
    }

    fn switch(from: u16, to: u16) -> Switch {
        Switch { service: "m".into(), from: address(from), to: address(to) }
    }

    /// The sentinel was asked 1 ms before, with no message in between.
    fn asked(now: Instant) -> (Instant, Instant) {
        (now, now + Duration::from_millis(1))
    }

    /// Three sentinels, 11 to 13, that all name 1 at epoch 3.
    fn settled() -> MasterElection {
        let mut master_election = MasterElection::default();
        for sentinel in 11..=13 {
            master_election.handle_report(&self::sentinel(sentinel), report(1, 3), 3, asked(at(0)));
        }
        master_election
    }

    #[test]
    fn the_first_word_is_taken() {
        let mut master_election = MasterElection::default();
        assert_eq!(master_election.master(), None);
        assert!(master_election.handle_report(&sentinel(11), report(1, 0), 3, asked(at(0))));
        assert!(!master_election.handle_report(&sentinel(12), report(1, 0), 3, asked(at(0))));
        assert_eq!(master_election.master(), Some(&address(1)));
    }

    #[test]
    fn l5_a_later_epoch_is_believed_at_once_and_an_old_word_never_takes_it_back() {
        let mut master_election = settled();
        assert!(master_election.handle_report(&sentinel(11), report(2, 4), 3, asked(at(1))));
        assert!(!master_election.handle_report(&sentinel(12), report(1, 3), 3, asked(at(1))));
        assert!(!master_election.handle_report(&sentinel(13), report(1, 3), 3, asked(at(2))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_switch_leaves_the_old_master_before_the_new_one_is_known() {
        let mut master_election = settled();
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(1)));
        assert_eq!(master_election.master(), None);
        // Sentinels that do not know about the switch yet still name the old master.
        assert!(!master_election.handle_report(&sentinel(12), report(1, 3), 3, asked(at(1))));
        assert!(!master_election.handle_report(&sentinel(13), report(1, 3), 3, asked(at(1))));
        assert!(master_election.handle_report(&sentinel(11), report(2, 4), 3, asked(at(1))));
        assert!(
            !master_election.handle_switch(&sentinel(12), &switch(1, 2), at(1)),
            "the second sentinel tells the same"
        );
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_sentinel_that_told_the_epoch_before_the_switch_is_believed_after_it() {
        let mut master_election = settled();
        // The sentinel raises its epoch before it names another master.
        assert!(!master_election.handle_report(&sentinel(11), report(1, 4), 3, asked(at(1))));
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(1)));
        assert!(
            !master_election.handle_report(&sentinel(12), report(1, 4), 3, asked(at(1))),
            "the one that was left"
        );
        assert!(master_election.handle_report(&sentinel(11), report(2, 4), 3, asked(at(1))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    /// 1 was replaced by 2, and 2 by 1.
    fn there_and_back() -> MasterElection {
        let mut master_election = settled();
        assert!(master_election.handle_report(&sentinel(11), report(2, 4), 3, asked(at(1))));
        assert!(master_election.handle_report(&sentinel(11), report(1, 5), 3, asked(at(2))));
        master_election
    }

    #[test]
    fn l5_a_switch_that_is_told_late_is_taken_back_by_the_next_word_of_who_told_it() {
        for said in [report(1, 5), report(2, 4), report(1, 3)] {
            let mut master_election = there_and_back();
            assert!(master_election.handle_switch(&sentinel(13), &switch(1, 2), at(3)));
            assert!(
                !master_election.handle_report(&sentinel(12), report(1, 5), 3, asked(at(4))),
                "may not have heard of it"
            );
            assert!(
                !master_election.handle_report(&sentinel(13), said.clone(), 3, asked(at(2))),
                "asked before"
            );
            assert!(master_election.handle_report(&sentinel(13), said.clone(), 3, asked(at(4))), "{said:?}");
            assert_eq!(master_election.master(), Some(&address(1)));
        }
    }

    #[test]
    fn l5_a_switch_that_is_told_by_two_is_taken_back_by_both() {
        let mut master_election = there_and_back();
        assert!(master_election.handle_switch(&sentinel(13), &switch(1, 2), at(3)));
        assert!(!master_election.handle_switch(&sentinel(12), &switch(1, 2), at(3)), "this one is new");
        assert!(!master_election.handle_report(&sentinel(13), report(2, 4), 3, asked(at(4))));
        assert!(master_election.handle_report(&sentinel(12), report(2, 6), 3, asked(at(4))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_second_failover_before_any_word_is_not_forgotten() {
        let mut master_election = settled();
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(1)));
        assert!(!master_election.handle_switch(&sentinel(11), &switch(2, 3), at(2)));
        assert!(
            !master_election.handle_report(&sentinel(12), report(2, 4), 3, asked(at(3))),
            "has heard of one"
        );
        assert!(master_election.handle_report(&sentinel(11), report(3, 5), 3, asked(at(3))));
        assert_eq!(master_election.master(), Some(&address(3)));
    }

    #[test]
    fn l5_an_old_switch_of_another_master_does_not_keep_the_new_one_out() {
        let mut master_election = there_and_back();
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(3)));
        // A late message: the switch that led to the former master.
        assert!(!master_election.handle_switch(&sentinel(13), &switch(2, 1), at(3)));
        assert!(!master_election.handle_report(&sentinel(13), report(1, 5), 3, asked(at(4))));
        assert!(master_election.handle_report(&sentinel(11), report(2, 6), 3, asked(at(4))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_word_that_was_on_its_way_when_its_master_was_left_does_not_bring_it_back() {
        let mut master_election = settled();
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(2)));
        assert!(!master_election.handle_report(&sentinel(11), report(1, 4), 3, asked(at(1))));
        assert!(master_election.handle_report(&sentinel(11), report(2, 4), 3, asked(at(3))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn s1_sentinels_behind_one_address_do_not_take_each_others_switch_back() {
        let mut master_election = settled();
        assert!(master_election.handle_switch(&sentinel(11), &switch(1, 2), at(1)));
        assert!(
            !master_election.handle_report(&sentinel(12), report(1, 3), 1, asked(at(2))),
            "up to 2 s behind"
        );
        assert_eq!(master_election.master(), None);
        assert!(master_election.handle_report(&sentinel(12), report(2, 4), 1, asked(at(3))));
        assert_eq!(master_election.master(), Some(&address(2)));
    }

    #[test]
    fn l5_a_late_switch_of_a_sentinel_that_is_never_heard_again_ends_after_a_minute() {
        let mut master_election = there_and_back();
        assert!(master_election.handle_switch(&sentinel(13), &switch(1, 2), at(3)));
        // Too few of the known sentinels can be reached for a majority.
        assert!(!master_election.handle_report(&sentinel(12), report(1, 5), 9, asked(at(62))));
        assert!(master_election.handle_report(&sentinel(12), report(1, 5), 9, asked(at(63))));
        assert_eq!(master_election.master(), Some(&address(1)));
    }

    #[test]
    fn l6_the_words_of_sentinels_that_left_are_forgotten() {
        let mut master_election = settled();
        for sentinel in 0..100 {
            let now = at(100 + 10 * u64::from(sentinel));
            master_election.handle_report(&self::sentinel(20 + sentinel), report(1, 3), 3, asked(now));
        }
        assert_eq!(master_election.reports.len(), 2);
    }

    #[test]
    fn a_switch_of_another_master_changes_nothing() {
        let mut master_election = settled();
        assert!(!master_election.handle_switch(&sentinel(11), &switch(7, 8), at(1)));
        assert_eq!(master_election.master(), Some(&address(1)));
    }

    #[test]
    fn sentinels_that_were_set_up_anew_are_believed_once_most_of_them_agree() {
        let mut master_election = settled();
        assert!(
            !master_election.handle_report(&sentinel(11), report(5, 0), 3, asked(at(100))),
            "one of three"
        );
        assert!(master_election.handle_report(&sentinel(12), report(5, 0), 3, asked(at(101))));
        assert_eq!(master_election.master(), Some(&address(5)));
    }
}
