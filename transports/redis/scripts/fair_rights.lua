-- Which of the rights that fair locks need besides those of other locks this user lacks.
--
-- KEYS         none: no key is touched
-- ARGV[1]      how notices are told: publish, spublish or both
-- ARGV[2]      the line of a lock
-- ARGV[3]      its deadlines
-- ARGV[4]      the places of Leasehold in it
-- ARGV[5]      the channel of one owner
--
-- {missing_1, ...}  as ACL SETUSER spells them; a right to a key or channel is named with it
-- 0                 the server cannot tell (before Redis 7)
--
-- Safe to run twice: it only asks.

if not redis.acl_check_cmd then return 0 end

local missing = {}
local function need(command, key, ...)
  if not redis.acl_check_cmd(command, key, ...) then missing[#missing + 1] = '+' .. command .. ' ~' .. key end
end

local line, deadlines, alive = ARGV[2], ARGV[3], ARGV[4]
need('llen', line)
need('lindex', line, '0')
need('lrange', line, '0', '1')
need('lrem', line, '1', 'x')
need('rpush', line, 'x')
need('zrank', deadlines, 'x')
for _, key in ipairs({deadlines, alive}) do
  need('zadd', key, '1', 'x')
  need('zcard', key)
  need('zmscore', key, 'x')
  need('zrange', key, '0', '1')
  need('zrem', key, 'x')
  need('zscore', key, 'x')
end
need('zrangebyscore', alive, '0', '1')
for _, key in ipairs({line, deadlines, alive}) do need('pexpireat', key, '1') end
for _, key in ipairs({line, deadlines}) do need('persist', key) end

local channel = ARGV[5]
local function need_channel(command, ...)
  if not redis.acl_check_cmd(command, channel, ...) then missing[#missing + 1] = '+' .. command .. ' &' .. channel end
end
if ARGV[1] ~= 'spublish' then
  need_channel('publish', '0')
  need_channel('subscribe')
end
if ARGV[1] ~= 'publish' then
  need_channel('spublish', '0')
  need_channel('ssubscribe')
end
return missing
