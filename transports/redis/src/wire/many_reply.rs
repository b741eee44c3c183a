//! The formats of the replies of acquire_many and release_many. Pure. `None` as in [`reply`](super::reply).

use std::time::Duration;

use fred::types::Resp3Frame as Frame;
use leasehold::transport::Remaining;

use super::{
    msgpack::{Item, unpack},
    reply::{array, bytes, count, micros, number},
};

/// The reply to acquire_many or release_many, with the server time in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    Each {
        members: Vec<Member>,
        now: u64,
    },
    TooLate {
        now: u64,
    },
    /// The server cannot do it for many locks at once.
    OnlyAlone {
        now: u64,
    },
}

/// What was done for one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Granted,
    Held(Remaining),
    Released { listeners: Option<u32> },
    NotYours,
    Refused(String),
}

/// The meaning of one item of the reply.
pub(crate) type ReadMember = fn(Item<'_>) -> Option<Member>;

impl Many {
    /// Parses the reply about `len` locks.
    pub(crate) fn read(frame: &Frame, len: usize, read: ReadMember) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, now] if number(code)? == 3 => Some(Self::OnlyAlone { now: micros(now)? }),
            [code, now, found] if number(code)? == 1 => {
                Some(Self::Each { members: unpack(bytes(found)?, len, read)?, now: micros(now)? })
            }
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Each { now, .. } | Self::TooLate { now } | Self::OnlyAlone { now } => now,
        }
    }
}

impl Member {
    pub(crate) fn of_acquire(item: Item<'_>) -> Option<Self> {
        match item {
            Item::Text(text) => Some(Self::Refused(text.to_owned())),
            Item::Number(-3) => Some(Self::Granted),
            Item::Number(-1) => Some(Self::Held(Remaining::NoExpiry)),
            Item::Number(left) => {
                let left = Duration::from_millis(u64::try_from(left).ok()?);
                Some(Self::Held(Remaining::For(left)))
            }
        }
    }

    pub(crate) fn of_release(item: Item<'_>) -> Option<Self> {
        match item {
            Item::Text(text) => Some(Self::Refused(text.to_owned())),
            Item::Number(-2) => Some(Self::NotYours),
            Item::Number(listeners) => Some(Self::Released { listeners: count(listeners)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_meaning_and_others_have_none() {
        let acquired = |number| Member::of_acquire(Item::Number(number));
        let held = |millis| Some(Member::Held(Remaining::For(Duration::from_millis(millis))));
        assert_eq!(acquired(-3), Some(Member::Granted));
        assert_eq!(acquired(-1), Some(Member::Held(Remaining::NoExpiry)));
        assert_eq!((acquired(0), acquired(7)), (held(0), held(7)));
        assert_eq!((acquired(-2), acquired(-4)), (None, None));
        let released = |number| Member::of_release(Item::Number(number));
        assert_eq!(released(3), Some(Member::Released { listeners: Some(3) }));
        assert_eq!(released(-1), Some(Member::Released { listeners: None }));
        assert_eq!((released(-2), released(-3)), (Some(Member::NotYours), None));
        for read in [Member::of_acquire, Member::of_release] {
            assert_eq!(read(Item::Text("NOPERM")), Some(Member::Refused("NOPERM".to_owned())));
        }
    }
}
