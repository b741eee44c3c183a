//! Our scripts, as the transport will call them.

use crate::{
    keyspace::{CHANNEL, LOCK, timeout_key},
    resp::{Client, Reply},
};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../scripts/", $name, ".lua"))
    };
}

pub(crate) const READ_ACQUIRE: &str = script!("read_acquire");
pub(crate) const WRITE_ACQUIRE: &str = script!("write_acquire");
pub(crate) const READ_RENEW: &str = script!("read_renew");
pub(crate) const READ_RENEW_ACROSS_SLOTS: &str = script!("read_renew_across_slots");
pub(crate) const READ_RENEW_TIMEOUT: &str = script!("read_renew_timeout");
pub(crate) const RENEW: &str = script!("renew");
pub(crate) const READ_RELEASE: &str = script!("read_release");
pub(crate) const WRITE_RELEASE: &str = script!("write_release");
pub(crate) const DOWNGRADE: &str = script!("downgrade");
pub(crate) const FORCE_RELEASE: &str = concat!(script!("forced"), script!("force_release"));
pub(crate) const INSPECT: &str = script!("read_write_inspect");
pub(crate) const FENCED_ACQUIRE: &str = script!("fenced_acquire");

/// A latest server time that is never reached, and one that has passed.
pub(crate) const NEVER: &str = "9007199254740992";
pub(crate) const PASSED: &str = "1";

/// How a hold is given back by default.
pub(crate) const PUBLISH: &str = "publish";

pub(crate) fn read_acquire(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    client.eval(READ_ACQUIRE, &[LOCK, &timeout_key(owner, 1)], &[&ttl.to_string(), owner, limit])
}

pub(crate) fn write_acquire(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    client.eval(WRITE_ACQUIRE, &[LOCK], &[&ttl.to_string(), owner, limit])
}

pub(crate) fn read_release(client: &mut Client, owner: &str) -> Reply {
    client.eval(READ_RELEASE, &[LOCK, &timeout_key(owner, 1)], &[owner, CHANNEL, PUBLISH, "1"])
}

pub(crate) fn write_release(client: &mut Client, owner: &str) -> Reply {
    client.eval(WRITE_RELEASE, &[LOCK], &[owner, CHANNEL, PUBLISH])
}

pub(crate) fn downgrade(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    let keys = [LOCK, &timeout_key(owner, 1)];
    client.eval(DOWNGRADE, &keys, &[&ttl.to_string(), owner, limit, CHANNEL, PUBLISH])
}

pub(crate) fn force_release(client: &mut Client) -> Reply {
    client.eval(FORCE_RELEASE, &[LOCK], &[CHANNEL, PUBLISH, "1"])
}

pub(crate) fn inspect(client: &mut Client) -> Reply {
    client.eval::<&str>(INSPECT, &[LOCK], &[])
}

/// Renews one read hold, alone in its batch.
pub(crate) fn read_renew(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    let (head, number) = split(owner);
    let args: [&[u8]; 4] =
        [limit.as_bytes(), &ttl.to_string().into_bytes(), head.as_bytes(), &pack(&[number])];
    client.eval(READ_RENEW, &[LOCK, &timeout_key(owner, 1)], &args)
}

/// Renews one write hold with the script of the plain lock.
pub(crate) fn write_renew(client: &mut Client, owner: &str, ttl: i64, limit: &str) -> Reply {
    let (head, number) = split(owner);
    let numbers = pack(&[&format!("{number}:write")]);
    let args: [&[u8]; 4] = [limit.as_bytes(), &ttl.to_string().into_bytes(), head.as_bytes(), &numbers];
    client.eval(RENEW, &[LOCK], &args)
}

/// What an owner's name begins with, and its number.
pub(crate) fn split(owner: &str) -> (&str, &str) {
    owner.split_at(owner.rfind(':').unwrap() + 1)
}

/// Short texts as an array in MessagePack.
pub(crate) fn pack(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_array_len(&mut bytes, texts.len().try_into().unwrap()).unwrap();
    texts.iter().for_each(|text| rmp::encode::write_str(&mut bytes, text).unwrap());
    bytes
}

/// What a renewal found for each hold: ms, or an error.
pub(crate) fn found(reply: &Reply) -> Vec<Result<i64, String>> {
    let [code, _, packed] = reply.list() else { panic!("{reply:?}") };
    assert_eq!(code.number(), 1, "{reply:?}");
    let mut bytes = packed.bytes();
    let count = rmp::decode::read_array_len(&mut bytes).unwrap();
    (0..count).map(|_| one_found(&mut bytes)).collect()
}

fn one_found(bytes: &mut &[u8]) -> Result<i64, String> {
    let before = *bytes;
    if let Ok(number) = rmp::decode::read_int(bytes) {
        return Ok(number);
    }
    let (text, rest) = rmp::decode::read_str_from_slice(before).unwrap();
    *bytes = rest;
    Err(text.to_owned())
}

#[test]
fn every_script_says_why_it_is_safe_to_run_twice() {
    for script in [
        READ_ACQUIRE,
        WRITE_ACQUIRE,
        READ_RENEW,
        READ_RENEW_ACROSS_SLOTS,
        READ_RENEW_TIMEOUT,
        READ_RELEASE,
        WRITE_RELEASE,
        DOWNGRADE,
        FORCE_RELEASE,
        INSPECT,
        FENCED_ACQUIRE,
    ] {
        assert!(script.contains("-- Safe to run twice:"), "{script}");
    }
}
