#!lua flags=allow-cross-slot-keys,allow-oom
-- Renews many locks of one node of a cluster, whatever their slots: each lasts at least its ttl from now, never less
-- than is left.
--
-- KEYS         none: declared keys would have to share a slot
-- ARGV[1]      latest server time in µs at which this may still be executed
-- ARGV[3i-1]   lock i
-- ARGV[3i]     ttl of lock i in ms
-- ARGV[3i+1]   owner of lock i
--
-- {1, now, found_1, found_2, ...}  per lock as in renew; a text "... non local key ..." where the node does not serve
--                                  the slot, or is giving it away: nothing was done
-- {2, now}                         too late, nothing was done
-- error                            nothing was done
--
-- Safe to run twice: a lock that has at least its ttl left is not touched, and nothing is ever created.
--
-- allow-oom: PEXPIRE is the only write, and needs no memory.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local function renew(key, ttl, owner)
  local mine = redis.pcall('hexists', key, owner)
  if type(mine) == 'table' then return mine.err end
  if mine == 0 then return -2 end
  local left = redis.pcall('pttl', key)
  if type(left) == 'table' then return left.err end
  if left < tonumber(ttl) then
    local set = redis.pcall('pexpire', key, ttl)
    if type(set) == 'table' then return set.err end
  end
  return left
end

local reply = {1, now}
for i = 1, (#ARGV - 1) / 3 do
  reply[i + 2] = renew(ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1])
end
return reply
