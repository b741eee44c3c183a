#!lua flags=allow-cross-slot-keys,allow-oom
-- Renews the permits of many leases of one node of a cluster, whatever their slots: each lasts at least its ttl from now,
-- never less than is left.
--
-- KEYS         none: declared keys would have to share a slot
-- ARGV[1]      latest server time in µs at which this may still be executed
-- ARGV[3i-1]   the deadlines of a semaphore: a sorted set, the id of each permit that is held -> its deadline in epoch ms
-- ARGV[3i]     ttl in ms
-- ARGV[3i+1]   the ids of the lease's permits, 16 bytes each, one behind the other
--
-- {1, now, found}  found: an array in MessagePack, per lease as in permit_renew; a text "... non local key ..." where the
--                  node does not serve the slot, or is giving it away: nothing was done
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: no deadline comes nearer, and nothing is ever created.
--
-- allow-oom: members are changed, and none is added.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end
local now_ms = math.floor(now / 1000)

local call = redis.pcall

-- The first commands per semaphore read: one bad key harms no other. The first write needs no memory, so a server that is
-- out of memory refuses none of those that follow.
local function renew(deadlines, ids, ttl)
  local deadline = now_ms + 1 + tonumber(ttl)
  local text, least, nearer = string.format('%.0f', deadline), math.huge, {}
  for from = 1, #ids, 16 do
    local id = string.sub(ids, from, from + 15)
    local score = call('zscore', deadlines, id)
    if type(score) == 'table' then return score.err end
    score = tonumber(score or '0')
    if score <= now_ms then return -2 end
    least = math.min(least, score)
    if score < deadline then
      nearer[#nearer + 1] = text
      nearer[#nearer + 1] = id
    end
  end
  local probe = call('zrem', deadlines, '')
  if type(probe) == 'table' then return probe.err end
  for from = 1, #nearer, 2000 do
    local set = call('zadd', deadlines, 'xx', unpack(nearer, from, math.min(from + 1999, #nearer)))
    if type(set) == 'table' then return set.err end
  end
  return least - now_ms
end

local found = {}
for i = 2, #ARGV, 3 do found[#found + 1] = renew(ARGV[i], ARGV[i + 2], ARGV[i + 1]) end
return {1, now, cmsgpack.pack(found)}
