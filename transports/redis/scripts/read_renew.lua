-- Renews many read holds: each lasts at least its ttl from now, never less than is left.
--
-- KEYS[2i-1]   a lock
-- KEYS[2i]     the hold's timeout key
-- ARGV[1]      latest server time in µs at which this may still be executed
-- then, for each run of holds that follow each other and have ttl and client in common:
-- ARGV[3r-1]   their ttl in ms
-- ARGV[3r]     their client: what their owners' names begin with
-- ARGV[3r+1]   {number_1, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per hold: what was left of it in ms before, the lesser of the lock's
--                  and of the timeout key's; -1: neither had an expiry, and both have one now; -2: not held by this
--                  owner, or its timeout key has expired, nothing was done; a text: an error, not renewed
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: a key that has at least its ttl left is not touched, and nothing is ever created.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local call = redis.pcall

-- The first commands per hold read, and PEXPIRE is the only write: one bad key harms no other, and a server that is
-- out of memory refuses none.
local function renew(lock, timeout, owner, ttl, ms)
  local mine = call('hexists', lock, owner)
  if mine ~= 1 then return mine == 0 and -2 or mine.err end
  local left = call('pttl', lock)
  if type(left) == 'table' then return left.err end
  local lasts = call('pttl', timeout)
  if type(lasts) == 'table' then return lasts.err end
  -- Other readers go by the timeout key. Without it the hold is over, although its field is still there.
  if lasts == -2 then return -2 end
  if lasts < ms then
    local set = call('pexpire', timeout, ttl)
    if type(set) == 'table' then return set.err end
  end
  if left < ms then
    local set = call('pexpire', lock, ttl)
    if type(set) == 'table' then return set.err end
  end
  if left == -1 then return lasts end
  if lasts == -1 then return left end
  return math.min(left, lasts)
end

local found, n = {}, 0
for run = 2, #ARGV, 3 do
  local ttl, client, numbers = ARGV[run], ARGV[run + 1], cmsgpack.unpack(ARGV[run + 2])
  local ms = tonumber(ttl)
  for i = 1, #numbers do
    n = n + 1
    found[n] = renew(KEYS[2 * n - 1], KEYS[2 * n], client .. numbers[i], ttl, ms)
  end
end
return {1, now, cmsgpack.pack(found)}
