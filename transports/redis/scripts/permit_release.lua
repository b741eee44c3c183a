-- Gives permits back: those of these ids that are still held. Tells those who watch the channel.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  its deadlines: a sorted set, the id of each permit that is held -> its deadline in epoch ms
-- ARGV[1]  the ids, 16 bytes each, one behind the other
-- ARGV[2]  the semaphore's channel
-- ARGV[3]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  all were held and are available again; `listeners` clients got the notice; -1: it could not be
--                      published, or there was nothing to tell
-- {0, now}             not all were held: one has expired, or somebody took it away. What was left of them went back.
-- error                nothing was done
--
-- Safe to run twice: an id is given back once.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local permits, deadlines, ids = KEYS[1], KEYS[2], ARGV[1]
local count = #ids / 16

-- What is read is read first: nothing that can be refused may stand between the write and the answer.
local value = redis.pcall('get', permits)
if type(value) == 'table' then return value end
if not tonumber(value or '0') then
  return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits')
end
local held, live = {}, 0
for i = 1, count do
  local id = string.sub(ids, 16 * i - 15, 16 * i)
  local score = redis.pcall('zscore', deadlines, id)
  if type(score) == 'table' then return score end
  if score then
    held[#held + 1] = id
    if tonumber(score) > now_ms then live = live + 1 end
  end
end
if #held == 0 then return {0, now} end

-- The first write is one that a server without memory does not refuse. It shows that the right to remove is there, so
-- that no permit can be added twice.
local probe = redis.pcall('zrem', deadlines, '')
if type(probe) == 'table' then return probe end
local after = redis.pcall('incrby', permits, #held)
if type(after) == 'table' then return after end
for from = 1, #held, 1000 do
  redis.call('zrem', deadlines, unpack(held, from, math.min(from + 999, #held)))
end

-- A notice that cannot be published must not hide what was done.
local function publish(command)
  local reached = redis.pcall(command, ARGV[2], string.format('%.0f', after))
  if type(reached) == 'table' then return -1 end
  return reached
end

local listeners = -1
if after > 0 then
  if ARGV[3] == 'both' then
    local sharded, classic = publish('spublish'), publish('publish')
    listeners = (sharded < 0 or classic < 0) and -1 or sharded + classic
  else
    listeners = publish(ARGV[3])
  end
end
if live < count then return {0, now} end
return {1, listeners, now}
