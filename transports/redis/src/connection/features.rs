//! The optional features of a cluster's server, beyond those of the oldest supported version. Each connection asks
//! for them once, and the configuration decides which are used.

use std::time::Duration;

use super::{
    batching::Batches,
    link::{Failure, Link},
};
use crate::{
    config::{Batching, NoticeKind, RedisConfig, RedisTopology},
    wire::arg::Arg,
};

/// The features that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// `SPUBLISH` and `SSUBSCRIBE`.
    pub(crate) sharded: bool,
    /// Scripts with keys of several slots.
    pub(crate) across_slots: Support,
}

/// The server's answer to a question about a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Support {
    Yes,
    No,
    /// The server refused to answer, for now or for good.
    #[default]
    Unknown,
}

/// The kinds of notices that a connection uses. At least one is `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) classic: bool,
    pub(crate) sharded: bool,
}

impl Features {
    /// Asks the server, with two commands at once. The result matters only on a cluster.
    ///
    /// # Errors
    /// The server does not answer, or the connection is lost.
    pub(crate) async fn probe(link: &impl Link, step: Duration) -> Result<Self, Failure> {
        let ask = |command, args: Vec<Arg>| async move {
            match link.request(command, args, step).await {
                Ok(_) => Ok(true),
                Err(Failure::Refused(text)) => Ok(is_withheld(&text) && command == "PUBSUB"),
                Err(failure) => Err(failure),
            }
        };
        let word = Arg::word;
        let (sharded, across_slots) =
            tokio::try_join!(ask("PUBSUB", vec![word("SHARDNUMSUB")]), may_span_slots(link, step))?;
        Ok(Self { sharded, across_slots })
    }

    pub(crate) fn kinds(self, config: &RedisConfig) -> Kinds {
        let (classic, sharded) = match config.notices {
            NoticeKind::Auto => (!self.sharded, self.sharded),
            NoticeKind::Classic => (true, false),
            NoticeKind::Sharded => (false, true),
            // Outside of a cluster a server publishes sharded notices too, if it knows them.
            NoticeKind::Both => (true, self.sharded),
        };
        Kinds { classic, sharded }
    }

    pub(crate) fn batches(self, config: &RedisConfig) -> Batches {
        match (config.batching, config.topology) {
            (Batching::BySlot, _) => Batches::BySlot,
            (Batching::Auto, RedisTopology::Single | RedisTopology::Sentinel) => Batches::Declared,
            (Batching::Auto, RedisTopology::Cluster) if self.across_slots == Support::Yes => {
                Batches::AcrossSlots
            }
            (Batching::Auto, RedisTopology::Cluster) => Batches::BySlot,
        }
    }

    /// Whether an answer would change how batches are sent, so that the server should be asked again.
    pub(crate) fn is_to_be_asked_again(self, config: &RedisConfig) -> bool {
        let decides = config.batching == Batching::Auto && config.topology == RedisTopology::Cluster;
        decides && self.across_slots == Support::Unknown
    }
}

/// Whether the server knows `PUBSUB SHARDNUMSUB` but does not allow it. Then sharded notices are used, and a
/// missing right is reported by name when it is needed. Since Redis 7 the refusal names the subcommand. Older
/// servers know neither the subcommand nor sharded notices.
fn is_withheld(refusal: &str) -> bool {
    refusal.starts_with("NOPERM") && refusal.contains("'pubsub|shardnumsub'")
}

impl Kinds {
    /// Returns the name of the kinds in the scripts.
    pub(crate) fn spelling(self) -> &'static str {
        match (self.classic, self.sharded) {
            (true, true) => "both",
            (false, true) => "spublish",
            (_, false) => "publish",
        }
    }
}

/// Asks the server whether a script may use keys of several slots.
///
/// # Errors
/// The server does not answer, or the connection is lost.
pub(crate) async fn may_span_slots(link: &impl Link, step: Duration) -> Result<Support, Failure> {
    let args = vec![Arg::word(ACROSS_SLOTS_PROBE), Arg::Number(0)];
    match link.request("EVAL", args, step).await {
        Ok(_) => Ok(Support::Yes),
        Err(Failure::Refused(text)) => Ok(support_from_refusal(&text)),
        Err(failure) => Err(failure),
    }
}

// Before Redis 7 the first line is not valid Lua. Since Redis 7 the flag may be unknown. Any other refusal has
// another cause.
fn support_from_refusal(text: &str) -> Support {
    let is_about_flags = text.contains("Unexpected flag") || text.contains("Error compiling script");
    if is_about_flags { Support::No } else { Support::Unknown }
}

/// The flags before the last one prevent refusals for what the server lacks at the moment: memory, replicas, a
/// disk, a master.
const ACROSS_SLOTS_PROBE: &str =
    "#!lua flags=no-writes,allow-oom,allow-stale,allow-cross-slot-keys\nreturn 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;

    const NEW: Features = Features { sharded: true, across_slots: Support::Yes };
    const OLD: Features = Features { sharded: false, across_slots: Support::No };

    fn cluster() -> RedisConfig {
        RedisConfig::cluster([Address::new("a", 1)])
    }

    #[test]
    fn notices_are_those_that_redisson_would_use() {
        let spelling =
            |features: Features, notices| features.kinds(&RedisConfig { notices, ..cluster() }).spelling();
        assert_eq!(spelling(NEW, NoticeKind::Auto), "spublish");
        assert_eq!(spelling(OLD, NoticeKind::Auto), "publish");
        assert_eq!(spelling(NEW, NoticeKind::Classic), "publish");
        assert_eq!(spelling(OLD, NoticeKind::Sharded), "spublish");
        assert_eq!(spelling(NEW, NoticeKind::Both), "both");
        assert_eq!(spelling(OLD, NoticeKind::Both), "publish");
    }

    #[test]
    fn only_a_server_that_names_the_subcommand_knows_it() {
        assert!(is_withheld("NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command"));
        assert!(is_withheld("NOPERM User app has no permissions to run the 'pubsub|shardnumsub' command"));
        assert!(!is_withheld(
            "NOPERM this user has no permissions to run the 'pubsub' command or its subcommand"
        ));
        assert!(!is_withheld("ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'"));
    }

    #[test]
    fn only_a_refusal_of_the_flags_is_a_no() {
        for (text, expected) in [
            ("ERR Unexpected flag in script shebang: allow-cross-slot-keys", Support::No),
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#' ",
                Support::No,
            ),
            ("NOREPLICAS Not enough good replicas to write.", Support::Unknown),
            ("BUSY Redis is busy running a script.", Support::Unknown),
            (
                "ERR for redis cluster, eval/evalsha number of keys can't be negative or zero",
                Support::Unknown,
            ),
        ] {
            assert_eq!(support_from_refusal(text), expected, "{text}");
        }
        let unknown = Features { across_slots: Support::Unknown, ..NEW };
        assert!(unknown.is_to_be_asked_again(&cluster()) && !OLD.is_to_be_asked_again(&cluster()));
        assert!(!unknown.is_to_be_asked_again(&RedisConfig::single("a", 1)));
        assert_eq!(unknown.batches(&cluster()), Batches::BySlot);
    }

    #[test]
    fn batches_go_across_slots_where_the_server_can() {
        assert_eq!(NEW.batches(&cluster()), Batches::AcrossSlots);
        assert_eq!(OLD.batches(&cluster()), Batches::BySlot);
        assert_eq!(OLD.batches(&RedisConfig::single("a", 1)), Batches::Declared);
        assert_eq!(NEW.batches(&RedisConfig { batching: Batching::BySlot, ..cluster() }), Batches::BySlot);
    }
}
