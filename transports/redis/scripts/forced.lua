-- The beginning of the scripts that end every hold of a lock, whoever has it.

-- How many timeout keys of read holds are deleted at most: Redisson makes one for each count. How many keys one command has.
local timeouts_max, keys_max = 10000, 1000

-- The fields and values of the lock, in turn, and its mode, which only a read/write lock has; an error if the key holds something
-- else. A hash is a lock if it has no more fields than a lock can have, and each is an owner (a client and a number, of a write
-- hold with `:write` behind it) with a count, or the mode.
local function holds_of(lock)
  local no_lock = redis.error_reply('WRONGTYPE the key holds a hash that is no lock')
  -- HLEN answers WRONGTYPE for a key that is no hash.
  local count = redis.pcall('hlen', lock)
  if type(count) == 'table' then return count end
  if count > 10000 then return no_lock end
  local fields, mode = redis.pcall('hgetall', lock), nil
  if fields.err then return fields end
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    local is_owner = string.find(field, '.:%-?%d+$') or string.find(field, '.:%-?%d+:write$')
    if field == 'mode' then
      mode = value
    elseif not (is_owner and string.find(value, '^%d+$')) then
      return no_lock
    end
  end
  return fields, mode
end

-- Deletes the lock and the timeout keys of its read holds, which are in its slot. Returns an error if the lock is still there.
-- A timeout key that cannot be deleted is left to expire: without the lock it means nothing.
local function delete(lock, fields, mode)
  local removed = redis.pcall('del', lock)
  if type(removed) == 'table' then return removed end
  if not mode then return nil end
  local tagged, timeouts = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}', {}
  for i = 1, #fields, 2 do
    local count = string.find(fields[i], ':write$') and 0 or tonumber(fields[i + 1]) or 0
    for number = 1, math.min(count, timeouts_max - #timeouts) do
      timeouts[#timeouts + 1] = tagged .. ':' .. fields[i] .. ':rwlock_timeout:' .. number
    end
  end
  for first = 1, #timeouts, keys_max do
    redis.pcall('del', unpack(timeouts, first, math.min(first + keys_max - 1, #timeouts)))
  end
end

