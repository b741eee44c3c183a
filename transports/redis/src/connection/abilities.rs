//! What a server of a cluster can do beyond the oldest version: asked once per connection, and decided together with
//! the configuration. Pure but for the asking.

use std::time::Duration;

use fred::types::Value;
use leasehold::routing::topology;

use super::link::{Failure, Link};
use crate::config::{Batching, NoticeKind, RedisConfig, RedisTopology};

/// What the server was found to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// SPUBLISH and SSUBSCRIBE.
    pub(crate) sharded: bool,
    /// Scripts over keys of several slots.
    pub(crate) across_slots: bool,
}

/// Which kinds of notices are in use on a connection; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) classic: bool,
    pub(crate) sharded: bool,
}

/// How a connection renews many locks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    /// All keys declared, whatever their slots: there is no cluster.
    Declared,
    /// Keys of many slots in one script that declares none.
    AcrossSlots,
    /// One script for each slot.
    BySlot,
}

impl Abilities {
    /// Asks the server. Two commands, at once; only of use on a cluster.
    pub(crate) async fn probe(link: &Link, step: Duration) -> Result<Self, Failure> {
        let ask = |command, args: Vec<Value>| async move {
            match link.request(command, 0, args, step).await {
                Ok(_) => Ok(true),
                Err(Failure::Refused(text)) => Ok(is_withheld(&text) && command == "PUBSUB"),
                Err(failure) => Err(failure),
            }
        };
        let word = Value::from_static_str;
        let (sharded, across_slots) = tokio::try_join!(
            ask("PUBSUB", vec![word("SHARDNUMSUB")]),
            ask("EVAL", vec![word(ACROSS_SLOTS_PROBE), Value::Integer(0)]),
        )?;
        Ok(Self { sharded, across_slots })
    }

    pub(crate) fn kinds(self, config: &RedisConfig) -> Kinds {
        let (classic, sharded) = match config.notices {
            NoticeKind::Auto => (!self.sharded, self.sharded),
            NoticeKind::Classic => (true, false),
            NoticeKind::Sharded => (false, true),
            // Outside of a cluster a server tells the sharded ones too, if it knows them.
            NoticeKind::Both => (true, self.sharded),
        };
        Kinds { classic, sharded }
    }

    pub(crate) fn batches(self, config: &RedisConfig) -> Batches {
        match (config.batching, config.topology) {
            (Batching::BySlot, _) => Batches::BySlot,
            (Batching::Auto, RedisTopology::Single | RedisTopology::Sentinel) => Batches::Declared,
            (Batching::Auto, RedisTopology::Cluster) if self.across_slots => Batches::AcrossSlots,
            (Batching::Auto, RedisTopology::Cluster) => Batches::BySlot,
        }
    }
}

/// Whether the server knows `PUBSUB SHARDNUMSUB` and withholds it: then the right is missed when it is needed, with its
/// name. Servers since Redis 7 name the subcommand that is not allowed; before, they know neither it nor its kind.
fn is_withheld(refusal: &str) -> bool {
    refusal.starts_with("NOPERM") && refusal.contains("'pubsub|shardnumsub'")
}

impl Kinds {
    /// As the scripts spell it.
    pub(crate) fn spelling(self) -> &'static str {
        match (self.classic, self.sharded) {
            (true, true) => "both",
            (false, true) => "spublish",
            (_, false) => "publish",
        }
    }
}

impl Batches {
    /// As the engine needs to know it.
    pub(crate) fn for_engine(self) -> topology::Batching {
        match self {
            Self::Declared | Self::AcrossSlots => topology::Batching::AcrossSlots,
            Self::BySlot => topology::Batching::BySlot,
        }
    }
}

const ACROSS_SLOTS_PROBE: &str = "#!lua flags=allow-cross-slot-keys\nreturn 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;

    const NEW: Abilities = Abilities { sharded: true, across_slots: true };
    const OLD: Abilities = Abilities { sharded: false, across_slots: false };

    fn cluster() -> RedisConfig {
        RedisConfig::cluster([Address::new("a", 1)])
    }

    #[test]
    fn notices_are_those_that_redisson_would_use() {
        let spelling =
            |abilities: Abilities, notices| abilities.kinds(&RedisConfig { notices, ..cluster() }).spelling();
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
    fn batches_go_across_slots_where_the_server_can() {
        assert_eq!(NEW.batches(&cluster()), Batches::AcrossSlots);
        assert_eq!(OLD.batches(&cluster()), Batches::BySlot);
        assert_eq!(OLD.batches(&RedisConfig::single("a", 1)), Batches::Declared);
        assert_eq!(NEW.batches(&RedisConfig { batching: Batching::BySlot, ..cluster() }), Batches::BySlot);
    }
}
