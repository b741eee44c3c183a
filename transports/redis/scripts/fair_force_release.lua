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

local function find_head()
  mend(wait)
  remove_silent(find_silent())
  return (judge_head(wait, true))
end

return answer(function()
  local fields, mode = holds_of(lock)
  if fields.err then error(fields, 0) end
  if not fields[1] then return {0, now} end
  local failed = delete(lock, fields, mode)
  if failed then error(failed, 0) end
  -- The hold has ended, whatever becomes of the line.
  local is_judged, head = pcall(find_head)
  if not is_judged then return {1, -1, now} end
  return {1, head and tell(head, ARGV[2], ARGV[3]) or 0, now}
end)
