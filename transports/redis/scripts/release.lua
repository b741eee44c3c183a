-- Gives the lock back, if the owner has it, and tells those who watch the channel.
--
-- KEYS[1]  the lock
-- ARGV[1]  owner
-- ARGV[2]  the lock's channel
-- ARGV[3]  how to tell: publish, spublish, both or none
--
-- {1, listeners, now}  released; `listeners` clients got the notice, -1: it was not or could not be published
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

-- A notice that cannot be published must not hide that the lock is free.
local function publish(command)
  local reached = redis.pcall(command, ARGV[2], '0')
  if type(reached) == 'table' then return -1 end
  return reached
end

local listeners
if ARGV[3] == 'both' then
  local sharded, classic = publish('spublish'), publish('publish')
  listeners = (sharded < 0 or classic < 0) and -1 or sharded + classic
elseif ARGV[3] == 'none' then
  listeners = -1
else
  listeners = publish(ARGV[3])
end
return {1, listeners, now}
