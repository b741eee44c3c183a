-- Renews many locks: each lasts at least its ttl from now, never less than is left.
--
-- KEYS[i]      a lock
-- ARGV[1]      latest server time in µs at which this may still be executed
-- then, for each run of locks that follow each other and have ttl and client in common:
-- ARGV[3r-1]   their ttl in ms
-- ARGV[3r]     their client: what their owners' names begin with
-- ARGV[3r+1]   {number_1, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per lock: what was left of it in ms before; -1: it had no expiry, and
--                  has one now; -2: not held by this owner, nothing was done; a text: an error, nothing was done
-- {2, now}         too late, nothing was done
-- error            nothing was done
--
-- Safe to run twice: a lock that has at least its ttl left is not touched, and nothing is ever created.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

local call, type = redis.pcall, type

-- The first command per key is a pcall, and PEXPIREAT the only write: one bad key harms no other, and a server that is
-- out of memory refuses none.
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
  local ms, client, numbers = tonumber(ARGV[run]), ARGV[run + 1], cmsgpack.unpack(ARGV[run + 2])
  -- PEXPIREAT: the server has to rewrite each PEXPIRE into one, for its replicas.
  local deadline = string.format('%.0f', math.ceil(now / 1000) + ms)
  for i = 1, #numbers do
    n = n + 1
    found[n] = renew(KEYS[n], client .. numbers[i], ms, deadline)
  end
end
return {1, now, cmsgpack.pack(found)}
