-- Reads who holds permits of a semaphore whose permits expire.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  its deadlines: a sorted set, the id of each permit that is held -> its deadline in epoch ms
--
-- {now, left, {id, count, its_left, ...}, available, held}
--   left: how long the last of them lasts in ms; -1: one of a peer has no lease time; -2: none is held; its_left: the same
--         of this one
--   id: in hexadecimal, at most 1,000 of them; count is 1
--   available: expired permits count; held: those that have not expired
-- error
--
-- Safe to run twice: it only reads.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
if not tonumber(value or '0') then
  return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits')
end
local ids = redis.pcall('zrangebyscore', KEYS[2], '(' .. now_ms, '+inf', 'withscores', 'limit', 0, 1000)
if ids.err then return ids end
local last = redis.pcall('zrange', KEYS[2], -1, -1, 'withscores')
if last.err then return last end

local expired = redis.pcall('zcount', KEYS[2], '-inf', now_ms)
if type(expired) == 'table' then return expired end
local held = redis.pcall('zcount', KEYS[2], '(' .. now_ms, '+inf')
if type(held) == 'table' then return held end

local function left_until(score)
  local deadline = tonumber(score)
  return deadline < 922337203685477 and deadline - now_ms or -1
end

local holds = {}
for i = 1, #ids, 2 do
  local hex = string.gsub(ids[i], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  holds[#holds + 1], holds[#holds + 2], holds[#holds + 3] = hex, '1', left_until(ids[i + 1])
end
local left = #ids > 0 and left_until(last[2]) or -2
return {now, left, holds, tonumber(value or '0') + expired, held}
