-- One operation on a latch, which counts once however often it arrives.
--
-- KEYS[1]  the latch: a string, what is left to count down; none: the latch is open
-- KEYS[2]  the marker: a string, "<number> <result>" of this client's last operation
-- ARGV[1]  latest server time in µs at which this may still be executed
-- ARGV[2]  the number of this operation
-- ARGV[3]  for how long the marker is kept, in ms
-- ARGV[4]  the latch's channel
-- ARGV[5]  how to tell: publish, spublish or both
-- ARGV[6]  set, count or delete
-- ARGV[7]  set: the number; count: how many steps
--
-- {1, result, left, now}  done, now or before; `left` is left to count down
-- {2, now}                too late, nothing was done
-- error                   nothing was done
--
-- Safe to run twice: the marker has the number, and a number is done once. Nothing is told the second time.
--
-- "0" is published only by the script that made the last step: a Java waiter that gets it for a latch that is not open
-- never times out. "1" says that a number was set or the latch deleted.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

-- A key of another type answers WRONGTYPE before anything is written.
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
local left = tonumber(value or '0')
if not left then return redis.error_reply('WRONGTYPE the key holds a text that is no number to count down') end
local last = redis.pcall('get', KEYS[2])
if type(last) == 'table' then return last end
local number, result = tonumber(ARGV[2]), 0
local last_number, last_result = string.match(last or '0 0', '^(%d+) (-?%d+)$')
last_number, last_result = tonumber(last_number or '0'), tonumber(last_result or '0')
if last_number > number then return {2, now} end
if last_number == number then return {1, last_result, left, now} end

local op, message = ARGV[6], nil
if op == 'set' then
  if not value then result, message = 1, '1' end
elseif op == 'delete' then
  if value then result, message = 1, '1' end
elseif op == 'count' then
  result = math.max(0, math.min(tonumber(ARGV[7]), left))
  if result > 0 and result == left then message = '0' end
else
  return redis.error_reply('ERR unknown operation on a latch')
end

-- A step must be counted when the server is out of memory, too. Only the first write of a script is refused for want of
-- memory, so a write comes first that needs none, whether there is a marker or not.
if op ~= 'set' then redis.pcall('pexpire', KEYS[2], ARGV[3]) end

-- The marker goes first: a change without it could be done twice. If the change is refused, the marker goes back.
local marked = redis.pcall('set', KEYS[2], ARGV[2] .. ' ' .. string.format('%.0f', result), 'px', ARGV[3])
if marked.err then return marked end
local changed = {}
if result > 0 and op == 'set' then
  changed, left = redis.pcall('set', KEYS[1], ARGV[7]), tonumber(ARGV[7])
elseif result > 0 and (op == 'delete' or result == left) then
  changed, left = redis.pcall('del', KEYS[1]), 0
elseif result > 0 then
  changed, left = redis.pcall('decrby', KEYS[1], string.format('%.0f', result)), left - result
end
if type(changed) == 'table' and changed.err then
  redis.call('set', KEYS[2], last or '0 0', 'px', ARGV[3])
  return changed
end

-- A notice that cannot be published must not hide what was done.
if message then
  if ARGV[5] ~= 'publish' then redis.pcall('spublish', ARGV[4], message) end
  if ARGV[5] ~= 'spublish' then redis.pcall('publish', ARGV[4], message) end
end
return {1, result, left, now}
