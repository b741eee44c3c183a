-- Renews many locks: each lasts at least its ttl from now, never less than is left.
--
-- KEYS[i]      a lock
-- ARGV[1]      latest server time in µs at which this may still be executed
-- ARGV[2i]     ttl of lock i in ms
-- ARGV[2i+1]   owner of lock i
--
-- {1, now, found_1, found_2, ...}  per lock: what was left of it in ms before; -1: it had no expiry, and has one now;
--                                  -2: not held by this owner, nothing was done; a text: an error, nothing was done
-- {2, now}                         too late, nothing was done
-- error                            nothing was done
--
-- Safe to run twice: a lock that has at least its ttl left is not touched, and nothing is ever created.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

-- The first command per key is a pcall, and PEXPIRE the only write: one bad key harms no other, and a server that is
-- out of memory refuses none.
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
for i = 1, #KEYS do
  reply[i + 2] = renew(KEYS[i], ARGV[2 * i], ARGV[2 * i + 1])
end
return reply
