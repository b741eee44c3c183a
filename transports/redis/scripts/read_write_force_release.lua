-- Ends every hold of a read/write lock, whoever has it, and tells those who watch the channel. The timeout keys of read
-- holds are left to expire: without the lock they mean nothing.
--
-- KEYS[1]  the lock
-- ARGV[1]  the channel of read/write locks
-- ARGV[2]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  there was a hold and it is gone; `listeners` as in write_release
-- {0, now}             there was none, nothing was done
-- error                nothing was done
--
-- Safe to run twice: it asks for a state. (The second run may end a hold that began in between: that is what was
-- asked for.)

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

-- HLEN answers WRONGTYPE for a key that is no hash.
local holds = redis.pcall('hlen', KEYS[1])
if type(holds) == 'table' then return holds end
if holds == 0 then return {0, now} end

-- A hash is a read/write lock if it has a mode, no more fields than a lock can have, and each other field is an owner
-- (a client and a number, of a write hold with `:write` behind it) with a count.
local no_lock = redis.error_reply('WRONGTYPE the key holds a hash that is no read/write lock')
if holds > 10000 then return no_lock end
local fields = redis.pcall('hgetall', KEYS[1])
if fields.err then return fields end
local mode
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  local is_owner = string.find(field, '.:%-?%d+$') or string.find(field, '.:%-?%d+:write$')
  if field == 'mode' then
    mode = value
  elseif not (is_owner and string.find(value, '^%d+$')) then
    return no_lock
  end
end
if mode ~= 'read' and mode ~= 'write' then return no_lock end

local removed = redis.pcall('del', KEYS[1])
if type(removed) == 'table' then return removed end

-- A notice that cannot be published must not hide that the lock is free.
local function publish(command, payload)
  local reached = redis.pcall(command, ARGV[1], payload)
  if type(reached) == 'table' then return -1 end
  return reached
end

local function tell(payload)
  if ARGV[2] ~= 'both' then return publish(ARGV[2], payload) end
  local sharded, classic = publish('spublish', payload), publish('publish', payload)
  return (sharded < 0 or classic < 0) and -1 or sharded + classic
end

-- `1` wakes all waiters of a peer; one of them that is about to wait may miss it, and does not miss `0`.
tell('1')
return {1, tell('0'), now}
