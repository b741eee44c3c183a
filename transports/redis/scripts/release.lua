-- Gives the lock back, if the owner has it, and tells those who watch the channel.
--
-- KEYS[1]  the lock
-- ARGV[1]  owner
-- ARGV[2]  the lock's channel
--
-- {1, listeners, now}  released; `listeners` clients got the notice, -1: it could not be published
-- {0, now}             not held by this owner, nothing was done
-- error                nothing was done
--
-- Safe to run twice: the second run finds no field of the owner, and no other owner's field is touched.

-- The time is read first: nothing that can be refused may stand between the write and the answer.
local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

-- The first write is HDEL, which a server that is out of memory does not refuse.
local removed = redis.pcall('hdel', KEYS[1], ARGV[1])
if type(removed) == 'table' then return removed end
if removed == 0 then return {0, now} end

local listeners = redis.pcall('publish', ARGV[2], '0')
if type(listeners) == 'table' then listeners = -1 end
return {1, listeners, now}
