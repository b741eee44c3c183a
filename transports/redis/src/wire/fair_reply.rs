//! The formats of the replies of the scripts of fair locks. Pure. `None` as in [`reply`](super::reply).

use fred::types::Resp3Frame as Frame;
use leasehold::transport::Remaining;

use super::{
    msgpack::{Item, unpack},
    reply::{array, bytes, micros, number, remaining},
};

/// The reply to fair_queue, with the server time in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    Granted { now: u64 },
    Busy { remaining: Remaining, now: u64 },
    Waits { remaining: Remaining, ahead: u32, now: u64 },
    TooLate { now: u64 },
}

/// The reply to fair_beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beaten {
    Each { places: Vec<Place>, remaining: Remaining, now: u64 },
    TooLate { now: u64 },
}

/// What fair_beat found about one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Behind(u32),
    Turn,
    Gone,
}

impl Queued {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 1 => Some(Self::Granted { now: micros(now)? }),
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, left, now] if number(code)? == 0 => {
                Some(Self::Busy { remaining: remaining(number(left)?)?, now: micros(now)? })
            }
            [code, left, ahead, now] if number(code)? == 3 => Some(Self::Waits {
                remaining: remaining(number(left)?)?,
                ahead: u32::try_from(number(ahead)?).ok()?,
                now: micros(now)?,
            }),
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Granted { now }
            | Self::Busy { now, .. }
            | Self::Waits { now, .. }
            | Self::TooLate { now } => now,
        }
    }
}

impl Beaten {
    /// Parses the reply about this number of places.
    pub(crate) fn read(frame: &Frame, places: usize) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, now, left, packed] if number(code)? == 1 => Some(Self::Each {
                places: unpack(bytes(packed)?, places, Place::read)?,
                remaining: remaining(number(left)?)?,
                now: micros(now)?,
            }),
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Each { now, .. } | Self::TooLate { now } => now,
        }
    }
}

impl Place {
    fn read(item: Item<'_>) -> Option<Self> {
        match item {
            Item::Number(-1) => Some(Self::Turn),
            Item::Number(-2) => Some(Self::Gone),
            Item::Number(ahead) => Some(Self::Behind(u32::try_from(ahead).ok()?)),
            Item::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn n(data: i64) -> Frame {
        Frame::Number { data, attributes: None }
    }

    fn a(data: &[i64]) -> Frame {
        Frame::Array { data: data.iter().copied().map(n).collect(), attributes: None }
    }

    #[test]
    fn queue_has_four_shapes_and_no_other() {
        let read = |data: &[i64]| Queued::read(&a(data));
        let remaining = Remaining::For(Duration::from_millis(1500));
        assert_eq!(read(&[1, 7]), Some(Queued::Granted { now: 7 }));
        assert_eq!(read(&[2, 7]), Some(Queued::TooLate { now: 7 }));
        assert_eq!(read(&[0, 1500, 7]), Some(Queued::Busy { remaining, now: 7 }));
        let waits = |remaining| Some(Queued::Waits { remaining, ahead: 2, now: 7 });
        assert_eq!(read(&[3, 1500, 2, 7]), waits(remaining));
        assert_eq!(read(&[3, -1, 2, 7]), waits(Remaining::NoExpiry));
        for wrong in [&[][..], &[1], &[0, 7], &[3, 1, 7], &[3, 1, -1, 7], &[3, -2, 1, 7], &[4, 7], &[1, -7]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_beat_answers_every_place_or_is_not_understood() {
        let packed = |bytes: &'static [u8]| {
            let data = fred::bytes::Bytes::from_static(bytes);
            let packed = Frame::BlobString { data, attributes: None };
            Frame::Array { data: vec![n(1), n(7), n(1500), packed], attributes: None }
        };
        let reply = packed(&[0x93, 0xff, 0x05, 0xfe]); // -1, 5, -2
        let remaining = Remaining::For(Duration::from_millis(1500));
        let places = vec![Place::Turn, Place::Behind(5), Place::Gone];
        assert_eq!(Beaten::read(&reply, 3), Some(Beaten::Each { places, remaining, now: 7 }));
        assert_eq!(Beaten::read(&reply, 2), None);
        assert_eq!(Beaten::read(&packed(&[0x91, 0xfd]), 1), None);
        assert_eq!(Beaten::read(&packed(&[0x91, 0xa1, b'x']), 1), None);
        assert_eq!(Beaten::read(&a(&[2, 7]), 3), Some(Beaten::TooLate { now: 7 }));
    }
}
