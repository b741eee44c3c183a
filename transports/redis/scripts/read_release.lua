-- Gives a read hold back, and tells those who watch the channel if the lock is free now. Also ends a hold whose
-- downgrade was sent, whether the downgrade was executed or not.
--
-- KEYS[1]  the lock
-- KEYS[2]  the hold's timeout key. It may be left out where its slot is being moved, and a script with two keys is
--          refused (TRYAGAIN): the key may then stay behind until it expires, which harms nobody.
-- ARGV[1]  owner
-- ARGV[2]  the channel of read/write locks
-- ARGV[3]  how to tell: publish, spublish or both
-- ARGV[4]  1: look at the timeout keys of the other readers; 0: the command comes behind an ASKING. Then a key that has
--          not moved yet looks like a key that has expired.
--
-- {1, listeners, now}  released; `listeners` clients got the notice; -1: it could not be published, or the lock is not
--                      free and there was nothing to tell
-- {0, now}             not held by this owner, no hold was touched
-- error                nothing was done
--
-- Safe to run twice: the second run finds no field of the owner, and no other owner's field is touched.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

local lock, owner = KEYS[1], ARGV[1]
local writer = owner .. ':write'
local tagged = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
local function timeout_of(field, number)
  return tagged .. ':' .. field .. ':rwlock_timeout:' .. number
end

-- What is read is read first: nothing that can be refused may stand between the write and the answer. A lock with more
-- holds than this is not looked through: that would hold up the server.
local size_max, looks_max = 66, 64
local size = redis.pcall('hlen', lock)
if type(size) == 'table' then return size end
local fields = {}
if size > 0 and size <= size_max then
  fields = redis.pcall('hgetall', lock)
  if fields.err then return fields end
end

-- The first write is HDEL, which a server that is out of memory does not refuse.
local removed = redis.pcall('hdel', lock, owner, writer)
if type(removed) == 'table' then return removed end
redis.pcall('del', KEYS[2] or timeout_of(owner, 1))
if removed == 0 then return {0, now} end
if size > size_max then return {1, -1, now} end

-- The expiry of the lock becomes that of the reader that stays longest. If all readers that are left have expired, the
-- lock is free. Whatever is not known for sure leaves the expiry as it is.
local mode, was_writer, others = nil, false, {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'mode' then
    mode = value
  elseif field == writer then
    was_writer = true
  elseif field ~= owner then
    others[#others + 1] = {field, tonumber(value)}
  end
end

-- How long the readers that are left have, by their timeout keys; -2: all of them have expired; nil: not known.
local function longest_left()
  local longest, looks = -2, 0
  for _, hold in ipairs(others) do
    local field, count = hold[1], hold[2]
    if not count or looks + count > looks_max then return nil end
    looks = looks + count
    for number = 1, count do
      local left = redis.pcall('pttl', timeout_of(field, number))
      -- A key that cannot be read, or has no expiry, counts as there.
      if type(left) == 'table' or left == -1 then return nil end
      longest = math.max(longest, left)
    end
  end
  return longest
end

if #others == 0 then
  redis.pcall('hdel', lock, 'mode')
else
  -- The expiry of a lock that is held by a writer is the writer's.
  if mode ~= 'read' or ARGV[4] ~= '1' then return {1, -1, now} end
  local longest = longest_left()
  if longest and longest > 0 then redis.pcall('pexpire', lock, longest) end
  if longest ~= -2 then return {1, -1, now} end
  local dead = {'mode'}
  for i = 1, #others do dead[i + 1] = others[i][1] end
  redis.pcall('hdel', lock, unpack(dead))
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

-- As write_release, if a writer's field went.
if was_writer then tell('1') end
return {1, tell('0'), now}
