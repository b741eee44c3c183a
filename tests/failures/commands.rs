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
            [_latest, _ttl, owner, ..] if is_owner(owner) && values.len() == 1 + 2 * keys => {
                Some(Kind::Renewal)
            }
            // Across slots: the keys stand among the values.
            [_latest, _key, _ttl, owner, ..] if is_owner(owner) && keys == 0 => Some(Kind::Renewal),
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

fn is_owner(argument: &[u8]) -> bool {
    argument.get(36) == Some(&b':')
}

fn text(argument: &[u8]) -> Option<&str> {
    std::str::from_utf8(argument).ok()
}

const CHANNEL: &[u8] = b"redisson_lock__channel:";
