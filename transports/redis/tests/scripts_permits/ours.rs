//! Our scripts, as the transport calls them.

use crate::{
    resp::{Client, Reply},
    state::{CHANNEL, DEADLINES, PERMITS},
};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../scripts/", $name, ".lua"))
    };
}

pub(crate) const ACQUIRE: &str = script!("permit_acquire");
pub(crate) const RELEASE: &str = script!("permit_release");
pub(crate) const RENEW: &str = script!("permit_renew");
pub(crate) const RENEW_ACROSS_SLOTS: &str = script!("permit_renew_across_slots");
pub(crate) const INSPECT: &str = script!("permit_inspect");
pub(crate) const COUNT: &str = script!("permit_count");
pub(crate) const FORCE_RELEASE: &str = script!("permit_force_release");

/// A latest server time that is never reached, and one that has passed.
pub(crate) const NEVER: &str = "9007199254740992";
pub(crate) const PASSED: &str = "1";

pub(crate) const KEYS: [&str; 2] = [PERMITS, DEADLINES];

/// The ids of so many permits of an owner. Among their bytes are those that a text protocol may trip over.
pub(crate) fn ids(owner: u8, count: usize) -> Vec<u8> {
    let id = |index: usize| {
        let [high, low] = u16::try_from(index).unwrap().to_be_bytes();
        [owner, high, low, 0, b'\r', b'\n', b'%', 0xff, b'.', 0, b'a', b'"', b'\\', 0x80, b'[', 7]
    };
    (0..count).flat_map(id).collect()
}

pub(crate) fn acquire(client: &mut Client, ids: &[u8], ttl: i64, limit: &str) -> Reply {
    let ttl = ttl.to_string();
    let args = [ttl.as_bytes(), ids, limit.as_bytes(), CHANNEL.as_bytes(), b"publish"];
    client.eval(ACQUIRE, &KEYS, &args)
}

pub(crate) fn release(client: &mut Client, ids: &[u8]) -> Reply {
    client.eval(RELEASE, &KEYS, &[ids, CHANNEL.as_bytes(), b"publish"])
}

/// Renews one hold, alone in its batch.
pub(crate) fn renew(client: &mut Client, ids: &[u8], ttl: i64, limit: &str) -> Reply {
    let ttl = ttl.to_string();
    client.eval(RENEW, &[DEADLINES], &[limit.as_bytes(), ttl.as_bytes(), ids])
}

pub(crate) fn force_release(client: &mut Client) -> Reply {
    client.eval(FORCE_RELEASE, &KEYS, &[CHANNEL, "publish"])
}

pub(crate) fn inspect(client: &mut Client) -> Reply {
    client.eval::<&str>(INSPECT, &KEYS, &[])
}

pub(crate) fn count(client: &mut Client) -> Reply {
    client.eval::<&str>(COUNT, &KEYS, &[])
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
    for script in [ACQUIRE, RELEASE, RENEW, RENEW_ACROSS_SLOTS, INSPECT, COUNT, FORCE_RELEASE] {
        assert!(script.contains("-- Safe to run twice:"), "{script}");
    }
}

/// One is a list of keys, the other of arguments; what they do to a hold is the same text.
#[test]
fn both_renewals_do_the_same() {
    let body = |script: &'static str| {
        let (_, rest) = script.split_once("local now_ms").unwrap();
        rest.split_once("local found = {}").unwrap().0
    };
    assert_eq!(body(RENEW), body(RENEW_ACROSS_SLOTS));
}
