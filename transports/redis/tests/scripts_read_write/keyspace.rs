//! All keys of a server, read and written with one command each.

use std::collections::BTreeMap;

use crate::resp::{Client, Reply};

/// What a key holds. Fields in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    Hash(BTreeMap<String, String>),
    Text(String),
    Other(String),
}

/// A key's content and what is left of it in ms, `None` without expiry.
pub(crate) type Entry = (Content, Option<i64>);

/// All keys of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyspace(pub(crate) BTreeMap<String, Entry>);

impl Keyspace {
    pub(crate) fn read(client: &mut Client) -> Self {
        let reply = client.eval::<&str>(READ, &[], &[]);
        let entries = reply.list().iter().map(|entry| {
            let [key, kind, left, value] = entry.list() else { panic!("{entry:?}") };
            let content = match (kind.text().as_str(), value) {
                ("hash", fields) => Content::Hash(pairs(fields)),
                ("string", value) => Content::Text(value.text()),
                (other, _) => Content::Other(other.to_owned()),
            };
            (key.text(), (content, (left.number() >= 0).then_some(left.number())))
        });
        Self(entries.collect())
    }

    /// Makes this the only content of the server.
    pub(crate) fn write(&self, client: &mut Client) {
        let mut args: Vec<String> = Vec::new();
        for (key, (content, left)) in &self.0 {
            let fields: Vec<String> = match content {
                Content::Hash(fields) => {
                    fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect()
                }
                Content::Text(text) => vec![text.clone()],
                Content::Other(kind) => panic!("{kind} cannot be written"),
            };
            args.extend([key.clone(), left.unwrap_or(-1).to_string(), fields.len().to_string()]);
            args.extend(fields);
        }
        let written = client.eval(WRITE, &[], &args);
        assert!(written.error().is_none(), "{written:?}");
    }

    /// The same with each time divided by `unit` and rounded up, so that two of them can be compared. A renewal rounds the
    /// server's time up to a millisecond, so a time may be a little more than a whole number of units.
    pub(crate) fn in_units(&self, unit: i64) -> Self {
        let rounded = |left: i64| (left - MORE_MS + unit - 1) / unit;
        let entries = self.0.iter();
        Self(
            entries
                .map(|(key, (content, left))| (key.clone(), (content.clone(), left.map(rounded))))
                .collect(),
        )
    }

    /// The keys that would stay for ever.
    pub(crate) fn immortal(&self) -> Vec<&String> {
        self.0.iter().filter(|(_, (_, left))| left.is_none()).map(|(key, _)| key).collect()
    }

    pub(crate) fn left(&self, key: &str) -> Option<i64> {
        self.0.get(key).and_then(|(_, left)| *left)
    }
}

fn pairs(fields: &Reply) -> BTreeMap<String, String> {
    fields.list().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
}

/// The name of the hash, and of the channel.
pub(crate) const LOCK: &str = "L";
pub(crate) const CHANNEL: &str = "redisson_rwlock:{L}";

pub(crate) fn timeout_key(owner: &str, number: u32) -> String {
    format!("{{L}}:{owner}:rwlock_timeout:{number}")
}

const READ: &str = "
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind = redis.call('type', key).ok
  local value = kind == 'hash' and redis.call('hgetall', key) or kind == 'string' and redis.call('get', key) or ''
  all[#all + 1] = {key, kind, redis.call('pttl', key), value}
end
return all";

const WRITE: &str = "
redis.call('flushall')
local i = 1
while i <= #ARGV do
  local key, left, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if n == 1 then
    redis.call('set', key, ARGV[i + 3])
  else
    redis.call('hset', key, unpack(ARGV, i + 3, i + 2 + n))
  end
  if left ~= '-1' then redis.call('pexpire', key, left) end
  i = i + 3 + n
end
return 1";

const MORE_MS: i64 = 2;
