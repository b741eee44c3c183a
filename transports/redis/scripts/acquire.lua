-- Takes the lock if it is free, or says how long somebody else still holds it.
--
-- KEYS[1]  the lock: a hash, one field per owner
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner
-- ARGV[3]  latest server time in µs at which this may still be executed
--
-- {1, now}        granted, the owner holds it for at least ttl from now (server time, µs)
-- {0, left, now}  held by somebody else for `left` ms; -1: without expiry, as a peer may leave it
-- {2, now}        too late, nothing was done
-- error           nothing was done
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again, and its hold is neither counted up
-- nor shortened.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

-- The owner is asked for only if there is a key: without one, which is the usual case, that saves a call. A key of
-- another type answers WRONGTYPE to that question, before anything is written.
local left = redis.pcall('pttl', KEYS[1])
if type(left) == 'table' then return left end
if left ~= -2 then
  local mine = redis.pcall('hexists', KEYS[1], ARGV[2])
  if type(mine) == 'table' then return mine end
  if mine == 0 then return {0, left, now} end
  if left < tonumber(ARGV[1]) then
    local set = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if type(set) == 'table' then return set end
  end
  return {1, now}
end

-- Without the right to HDEL a refused PEXPIRE could not be taken back, so that right is asked for before the write.
if redis.acl_check_cmd then
  if not redis.acl_check_cmd('hdel', KEYS[1], ARGV[2]) then
    return redis.error_reply('NOPERM this user has no permission to run the \'hdel\' command on the lock\'s key')
  end
else
  -- A server that cannot be asked (before 7.0) is asked by doing it: there is nothing to delete yet. But only the first
  -- write of a script is refused for want of memory, so a write comes first that needs some and does nothing: a field
  -- without a value is refused for its arguments, once memory and rights have been looked at.
  local room = redis.pcall('hset', KEYS[1], ARGV[2], 1, ARGV[2])
  if type(room) == 'table' and not string.find(room.err, 'wrong number of arguments', 1, true) then return room end
  local probe = redis.pcall('hdel', KEYS[1], ARGV[2])
  if type(probe) == 'table' then return probe end
end

local written = redis.pcall('hset', KEYS[1], ARGV[2], '1')
if type(written) == 'table' then return written end
local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
if expires ~= 1 then
  redis.call('hdel', KEYS[1], ARGV[2])
  if type(expires) == 'table' then return expires end
  return redis.error_reply('NOEXPIRY the server did not set an expiry on the lock\'s key')
end
return {1, now}
