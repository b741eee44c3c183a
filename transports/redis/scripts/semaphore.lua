-- One operation on a semaphore, which counts once however often it arrives.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  the marker: a string, "<number> <result>" of this client's last operation
-- ARGV[1]  latest server time in µs at which this may still be executed
-- ARGV[2]  the number of this operation
-- ARGV[3]  for how long the marker is kept, in ms
-- ARGV[4]  the semaphore's channel
-- ARGV[5]  how to tell: publish, spublish or both
-- ARGV[6]  take, give, set, add, drain or void
-- ARGV[7]  give, add: how many; set: the number; void: the number of the operation that is settled
--          take: how many the first caller wants, and ARGV[8] and so on the next callers
--
-- {1, result, left, now}  done, now or before; `left` permits are available
-- {2, now}                too late, nothing was done
-- error                   nothing was done
--
-- Safe to run twice: the marker has the number, and a number is done once. Nothing is told the second time.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {2, now} end

-- A key of another type answers WRONGTYPE before anything is written.
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
local available = tonumber(value or '0')
if not available then return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits') end
local last = redis.pcall('get', KEYS[2])
if type(last) == 'table' then return last end
local number, result = tonumber(ARGV[2]), 0
local last_number, last_result = string.match(last or '0 0', '^(%d+) (-?%d+)$')
last_number, last_result = tonumber(last_number or '0'), tonumber(last_result or '0')
if last_number > number then return {2, now} end
if last_number == number then return {1, last_result, available, now} end

local op, by, sets = ARGV[6], 0, false
if op == 'take' then
  for i = 7, #ARGV do
    local wants = tonumber(ARGV[i])
    if result + wants > available then break end
    result = result + wants
  end
  by = -result
elseif op == 'give' then
  by = tonumber(ARGV[7])
  result = by
elseif op == 'add' then
  by = tonumber(ARGV[7])
  result = available + by
elseif op == 'drain' then
  if available > 0 then result = available end
  by = -result
elseif op == 'void' then
  if last_number == tonumber(ARGV[7]) then result = last_result end
  by = result
elseif op == 'set' then
  if not value then by, result, sets = tonumber(ARGV[7]), 1, true end
else
  return redis.error_reply('ERR unknown operation on a semaphore')
end

-- What gives permits back must work when the server is out of memory. Only the first write of a script is refused for
-- want of memory, so a write comes first that needs none, whether there is a marker or not.
if op == 'give' or op == 'void' then redis.pcall('pexpire', KEYS[2], ARGV[3]) end

-- The marker goes first: a change without it could be done twice. If the change is refused, the marker goes back.
local marked = redis.pcall('set', KEYS[2], ARGV[2] .. ' ' .. string.format('%.0f', result), 'px', ARGV[3])
if marked.err then return marked end
local changed = available
if sets then
  changed = redis.pcall('set', KEYS[1], ARGV[7])
  if not changed.err then changed = by end
elseif by ~= 0 then
  changed = redis.pcall('incrby', KEYS[1], string.format('%.0f', by))
end
if type(changed) == 'table' then
  redis.call('set', KEYS[2], last or '0 0', 'px', ARGV[3])
  return changed
end

-- A notice that cannot be published must not hide what was done.
if by > 0 and changed > 0 then
  local text = string.format('%.0f', changed)
  if ARGV[5] ~= 'publish' then redis.pcall('spublish', ARGV[4], text) end
  if ARGV[5] ~= 'spublish' then redis.pcall('publish', ARGV[4], text) end
end
return {1, result, changed, now}
