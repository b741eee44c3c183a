-- The beginning of every script of fair locks: the line, and which of its places still count.
--
-- KEYS[1]  the lock: a hash, one field per owner
-- KEYS[2]  the line: a list of owners, the head first
-- KEYS[3]  the deadlines: a sorted set, owner to ms since 1970. Redisson removes a head whose deadline has passed
-- KEYS[4]  the places of Leasehold: a sorted set, owner to the ms since 1970 until which it counts as alive
--
-- A place in KEYS[4] is judged by that time alone. When the time has passed, or is absurd, the place becomes a suspect:
-- it gets a little more time, and half a ms as a mark. A suspect that stays silent is removed, and a beat ends the
-- suspicion. All silent places become suspects at the same look, so a server that stood still costs no place. A place
-- that is not in KEYS[4] is a peer's, and judged by Redisson's rule.

local lock, line, deadlines, alive = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- In ms: the time of a suspect; that of a suspect when no place was heard of for `unheard`, as after a stall of the
-- server; and how far ahead no time can be, unless the clock stepped back.
local suspicion, suspicion_after_stall, unheard, ahead_max = 2400, 4000, 1000, 10000
-- How many places one script removes: at the head, and behind it. How long a line is mended, and how many members one
-- command has.
local heads_max, silent_max, mended_max, members_max = 250, 16, 10000, 1000
-- No deadline is further ahead than this, whatever a peer writes.
local deadline_max = 1000000000000

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
local ms = math.floor(now / 1000)

-- An error ends the function that `answer` runs.
local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then error(reply, 0) end
  return reply
end

local function answer(run)
  local done, reply = pcall(run)
  if done or type(reply) == 'table' then return reply end
  -- From Redis 7 on an error of a command arrives as its text, which begins with its code.
  local text = tostring(reply)
  return redis.error_reply(string.find(text, '^%u+ ') and text or 'ERR ' .. text)
end

local function score(key, owner)
  return tonumber(call('zscore', key, owner))
end

