-- Reads the number of a semaphore or of a latch.
--
-- KEYS[1]  the semaphore or the latch: a string
--
-- {1, number, number, now}  the number; 0: there is none
-- error
--
-- Safe to run twice: it only reads.

local time = redis.pcall('time')
if time.err then return time end
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' then return value end
local number = tonumber(value or '0')
if not number then return redis.error_reply('WRONGTYPE the key holds a text that is no number') end
return {1, number, number, time[1] * 1000000 + time[2]}
