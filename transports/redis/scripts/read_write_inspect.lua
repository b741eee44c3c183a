-- Reads who holds a read/write lock.
--
-- KEYS[1]  the lock
--
-- {now, left, mode, {field, count, lasts, ...}}
--          left   of the lock in ms; -1: no expiry; -2: free
--          mode   1: read, 2: write, 0: the hash is no read/write lock, or there is none
--          per hold: its field (a writer's has `:write` behind the owner), its count as it stands there, and how long
--          it lasts in ms: a reader's by its timeout keys; -1: no expiry; -2: it has expired; -3: not known
-- error
--
-- Safe to run twice: it only reads.
--
-- The fields lie one level down: a client library that looks at the first element of a reply for "message" or
-- "subscribe" must never meet a field that somebody named so.

local time = redis.pcall('time')
if time.err then return time end
local lock = KEYS[1]
-- A hash with more fields than a lock can have is not read: that would hold up the server. Without the right to HLEN
-- it is.
local size = redis.pcall('hlen', lock)
if type(size) == 'number' and size > 10000 then
  return redis.error_reply('WRONGTYPE the key holds a hash of ' .. size .. ' fields, which is no lock')
end
local fields = redis.pcall('hgetall', lock)
if fields.err then return fields end
local left = redis.pcall('pttl', lock)
if type(left) == 'table' then return left end

local tagged = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
local looks, looks_max = 0, 256

-- The longest of the timeout keys of one reader, which has one per count.
local function reader_lasts(field, count)
  if not count or looks + count > looks_max then return -3 end
  looks = looks + count
  local longest = -2
  for number = 1, count do
    local lasts = redis.pcall('pttl', tagged .. ':' .. field .. ':rwlock_timeout:' .. number)
    if type(lasts) == 'table' then return -3 end
    if lasts == -1 then return -1 end
    longest = math.max(longest, lasts)
  end
  return longest
end

local modes, mode, holds = {read = 1, write = 2}, 0, {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'mode' then
    mode = modes[value] or 0
  else
    local lasts = string.find(field, ':write$') and left or reader_lasts(field, tonumber(value))
    local n = #holds
    holds[n + 1], holds[n + 2], holds[n + 3] = field, value, lasts
  end
end
return {time[1] * 1000000 + time[2], left, mode, holds}
