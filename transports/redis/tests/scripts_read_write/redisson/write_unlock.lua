-- KEYS lock, channel, latch. ARGV `1`, lease, writer, how to publish, latch's ttl.
-- `gone` is what the version answers if there is no lock.
local done = redis.call('get', KEYS[3])
if done then return tonumber(done) end

local function answer(code)
  redis.call('set', KEYS[3], code, 'px', ARGV[5])
  return code
end

local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  answer(1)
  return gone
end
if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return answer(0)
end
redis.call('hdel', KEYS[1], ARGV[3])
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return answer(1)
