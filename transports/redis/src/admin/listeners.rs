//! How many connections listen to the channels of locks.

use std::time::Duration;

use fred::types::Resp3Frame as Frame;
use futures_util::future::join_all;
use leasehold::transport::{ErrorKind, LockMode, TransportError};

use super::{master::Master, scan::FoundLock};
use crate::{
    connection::requests::text,
    wire::{names, reply},
};

/// Asks all masters, since a subscription of the old kind is at any of them. The numbers are in the order of the locks.
pub(super) async fn of(
    masters: &[Master],
    locks: &[FoundLock],
    timeout: Duration,
) -> Result<Vec<u64>, TransportError> {
    let mut listeners = Vec::with_capacity(locks.len());
    for some in locks.chunks(CHANNELS) {
        let channels: Vec<String> = some.iter().map(channel).collect();
        let counted = join_all(masters.iter().map(|master| at(master, &channels, timeout))).await;
        let counted: Result<Vec<_>, _> = counted.into_iter().collect();
        listeners.extend(sums(&counted?, some.len()));
    }
    Ok(listeners)
}

/// The channel on which the end of a hold of this lock is published.
fn channel(lock: &FoundLock) -> String {
    match lock.mode {
        LockMode::Read | LockMode::Write => names::read_write_channel(&lock.name),
        _ => names::lock_channel(&lock.name),
    }
}

async fn at(master: &Master, channels: &[String], timeout: Duration) -> Result<Vec<u64>, TransportError> {
    let (plain, sharded) = tokio::join!(
        count(master, "NUMSUB", channels, timeout),
        count(master, "SHARDNUMSUB", channels, timeout)
    );
    let sharded = match sharded {
        Err(error) if error.kind == ErrorKind::NotReady => Vec::new(), // before Redis 7 there is no such command
        sharded => sharded?,
    };
    Ok(sums(&[plain?, sharded], channels.len()))
}

async fn count(
    master: &Master,
    how: &'static str,
    channels: &[String],
    timeout: Duration,
) -> Result<Vec<u64>, TransportError> {
    let args = [how].into_iter().chain(channels.iter().map(String::as_str)).map(text).collect();
    let answer = master.ask("PUBSUB", args, timeout).await?;
    answer.as_ref().and_then(numbers).ok_or_else(|| master.misread("PUBSUB"))
}

/// The numbers of a list of channels and numbers.
fn numbers(frame: &Frame) -> Option<Vec<u64>> {
    reply::array(frame)?.chunks(2).map(|pair| u64::try_from(reply::number(pair.get(1)?)?).ok()).collect()
}

/// The sums of lists. A shorter list counts as if it had zeros behind it.
fn sums(lists: &[Vec<u64>], length: usize) -> Vec<u64> {
    let sum = |place| lists.iter().filter_map(|list| list.get(place)).sum();
    (0..length).map(sum).collect()
}

/// Channels of one request.
const CHANNELS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_added_place_by_place() {
        assert_eq!(sums(&[vec![1, 2, 3], Vec::new(), vec![10, 0, 1]], 3), [11, 2, 4]);
    }

    #[test]
    fn a_reply_has_a_number_behind_each_channel() {
        let number = |data| Frame::Number { data, attributes: None };
        let name = |name: &'static str| Frame::BlobString { data: name.into(), attributes: None };
        let list = |data| Frame::Array { data, attributes: None };
        assert_eq!(numbers(&list(vec![name("a"), number(3), name("b"), number(0)])), Some(vec![3, 0]));
        assert_eq!(numbers(&list(vec![name("a"), name("b")])), None);
        assert_eq!(numbers(&list(vec![name("a")])), None);
    }
}
