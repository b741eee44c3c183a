-- Reads how many permits of a semaphore whose permits expire are available. Those that have expired count as available.
--
-- KEYS[1]  the semaphore: a string, the available permits
-- KEYS[2]  its deadlines: a sorted set, the id of each permit that is held -> its deadline in epoch ms
--
-- {1, number, number, now}  the number; 0: there is no semaphore
-- error
--
-- Safe to run twice: it only reads.

local time = redis.pcall('time')
if time.err then return time end
local now = time[1] * 1000000 + time[2]
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
local number = tonumber(value or '0')
if not number then return redis.error_reply('WRONGTYPE the key holds a text that is no number of permits') end
local expired = redis.pcall('zcount', KEYS[2], '-inf', math.floor(now / 1000))
if type(expired) == 'table' then return expired end
number = number + expired
return {1, number, number, now}
