-- Says which run of which server answers for a key. A proxy that spreads keys over servers passes this on to the key's.
--
-- KEYS[1]  a lock
--
-- the run's id, as INFO tells it
-- error    the server does not tell it
--
-- Safe to run twice: it only reads.

local info = redis.pcall('info', 'server')
if type(info) == 'table' then return info end
return string.match(info, 'run_id:(%x+)') or redis.error_reply('ERR this server tells no run_id')
