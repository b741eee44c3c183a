-- Which of the rights that read/write locks need besides those of other locks this user lacks.
--
-- KEYS         none: no key is touched
-- ARGV[1]      how notices are told: publish, spublish or both
-- ARGV[2]      the name of a lock
-- ARGV[3]      its channel
-- ARGV[4]      the timeout key of a read hold of it
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

local lock, channel, timeout = ARGV[2], ARGV[3], ARGV[4]
need('hmget ~' .. lock, 'hmget', lock, 'mode')
need('set ~' .. timeout, 'set', timeout, '1')
need('del ~' .. timeout, 'del', timeout)
need('pttl ~' .. timeout, 'pttl', timeout)
need('pexpire ~' .. timeout, 'pexpire', timeout, '1')

if ARGV[1] ~= 'spublish' then
  need('publish &' .. channel, 'publish', channel, '0')
  need('subscribe &' .. channel, 'subscribe', channel)
end
if ARGV[1] ~= 'publish' then
  need('spublish &' .. channel, 'spublish', channel, '0')
  need('ssubscribe &' .. channel, 'ssubscribe', channel)
end
return missing
