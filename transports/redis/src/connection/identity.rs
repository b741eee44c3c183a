//! The current run of a server, as an epoch. Pure.
//!
//! All lanes share one identity per node. The epoch rises with every change of the run id and with every loss of
//! the master role. If the server does not report its run id (a proxy, a missing right), the epoch rises with every
//! loss of a connection of the current epoch, because such a loss cannot be told apart from a restart. A connection
//! of an older epoch must be closed. A connection that was closed *because* it was outdated does not raise the
//! epoch, so two lanes cannot trigger each other for ever.
//!
//! A server that has lost its role is not asked for one second. By then the routes usually name its successor, and
//! it is not asked again at all. If nothing names a successor, it is asked after that second.

use std::time::Duration;

use leasehold::{clock::Instant, routing::topology::UpSince};

/// What the handshake of a new connection has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The server's run id, if it reports one.
    pub(crate) run_id: Option<String>,
    /// `uptime_in_seconds`, if the server reports it.
    pub(crate) uptime: Option<Duration>,
}

/// The current run of a node.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    epoch: u32,
    master: bool,
    demoted_at: Option<Instant>,
    run_id: Option<String>,
    up_since: Option<UpSince>,
}

/// The current run, as a connection takes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) epoch: u32,
    pub(crate) up_since: Option<UpSince>,
}

impl Identity {
    /// Takes in the findings of a connection to a master, whose handshake ended at `now`.
    pub(crate) fn adopt(&mut self, findings: Findings, now: Instant) -> Run {
        let first = self.epoch == 0;
        if first || findings.run_id != self.run_id {
            self.epoch += 1;
            // We have seen the change ourselves, so the server is up since now, whatever its uptime says.
            self.up_since = if first { None } else { Some(now.into()) };
        }
        self.run_id = findings.run_id;
        self.reinstated();
        self.master = true;
        self.up_since = self.up_since.or(findings.uptime.map(|uptime| started(now, uptime)));
        Run { epoch: self.epoch, up_since: self.up_since }
    }

    /// Takes in the loss of a connection of this epoch. Returns whether that raised the epoch.
    pub(crate) fn lost(&mut self, epoch: u32, now: Instant) -> bool {
        let restarted = epoch == self.epoch && self.run_id.is_none();
        if restarted {
            self.epoch += 1;
            self.up_since = Some(now.into());
        }
        restarted
    }

    /// Takes in that the server has another role than master, so its data may be replaced. Returns whether that
    /// raised the epoch.
    pub(crate) fn demoted(&mut self, now: Instant) -> bool {
        let demoted = std::mem::take(&mut self.master);
        if demoted {
            self.epoch += 1;
            (self.up_since, self.demoted_at) = (Some(now.into()), Some(now));
        }
        demoted
    }

    /// Takes in that the server is named as a master again, which ends the pause after a lost role.
    pub(crate) fn reinstated(&mut self) {
        self.demoted_at = None;
    }

    /// Until this moment a server that lost its role is not asked.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.demoted_at.map(|at| at + DEMOTED_PAUSE)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// A server reports its uptime, and may have been started before this machine. The value in `INFO` is cut to whole
/// seconds and a moment old. So one second is subtracted, which errs towards a later start.
fn started(now: Instant, uptime: Duration) -> UpSince {
    UpSince::told(uptime.saturating_sub(Duration::from_secs(1)), now)
}

/// Far above the time in which a cluster or its sentinels report a finished failover, including the time to ask
/// them.
const DEMOTED_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn run(id: &str, uptime: u64) -> Findings {
        Findings { run_id: Some(id.into()), uptime: Some(Duration::from_secs(uptime)) }
    }

    #[test]
    fn the_same_run_keeps_its_epoch_over_reconnects() {
        let mut identity = Identity::default();
        let first = identity.adopt(run("a", 10), at(100));
        assert_eq!(first, Run { epoch: 1, up_since: Some(UpSince::told(Duration::from_secs(9), at(100))) });
        assert!(!identity.lost(1, at(105)));
        assert_eq!(identity.adopt(run("a", 16), at(106)), first);
    }

    #[test]
    fn a_server_may_be_up_since_before_this_machine() {
        let run = Identity::default().adopt(run("a", 8_640_000), at(20));
        let uptime = run.up_since.expect("it was told").uptime(at(25));
        assert_eq!(uptime, Duration::from_secs(8_640_000 - 1 + 5));
    }

    #[test]
    fn a_new_run_is_up_since_we_saw_it() {
        let mut identity = Identity::default();
        identity.adopt(run("a", 10), at(100));
        // After a step of its wall clock a server may report any uptime.
        assert_eq!(
            identity.adopt(run("b", 5_000), at(200)),
            Run { epoch: 2, up_since: Some(at(200).into()) }
        );
        assert_eq!(
            identity.adopt(run("b", 5_003), at(203)),
            Run { epoch: 2, up_since: Some(at(200).into()) }
        );
    }

    #[test]
    fn a_server_without_run_id_is_new_after_every_loss_and_lanes_do_not_chase_each_other() {
        let mut identity = Identity::default();
        let unknown = Findings::default();
        assert_eq!(identity.adopt(unknown.clone(), at(1)), Run { epoch: 1, up_since: None });
        assert_eq!(identity.adopt(unknown.clone(), at(1)).epoch, 1);
        assert!(identity.lost(1, at(2)));
        // The other lane's connection is closed because it is outdated. That is not another loss.
        assert!(!identity.lost(1, at(2)));
        assert_eq!(identity.adopt(unknown.clone(), at(3)), Run { epoch: 2, up_since: Some(at(2).into()) });
        assert_eq!(identity.adopt(unknown, at(3)).epoch, 2);
    }

    #[test]
    fn a_lost_role_is_a_new_epoch_once() {
        let mut identity = Identity::default();
        identity.adopt(run("a", 10), at(100));
        assert!(identity.demoted(at(110)));
        assert!(!identity.demoted(at(111)));
        assert_eq!(identity.adopt(run("a", 30), at(120)), Run { epoch: 2, up_since: Some(at(110).into()) });
    }

    #[test]
    fn l5_who_has_lost_its_role_is_left_alone_until_it_is_named_again_or_for_a_second() {
        let mut identity = Identity::default();
        identity.demoted(at(99));
        assert_eq!(identity.paused_until(), None, "it was none");
        for is_named in [true, false] {
            identity.adopt(run("a", 10), at(100));
            assert_eq!(identity.paused_until(), None);
            identity.demoted(at(110));
            identity.demoted(at(111));
            assert_eq!(identity.paused_until(), Some(at(111)), "a second after it was seen first");
            if is_named {
                identity.reinstated();
            } else {
                identity.adopt(run("a", 30), at(120));
            }
            assert_eq!(identity.paused_until(), None);
        }
    }
}
