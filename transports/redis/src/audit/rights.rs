//! Which rights the user lacks: those that every lock needs, and those that some kinds need besides. The server is asked,
//! and touches no key for it.

use std::time::Duration;

use fred::bytes_utils::Str;
use futures_util::future::join_all;
use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
};

use super::texts::{literal, texts};
use crate::{
    config::{RedisConfig, RedisTopology},
    connection::{
        Connection,
        link::{Failure, Link},
    },
    wire::{
        arg::Arg,
        names::{
            channel_of, fair_deadlines, fair_line, fair_places, latch_channel, lock_channel, marker,
            permit_deadlines, read_timeout, semaphore_channel, token_counter, turn_channel,
        },
        reply,
        scripts::Script,
    },
};

/// Kinds of locks that need the same rights.
#[derive(Debug)]
pub(crate) struct Needs {
    /// The subject of the finding.
    pub(crate) subject: &'static str,
    /// Their name in a sentence.
    pub(crate) what: &'static str,
    script: Script,
    family: Family,
    /// The keys and channels of a lock, as the script takes them.
    names: fn(&LockKey) -> Vec<String>,
}

/// The missing rights of some kinds; at least one.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) needs: &'static Needs,
    pub(crate) rights: Vec<String>,
}

const READ_WRITE: Needs = Needs {
    subject: "read_write_rights",
    what: "read/write locks",
    script: Script::ReadWriteRights,
    family: Family::ReadWrite,
    names: |key| vec![key.on_server().to_owned(), channel_of(key), read_timeout(key, no_owner())],
};

const FAIR: Needs = Needs {
    subject: "fair_rights",
    what: "fair locks",
    script: Script::FairRights,
    family: Family::Fair,
    names: |key| {
        let lock = key.on_server();
        vec![fair_line(lock), fair_deadlines(lock), fair_places(lock), turn_channel(lock, no_owner())]
    },
};

const PERMITS: Needs = Needs {
    subject: "permit_rights",
    what: "permits that expire",
    script: Script::PermitRights,
    family: Family::Permits,
    names: |key| {
        let name = key.on_server();
        vec![name.to_owned(), channel_of(key), permit_deadlines(key), marker(name, "audit")]
    },
};

const COUNTERS: Needs = Needs {
    subject: "counter_rights",
    what: "semaphores and latches",
    script: Script::CounterRights,
    family: Family::Exclusive,
    names: |key| {
        let name = key.on_server();
        vec![name.to_owned(), marker(name, "audit"), semaphore_channel(name), latch_channel(name)]
    },
};

pub(crate) static ALL: [Needs; 4] = [READ_WRITE, FAIR, PERMITS, COUNTERS];

/// Asks for the rights of all kinds. A kind is not in the list if it lacks none, or if the server cannot tell.
pub(crate) async fn missing_of_kinds(connection: &Connection, name: &str, step: Duration) -> Vec<Missing> {
    let asked = ALL.iter().map(|needs| async move {
        let rights = ask(connection, needs, name, step).await?;
        (!rights.is_empty()).then_some(Missing { needs, rights })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn ask(connection: &Connection, needs: &Needs, name: &str, step: Duration) -> Option<Vec<String>> {
    let key = LockKey::with_family("", name, needs.family).ok()?;
    let mut args =
        vec![Arg::Text(needs.script.source().clone()), Arg::Number(0), literal(connection.publishes())];
    args.extend((needs.names)(&key).into_iter().map(|name| Arg::Text(Str::from(name))));
    ask_for_rights(connection, args, step).await
}

fn no_owner() -> Owner {
    Owner::new(Default::default(), 0)
}

/// Asks for the rights that every lock needs; `None`: the server cannot tell. Behind them the rights of fenced locks.
pub(crate) async fn missing_of_locks(
    connection: &Connection,
    config: &RedisConfig,
    name: &str,
    step: Duration,
) -> (Option<Vec<String>>, Vec<String>) {
    let in_cluster = Arg::Number(i64::from(config.topology == RedisTopology::Cluster));
    let text = |text: &str| Arg::Text(Str::from(text));
    let args = vec![
        Arg::Text(Script::Rights.source().clone()),
        Arg::Number(0),
        text(name),
        text(&lock_channel(name)),
        literal(connection.publishes()),
        in_cluster,
        text(&token_counter(name)),
    ];
    ask_for_rights(connection, args, step).await.map_or((None, Vec::new()), of_fenced_apart)
}

async fn ask_for_rights(connection: &Connection, args: Vec<Arg>, step: Duration) -> Option<Vec<String>> {
    match connection.link().request("EVAL", args, step).await {
        Ok(frame) => reply::array(&frame).map(|_| texts(&frame)),
        // The script checks all rights except the one to run it.
        Err(Failure::Refused(text)) if text.starts_with("NOPERM") => Some(vec!["+eval".to_owned()]),
        Err(_) => None,
    }
}

// The rights behind the word are those of fenced locks.
fn of_fenced_apart(mut missing: Vec<String>) -> (Option<Vec<String>>, Vec<String>) {
    let word = missing.iter().position(|right| right == "fenced").unwrap_or(missing.len());
    let fenced = missing.split_off(word).into_iter().skip(1).collect();
    (Some(missing), fenced)
}
