//! The keys of one fair lock on a server, read and written with one command each.

use std::collections::BTreeMap;

use crate::{
    model::{Hold, Model, name},
    ours::KEYS,
    resp::{Client, Reply},
};

/// Reads the state as a model has it. Names of unknown actors are an error.
pub(crate) fn read(client: &mut Client, now: i64, actors: &[usize]) -> Model {
    let ids: BTreeMap<String, usize> = actors.iter().map(|actor| (name(*actor), *actor)).collect();
    let reply = client.eval::<&str>(READ, &KEYS, &[]);
    let [others, holds, line, deadlines, alive, ends] = reply.list() else { panic!("{reply:?}") };
    assert_eq!(others.number(), 0, "no other keys");
    let ends: Vec<i64> = ends.list().iter().map(Reply::number).collect();
    let expires = |key: usize| (ends[key] >= 0).then_some(ends[key]);
    let hold = holds.list().chunks(2).map(|field| {
        let (actor, count) = (ids[&field[0].text()], field[1].text().parse().unwrap());
        Hold { actor, count, left: ends[0] }
    });
    let hold: Vec<_> = hold.collect();
    assert!(hold.len() < 2, "two holders: {hold:?}");
    assert!(hold.is_empty() || ends[0] >= 0, "a hold without expiry");
    let entries = |zset: &Reply, read: fn(f64, i64) -> i64| -> BTreeMap<usize, i64> {
        let pairs = zset.list().chunks(2);
        pairs.map(|pair| (ids[&pair[0].text()], read(pair[1].text().parse().unwrap(), now))).collect()
    };
    Model {
        hold: hold.into_iter().next(),
        line: line.list().iter().map(|owner| ids[&owner.text()]).collect(),
        deadlines: entries(deadlines, |score, now| whole(score) - now),
        alive: entries(alive, |score, now| whole(score * 2.0) - 2 * now),
        ends: [expires(1), expires(2), expires(3)],
    }
}

/// Makes this the only content of the server.
pub(crate) fn write(client: &mut Client, model: &Model, now: i64) {
    let mut commands: Vec<Vec<String>> = vec![vec!["flushall".into()]];
    let mut add = |words: Vec<String>| commands.push(words);
    let [lock, line, deadlines, alive] = KEYS.map(str::to_owned);
    if let Some(hold) = &model.hold {
        add(vec!["hset".into(), lock.clone(), name(hold.actor), hold.count.to_string()]);
        add(vec!["pexpire".into(), lock, hold.left.to_string()]);
    }
    for actor in &model.line {
        add(vec!["rpush".into(), line.clone(), name(*actor)]);
    }
    for (actor, deadline) in &model.deadlines {
        add(vec!["zadd".into(), deadlines.clone(), (deadline + now).to_string(), name(*actor)]);
    }
    for (actor, lives) in &model.alive {
        let half = if lives % 2 == 0 { "" } else { ".5" };
        add(vec!["zadd".into(), alive.clone(), format!("{}{half}", (lives + 2 * now) / 2), name(*actor)]);
    }
    for (key, ends) in [line, deadlines, alive].into_iter().zip(model.ends) {
        if let Some(ends) = ends {
            add(vec!["pexpireat".into(), key, (ends + now).to_string()]);
        }
    }
    let args: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    let written = client.eval(WRITE, &[], &args);
    assert!(written.error().is_none(), "{written:?}");
}

#[expect(clippy::cast_possible_truncation, reason = "scores are times, exact in a double")]
fn whole(score: f64) -> i64 {
    assert!(score.fract() == 0.0 && score.abs() < 9e15, "{score}");
    score as i64
}

/// The last: the time to live of each key.
const READ: &str = "
local kinds = {'hash', 'list', 'zset', 'zset'}
local own = redis.call('exists', unpack(KEYS)) -- first: it removes what has expired
local others = redis.call('dbsize') - own
local ends = {}
for i, key in ipairs(KEYS) do ends[i] = redis.call('pttl', key) end
return {others, redis.call('hgetall', KEYS[1]), redis.call('lrange', KEYS[2], 0, -1),
  redis.call('zrange', KEYS[3], 0, -1, 'withscores'), redis.call('zrange', KEYS[4], 0, -1, 'withscores'), ends}";

const WRITE: &str = "
for _, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
  redis.call(unpack(words))
end
return 1";
