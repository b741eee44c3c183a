//! The set of known sentinels. Pure; `now` is passed in.
//!
//! Configured sentinels are always in the set. Other sentinels are learned from the lists that sentinels return.
//! Such a sentinel is removed when for `FORGOTTEN_AFTER` every list has left it out and no connection to it was
//! open. The reason: a restarted pod has a new address, and a dead entry must neither take the place of a live
//! sentinel nor count for a majority. If no sentinel returns a list, none is removed. If the set is full, a new
//! sentinel replaces the one that was out of reach for longest. So dead sentinels that stay in the lists (until
//! `SENTINEL RESET`) do not block new ones either.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use leasehold::clock::Instant;

use super::master_election::SentinelId;
use crate::config::Address;

/// The sentinels that are monitored.
#[derive(Debug, Default)]
pub(crate) struct SentinelSet {
    members: HashMap<Address, Member>,
}

#[derive(Clone, Debug)]
struct Member {
    is_configured: bool,
    /// Since when there is no connection to it. `None` while one is open.
    unreachable_since: Option<Instant>,
    /// Since when every list has left it out.
    unlisted_since: Option<Instant>,
    /// The sentinel that has answered at this address.
    id: Option<SentinelId>,
}

/// The sentinels that were added, and those that were removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SentinelChanges {
    pub(crate) added: Vec<Address>,
    pub(crate) removed: Vec<Address>,
}

impl SentinelSet {
    /// Starts with the configured sentinels.
    pub(crate) fn configured(addresses: &[Address], now: Instant) -> Self {
        let member =
            Member { is_configured: true, unreachable_since: Some(now), unlisted_since: None, id: None };
        Self { members: addresses.iter().map(|address| (address.clone(), member.clone())).collect() }
    }

    /// Returns the number of sentinels. A sentinel that is known under two addresses counts once.
    pub(crate) fn count(&self) -> usize {
        let ids: HashSet<_> = self.members.values().filter_map(|member| member.id.as_ref()).collect();
        ids.len() + self.members.values().filter(|member| member.id.is_none()).count()
    }

    /// Takes in the list of other sentinels that `by` has returned.
    pub(crate) fn handle_list(&mut self, by: &Address, named: &[Address], now: Instant) -> SentinelChanges {
        for (address, member) in &mut self.members {
            let is_named = address == by || named.contains(address);
            let since = member.unlisted_since.unwrap_or(now);
            member.unlisted_since = (!is_named).then_some(since);
        }
        let mut changes = SentinelChanges { removed: self.forget(now), added: Vec::new() };
        for address in named {
            self.add(address, now, &mut changes);
        }
        changes
    }

    fn forget(&mut self, now: Instant) -> Vec<Address> {
        let is_over = |since: Option<Instant>| since.is_some_and(|since| since + FORGOTTEN_AFTER <= now);
        let is_gone = |member: &Member| {
            !member.is_configured && is_over(member.unlisted_since) && is_over(member.unreachable_since)
        };
        let members = self.members.iter().filter(|(_, member)| is_gone(member));
        let gone: Vec<Address> = members.map(|(address, _)| address.clone()).collect();
        self.members.retain(|_, member| !is_gone(member));
        gone
    }

    fn add(&mut self, address: &Address, now: Instant, changes: &mut SentinelChanges) {
        if self.members.contains_key(address) || !self.make_room(now, changes) {
            return;
        }
        let member =
            Member { is_configured: false, unreachable_since: Some(now), unlisted_since: None, id: None };
        self.members.insert(address.clone(), member);
        changes.added.push(address.clone());
    }

    fn make_room(&mut self, now: Instant, changes: &mut SentinelChanges) -> bool {
        if self.members.len() < SENTINELS_MAX {
            return true;
        }
        let Some(dead) = self.longest_unreachable(now) else { return false };
        self.members.remove(&dead);
        changes.removed.push(dead);
        true
    }

    fn longest_unreachable(&self, now: Instant) -> Option<Address> {
        let unreachable = self.members.iter().filter(|(_, member)| !member.is_configured);
        let unreachable =
            unreachable.filter_map(|(address, member)| Some((member.unreachable_since?, address)));
        let (since, address) = unreachable.min()?;
        (since + FORGOTTEN_AFTER <= now).then(|| address.clone())
    }

    /// Takes in that a connection to `address` is open, and that sentinel `id` answers on it. Returns `false` if
    /// the connection is not needed, because another address already reaches the same sentinel.
    pub(crate) fn reached(&mut self, address: &Address, id: &SentinelId) -> bool {
        let is_first = !self.is_reached(id);
        if let Some(member) = self.members.get_mut(address) {
            member.id = Some(id.clone());
            member.unreachable_since = member.unreachable_since.filter(|_| !is_first);
        }
        is_first
    }

