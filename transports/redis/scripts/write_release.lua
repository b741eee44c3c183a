-- Gives the write hold back, if the owner has it, and tells those who watch the channel.
--
-- KEYS[1]  the lock
-- ARGV[1]  owner; its field has `:write` behind it
-- ARGV[2]  the channel of read/write locks
-- ARGV[3]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  released; `listeners` clients got the notice, -1: it could not be published
-- {0, now}             not held by this owner, nothing was done
-- error                nothing was done
--
-- Safe to run twice: the second run finds no field of the owner, and no other owner's field is touched.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

local lock, writer = KEYS[1], ARGV[1] .. ':write'

-- What is read is read first: nothing that can be refused may stand between the write and the answer.
local mine = redis.pcall('hexists', lock, writer)
if type(mine) == 'table' then return mine end
if mine == 0 then return {0, now} end
local size = redis.pcall('hlen', lock)
if type(size) == 'table' then return size end

-- The first write is HDEL, which a server that is out of memory does not refuse, as it refuses none that follows.
if size <= 2 then
  local removed = redis.pcall('hdel', lock, writer, 'mode')
  if type(removed) == 'table' then return removed end
else
  -- Read holds of the writer, as a peer may have, stay.
  local removed = redis.pcall('hdel', lock, writer)
  if type(removed) == 'table' then return removed end
  redis.pcall('hset', lock, 'mode', 'read')
end

-- A notice that cannot be published must not hide that the lock is free.
local function publish(command, payload)
  local reached = redis.pcall(command, ARGV[2], payload)
  if type(reached) == 'table' then return -1 end
  return reached
end

local function tell(payload)
  if ARGV[3] ~= 'both' then return publish(ARGV[3], payload) end
  local sharded, classic = publish('spublish', payload), publish('publish', payload)
  return (sharded < 0 or classic < 0) and -1 or sharded + classic
end

-- `1` wakes all waiters of a peer; one of them that is about to wait may miss it, and does not miss `0`.
tell('1')
return {1, tell('0'), now}
