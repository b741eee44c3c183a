-- Takes the lock if it is free, with a token from the lock's own counter, or says how long somebody else still holds
-- it.
--
-- KEYS[1]  the lock: a hash, one field per owner
-- KEYS[2]  the token counter: a string without expiry, which is never deleted
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner
-- ARGV[3]  latest server time in µs at which this may still be executed
-- ARGV[4]  the mode: counter (one more than the token before), or hybrid (the same, but at least the server's time
--          in µs)
-- ARGV[5]  how many tokens to reserve: the counter is moved this much further than the token. Each repeat has the same
--          number
--
-- {1, token, now}  granted, the owner holds it for at least ttl from now (server time, µs)
-- {0, left, now}   held by somebody else for `left` ms; -1: without expiry, as a peer may leave it
-- {2, now}         too late, nothing was done
-- error            nothing was done; NOTOKEN: the owner holds the lock, but its token is gone
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again with the same token, and its hold is
-- neither counted up nor shortened.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

local lock, counter, ttl, owner, reserved = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[5])

-- The first look is a pcall of HEXISTS: a key of another type answers WRONGTYPE before anything is written.
local mine = redis.pcall('hexists', lock, owner)
if type(mine) == 'table' then return mine end
local left = redis.pcall('pttl', lock)
if type(left) == 'table' then return left end
if mine == 0 and left ~= -2 then return {0, left, now} end

local text = redis.pcall('get', counter)
if type(text) == 'table' then return text end
local last = 0
if text then
  -- Above 2^53 a number is not exact in a script, nor in most clients.
  last = string.find(text, '^%d+$') and tonumber(text)
  if not last or last + reserved >= 9007199254740991 then
    local shown = string.sub(text, 1, 40)
    return redis.error_reply('WRONGTOKEN the token counter holds "' .. shown .. '", which cannot be counted up')
  end
end

if mine == 1 then
  if last <= reserved then return redis.error_reply('NOTOKEN the lock is held, but its token counter is gone') end
  if left < tonumber(ttl) then
    local set = redis.pcall('pexpire', lock, ttl)
    if type(set) == 'table' then return set end
  end
  return {1, last - reserved, now}
end

-- Without the right to HDEL a refused write could not be taken back, so that right is asked for before the first.
if redis.acl_check_cmd then
  if not redis.acl_check_cmd('hdel', lock, owner) then
    return redis.error_reply('NOPERM this user has no permission to run the \'hdel\' command on the lock\'s key')
  end
else
  -- A server that cannot be asked (before 7.0) is asked by doing it: there is nothing to delete yet. But only the first
  -- write of a script is refused for want of memory, so a write comes first that needs some and does nothing: a field
  -- without a value is refused for its arguments, once memory and rights have been looked at.
  local room = redis.pcall('hset', lock, owner, 1, owner)
  if type(room) == 'table' and not string.find(room.err, 'wrong number of arguments', 1, true) then return room end
  local probe = redis.pcall('hdel', lock, owner)
  if type(probe) == 'table' then return probe end
end

local function undone(reply)
  redis.call('hdel', lock, owner)
  return reply
end

local written = redis.pcall('hset', lock, owner, '1')
if type(written) == 'table' then return written end
local expires = redis.pcall('pexpire', lock, ttl)
if type(expires) == 'table' then return undone(expires) end
if expires ~= 1 then
  return undone(redis.error_reply('NOEXPIRY the server did not set an expiry on the lock\'s key'))
end

local token = last + 1
local moved
if ARGV[4] == 'hybrid' then token = math.max(token, now) end
if ARGV[4] == 'counter' and reserved == 0 then
  moved = redis.pcall('incr', counter)
else
  -- Without %.0f a large number would lose digits.
  moved = redis.pcall('set', counter, string.format('%.0f', token + reserved))
end
if type(moved) == 'table' and moved.err then return undone(moved) end
return {1, token, now}
