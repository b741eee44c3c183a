-- KEYS lock, channel, prefix of timeout keys, tag, latch. ARGV `0`, owner, how to publish, latch's ttl.
-- `gone` is what the version answers if there is no lock.
local done = redis.call('get', KEYS[5])
if done then return tonumber(done) end

local function answer(code)
  redis.call('set', KEYS[5], code, 'px', ARGV[4])
  return code
end

local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  answer(1)
  return gone
end
local count = tonumber(redis.call('hget', KEYS[1], ARGV[2]))
if not count then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) == 0 then redis.call('hdel', KEYS[1], ARGV[2]) end
redis.call('del', KEYS[3] .. ':' .. count)

if redis.call('hlen', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
    for number = tonumber(redis.call('hget', KEYS[1], field)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('pttl', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. number))
    end
  end
  if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    return answer(0)
  end
  if mode == 'write' then return answer(0) end
end
redis.call('del', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
return answer(1)
