-- Which of the rights that semaphores and latches need besides those of locks this user lacks.
--
-- KEYS         none: no key is touched
-- ARGV[1]      how notices are told: publish, spublish or both
-- ARGV[2]      the name of a counter
-- ARGV[3]      the marker of a client beside it
-- ARGV[4]      the channel of a semaphore
-- ARGV[5]      the channel of a latch
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

local counter, marker = ARGV[2], ARGV[3]
need('get ~' .. counter, 'get', counter)
need('set ~' .. counter, 'set', counter, '1')
need('incrby ~' .. counter, 'incrby', counter, '1')
need('decrby ~' .. counter, 'decrby', counter, '1')
need('del ~' .. counter, 'del', counter)
need('get ~' .. marker, 'get', marker)
need('set ~' .. marker, 'set', marker, '1')
need('pexpire ~' .. marker, 'pexpire', marker, '1')

for _, channel in ipairs({ARGV[4], ARGV[5]}) do
  if ARGV[1] ~= 'spublish' then
    need('publish &' .. channel, 'publish', channel, '0')
    need('subscribe &' .. channel, 'subscribe', channel)
  end
  if ARGV[1] ~= 'publish' then
    need('spublish &' .. channel, 'spublish', channel, '0')
    need('ssubscribe &' .. channel, 'ssubscribe', channel)
  end
end
return missing
