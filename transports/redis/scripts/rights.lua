-- Which of the rights that locks need this user lacks.
--
-- KEYS         none: no key is touched
-- ARGV[1]      the name of a lock
-- ARGV[2]      its channel
-- ARGV[3]      how notices are told: publish, spublish or both
-- ARGV[4]      1: the server is a node of a cluster
-- ARGV[5]      the token counter of the lock, if it were a fenced one
--
-- {missing_1, ...}  as ACL SETUSER spells them; a right to a key or channel is named with it; those that only fenced
--                   locks need follow the word "fenced"
-- 0                 the server cannot tell (before Redis 7)
--
-- Safe to run twice: it only asks.

if not redis.acl_check_cmd then return 0 end

local missing = {}
local function need(right, ...)
  if not redis.acl_check_cmd(...) then missing[#missing + 1] = '+' .. right end
end

local lock, channel = ARGV[1], ARGV[2]
need('time', 'time')
need('ping', 'ping')
need('info', 'info')
need('role', 'role')
need('client|setname', 'client', 'setname', 'x')
need('client|id', 'client', 'id')
need('evalsha', 'evalsha', 'x', '0')
for _, command in ipairs({'hgetall', 'hlen', 'pttl', 'del'}) do
  need(command .. ' ~' .. lock, command, lock)
end
for _, command in ipairs({'hexists', 'hdel', 'pexpire', 'pexpireat'}) do
  need(command .. ' ~' .. lock, command, lock, '1')
end
need('hset ~' .. lock, 'hset', lock, 'x', '1')

if ARGV[3] ~= 'spublish' then
  need('publish &' .. channel, 'publish', channel, '0')
  need('subscribe &' .. channel, 'subscribe', channel)
  need('unsubscribe', 'unsubscribe', channel)
end
if ARGV[3] ~= 'publish' then
  need('spublish &' .. channel, 'spublish', channel, '0')
  need('ssubscribe &' .. channel, 'ssubscribe', channel)
  need('sunsubscribe', 'sunsubscribe', channel)
end
if ARGV[4] == '1' then
  need('asking', 'asking')
  need('cluster|nodes', 'cluster', 'nodes')
  need('cluster|slots', 'cluster', 'slots')
  need('pubsub|shardnumsub', 'pubsub', 'shardnumsub')
end
missing[#missing + 1] = 'fenced'
local counter = ARGV[5]
need('get ~' .. counter, 'get', counter)
need('set ~' .. counter, 'set', counter, '1')
need('incr ~' .. counter, 'incr', counter)
return missing
