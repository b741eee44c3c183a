#!lua flags=allow-cross-slot-keys,allow-oom
-- Renews many locks of one node of a cluster, whatever their slots: each lasts at least its ttl from now, never less
-- than is left.
--
-- KEYS         none: declared keys would have to share a slot
-- ARGV[1]      latest server time in µs at which this may still be executed
-- then, for each run of locks that have ttl and client in common:
-- ARGV[3r-1]   their ttl in ms
-- ARGV[3r]     their client: what their owners' names begin with
-- ARGV[3r+1]   {lock_1, number_1, lock_2, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per lock as in renew; a text "... non local key ..." where the node
--                  does not serve the slot, or is giving it away: nothing was done
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: a lock that has at least its ttl left is not touched, and nothing is ever created.
--
-- allow-oom: PEXPIREAT is the only write, and needs no memory.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local call, type = redis.pcall, type

local function renew(key, owner, ms, deadline)
  local mine = call('hexists', key, owner)
  if mine ~= 1 then return mine == 0 and -2 or mine.err end
  local left = call('pttl', key)
  if type(left) == 'table' then return left.err end
  if left < ms then
    local set = call('pexpireat', key, deadline)
    if set ~= 1 and type(set) == 'table' then return set.err end
  end
  return left
end

local found, n = {}, 0
for run = 2, #ARGV, 3 do
  local ms, client, locks = tonumber(ARGV[run]), ARGV[run + 1], cmsgpack.unpack(ARGV[run + 2])
  -- PEXPIREAT: the server has to rewrite each PEXPIRE into one, for its replicas.
  local deadline = string.format('%.0f', math.ceil(now / 1000) + ms)
  for i = 1, #locks, 2 do
    n = n + 1
    found[n] = renew(locks[i], client .. locks[i + 1], ms, deadline)
  end
end
return {1, now, cmsgpack.pack(found)}
