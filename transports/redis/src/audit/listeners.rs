//! Which channels of locks have listeners that hear nothing: on a cluster a notice is of one kind, and a client of Redisson may
//! listen for the other one.

use std::time::Duration;

use super::texts::{literal, texts};
use crate::{
    config::{RedisConfig, RedisTopology},
    connection::{
        Connection,
        link::{Failure, Link},
    },
    wire::names,
};

/// On how many channels of locks whose names begin with the prefix clients listen at this server for notices of a kind that is
/// not published. `None`: the server does not tell.
pub(super) async fn that_hear_nothing(
    connection: &Connection,
    config: &RedisConfig,
    name_prefix: &str,
    step: Duration,
) -> Option<usize> {
    let question = match connection.publishes() {
        "spublish" => "CHANNELS",
        "publish" if config.topology == RedisTopology::Cluster => "SHARDCHANNELS",
        _ => return Some(0),
    };
    let args = vec![literal(question), literal("redisson_*")];
    match connection.link().request("PUBSUB", args, step).await {
        Ok(channels) => {
            let channels = texts(&channels);
            Some(channels.iter().filter(|channel| names::is_channel(channel, name_prefix)).count())
        }
        Err(Failure::Refused(text)) if !text.starts_with("NOPERM") => Some(0), // before Redis 7 there is one kind
        Err(_) => None,
    }
}
