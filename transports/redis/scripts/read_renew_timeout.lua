-- Renews the timeout key of one read hold, and nothing else. For a slot that is being moved, where a script that names
-- the lock and this key is refused (TRYAGAIN): the hold is renewed if both this and `renew` of the lock's field say so.
--
-- KEYS[1]  the hold's timeout key
-- ARGV[1]  latest server time in µs at which this may still be executed
-- ARGV[2]  ttl in ms
--
-- {1, now, found}  found: an array of one number in MessagePack, as in renew: what was left of it in ms before; -1: it
--                  had no expiry, and has one now; -2: it is not there, nothing was done
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: a key that has at least the ttl left is not touched, and nothing is ever created.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local left = redis.pcall('pttl', KEYS[1])
if type(left) == 'table' then return left end
if left ~= -2 and left < tonumber(ARGV[2]) then
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if type(set) == 'table' then return set end
end
return {1, now, cmsgpack.pack({left})}
