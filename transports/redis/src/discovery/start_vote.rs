//! Chooses the master when a lane is opened, from the replies of the configured sentinels so far. Pure.
//!
//! A majority of the sentinels decides a failover. So among the replies of a majority, the one with the highest
//! configuration epoch is the latest. The replies of a minority may be old: a sentinel that was restarted reports
//! the master in its old configuration file until another sentinel contacts it, and a sentinel behind a partition
//! reports the old master until the partition ends. So a minority decides only after the command timeout, once
//! every other sentinel has failed or refused for good. (A remote sentinel is asked for longer than that timeout,
//! because its connection takes several round trips.) A sentinel that answers under two addresses counts once.

use std::collections::HashSet;

use leasehold::{clock::Instant, transport::TransportError};

use super::{errors::most_helpful, master_election::SentinelId};
use crate::{config::Address, wire::sentinel::MasterReport};

/// One sentinel's reply about the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentinelReply {
    pub(crate) by: Address,
    pub(crate) id: SentinelId,
    pub(crate) report: MasterReport,
    /// When the sentinel was asked, and when its reply had arrived.
    pub(crate) moments: (Instant, Instant),
}

/// The replies of the configured sentinels.
#[derive(Debug)]
pub(crate) struct StartVote {
    configured: usize,
    replies: Vec<SentinelReply>,
    refused: usize,
    failed: Vec<(Address, TransportError)>,
}

/// Whether the replies are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not yet.
    Open,
    /// A majority of the sentinels has named the master.
    Decided,
    /// A minority has named the master, and no other sentinel has done so in time.
    DecidedByMinority,
    /// Every sentinel was asked, and none has named the master.
    Failed,
}

impl StartVote {
    pub(crate) fn of(configured: usize) -> Self {
        Self { configured, replies: Vec::new(), refused: 0, failed: Vec::new() }
    }

    pub(crate) fn record(&mut self, reply: SentinelReply) {
        self.failed.retain(|(sentinel, _)| *sentinel != reply.by);
        self.replies.push(reply);
    }

    /// Records that a sentinel has not named the master. Returns whether to ask it again.
    pub(crate) fn fail(&mut self, sentinel: &Address, error: TransportError) -> bool {
        let is_final = error.kind.is_final();
        self.refused += usize::from(is_final);
        self.failed.retain(|(other, _)| other != sentinel);
        self.failed.push((sentinel.clone(), error));
        !is_final
    }

    /// Returns whether the replies are enough. `is_over`: the time for the other sentinels is over.
    pub(crate) fn verdict(&self, is_over: bool) -> Verdict {
        let (replies, failed) = (self.replies.len(), self.failed.len());
        let done = if is_over { replies + failed } else { replies + self.refused };
        match replies {
            _ if self.distinct_sentinels() * 2 > self.configured => Verdict::Decided,
            0 if failed == self.configured => Verdict::Failed,
            0 => Verdict::Open,
            _ if done == self.configured => Verdict::DecidedByMinority,
            _ => Verdict::Open,
        }
    }

    fn distinct_sentinels(&self) -> usize {
        self.replies.iter().map(|reply| &reply.id).collect::<HashSet<_>>().len()
    }

    /// Returns how many configured sentinels have not named the master.
    pub(crate) fn silent(&self) -> usize {
        self.configured - self.replies.len()
    }

    /// Returns all replies, the highest epoch first. The others are older.
    pub(crate) fn into_replies(mut self) -> Vec<SentinelReply> {
        self.replies.sort_by_key(|reply| std::cmp::Reverse(reply.report.epoch));
        self.replies
    }

    /// Returns the error if no sentinel has named the master.
    pub(crate) fn into_error(self) -> Option<TransportError> {
        most_helpful(self.failed.into_iter().map(|(_, error)| error))
    }
}

#[cfg(test)]
mod tests {
    use leasehold::transport::ErrorKind;

    use super::*;

    fn address(port: u16) -> Address {
        Address::new("h", port)
    }

