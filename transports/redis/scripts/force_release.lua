-- Ends every hold of the lock, whoever has it, and tells those who watch the channel.
--
-- KEYS[1]  the lock
-- ARGV[1]  the channel
-- ARGV[2]  how to tell: publish, spublish or both
-- ARGV[3]  1: the lock must be a read/write lock, and the channel is that of such locks; 0: a lock of any kind
--
-- {1, listeners, now}  there was a hold and it is gone; `listeners` as in release
-- {0, now}             there was none, nothing was done
-- error                nothing was done
--
-- Safe to run twice: it asks for a state. (The second run may end a hold that began in between: that is what was
-- asked for.)

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

local lock, is_read_write = KEYS[1], ARGV[3] == '1'
local fields, mode = holds_of(lock)
if fields.err then return fields end
if not fields[1] then return {0, now} end
if is_read_write and mode ~= 'read' and mode ~= 'write' then
  return redis.error_reply('WRONGTYPE the key holds a hash that is no read/write lock')
end
local failed = delete(lock, fields, mode)
if failed then return failed end

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
if is_read_write then tell('1') end
return {1, tell('0'), now}
