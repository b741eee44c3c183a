-- Gives back every permit that is held, whoever has it, and tells those who watch the channel.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  its deadlines: a sorted set, the id of each permit that is held -> its deadline in epoch ms
-- ARGV[1]  the semaphore's channel
-- ARGV[2]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  there were some and they are available; `listeners` as in permit_release
-- {0, now}             there were none, nothing was done
-- error                nothing was done
--
-- Safe to run twice: it asks for a state. (The second run may end holds that began in between: that is what was asked
-- for.)

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
if not tonumber(value or '0') then
  return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits')
end
local held = redis.pcall('zcard', KEYS[2])
if type(held) == 'table' then return held end
if held == 0 then return {0, now} end

-- The first write is one that a server without memory does not refuse.
local probe = redis.pcall('zrem', KEYS[2], '')
if type(probe) == 'table' then return probe end
local after = redis.pcall('incrby', KEYS[1], held)
if type(after) == 'table' then return after end
local removed = redis.pcall('del', KEYS[2])
if type(removed) == 'table' then
  redis.call('incrby', KEYS[1], -held)
  return removed
end

-- A notice that cannot be published must not hide what was done.
local function publish(command)
  local reached = redis.pcall(command, ARGV[1], string.format('%.0f', after))
  if type(reached) == 'table' then return -1 end
  return reached
end

if after <= 0 then return {1, -1, now} end
if ARGV[2] ~= 'both' then return {1, publish(ARGV[2]), now} end
local sharded, classic = publish('spublish'), publish('publish')
return {1, (sharded < 0 or classic < 0) and -1 or sharded + classic, now}
