//! What a server holds: the locks on it, and what should not be left there at the end of a test.

use std::io;
use std::time::Duration;

use crate::harness::checkers::ServerLock;
use crate::harness::polling::holds_within;
use crate::harness::raw_client::RawClient;
use crate::harness::resp::Value;

/// Something that is still on a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    /// A key of any type.
    Key {
        /// Its name.
        name: String,
        /// As `PTTL` says: milliseconds, or -1 for a key without expiry.
        pttl_ms: i64,
    },
    /// A channel that somebody is subscribed to, classic or sharded.
    Channel(String),
}

/// All keys and channels of the server on this port. Keys whose time is over may still be listed for a moment.
///
/// # Errors
/// When the server does not answer, or wants a password: then ask [`leftovers_seen_by`].
pub fn leftovers(port: u16) -> io::Result<Vec<Leftover>> {
    leftovers_seen_by(&mut RawClient::connect(port)?)
}

/// All keys and channels, asked over a connection that is logged in. The token counters of fenced locks are not told:
/// they stay for good.
///
/// # Errors
/// When the server does not answer or refuses `KEYS` or `PUBSUB`.
pub fn leftovers_seen_by(client: &mut RawClient) -> io::Result<Vec<Leftover>> {
    let mut left = Vec::new();
    let keys = names(client, &["KEYS", "*"])?;
    for name in keys.into_iter().filter(|name| !name.starts_with("redisson_lock_token:")) {
        // -2: it has expired since.
        match pttl_ms(client, &name)? {
            -2 => {}
            pttl_ms => left.push(Leftover::Key { name, pttl_ms }),
        }
    }
    let classic = names(client, &["PUBSUB", "CHANNELS"])?;
    // Servers before 7.0 know no sharded channels.
    let sharded = names(client, &["PUBSUB", "SHARDCHANNELS"]).unwrap_or_default();
    left.extend(classic.into_iter().chain(sharded).map(Leftover::Channel));
    left.sort();
    Ok(left)
}

/// Whether nothing is left on the server at the latest after `within`. A server that does not answer is not empty.
#[must_use]
pub fn settles_empty(port: u16, within: Duration) -> bool {
    holds_within(within, || leftovers(port).is_ok_and(|left| left.is_empty()))
}

/// Every hash on the server, as locks are.
///
/// # Errors
/// When the server does not answer.
pub fn locks(client: &mut RawClient) -> io::Result<Vec<ServerLock>> {
    let mut locks = Vec::new();
    for name in names(client, &["KEYS", "*"])? {
        // Any other type answers WRONGTYPE, which has no members; an expired key has none either.
        let fields = client.command(&["HKEYS", &name])?.texts();
        let pttl_ms = pttl_ms(client, &name)?;
        if !fields.is_empty() && pttl_ms != -2 {
            locks.push(ServerLock { name, pttl_ms, fields });
        }
    }
    Ok(locks)
}

fn names(client: &mut RawClient, command: &[&str]) -> io::Result<Vec<String>> {
    match client.command(command)? {
        answer @ Value::Array(_) => Ok(answer.texts()),
        other => Err(io::Error::other(format!("{command:?} answered {other:?}"))),
    }
}

fn pttl_ms(client: &mut RawClient, name: &str) -> io::Result<i64> {
    let answer = client.command(&["PTTL", name])?;
    answer.integer().ok_or_else(|| io::Error::other(format!("PTTL answered {answer:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::redis_server::RedisServer;

    #[test]
    fn keys_and_channels_are_seen() {
        let server = RedisServer::start().expect("a server");
        let mut client = server.client().expect("a connection");
        let mut listener = server.client().expect("a connection");
        client.command(&["SET", "counter", "1"]).expect("a reply");
        listener.command(&["SUBSCRIBE", "c"]).expect("a reply");
        listener.command(&["SSUBSCRIBE", "s"]).expect("a reply");
        let key = Leftover::Key { name: "counter".into(), pttl_ms: -1 };
        let expected = [key, Leftover::Channel("c".into()), Leftover::Channel("s".into())];
        assert_eq!(leftovers(server.port()).expect("a table"), expected);
    }

    #[test]
    fn a_server_settles_when_its_keys_expire_and_its_listeners_leave() {
        let server = RedisServer::start().expect("a server");
        let mut client = server.client().expect("a connection");
        client.command(&["SET", "k", "v", "PX", "60"]).expect("a reply");
        let mut listener = server.client().expect("a connection");
        listener.command(&["SUBSCRIBE", "c"]).expect("a reply");
        assert!(!settles_empty(server.port(), Duration::ZERO));
        drop(listener);
        assert!(settles_empty(server.port(), Duration::from_secs(5)));
    }

    #[test]
    fn a_server_that_is_gone_is_not_empty() {
        let mut server = RedisServer::start().expect("a server");
        server.kill().expect("killed");
        assert!(!settles_empty(server.port(), Duration::ZERO));
    }

    #[test]
    fn only_hashes_are_locks() {
        let server = RedisServer::start().expect("a server");
        let mut client = server.client().expect("a connection");
        client.command(&["HSET", "lock", "owner:1", "1"]).expect("a reply");
        client.command(&["SET", "counter", "1"]).expect("a reply");
        let expected = ServerLock { name: "lock".into(), pttl_ms: -1, fields: vec!["owner:1".into()] };
        assert_eq!(locks(&mut client).expect("a table"), [expected]);
    }
}
