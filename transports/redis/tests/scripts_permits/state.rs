//! What a semaphore is on the server, read and written with one command.

use std::collections::BTreeMap;

use crate::resp::{Client, Reply};

pub(crate) const PERMITS: &str = "L";
pub(crate) const DEADLINES: &str = "{L}:timeout";
pub(crate) const CHANNEL: &str = "redisson_sc:{L}";

/// The deadline of a permit without a lease time, as Redisson writes it.
pub(crate) const NO_LEASE: i64 = 922_337_203_685_477;

/// The two keys of a semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) available: Option<i64>,
    /// By id: what is left in ms.
    pub(crate) held: BTreeMap<Vec<u8>, i64>,
}

impl State {
    pub(crate) fn new(available: i64, held: &[(&[u8], i64)]) -> Self {
        let held = held.iter().flat_map(|(ids, left)| ids.chunks(16).map(|id| (id.to_vec(), *left)));
        Self { available: Some(available), held: held.collect() }
    }

    pub(crate) fn read(client: &mut Client) -> Self {
        let reply = client.eval::<&str>(READ, &[PERMITS, DEADLINES], &[]);
        let [now, available, held] = reply.list() else { panic!("{reply:?}") };
        let number = |reply: &Reply| reply.text().parse::<f64>().unwrap() as i64;
        let available = (!available.bytes().is_empty()).then(|| number(available));
        let held = held.list().chunks(2);
        let left = |deadline: i64| if deadline == NO_LEASE { NO_LEASE } else { deadline - number(now) };
        Self {
            available,
            held: held.map(|pair| (pair[0].bytes().to_vec(), left(number(&pair[1])))).collect(),
        }
    }

    /// Makes this the only content of the server.
    pub(crate) fn write(&self, client: &mut Client) {
        let available = self.available.map_or_else(String::new, |number| number.to_string());
        let mut args = vec![available.into_bytes()];
        for (id, left) in &self.held {
            args.extend([left.to_string().into_bytes(), id.clone()]);
        }
        let written = client.eval(WRITE, &[PERMITS, DEADLINES], &args);
        assert!(written.error().is_none(), "{written:?}");
    }

    /// All permits, available or held.
    pub(crate) fn total(&self) -> i64 {
        self.available.unwrap_or(0) + i64::try_from(self.held.len()).unwrap()
    }

    /// The same with each time in units, rounded. What has expired has none left.
    pub(crate) fn in_units(&self, unit: i64) -> Self {
        let rounded = |left: i64| if left == NO_LEASE { left } else { ((left + unit / 2) / unit).max(0) };
        let held = self.held.iter().map(|(id, left)| (id.clone(), rounded(*left)));
        Self { available: self.available, held: held.collect() }
    }
}

const READ: &str = "
local time = redis.call('time')
local now = string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000))
return {now, redis.call('get', KEYS[1]) or '', redis.call('zrange', KEYS[2], 0, -1, 'withscores')}";

const WRITE: &str = "
redis.call('flushall')
local time = redis.call('time')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
if ARGV[1] ~= '' then redis.call('set', KEYS[1], ARGV[1]) end
for i = 2, #ARGV, 2 do
  local left = tonumber(ARGV[i])
  if left < 922337203685477 then left = now + left end
  redis.call('zadd', KEYS[2], string.format('%.0f', left), ARGV[i + 1])
end
return 1";
