-- Takes a fair lock if it is free and no place is before the owner's. Otherwise keeps a place in the line for the
-- owner.
--
-- KEYS     as above
-- ARGV[1]  ttl in ms
-- ARGV[2]  owner
-- ARGV[3]  latest server time in µs at which this may still be executed
-- ARGV[4]  for how many ms peers wait for a head that is silent
-- ARGV[5]  for how many ms the place is alive; 0: no place is kept
-- ARGV[6]  the lock's channel, without the owner
-- ARGV[7]  how to tell: publish, spublish or both
--
-- {1, now}               granted, the owner holds it for at least ttl from now (server time, µs), and has no place
-- {0, left, now}         held by another owner for `left` ms, or free, and its head is removed after `left` ms if it
--                        stays silent; -1: held without expiry, as a peer may leave it
-- {3, left, ahead, now}  the same, and the owner has a place behind about `ahead` others
-- {2, now}               too late, nothing was done
-- error                  the owner holds nothing that it did not hold before, and has no new place
--
-- Safe to run twice: an owner that holds the lock is answered "granted" again, and its hold is neither counted up nor
-- shortened; an owner that has a place keeps it.

local ttl, owner, wait, beat = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])

-- As acquire: no hold is written that could not be taken back.
local function may_undo()
  if redis.acl_check_cmd then
    if redis.acl_check_cmd('hdel', lock, owner) then return end
    error(redis.error_reply('NOPERM this user has no permission to run the \'hdel\' command on the lock\'s key'), 0)
  end
  local room = redis.pcall('hset', lock, owner, 1, owner)
  if type(room) == 'table' and not string.find(room.err, 'wrong number of arguments', 1, true) then error(room, 0) end
  call('hdel', lock, owner)
end

local function take(has_place)
  may_undo()
  call('hset', lock, owner, '1')
  local expires = redis.pcall('pexpire', lock, ARGV[1])
  if expires ~= 1 then
    redis.pcall('hdel', lock, owner)
    if type(expires) == 'table' then error(expires, 0) end
    error(redis.error_reply('NOEXPIRY the server did not set an expiry on the lock\'s key'), 0)
  end
  if not has_place then return end
  local done, why = pcall(leave, owner, wait)
  if not done then
    redis.pcall('hdel', lock, owner)
    error(why, 0)
  end
  -- The hold stands, whatever becomes of the others' line. Their next beat sets its expiry too.
  pcall(expire, wait)
end

-- `since`: when the present hold ends.
local function join(since)
  local ahead, tail = call('llen', line), call('lindex', line, -1)
  local base = tail and score(deadlines, tail) or since
  if is_mixed() then
    base = math.min(math.max(base, since), ms + deadline_max)
  else
    base = math.min(base, since + ahead * wait)
  end
  call('zadd', alive, ms + beat, owner)
  local done, why = pcall(function()
    call('zadd', deadlines, base + wait, owner)
    call('rpush', line, owner)
    expire(wait)
  end)
  if not done then
    redis.pcall('lrem', line, -1, owner)
    redis.pcall('zrem', deadlines, owner)
    redis.pcall('zrem', alive, owner)
    error(why, 0)
  end
  return ahead
end

-- An owner that asks is alive. The first write needs no memory, so a line goes on when the server has none.
local function refresh(deadline)
  call('pexpireat', alive, ms + wait)
  local silent = find_silent()
  call('zadd', alive, ms + beat, owner)
  if deadline < ms + wait / 2 then call('zadd', deadlines, ms + wait, owner) end
  return silent
end

return answer(function()
  if now > tonumber(ARGV[3]) then return {2, now} end
  local mine, left = call('hexists', lock, owner), call('pttl', lock)
  if mine == 1 then
    if left < ttl then call('pexpire', lock, ARGV[1]) end
    return {1, now}
  end

  mend(wait)
  local place = score(deadlines, owner)
  local silent = place and beat > 0 and refresh(place) or find_silent()
  remove_silent(silent)
  local is_free, since = left == -2, ms + math.max(left, 0)
  local head, judged = judge_head(wait, is_free)
  if is_free and (not head or head == owner) then
    take(head)
    return {1, now}
  end

  if is_free then
    tell(head, ARGV[6], ARGV[7])
    left = judged
  end
  if beat == 0 then return {0, left, now} end
  if not place then return {3, left, join(since), now} end
  expire(wait)
  return {3, left, owner == head and 0 or math.max(rank(owner), 1), now}
end)
