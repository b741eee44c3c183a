-- Takes permits that expire, all or none, if enough are available. Before that it takes back permits that have expired.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  its deadlines: a sorted set, the id of each permit that is held -> its deadline in epoch ms
-- ARGV[1]  ttl in ms
-- ARGV[2]  the ids, 16 bytes each, one behind the other
-- ARGV[3]  latest server time in µs at which this may still be executed
-- ARGV[4]  the semaphore's channel
-- ARGV[5]  how to tell: publish, spublish or both
--
-- {1, now}        granted, the permits are held for at least ttl from now (server time, µs)
-- {0, left, now}  not enough are available; the next deadline of a permit is in `left` ms; -2: there is none
-- {2, now}        too late, nothing was done
-- error           no permit was taken
--
-- Safe to run twice: ids that are all held are answered "granted" again, and no deadline comes nearer. If a peer took some
-- of them away, the others are given back first.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end
-- A permit has expired when its deadline is not after the present ms. The 1 makes up for the part of the ms that is over.
local now_ms = math.floor(now / 1000)
local deadline = now_ms + 1 + tonumber(ARGV[1])
local deadline_text = string.format('%.0f', deadline)
local permits, deadlines, ids = KEYS[1], KEYS[2], ARGV[2]
local count = #ids / 16

-- What is read is read first. A key of another type answers WRONGTYPE before anything is written.
local value = redis.pcall('get', permits)
if type(value) == 'table' then return value end
local available = tonumber(value or '0')
if not available then return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits') end
local own, live, nearer = {}, 0, {}
for i = 1, count do
  local id = string.sub(ids, 16 * i - 15, 16 * i)
  local score = redis.pcall('zscore', deadlines, id)
  if type(score) == 'table' then return score end
  if score then
    own[#own + 1] = id
    if tonumber(score) > now_ms then live = live + 1 end
    if tonumber(score) < deadline then nearer[#nearer + 1] = id end
  end
end

-- Runs a command for many members, a thousand at a time. Only the first can be refused: all need the same right.
local function in_parts(members, run)
  for from = 1, #members, 1000 do
    local reply = run(from, math.min(from + 999, #members))
    if type(reply) == 'table' then return reply end
  end
end

local function add(members)
  return in_parts(members, function(from, to)
    local pairs_of = {}
    for i = from, to do
      pairs_of[#pairs_of + 1] = deadline_text
      pairs_of[#pairs_of + 1] = members[i]
    end
    return redis.pcall('zadd', deadlines, unpack(pairs_of))
  end)
end

-- Only the first write of a script is refused for want of memory. This one needs none, and shows that the right is there.
local function may_remove()
  local probe = redis.pcall('zrem', deadlines, '')
  if type(probe) == 'table' then return probe end
end

if live == count then
  local refused = may_remove() or add(nearer)
  if refused then return refused end
  return {1, now}
end

-- A bounded number at a time: a semaphore may have been left alone with very many.
local freed = redis.pcall('zrangebyscore', deadlines, '-inf', now_ms, 'limit', 0, math.max(1000, count))
if freed.err then return freed end
if #own > 0 then
  local known = {}
  for i = 1, #freed do known[freed[i]] = true end
  for i = 1, #own do
    if not known[own[i]] then freed[#freed + 1] = own[i] end
  end
end

local granted = available + #freed >= count
local left = -2
if granted or #freed > 0 then
  if not granted then
    local refused = may_remove()
    if refused then return refused end
  end
  -- Whatever is refused below is taken back by the command that was just allowed.
  local change = granted and #freed - count or #freed
  local after = redis.pcall('incrby', permits, string.format('%.0f', change))
  if type(after) == 'table' then return after end
  local refused = may_remove() or in_parts(freed, function(from, to)
    return redis.pcall('zrem', deadlines, unpack(freed, from, to))
  end)
  if refused then
    redis.call('incrby', permits, string.format('%.0f', -change))
    return refused
  end
  if granted then
    local all = {}
    for i = 1, count do all[i] = string.sub(ids, 16 * i - 15, 16 * i) end
    refused = add(all)
    if refused then
      redis.call('incrby', permits, count)
      return refused
    end
    -- As peers do: where the semaphore expires, its deadlines expire with it.
    local ttl = redis.pcall('pttl', permits)
    if type(ttl) == 'number' and ttl > 0 then redis.pcall('pexpire', deadlines, ttl) end
  end
  -- A notice that cannot be published must not hide what was done.
  if #freed > 0 and after > 0 then
    local text = string.format('%.0f', after)
    if ARGV[5] ~= 'publish' then redis.pcall('spublish', ARGV[4], text) end
    if ARGV[5] ~= 'spublish' then redis.pcall('publish', ARGV[4], text) end
  end
  if granted then return {1, now} end
end

-- A permit of a peer without lease time has a deadline in the far future.
local next_one = redis.pcall('zrange', deadlines, 0, 0, 'withscores')
if next_one.err then return next_one end
local next_deadline = tonumber(next_one[2] or '')
if next_deadline and next_deadline < 922337203685477 then left = math.max(0, next_deadline - now_ms) end
return {0, left, now}
