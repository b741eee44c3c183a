//! Which request is which: by the shape of its arguments, so that the text of the scripts may change.

use leasehold_tests::harness::proxy::{Match, Proxy, SeenRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Release,
    Renewal,
}

impl Kind {
    /// What it is, if it is one of the three.
    pub(crate) fn of(arguments: &[Vec<u8>]) -> Option<Kind> {
        let command = arguments.first()?.to_ascii_uppercase();
        let keys: usize = text(arguments.get(2)?)?.parse().ok()?;
        let values = arguments.get(3 + keys..).filter(|_| command == b"EVAL" || command == b"EVALSHA")?;
        match values {
            [_ttl, owner, _latest] if is_owner(owner) => Some(Kind::Acquire),
            [owner, channel, _publish] if is_owner(owner) && channel.starts_with(CHANNEL) => {
                Some(Kind::Release)
            }
            [_latest, _ttl, client, _pack, ..] if is_client(client) && values.len() % 3 == 1 => {
                Some(Kind::Renewal)
            }
            _ => None,
        }
    }

    pub(crate) fn matching(self) -> Match {
        Match::with(move |arguments| Self::of(arguments) == Some(self))
    }

    /// Those that have passed.
    pub(crate) fn seen(self, proxy: &Proxy) -> Vec<SeenRequest> {
        let mut requests = proxy.requests();
        requests.retain(|request| Self::of(&request.arguments) == Some(self));
        requests
    }
}

/// Of an acquire: the latest server time in µs at which it may be executed.
pub(crate) fn latest_of_acquire(request: &SeenRequest) -> u64 {
    text(&request.arguments[6]).and_then(|text| text.parse().ok()).expect("a time")
}

/// Of an acquire.
pub(crate) fn owner_of_acquire(request: &SeenRequest) -> String {
    text(&request.arguments[5]).expect("an owner").to_owned()
}

/// Of a renewal: the owners of its locks.
pub(crate) fn owners_of_renewal(request: &SeenRequest) -> Vec<String> {
    let keys: usize = text(&request.arguments[2]).and_then(|text| text.parse().ok()).expect("a number");
    let runs = request.arguments[4 + keys..].chunks(3);
    let owners = |run: &[Vec<u8>]| -> Vec<String> {
        let client = text(&run[1]).expect("a client");
        // Where no keys are declared, each number stands behind its lock.
        let step = if keys == 0 { 2 } else { 1 };
        let numbers = unpack(&run[2]);
        numbers.iter().skip(step - 1).step_by(step).map(|number| format!("{client}{number}")).collect()
    };
    runs.flat_map(owners).collect()
}

fn unpack(mut list: &[u8]) -> Vec<String> {
    let len = rmp::decode::read_array_len(&mut list).expect("a list");
    let mut texts = Vec::new();
    for _ in 0..len {
        let (text, rest) = rmp::decode::read_str_from_slice(list).expect("a text");
        texts.push(text.to_owned());
        list = rest;
    }
    texts
}

fn is_client(argument: &[u8]) -> bool {
    argument.len() == 37 && argument.ends_with(b":")
}

fn is_owner(argument: &[u8]) -> bool {
    argument.len() > 37 && argument[36] == b':'
}

fn text(argument: &[u8]) -> Option<&str> {
    std::str::from_utf8(argument).ok()
}

const CHANNEL: &[u8] = b"redisson_lock__channel:";