-- The score of each owner, nil if it has none.
local function scores(key, owners)
  local found = {}
  for first = 1, #owners, members_max do
    local last = math.min(first + members_max - 1, #owners)
    local some = call('zmscore', key, unpack(owners, first, last))
    for i = 1, #some do found[first + i - 1] = tonumber(some[i]) end
  end
  return found
end

-- Sets {score, owner, ...}.
local function set_scores(key, entries)
  for first = 1, #entries, 2 * members_max do
    call('zadd', key, unpack(entries, first, math.min(first + 2 * members_max - 1, #entries)))
  end
end

-- About how many places are before the owner's: in the order of the deadlines, which a search finds.
local function rank(owner)
  return call('zrank', deadlines, owner) or 0
end

-- Whether peers have places in the line.
local function is_mixed()
  return call('llen', line) ~= call('zcard', alive)
end

-- Makes the line and the deadlines agree, if a peer, an eviction or a lost right has set them apart. Redisson 3 fails
-- on a place without a deadline.
local function mend(wait)
  local length, count = call('llen', line), call('zcard', deadlines)
  local head = call('lindex', line, 0)
  if length == count and (not head or score(deadlines, head)) then return end
  if length > mended_max or count > mended_max then return end
  local owners, known, missing = call('lrange', line, 0, -1), {}, {}
  local found = scores(deadlines, owners)
  for i, owner in ipairs(owners) do
    if known[owner] then
      call('lrem', line, -1, owner)
    elseif not found[i] then
      missing[#missing + 1] = ms + wait
      missing[#missing + 1] = owner
    end
    known[owner] = true
  end
  set_scores(deadlines, missing)
  for _, owner in ipairs(call('zrange', deadlines, 0, -1)) do
    if not known[owner] then call('zrem', deadlines, owner) end
  end
end

-- Marks silent places as suspects. Returns the suspects whose time is over. What has no place any more goes at once.
local function find_silent()
  local first = call('zrange', alive, 0, 0, 'withscores')
  if not first[1] then return {} end
  local last = call('zrange', alive, -1, -1, 'withscores')
  local lowest, highest = tonumber(first[2]), tonumber(last[2])
  if lowest > ms and highest <= ms + ahead_max then return {} end

  local passed = call('zrangebyscore', alive, '-inf', ms, 'withscores')
  local owners, times, marks, silent = {}, {}, {}, {}
  for i = 1, #passed, 2 do
    owners[#owners + 1], times[#times + 1] = passed[i], tonumber(passed[i + 1])
  end
  local found = scores(deadlines, owners)
  local mark = ms + 0.5 + (highest <= ms - unheard and suspicion_after_stall or suspicion)
  for i, owner in ipairs(owners) do
    if not found[i] then
      call('zrem', alive, owner)
    elseif times[i] % 1 == 0 then
      marks[#marks + 1] = mark
      marks[#marks + 1] = owner
    else
      silent[#silent + 1] = owner
    end
  end
  for _, owner in ipairs(call('zrangebyscore', alive, '(' .. ms + ahead_max, '+inf')) do
    marks[#marks + 1] = ms + 0.5 + suspicion
    marks[#marks + 1] = owner
  end
  set_scores(alive, marks)
  return silent
end

local function remove(owner)
  local removed = call('lrem', line, 1, owner) + call('zrem', deadlines, owner)
  call('zrem', alive, owner)
  return removed > 0
end

-- Removes suspects whose time is over, but for those that the script itself has heard of.
local function remove_silent(silent)
  for i = 1, math.min(#silent, silent_max) do
    local left = score(alive, silent[i])
    if left and left <= ms then remove(silent[i]) end
  end
end

-- Brings the deadlines of our places forward, for the case that they are dead: while the lock is free, peers wait for each of
-- them for `wait` at most. Each further place has `wait` more, because a peer that takes the lock lowers all deadlines by that.
local function bring_forward(wait)
  if not is_mixed() then return end
  local owners, earlier = call('lrange', line, 0, heads_max), {}
  local lives, found = scores(alive, owners), scores(deadlines, owners)
  for i, owner in ipairs(owners) do
    if lives[i] and found[i] and found[i] > ms + i * wait then
      earlier[#earlier + 1] = ms + i * wait
      earlier[#earlier + 1] = owner
    end
  end
  set_scores(deadlines, earlier)
end

-- Removes heads that do not count any more. Returns the head, and after how many ms it is removed if it stays silent.
local function judge_head(wait, is_free)
  local head
  for _ = 1, heads_max do
    head = call('lindex', line, 0)
    if not head then return nil, 0 end
    local latest = ms + wait
    local deadline, lives = score(deadlines, head) or latest, score(alive, head)
    -- Who is alive takes a free lock at once, so peers wait for `wait` at most.
    local is_too_late = is_free and deadline > latest
    if lives and lives > ms then
      -- No peer removes it too early.
      if is_too_late or deadline < ms + wait / 2 then call('zadd', deadlines, latest, head) end
      if is_free then bring_forward(wait) end
      return head, math.ceil(lives - ms) + (lives % 1 == 0 and suspicion or 0)
    end
    if not lives and deadline > ms then
      if is_too_late then
        deadline = latest
        call('zadd', deadlines, deadline, head)
      end
      if is_free then bring_forward(wait) end
      return head, deadline - ms
    end
    remove(head)
  end
  return call('lindex', line, 0), 0
end

-- Moves the deadlines of these owners forward by `wait`, as Redisson does when a place before them ends. The place of a peer
-- keeps `wait`, as far as it has that: the deadlines of places of ours before it may have been brought forward.
local function advance(owners, wait)
  local lives, found, moved = scores(alive, owners), scores(deadlines, owners), {}
  for i, owner in ipairs(owners) do
    if found[i] then
      local deadline = found[i] - wait
      if not lives[i] then
        deadline = math.max(deadline, math.min(found[i], ms + wait))
      elseif deadline < ms + wait / 2 then
        deadline = ms + wait
      end
      moved[#moved + 1] = deadline
      moved[#moved + 1] = owner
    end
  end
  set_scores(deadlines, moved)
end

-- Ends the owner's place. In a line of ours alone no other place is touched.
local function leave(owner, wait)
  local followers, is_behind = {}, false
  if is_mixed() then
    for _, other in ipairs(call('lrange', line, 0, -1)) do
      if is_behind then followers[#followers + 1] = other end
      is_behind = is_behind or other == owner
    end
  end
  local had_place = remove(owner)
  advance(followers, wait)
  return had_place
end

-- Lets the line expire when all its places are past. A line with places of peers stays, as Redisson leaves it.
local function expire(wait)
  local tail = call('lindex', line, -1)
  if not tail then return end
  local deadline = math.min(score(deadlines, tail) or ms, ms + deadline_max)
  local ends = string.format('%.0f', math.max(deadline, ms) + wait)
  call('pexpireat', alive, ends)
  if is_mixed() then
    call('persist', line)
    call('persist', deadlines)
  else
    call('pexpireat', line, ends)
    call('pexpireat', deadlines, ends)
  end
end

-- Tells the head that the lock is free. Returns how many clients got the notice, -1: it was not published.
local function tell(head, channel, how)
  local function publish(command)
    local reached = redis.pcall(command, channel .. ':' .. head, '0')
    return type(reached) == 'table' and -1 or reached
  end
  if how ~= 'both' then return publish(how) end
  local sharded, classic = publish('spublish'), publish('publish')
  return (sharded < 0 or classic < 0) and -1 or sharded + classic
end