    fn reply(by: u16, master: u16, epoch: u64) -> SentinelReply {
        let report = MasterReport { address: address(master), epoch };
        SentinelReply {
            by: address(by),
            id: (&address(by)).into(),
            report,
            moments: (Instant::default(), Instant::default()),
        }
    }

    fn error(kind: ErrorKind) -> TransportError {
        TransportError::without_effect(kind, None, "no")
    }

    #[test]
    fn most_sentinels_decide_and_the_highest_epoch_comes_first() {
        let mut start_vote = StartVote::of(3);
        assert_eq!(start_vote.verdict(false), Verdict::Open);
        start_vote.record(reply(11, 1, 1));
        assert_eq!(start_vote.verdict(false), Verdict::Open, "one of three may be old");
        start_vote.record(reply(12, 2, 2));
        assert_eq!(start_vote.verdict(false), Verdict::Decided);
        assert_eq!(start_vote.into_replies()[0].report.address, address(2));
    }

    #[test]
    fn two_of_four_are_not_most() {
        let mut start_vote = StartVote::of(4);
        start_vote.record(reply(11, 1, 1));
        start_vote.record(reply(12, 1, 1));
        assert_eq!((start_vote.verdict(false), start_vote.silent()), (Verdict::Open, 2));
        for silent in [13, 14] {
            start_vote.fail(&address(silent), error(ErrorKind::TimedOut));
        }
        assert_eq!(start_vote.verdict(true), Verdict::DecidedByMinority);
    }

    #[test]
    fn fewer_decide_once_the_others_have_had_their_time_or_have_refused_for_good() {
        let mut start_vote = StartVote::of(3);
        start_vote.record(reply(11, 1, 1));
        assert!(start_vote.fail(&address(12), error(ErrorKind::Unreachable)), "it may start at this moment");
        assert!(!start_vote.fail(&address(13), error(ErrorKind::Denied)));
        assert_eq!(start_vote.verdict(false), Verdict::Open);
        assert_eq!(start_vote.verdict(true), Verdict::DecidedByMinority);
        start_vote.fail(&address(12), error(ErrorKind::Misconfigured));
        assert_eq!(start_vote.verdict(false), Verdict::DecidedByMinority);
    }

    #[test]
    fn a_sentinel_that_is_still_being_asked_is_waited_for() {
        let mut start_vote = StartVote::of(3);
        start_vote.record(reply(11, 1, 1));
        start_vote.fail(&address(12), error(ErrorKind::Unreachable));
        assert_eq!(start_vote.verdict(true), Verdict::Open, "it may be far");
        start_vote.fail(&address(13), error(ErrorKind::TimedOut));
        assert_eq!(
            (start_vote.verdict(false), start_vote.verdict(true)),
            (Verdict::Open, Verdict::DecidedByMinority)
        );
    }

    #[test]
    fn a_sentinel_under_two_addresses_has_one_voice() {
        let mut start_vote = StartVote::of(3);
        let id = SentinelId::of_run("a");
        start_vote.record(SentinelReply { id: id.clone(), ..reply(11, 1, 1) });
        start_vote.record(SentinelReply { id, ..reply(12, 1, 1) });
        assert_eq!(start_vote.verdict(false), Verdict::Open);
        start_vote.record(reply(13, 2, 2));
        assert_eq!(start_vote.verdict(false), Verdict::Decided);
        let mut complete = StartVote::of(1);
        complete.record(reply(11, 1, 1));
        assert_eq!(complete.verdict(false), Verdict::Decided);
    }

    #[test]
    fn without_any_word_it_fails_when_each_was_asked_and_not_before() {
        let mut start_vote = StartVote::of(2);
        start_vote.fail(&address(11), error(ErrorKind::Denied));
        assert_eq!(start_vote.verdict(true), Verdict::Open, "the other may answer");
        start_vote.fail(&address(12), error(ErrorKind::TimedOut));
        assert_eq!(start_vote.verdict(false), Verdict::Failed);
        assert_eq!(start_vote.into_error().map(|error| error.kind), Some(ErrorKind::TimedOut));
    }
}
