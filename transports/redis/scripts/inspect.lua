-- Reads who holds the lock.
--
-- KEYS[1]  the lock
--
-- {now, left, {owner, count, ...}}  `left` in ms; -1: no expiry; -2: free
-- error
--
-- Safe to run twice: it only reads.
--
-- The fields lie one level down: a client library that looks at the first element of a reply for "message" or
-- "subscribe" must never meet a field that somebody named so.

local time = redis.pcall('time')
if time.err then return time end
-- A hash with more fields than a lock can have is not read: that would hold up the server. Without the right to HLEN
-- it is.
local size = redis.pcall('hlen', KEYS[1])
if type(size) == 'number' and size > 10000 then
  return redis.error_reply('WRONGTYPE the key holds a hash of ' .. size .. ' fields, which is no lock')
end
local holds = redis.pcall('hgetall', KEYS[1])
if holds.err then return holds end
local left = redis.pcall('pttl', KEYS[1])
if type(left) == 'table' then return left end
return {time[1] * 1000000 + time[2], left, holds}
