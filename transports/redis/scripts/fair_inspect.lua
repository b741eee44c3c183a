-- Reads who holds a fair lock, and who waits for it.
--
-- KEYS[1]  the lock
-- KEYS[2]  the line: a list of owners, the head first
--
-- {now, left, {owner, count, ...}, {owner, ...}}  `left` in ms; -1: no expiry; -2: free. At most 1,000 owners of the line
-- error
--
-- Safe to run twice: it only reads.

local time = redis.pcall('time')
if time.err then return time end
local size = redis.pcall('hlen', KEYS[1])
if type(size) == 'number' and size > 10000 then
  return redis.error_reply('WRONGTYPE the key holds a hash of ' .. size .. ' fields, which is no lock')
end
local holds = redis.pcall('hgetall', KEYS[1])
if holds.err then return holds end
local left = redis.pcall('pttl', KEYS[1])
if type(left) == 'table' then return left end
local line = redis.pcall('lrange', KEYS[2], 0, 999)
if line.err then return line end
return {time[1] * 1000000 + time[2], left, holds, line}
