-- Takes the write hold of a read/write lock, if the lock is free.
--
-- KEYS[1]  the lock: a hash, `mode` and one field per hold
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner; its field has `:write` behind it
-- ARGV[3]  latest server time in µs at which this may still be executed
--
-- {1, now}        granted, the owner holds it for at least ttl from now (server time, µs)
-- {0, left, now}  held by others for `left` ms; -1: without expiry, as a peer may leave it
-- {2, now}        too late, nothing was done
-- error           nothing was done
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again, and its hold is neither counted up
-- nor shortened.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

local lock, ttl, writer = KEYS[1], ARGV[1], ARGV[2] .. ':write'

-- The first look is a pcall of HMGET: a key of another type answers WRONGTYPE before anything is written.
local found = redis.pcall('hmget', lock, 'mode', writer)
if found.err then return found end
local left = redis.pcall('pttl', lock)
if type(left) == 'table' then return left end

if found[1] == 'write' and found[2] then
  if left < tonumber(ttl) then
    local set = redis.pcall('pexpire', lock, ttl)
    if type(set) == 'table' then return set end
  end
  return {1, now}
end
if left ~= -2 then return {0, left, now} end

-- Without the right to HDEL a refused PEXPIRE could not be taken back, so that right is asked for before the write.
if redis.acl_check_cmd then
  if not redis.acl_check_cmd('hdel', lock, writer, 'mode') then
    return redis.error_reply('NOPERM this user has no permission to run the \'hdel\' command on the lock\'s key')
  end
else
  -- A server that cannot be asked (before 7.0) is asked by doing it: there is nothing to delete yet. But only the first
  -- write of a script is refused for want of memory, so a write comes first that needs some and does nothing: a field
  -- without a value is refused for its arguments, once memory and rights have been looked at.
  local room = redis.pcall('hset', lock, writer, 1, writer)
  if type(room) == 'table' and not string.find(room.err, 'wrong number of arguments', 1, true) then return room end
  local probe = redis.pcall('hdel', lock, writer)
  if type(probe) == 'table' then return probe end
end

local written = redis.pcall('hset', lock, 'mode', 'write', writer, '1')
if type(written) == 'table' then return written end
local expires = redis.pcall('pexpire', lock, ttl)
if expires ~= 1 then
  redis.call('hdel', lock, writer, 'mode')
  if type(expires) == 'table' then return expires end
  return redis.error_reply('NOEXPIRY the server did not set an expiry on the lock\'s key')
end
return {1, now}
