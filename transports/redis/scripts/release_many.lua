-- Gives many locks back, each if its owner has it, and tells those who watch its channel.
--
-- KEYS[i]      a lock
-- ARGV[1]      how to tell: publish, spublish or both; a lock with an empty channel is not told
-- then, for each run of locks that follow each other and have the client in common:
-- ARGV[2r]     their client: what their owners' names begin with
-- ARGV[2r+1]   {number_1, channel_1, number_2, channel_2, ...} in MessagePack; an owner is its client and its number
--
-- {1, now, found}  found: an array in MessagePack, per lock: n: released, n clients got the notice; -1: released, the
--                  notice was not or could not be published; -2: not held by this owner, nothing was done; a text: an
--                  error, nothing was done
-- error            nothing was done
--
-- Safe to run twice: the second run finds no field of the owner, and no other owner's field is touched.

-- The time is read first: nothing that can be refused may stand between the writes and the answer.
local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]

local call, how = redis.pcall, ARGV[1]

-- A notice that cannot be published must not hide that the lock is free.
local function publish(command, channel)
  local reached = call(command, channel, '0')
  if type(reached) == 'table' then return -1 end
  return reached
end

local function tell(channel)
  if channel == '' then return -1 end
  if how ~= 'both' then return publish(how, channel) end
  local sharded, classic = publish('spublish', channel), publish('publish', channel)
  return (sharded < 0 or classic < 0) and -1 or sharded + classic
end

-- The first write is HDEL, which a server that is out of memory does not refuse.
local function give_back(key, owner, channel)
  local removed = call('hdel', key, owner)
  if type(removed) == 'table' then return removed.err end
  if removed == 0 then return -2 end
  return tell(channel)
end

local found, n = {}, 0
for run = 2, #ARGV, 2 do
  local client, holds = ARGV[run], cmsgpack.unpack(ARGV[run + 1])
  for i = 1, #holds, 2 do
    n = n + 1
    found[n] = give_back(KEYS[n], client .. holds[i], holds[i + 1])
  end
end
return {1, now, cmsgpack.pack(found)}
