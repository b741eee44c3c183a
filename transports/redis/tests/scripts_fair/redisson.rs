//! What Redisson's fair lock does on the server, written anew from the traces and from what its scripts read and write:
//! the same commands on the same keys, other text.

use crate::{
    ours::KEYS,
    resp::{Client, Reply},
};

/// A version whose clients take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V3_27,
    V4_7,
}

/// Drops heads whose deadline is past; then, of a free lock, the line's head or the first in an empty line takes it.
const BEGIN: &str = "
local lock, line, deadlines, lease, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local wait, now = tonumber(ARGV[3]), tonumber(ARGV[4])
local head = redis.call('lindex', line, 0)
while head do
  local deadline = redis.call('zscore', deadlines, head)
  if not deadline and ARGV[5] == 'V3_27' then error('compare nil with number') end
  if not deadline or tonumber(deadline) > now then break end
  redis.call('zrem', deadlines, head)
  redis.call('lpop', line)
  head = redis.call('lindex', line, 0)
end
";

const ACQUIRE: &str = "
if redis.call('exists', lock) == 0 and (not head or head == owner) then
  redis.call('lpop', line)
  redis.call('zrem', deadlines, owner)
  for _, other in ipairs(redis.call('zrange', deadlines, 0, -1)) do
    redis.call('zincrby', deadlines, -wait, other)
  end
  redis.call('hset', lock, owner, 1)
  redis.call('pexpire', lock, lease)
  return nil
end
if redis.call('hexists', lock, owner) == 1 then
  redis.call('hincrby', lock, owner, 1)
  redis.call('pexpire', lock, lease)
  return nil
end
";

const QUEUE: &str = "
local mine = redis.call('zscore', deadlines, owner)
if mine then
  if ARGV[5] == 'V3_27' then return mine - wait - now end
  return math.max(0, redis.call('pttl', lock))
end
local tail = redis.call('lindex', line, -1)
local left = redis.call('pttl', lock)
if tail and tail ~= owner and redis.call('zscore', deadlines, tail) then
  left = tonumber(redis.call('zscore', deadlines, tail)) - now
end
if redis.call('zadd', deadlines, left + wait + now, owner) == 1 then redis.call('rpush', line, owner) end
return left
";

const UNLOCK: &str = "
if redis.call('exists', lock) == 0 then
  if head then redis.call('publish', ARGV[6] .. ':' .. head, '0') end
  return 1
end
if redis.call('hexists', lock, owner) == 0 then return nil end
if redis.call('hincrby', lock, owner, -1) > 0 then
  redis.call('pexpire', lock, lease)
  return 0
end
redis.call('del', lock)
if head then redis.call('publish', ARGV[6] .. ':' .. head, '0') end
return 1
";

const FORCE: &str = "
if redis.call('del', lock) == 0 then return 0 end
if head then redis.call('publish', ARGV[6] .. ':' .. head, '0') end
return 1
";

const GIVE_UP: &str = "
local line, deadlines, owner, wait = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local behind = false
for _, other in ipairs(redis.call('lrange', line, 0, -1)) do
  if behind then redis.call('zincrby', deadlines, -wait, other) end
  behind = behind or other == owner
end
redis.call('zrem', deadlines, owner)
redis.call('lrem', line, 0, owner)
";

/// One client of Redisson. Its clock is `now`.
pub(crate) struct Peer<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) version: Version,
    pub(crate) now: i64,
}

impl Peer<'_> {
    fn run(&mut self, parts: [&str; 3], owner: &str, lease: i64, wait: i64) -> Reply {
        let version = format!("{:?}", self.version);
        let args = [
            lease.to_string(),
            owner.to_owned(),
            wait.to_string(),
            self.now.to_string(),
            version,
            crate::ours::CHANNEL.to_owned(),
        ];
        self.client.eval(&parts.concat(), &KEYS[..3], &args)
    }

    /// One ask of `lock()` or `tryLock(wait)`. Nil: it holds the lock.
    pub(crate) fn lock(&mut self, owner: &str, lease: i64, wait: i64) -> Reply {
        self.run([BEGIN, ACQUIRE, QUEUE], owner, lease, wait)
    }

    /// `tryLock()`. Nil: it holds the lock.
    pub(crate) fn try_lock(&mut self, owner: &str, lease: i64, wait: i64) -> Reply {
        self.run([BEGIN, ACQUIRE, "return 1"], owner, lease, wait)
    }

    /// Nil: it did not hold the lock.
    pub(crate) fn unlock(&mut self, owner: &str, lease: i64) -> Reply {
        self.run([BEGIN, UNLOCK, ""], owner, lease, 0)
    }

    /// Whoever holds it.
    pub(crate) fn force(&mut self) -> Reply {
        self.run([BEGIN, FORCE, ""], "", 0, 0)
    }

    /// The end of a `tryLock(wait)` that was not granted.
    pub(crate) fn give_up(&mut self, owner: &str, wait: i64) {
        let reply = self.client.eval(GIVE_UP, &KEYS[1..3], &[owner.to_owned(), wait.to_string()]);
        assert_eq!(reply, Reply::Nil);
    }
}
