-- Gives a fair lock back, if the owner has it, ends its place in the line, if it has one, and tells the head of the
-- line if the lock is free.
--
-- KEYS     as above
-- ARGV[1]  owner
-- ARGV[2]  for how many ms peers wait for a head that is silent
-- ARGV[3]  the lock's channel, without the owner
-- ARGV[4]  how to tell: publish, spublish or both
--
-- {1, listeners, now}  released; `listeners` clients got the notice; -1: it could not be published, or the lock is not
--                      free and there was nothing to tell
-- {0, now}             neither held by this owner nor waited for
-- error                the owner's hold and place are as before
--
-- Safe to run twice: the second run finds neither, and no other owner's hold or place is touched.

local owner, wait = ARGV[1], tonumber(ARGV[2])

local function end_place()
  local is_known = score(deadlines, owner) or score(alive, owner)
  if not is_known and call('llen', line) == call('zcard', deadlines) then return false end
  return leave(owner, wait)
end

local function find_head(is_free)
  mend(wait)
  remove_silent(find_silent())
  return (judge_head(wait, is_free))
end

return answer(function()
  -- The first write is HDEL, which a server that is out of memory does not refuse. From then on nothing hides that the
  -- hold has ended.
  local had_hold = call('hdel', lock, owner) == 1
  local done, had_place = pcall(end_place)
  if not done and not had_hold then error(had_place, 0) end
  local is_free = redis.pcall('pttl', lock) == -2
  local is_judged, head = pcall(find_head, is_free)
  local listeners = (is_judged and is_free) and 0 or -1
  if is_judged and is_free and head then listeners = tell(head, ARGV[3], ARGV[4]) end
  if not had_hold and not had_place then return {0, now} end
  return {1, listeners, now}
end)
