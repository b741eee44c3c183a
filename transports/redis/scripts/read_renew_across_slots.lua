#!lua flags=allow-cross-slot-keys,allow-oom
-- Renews many read holds of one node of a cluster, whatever their slots: each lasts at least its ttl from now, never
-- less than is left.
--
-- KEYS         none: declared keys would have to share a slot
-- ARGV[1]      latest server time in µs at which this may still be executed
-- then, for each run of holds that have ttl and client in common:
-- ARGV[3r-1]   their ttl in ms
-- ARGV[3r]     their client: what their owners' names begin with
-- ARGV[3r+1]   {lock_1, number_1, lock_2, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per hold as in read_renew; a text "... non local key ..." where the
--                  node does not serve the slot, or is giving it away: nothing was done
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: a key that has at least its ttl left is not touched, and nothing is ever created.
--
-- allow-oom: PEXPIRE is the only write, and needs no memory.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local call = redis.pcall

-- As the client names it: a lock whose name has a brace is not put in braces.
local function timeout_of(lock, owner)
  local tagged = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return tagged .. ':' .. owner .. ':rwlock_timeout:1'
end

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
  local ttl, client, locks = ARGV[run], ARGV[run + 1], cmsgpack.unpack(ARGV[run + 2])
  local ms = tonumber(ttl)
  for i = 1, #locks, 2 do
    n = n + 1
    local lock, owner = locks[i], client .. locks[i + 1]
    found[n] = renew(lock, timeout_of(lock, owner), owner, ttl, ms)
  end
end
return {1, now, cmsgpack.pack(found)}
