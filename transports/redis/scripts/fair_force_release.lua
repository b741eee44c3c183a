-- Ends every hold of a fair lock, whoever has it, and tells the head of its line. The line stays.
--
-- KEYS     as above
-- ARGV[1]  for how many ms peers wait for a head that is silent
-- ARGV[2]  the lock's channel, without the owner
-- ARGV[3]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  there was a hold and it is gone; `listeners` as in fair_release
-- {0, now}             there was none, no hold was touched
-- error                no hold was touched
--
-- Safe to run twice: it asks for a state. (The second run may end a hold that began in between: that is what was asked
-- for.)

local wait = tonumber(ARGV[1])

-- A hash is a lock if it has no more fields than a lock can have, and each is an owner (a client and a number, of a
-- write hold with `:write` behind it) with a count, or the mode of a lock for reading and writing.
local function must_be_lock(holds)
  local no_lock = redis.error_reply('WRONGTYPE the key holds a hash that is no lock')
  if holds > 10000 then error(no_lock, 0) end
  local fields = call('hgetall', lock)
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    local is_owner = string.find(field, '.:%d+$') or string.find(field, '.:%d+:write$')
    if field ~= 'mode' and not (is_owner and string.find(value, '^%d+$')) then error(no_lock, 0) end
  end
end

local function find_head()
  mend(wait)
  remove_silent(find_silent())
  return (judge_head(wait, true))
end

return answer(function()
  local holds = call('hlen', lock)
  if holds == 0 then return {0, now} end
  must_be_lock(holds)
  call('del', lock)
  -- The hold has ended, whatever becomes of the line.
  local is_judged, head = pcall(find_head)
  if not is_judged then return {1, -1, now} end
  return {1, head and tell(head, ARGV[2], ARGV[3]) or 0, now}
end)
