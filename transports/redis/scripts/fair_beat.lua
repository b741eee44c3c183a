-- Says of many places in the line of one fair lock that their owners still wait.
--
-- KEYS     as above
-- ARGV[1]  latest server time in µs at which this may still be executed
-- ARGV[2]  for how many ms peers wait for a head that is silent
-- ARGV[3]  for how many ms the places are alive from now on
-- ARGV[4]  the lock's channel, without the owner
-- ARGV[5]  how to tell: publish, spublish or both
-- ARGV[6]  the client: what the owners' names begin with
-- ARGV[7]  {number_1, number_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, left, places}  `left` as of fair_queue; places: an array in MessagePack, per owner: about how many places
--                         are before it; -1: the lock is free, and the owner is the head; -2: it has no place
-- {2, now}                too late, nothing was done
-- error                   no place was made or removed that counts
--
-- Safe to run twice: it only makes places last, and makes none.

local wait, beat = tonumber(ARGV[2]), tonumber(ARGV[3])

local function owners()
  local all = cmsgpack.unpack(ARGV[7])
  for i = 1, #all do all[i] = ARGV[6] .. all[i] end
  return all
end

-- The deadline of each owner that has a place.
local function refresh(all)
  local found, lives, raised, gone = scores(deadlines, all), {}, {}, {}
  for i, owner in ipairs(all) do
    if not found[i] then
      gone[#gone + 1] = owner
    else
      lives[#lives + 1] = ms + beat
      lives[#lives + 1] = owner
      if found[i] < ms + wait / 2 then
        raised[#raised + 1] = ms + wait
        raised[#raised + 1] = owner
      end
    end
  end
  set_scores(alive, lives)
  set_scores(deadlines, raised)
  if gone[1] then call('zrem', alive, unpack(gone)) end
  return found
end

-- About how many places are before each owner that has one. Two are counted, those between lie in between.
local function count_ahead(all, found)
  local has_place = {}
  for i = 1, #all do
    if found[i] then has_place[#has_place + 1] = i end
  end
  local count, ahead = #has_place, {}
  if count == 0 then return ahead end
  local first, last = rank(all[has_place[1]]), rank(all[has_place[count]])
  for n, i in ipairs(has_place) do
    ahead[i] = first + math.floor((last - first) * (n - 1) / math.max(count - 1, 1))
  end
  return ahead
end

return answer(function()
  if now > tonumber(ARGV[1]) then return {2, now} end
  local all, left = owners(), call('pttl', lock)
  -- The first write needs no memory: places must not be lost because the server has none.
  call('pexpireat', alive, ms + wait)
  mend(wait)
  local silent = find_silent()
  local found = refresh(all)
  remove_silent(silent)
  local is_free = left == -2
  local head, judged = judge_head(wait, is_free)
  expire(wait)

  local places, ahead, is_ours = {}, count_ahead(all, found), false
  for i, owner in ipairs(all) do
    if not found[i] then
      places[i] = -2
    elseif owner == head then
      places[i], is_ours = is_free and -1 or 0, true
    else
      places[i] = math.max(ahead[i], 1)
    end
  end
  if is_free and head and not is_ours then tell(head, ARGV[4], ARGV[5]) end
  return {1, now, is_free and judged or left, cmsgpack.pack(places)}
end)
