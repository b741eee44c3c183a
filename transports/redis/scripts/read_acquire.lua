-- Takes a read hold of a read/write lock, if the lock is free or held by readers.
--
-- KEYS[1]  the lock: a hash, `mode` and one field per hold
-- KEYS[2]  the hold's timeout key: a string with the hold's own expiry
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner
-- ARGV[3]  latest server time in µs at which this may still be executed
--
-- {1, now}        granted, the owner holds it for at least ttl from now (server time, µs)
-- {0, left, now}  held by a writer, or by the holder of another kind of lock, for `left` ms; -1: without expiry, as a
--                 peer may leave it
-- {2, now}        too late, nothing was done
-- error           nothing was done
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again, and its hold is neither counted up
-- nor shortened.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

local lock, timeout, ttl, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local ms = tonumber(ttl)

-- The first look is a pcall of HMGET: a key of another type answers WRONGTYPE before anything is written.
local found = redis.pcall('hmget', lock, 'mode', owner)
if found.err then return found end
local mode, mine = found[1], found[2]
local left = redis.pcall('pttl', lock)
if type(left) == 'table' then return left end
if left ~= -2 and mode ~= 'read' then return {0, left, now} end

-- The timeout key comes first: it is written together with its expiry, so it is the write that may stay behind. It is
-- also the write that a server without memory refuses.
local lasts = redis.pcall('pttl', timeout)
if type(lasts) == 'table' then return lasts end
local set = 1
if lasts == -2 then
  set = redis.pcall('set', timeout, '1', 'px', ttl)
elseif lasts < ms then
  set = redis.pcall('pexpire', timeout, ttl)
end
if type(set) == 'table' and set.err then return set end

local function undone(reply)
  if lasts == -2 then redis.pcall('del', timeout) end
  return reply
end

if not mine then
  -- Without the right to HDEL a refused PEXPIRE could not be taken back. There is no field of this owner yet, so the
  -- question changes nothing.
  local may_undo = redis.pcall('hdel', lock, owner)
  if type(may_undo) == 'table' then return undone(may_undo) end
  local written = redis.pcall('hset', lock, 'mode', 'read', owner, '1')
  if type(written) == 'table' then return undone(written) end
end

-- Other readers may have asked for more time: the expiry of the hash is only raised.
if left < ms then
  local expires = redis.pcall('pexpire', lock, ttl)
  if expires ~= 1 then
    if left == -2 then
      redis.call('hdel', lock, owner, 'mode')
    elseif not mine then
      redis.call('hdel', lock, owner)
    end
    if type(expires) == 'table' then return undone(expires) end
    return undone(redis.error_reply('NOEXPIRY the server did not set an expiry on the lock\'s key'))
  end
end
return {1, now}
