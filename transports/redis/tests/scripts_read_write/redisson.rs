//! What Redisson does on the server, written anew from the traces: the same reads and writes, other text.
//!
//! `traces.rs` runs these against what live clients of both versions left.

use crate::{
    keyspace::{CHANNEL, LOCK},
    resp::{Client, Reply},
};

/// A version whose clients take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Version {
    V3_27,
    V4_7,
}

const LATCH: &str = "redisson_unlock_latch:{L}:00112233445566778899aabbccddeeff";
const LATCH_TTL: &str = "16000";

pub(crate) fn read_lock(client: &mut Client, owner: &str, lease: i64) -> Reply {
    let prefix = format!("{{L}}:{owner}:rwlock_timeout");
    client.eval(READ_LOCK, &[LOCK, &prefix], &[lease.to_string(), owner.to_owned(), format!("{owner}:write")])
}

pub(crate) fn write_lock(client: &mut Client, owner: &str, lease: i64) -> Reply {
    client.eval(WRITE_LOCK, &[LOCK], &[lease.to_string(), format!("{owner}:write")])
}

pub(crate) fn read_unlock(client: &mut Client, owner: &str, version: Version) -> Reply {
    let prefix = format!("{{L}}:{owner}:rwlock_timeout");
    let keys = [LOCK, CHANNEL, &prefix, "{L}", LATCH];
    let reply = client.eval(read_unlock_of(version), &keys, &["0", owner, "PUBLISH", LATCH_TTL]);
    client.ok(&["DEL", LATCH]);
    reply
}

pub(crate) fn write_unlock(client: &mut Client, owner: &str, lease: i64, version: Version) -> Reply {
    let writer = format!("{owner}:write");
    let args = ["1", &lease.to_string(), &writer, "PUBLISH", LATCH_TTL];
    let reply = client.eval(write_unlock_of(version), &[LOCK, CHANNEL, LATCH], &args);
    client.ok(&["DEL", LATCH]);
    reply
}

/// One round of the watchdog of read locks.
pub(crate) fn read_renewal(client: &mut Client, owner: &str, lease: i64, version: Version) -> Reply {
    let script = match version {
        Version::V3_27 => RENEW_ALL_READS,
        Version::V4_7 => RENEW_OWN_READS,
    };
    client.eval(script, &[LOCK, "{L}"], &[&lease.to_string(), owner])
}

pub(crate) fn read_unlock_of(version: Version) -> &'static str {
    match version {
        Version::V3_27 => concat!("local gone = 1\n", include_str!("redisson/read_unlock.lua")),
        Version::V4_7 => concat!("local gone = nil\n", include_str!("redisson/read_unlock.lua")),
    }
}

pub(crate) fn write_unlock_of(version: Version) -> &'static str {
    match version {
        Version::V3_27 => concat!("local gone = 1\n", include_str!("redisson/write_unlock.lua")),
        Version::V4_7 => concat!("local gone = nil\n", include_str!("redisson/write_unlock.lua")),
    }
}

/// KEYS lock, prefix of timeout keys. ARGV lease, owner, writer.
pub(crate) const READ_LOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('set', KEYS[2] .. ':1', 1, 'px', ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'read' or mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  local number = redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('set', KEYS[2] .. ':' .. number, 1, 'px', ARGV[1])
  redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[1])))
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS lock. ARGV lease, writer.
pub(crate) const WRITE_LOCK: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write')
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS lock, channel. ARGV `0` for the read lock, `1` for the write lock; how to publish.
pub(crate) const FORCE_UNLOCK: &str = "
if redis.call('hget', KEYS[1], 'mode') ~= (ARGV[1] == '0' and 'read' or 'write') then return 0 end
redis.call('del', KEYS[1])
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1";

/// KEYS lock, tag. ARGV lease, owner.
const RENEW_OWN_READS: &str = "
local count = redis.call('hget', KEYS[1], ARGV[2])
if not count then return 0 end
for number = 1, tonumber(count) do
  redis.call('pexpire', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. number, ARGV[1])
end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1";

/// KEYS lock, tag. ARGV lease, owner.
const RENEW_ALL_READS: &str = "
if not redis.call('hget', KEYS[1], ARGV[2]) then return 0 end
redis.call('pexpire', KEYS[1], ARGV[1])
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  for number = 1, tonumber(redis.call('hget', KEYS[1], field)) or 0 do
    redis.call('pexpire', KEYS[2] .. ':' .. field .. ':rwlock_timeout:' .. number, ARGV[1])
  end
end
return 1";

/// Of the plain and of the fenced lock. KEYS lock, channel, latch. ARGV `0`, lease, owner, how to publish, latch's ttl.
pub(crate) const UNLOCK: &str = "
local done = redis.call('get', KEYS[3])
if done then return tonumber(done) end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[5])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1";

/// KEYS lock. ARGV lease, owner.
pub(crate) const PLAIN_LOCK: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS lock, counter. ARGV lease, owner. The form that returns a token: -1 and the token, or what is left and -1.
pub(crate) const FENCED_LOCK: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return {-1, redis.call('incr', KEYS[2])}
end
return {redis.call('pttl', KEYS[1]), -1}";

/// KEYS lock, channel. ARGV `0`, how to publish.
pub(crate) const PLAIN_FORCE_UNLOCK: &str = "
if redis.call('del', KEYS[1]) == 0 then return 0 end
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1";