    /// Whether a connection to this sentinel is open.
    pub(crate) fn is_reached(&self, id: &SentinelId) -> bool {
        self.members
            .values()
            .any(|member| member.unreachable_since.is_none() && member.id.as_ref() == Some(id))
    }

    /// Takes in that the connection to this address has ended.
    pub(crate) fn lost(&mut self, sentinel: &Address, now: Instant) {
        if let Some(member) = self.members.get_mut(sentinel) {
            member.unreachable_since = Some(now);
        }
    }
}

/// Longer than several polls: a sentinel that was set up again returns an empty list at first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
/// More than any deployment has. A list that goes beyond this number is wrong.
const SENTINELS_MAX: usize = 64;

#[cfg(test)]
mod random_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn address(number: u16) -> Address {
        Address::new("s", number)
    }

    fn addresses(numbers: std::ops::RangeInclusive<u16>) -> Vec<Address> {
        numbers.map(address).collect()
    }

    /// Sentinel 1 is configured, 2 and 3 were learned from it, and all of them were reached.
    fn three() -> SentinelSet {
        let mut sentinel_set = SentinelSet::configured(&[address(1)], at(0));
        let changes = sentinel_set.handle_list(&address(1), &addresses(2..=3), at(0));
        assert_eq!(changes.added, addresses(2..=3));
        for sentinel in addresses(1..=3) {
            assert!(sentinel_set.reached(&sentinel, &(&sentinel).into()));
        }
        sentinel_set
    }

    #[test]
    fn l6_who_is_named_by_nobody_and_out_of_reach_is_forgotten() {
        let mut sentinel_set = three();
        sentinel_set.lost(&address(3), at(1));
        assert_eq!(sentinel_set.handle_list(&address(1), &[address(2)], at(2)), SentinelChanges::default());
        assert_eq!(sentinel_set.handle_list(&address(2), &[address(1)], at(31)), SentinelChanges::default());
        let changes = sentinel_set.handle_list(&address(1), &[address(2)], at(32));
        assert_eq!((changes.removed, sentinel_set.count()), (vec![address(3)], 2));
        assert_eq!(
            sentinel_set.handle_list(&address(1), &[address(3)], at(33)).added,
            [address(3)],
            "it is back"
        );
    }

    #[test]
    fn who_is_named_by_anybody_can_be_reached_or_is_configured_stays() {
        let mut sentinel_set = three();
        sentinel_set.lost(&address(1), at(1));
        sentinel_set.lost(&address(3), at(1));
        for second in (2..100).step_by(5) {
            // One sentinel names 3, the other does not. None names the configured sentinel, or 2.
            sentinel_set.handle_list(&address(4), &[address(3)], at(second));
            sentinel_set.handle_list(&address(5), &[], at(second + 1));
        }
        assert_eq!(sentinel_set.count(), 3);
    }

    #[test]
    fn nobody_is_forgotten_while_nobody_says_anything() {
        let mut sentinel_set = three();
        addresses(1..=3).iter().for_each(|sentinel| sentinel_set.lost(sentinel, at(1)));
        assert_eq!(sentinel_set.handle_list(&address(1), &[], at(1_000)), SentinelChanges::default());
        assert_eq!(sentinel_set.handle_list(&address(1), &[], at(1_010)), SentinelChanges::default());
    }

    #[test]
    fn a_sentinel_with_two_addresses_is_listened_to_once() {
        let mut sentinel_set = three();
        let id = SentinelId::from(&address(2));
        sentinel_set.handle_list(&address(1), &[address(2), address(3), address(4)], at(1));
        assert_eq!(sentinel_set.count(), 4);
        assert!(!sentinel_set.reached(&address(4), &id), "the same as 2");
        assert_eq!(sentinel_set.count(), 3);
        sentinel_set.lost(&address(4), at(2));
        assert!(sentinel_set.is_reached(&id), "2 stands");
        sentinel_set.lost(&address(2), at(3));
        assert!(!sentinel_set.is_reached(&id) && sentinel_set.reached(&address(4), &id));
    }

    #[test]
    fn l6_the_dead_that_are_named_for_ever_leave_their_places_to_newcomers() {
        let mut sentinel_set = three();
        let all = addresses(2..=200);
        assert_eq!(sentinel_set.handle_list(&address(1), &all, at(1)).added.len(), SENTINELS_MAX - 3);
        assert_eq!(
            sentinel_set.handle_list(&address(1), &all, at(2)),
            SentinelChanges::default(),
            "each has its time"
        );
        let changes = sentinel_set.handle_list(&address(1), &all, at(31));
        assert_eq!((changes.removed.len(), changes.added.len()), (SENTINELS_MAX - 3, SENTINELS_MAX - 3));
        assert_eq!(sentinel_set.count(), SENTINELS_MAX);
    }
}
