//! A server whose time is the test's, all who use one lock there, and a listener to every channel.

use std::path::Path;

use crate::{
    clock::Frozen,
    model::{Answer, Model, Op, PEER_LEASE, Step, name},
    ours::{CHANNEL, KEYS, NEVER, Scripts, places},
    redisson::{Peer, Version},
    resp::{Client, Reply},
    state,
};

pub(crate) struct World {
    pub(crate) frozen: Frozen,
    pub(crate) client: Client,
    listener: Client,
    pub(crate) scripts: Scripts,
    pub(crate) version: Version,
    /// How far the clocks of peers are ahead, in ms.
    pub(crate) peers_ahead: i64,
    actors: Vec<usize>,
}

impl World {
    pub(crate) fn start(actors: &[usize]) -> Self {
        Self::on(Path::new("redis-server"), actors)
    }

    pub(crate) fn on(program: &Path, actors: &[usize]) -> Self {
        let frozen = Frozen::start(program);
        let (client, mut listener) = (frozen.server.client(), frozen.server.client());
        listener.ok(&["PSUBSCRIBE", "*"]);
        let (scripts, version) = (Scripts::new(), Version::V4_7);
        Self { frozen, client, listener, scripts, version, peers_ahead: 0, actors: actors.to_vec() }
    }

    pub(crate) fn read(&mut self) -> Model {
        state::read(&mut self.client, self.frozen.clock.ms(), &self.actors)
    }

    pub(crate) fn write(&mut self, model: &Model) {
        state::write(&mut self.client, model, self.frozen.clock.ms());
    }

    /// Moves the time, and waits until the server's expiries know: some remember the time for a moment.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.frozen.clock.pass(ms);
        let ends = (self.frozen.clock.ms() + AHEAD).to_string();
        while self.client.eval(LEFT, &["probe"], &[&ends]).number() != AHEAD {
            std::thread::yield_now();
        }
    }

    /// Does it, and returns what is said, what is there and who was told.
    pub(crate) fn act(&mut self, actor: usize, op: Op) -> Step {
        let answer = self.answer(actor, op);
        (answer, self.read(), self.told())
    }

    fn answer(&mut self, actor: usize, op: Op) -> Answer {
        let owner = name(actor);
        let (client, scripts) = (&mut self.client, &self.scripts);
        let mut peer = Peer { client, version: self.version, now: self.frozen.clock.ms() + self.peers_ahead };
        match op {
            Op::Queue(ttl) => asked(&scripts.queue(peer.client, &owner, ttl)),
            Op::Acquire(ttl) => asked(&scripts.acquire(peer.client, &owner, ttl)),
            Op::Beat => {
                let reply = scripts.beat(peer.client, &[&owner], NEVER);
                Answer::Beaten(reply.list()[2].number(), places(&reply)[0])
            }
            Op::Release => released(&scripts.release(peer.client, &owner)),
            Op::Force => released(&scripts.force(peer.client)),
            Op::Lock(lease, wait) => of_peer(&peer.lock(&owner, lease, wait)),
            Op::TryLock(lease, wait) => of_peer(&peer.try_lock(&owner, lease, wait)),
            Op::Unlock => of_peer(&peer.unlock(&owner, PEER_LEASE)),
            Op::GiveUp(wait) => {
                peer.give_up(&owner, wait);
                Answer::None
            }
            Op::Pass(ms) => {
                self.pass(ms);
                Answer::None
            }
        }
    }

    /// The actors that were told since the last time. Every message is a `0` on the channel of one.
    pub(crate) fn told(&mut self) -> Vec<usize> {
        self.channels()
            .iter()
            .map(|channel| {
                let owner = channel.strip_prefix(CHANNEL).and_then(|rest| rest.strip_prefix(':'));
                let owner = owner.unwrap_or_else(|| panic!("told on {channel}"));
                *self.actors.iter().find(|actor| name(**actor) == owner).unwrap()
            })
            .collect()
    }

    /// Forgets who was told, whoever it was.
    pub(crate) fn told_anybody(&mut self) {
        self.channels();
    }

    fn channels(&mut self) -> Vec<String> {
        let mut channels = Vec::new();
        let mut reply = self.listener.send(&["PING"]);
        while let [_, _, channel, payload] = reply.list() {
            assert_eq!(payload.text(), "0", "{channel:?}");
            channels.push(channel.text());
            reply = self.listener.read();
        }
        channels
    }

    /// Does it with the places of many actors of one client, as [`Self::act`].
    pub(crate) fn act_together(&mut self, actors: &[usize]) -> ((i64, Vec<i64>), Model, Vec<usize>) {
        let names: Vec<_> = actors.iter().map(|actor| name(*actor)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let reply = self.scripts.beat(&mut self.client, &names, NEVER);
        ((reply.list()[2].number(), places(&reply)), self.read(), self.told())
    }

    pub(crate) fn queue(&mut self, actor: usize) -> Answer {
        self.answer(actor, Op::Queue(30_000))
    }

    pub(crate) fn release(&mut self, actor: usize) -> Answer {
        self.answer(actor, Op::Release)
    }

    /// What the actor is told.
    pub(crate) fn ask(&mut self, actor: usize, op: Op) -> Answer {
        self.answer(actor, op)
    }

    /// As [`Op::Unlock`], with the lease of a hold that is left.
    pub(crate) fn unlock(&mut self, actor: usize, lease: i64) {
        let mut peer = Peer {
            client: &mut self.client,
            version: self.version,
            now: self.frozen.clock.ms() + self.peers_ahead,
        };
        peer.unlock(&name(actor), lease);
    }

    /// A peer ends whatever hold there is.
    pub(crate) fn force_as_peer(&mut self) {
        Peer {
            client: &mut self.client,
            version: self.version,
            now: self.frozen.clock.ms() + self.peers_ahead,
        }
        .force();
    }

    /// The server's time in ms.
    pub(crate) fn now(&self) -> i64 {
        self.frozen.clock.ms()
    }

    /// How many of the lock's keys there are.
    pub(crate) fn keys(&mut self) -> i64 {
        self.client.ok(&[&["EXISTS"], &KEYS[..]].concat()).number()
    }

    /// What became of the place of one.
    pub(crate) fn beat(&mut self, actor: usize) -> i64 {
        match self.answer(actor, Op::Beat) {
            Answer::Beaten(_, place) => place,
            other => panic!("{other:?}"),
        }
    }
}

fn asked(reply: &Reply) -> Answer {
    match reply.list() {
        [code, _] if code.number() == 1 => Answer::Granted,
        [code, left, _] if code.number() == 0 => Answer::Busy(left.number()),
        [code, left, ahead, _] if code.number() == 3 => Answer::Waits(left.number(), ahead.number()),
        other => panic!("{other:?}"),
    }
}

fn released(reply: &Reply) -> Answer {
    if reply.code() == 1 { Answer::Released } else { Answer::NotYours }
}

fn of_peer(reply: &Reply) -> Answer {
    if *reply == Reply::Nil { Answer::Nil } else { Answer::Number(reply.number()) }
}

/// What is left of a key that ends then.
const LEFT: &str = "
redis.call('set', KEYS[1], '1')
redis.call('pexpireat', KEYS[1], ARGV[1])
local left = redis.call('pttl', KEYS[1])
redis.call('del', KEYS[1])
return left";
const AHEAD: i64 = 1_000_000;
