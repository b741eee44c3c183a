//! Our scripts, as the transport calls them.

use crate::resp::{Client, Reply};

macro_rules! fair {
    ($name:literal) => {
        concat!(
            include_str!("../../scripts/fair_line.lua"),
            include_str!(concat!("../../scripts/", $name, ".lua"))
        )
    };
}

pub(crate) const LOCK: &str = "L";
pub(crate) const LINE: &str = "redisson_lock_queue:{L}";
pub(crate) const DEADLINES: &str = "redisson_lock_timeout:{L}";
pub(crate) const ALIVE: &str = "{L}:leasehold_alive";
pub(crate) const KEYS: [&str; 4] = [LOCK, LINE, DEADLINES, ALIVE];
pub(crate) const CHANNEL: &str = "redisson_lock__channel:{L}";

/// In ms: for how long peers wait for a silent head, and for how long a beat lasts.
pub(crate) const WAIT: i64 = 300_000;
pub(crate) const BEAT: i64 = 1_500;
/// A latest server time that is never reached, and one that has passed.
pub(crate) const NEVER: &str = "9007199254740992";
pub(crate) const PASSED: &str = "1";

/// The texts of the scripts. A test may change them.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    pub(crate) queue: String,
    pub(crate) beat: String,
    pub(crate) release: String,
    pub(crate) force: String,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            queue: fair!("fair_queue").into(),
            beat: fair!("fair_beat").into(),
            release: fair!("fair_release").into(),
            force: concat!(
                include_str!("../../scripts/fair_line.lua"),
                include_str!("../../scripts/forced.lua"),
                include_str!("../../scripts/fair_force_release.lua")
            )
            .into(),
        }
    }

    /// The same with another text in place of one that must be there.
    pub(crate) fn with(&self, text: &str, other: &str) -> Self {
        let mut changed = self.clone();
        let mut found = 0;
        for script in [&mut changed.queue, &mut changed.beat, &mut changed.release, &mut changed.force] {
            found += script.matches(text).count();
            *script = script.replace(text, other);
        }
        assert!(found > 0, "no script has {text:?}");
        changed
    }

    pub(crate) fn queue(&self, client: &mut Client, owner: &str, ttl: i64) -> Reply {
        self.ask(client, owner, ttl, BEAT, NEVER)
    }

    pub(crate) fn acquire(&self, client: &mut Client, owner: &str, ttl: i64) -> Reply {
        self.ask(client, owner, ttl, 0, NEVER)
    }

    pub(crate) fn ask(&self, client: &mut Client, owner: &str, ttl: i64, beat: i64, limit: &str) -> Reply {
        let (ttl, wait, beat) = (ttl.to_string(), WAIT.to_string(), beat.to_string());
        client.eval(&self.queue, &KEYS, &[&*ttl, owner, limit, &wait, &beat, CHANNEL, "publish"])
    }

    /// Of owners of one client.
    pub(crate) fn beat(&self, client: &mut Client, owners: &[&str], limit: &str) -> Reply {
        let (wait, beat) = (WAIT.to_string(), BEAT.to_string());
        let head = owners.first().map_or("", |owner| split(owner).0);
        let numbers: Vec<_> = owners.iter().map(|owner| split(owner).1).collect();
        let packed = pack(&numbers);
        let [limit, wait, beat, head] = [limit, &wait, &beat, head].map(str::as_bytes);
        client.eval(
            &self.beat,
            &KEYS,
            &[limit, wait, beat, CHANNEL.as_bytes(), b"publish".as_slice(), head, &packed],
        )
    }

    pub(crate) fn release(&self, client: &mut Client, owner: &str) -> Reply {
        client.eval(&self.release, &KEYS, &[owner, &WAIT.to_string(), CHANNEL, "publish"])
    }

    pub(crate) fn force(&self, client: &mut Client) -> Reply {
        client.eval(&self.force, &KEYS, &[&WAIT.to_string(), CHANNEL, "publish"])
    }
}

/// What a beat found for each owner.
pub(crate) fn places(reply: &Reply) -> Vec<i64> {
    let [code, _, _, packed] = reply.list() else { panic!("{reply:?}") };
    assert_eq!(code.number(), 1, "{reply:?}");
    let mut bytes = packed.bytes();
    let count = rmp::decode::read_array_len(&mut bytes).unwrap();
    (0..count).map(|_| rmp::decode::read_int(&mut bytes).unwrap()).collect()
}

/// What an owner's name begins with, and its number.
fn split(owner: &str) -> (&str, &str) {
    owner.split_at(owner.rfind(':').unwrap() + 1)
}

fn pack(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_array_len(&mut bytes, texts.len().try_into().unwrap()).unwrap();
    texts.iter().for_each(|text| rmp::encode::write_str(&mut bytes, text).unwrap());
    bytes
}
