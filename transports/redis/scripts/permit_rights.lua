-- Which of the rights that permits that expire need besides those of locks this user lacks.
--
-- KEYS         none: no key is touched
-- ARGV[1]      how notices are told: publish, spublish or both
-- ARGV[2]      the name of a semaphore
-- ARGV[3]      its channel
-- ARGV[4]      its deadlines
-- ARGV[5]      the marker of a client beside it
--
-- {missing_1, ...}  as ACL SETUSER spells them; a right to a key or channel is named with it
-- 0                 the server cannot tell (before Redis 7)
--
-- Safe to run twice: it only asks.

if not redis.acl_check_cmd then return 0 end

local missing = {}
local function need(right, ...)
  if not redis.acl_check_cmd(...) then missing[#missing + 1] = '+' .. right end
end

local permits, channel, deadlines, marker = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
need('get ~' .. permits, 'get', permits)
need('set ~' .. permits, 'set', permits, '1')
need('incrby ~' .. permits, 'incrby', permits, '1')
need('pttl ~' .. permits, 'pttl', permits)
need('zadd ~' .. deadlines, 'zadd', deadlines, '1', 'x')
need('zrem ~' .. deadlines, 'zrem', deadlines, 'x')
need('zscore ~' .. deadlines, 'zscore', deadlines, 'x')
need('zrange ~' .. deadlines, 'zrange', deadlines, '0', '0')
need('zrangebyscore ~' .. deadlines, 'zrangebyscore', deadlines, '0', '1')
need('zcount ~' .. deadlines, 'zcount', deadlines, '0', '1')
need('zcard ~' .. deadlines, 'zcard', deadlines)
need('pexpire ~' .. deadlines, 'pexpire', deadlines, '1')
need('del ~' .. deadlines, 'del', deadlines)
need('get ~' .. marker, 'get', marker)
need('set ~' .. marker, 'set', marker, '1')
need('pexpire ~' .. marker, 'pexpire', marker, '1')

if ARGV[1] ~= 'spublish' then
  need('publish &' .. channel, 'publish', channel, '0')
  need('subscribe &' .. channel, 'subscribe', channel)
end
if ARGV[1] ~= 'publish' then
  need('spublish &' .. channel, 'spublish', channel, '0')
  need('ssubscribe &' .. channel, 'ssubscribe', channel)
end
return missing
