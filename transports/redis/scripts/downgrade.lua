-- Makes a read hold of the owner's write hold, and lets other readers in. The hold lasts at least its ttl from now,
-- never less than is left.
--
-- KEYS[1]  the lock
-- KEYS[2]  the timeout key of the read hold
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner
-- ARGV[3]  latest server time in µs at which this may still be executed
-- ARGV[4]  the channel of read/write locks
-- ARGV[5]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  the owner has a read hold; `listeners` clients got the notice; -1: it could not be published, or
--                      it was the downgrade before this that told them
-- {0, now}             not held by this owner, or its read hold has expired, nothing was done
-- {2, now}             too late, nothing was done
-- error                the owner's hold is what it was
--
-- Safe to run twice: the second run finds the read hold, and renews it.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

local lock, timeout, ttl, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local ms, writer = tonumber(ttl), owner .. ':write'

local found = redis.pcall('hmget', lock, 'mode', owner, writer)
if found.err then return found end
local left = redis.pcall('pttl', lock)
if type(left) == 'table' then return left end
local lasts = redis.pcall('pttl', timeout)
if type(lasts) == 'table' then return lasts end

local function raise_lock()
  if left >= ms then return 1 end
  return redis.pcall('pexpire', lock, ttl)
end

if found[1] == 'read' and found[2] and not found[3] then
  if lasts == -2 then return {0, now} end
  if lasts < ms then
    local set = redis.pcall('pexpire', timeout, ttl)
    if type(set) == 'table' then return set end
  end
  local raised = raise_lock()
  if type(raised) == 'table' then return raised end
  return {1, -1, now}
end
if found[1] ~= 'write' or not found[3] then return {0, now} end

-- The first write is PEXPIRE, which a server that is out of memory does not refuse, as it refuses none that follows.
local set = redis.pcall('pexpire', timeout, ttl)
if set == 0 then set = redis.pcall('set', timeout, '1', 'px', ttl) end
if type(set) == 'table' and set.err then return set end

local function undone(reply)
  redis.pcall('del', timeout)
  return reply
end

-- What can be refused comes before the two writes that make the change, and the right to the second is asked for by
-- deleting a field that is not there.
local raised = raise_lock()
if type(raised) == 'table' then return undone(raised) end
local may_delete = redis.pcall('hdel', lock, writer .. ':none')
if type(may_delete) == 'table' then return undone(may_delete) end
local written = redis.pcall('hset', lock, 'mode', 'read', owner, '1')
if type(written) == 'table' then return undone(written) end
redis.call('hdel', lock, writer)

-- A notice that cannot be published must not hide that readers may enter.
local function publish(command, payload)
  local reached = redis.pcall(command, ARGV[4], payload)
  if type(reached) == 'table' then return -1 end
  return reached
end

local function tell(payload)
  if ARGV[5] ~= 'both' then return publish(ARGV[5], payload) end
  local sharded, classic = publish('spublish', payload), publish('publish', payload)
  return (sharded < 0 or classic < 0) and -1 or sharded + classic
end

-- `1` wakes all waiters of a peer; one of them that is about to wait may miss it, and does not miss `0`.
tell('1')
return {1, tell('0'), now}
