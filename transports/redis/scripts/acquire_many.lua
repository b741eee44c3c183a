-- Takes many locks, each if it is free, or says how long somebody else still holds it.
--
-- KEYS[i]      a lock
-- ARGV[1]      latest server time in µs at which this may still be executed
-- then, for each run of locks that follow each other and have ttl and client in common:
-- ARGV[3r-1]   their ttl in ms
-- ARGV[3r]     their client: what their owners' names begin with
-- ARGV[3r+1]   {number_1, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per lock: -3: granted, the owner holds it for at least ttl from now
--                  (server time, µs); -1: held by somebody else without expiry; n: held by somebody else for n ms; a
--                  text: an error, nothing was done
-- {2, now}         too late, nothing was done
-- {3, now}         this server cannot be asked for rights (before 7.0): nothing was done, each lock is asked for alone
-- error            nothing was done
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again, and its hold is neither counted up
-- nor shortened.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end
if not redis.acl_check_cmd then return {3, now} end

local call, may = redis.pcall, redis.acl_check_cmd
local found, n, longer = {}, 0, {}

-- The first command for each key is a pcall: one bad key harms no other. PTTL answers for a key of any type, so that the
-- type is looked at by HEXISTS before anything is written.
local function take(key, owner, ttl, ms)
  local left = call('pttl', key)
  if type(left) == 'table' then return left.err end
  if left ~= -2 then
    local mine = call('hexists', key, owner)
    if mine ~= 1 then return mine == 0 and left or mine.err end
    if left < ms then longer[#longer + 1] = {n, key, ttl} end
    return -3
  end
  -- Without the right to HDEL a refused PEXPIRE could not be taken back, so that right is asked for before the write.
  if not may('hdel', key, owner) then
    return 'NOPERM this user has no permission to run the \'hdel\' command on the lock\'s key'
  end
  local written = call('hset', key, owner, '1')
  if type(written) == 'table' then return written.err end
  local expires = call('pexpire', key, ttl)
  if expires ~= 1 then
    call('hdel', key, owner)
    return type(expires) == 'table' and expires.err or 'NOEXPIRY the server did not set an expiry on the lock\'s key'
  end
  return -3
end

for run = 2, #ARGV, 3 do
  local ttl, client, numbers = ARGV[run], ARGV[run + 1], cmsgpack.unpack(ARGV[run + 2])
  local ms = tonumber(ttl)
  for i = 1, #numbers do
    n = n + 1
    found[n] = take(KEYS[n], client .. numbers[i], ttl, ms)
  end
end

-- The holds that are asked for again are extended last: only the first write of a script is refused for want of memory, and
-- PEXPIRE, which needs none, would let the HSETs behind it pass.
for _, hold in ipairs(longer) do
  local set = call('pexpire', hold[2], hold[3])
  if type(set) == 'table' then found[hold[1]] = set.err end
end
return {1, now, cmsgpack.pack(found)}
