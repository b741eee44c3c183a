//! The formats of the scripts' replies. Pure. `None`: the reply has another format. Then the replies do not match
//! the requests any more, or the server is not Redis, and no reply can be trusted.

use std::time::Duration;

use fred::types::Resp3Frame as Frame;
use leasehold::transport::{Hold, LockMode, PermitCount, Remaining};

use super::msgpack::{Item, unpack};

/// The reply to acquire, fenced_acquire and permit_acquire, with the server time in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// `counter`: the token of a fenced lock.
    Granted {
        counter: Option<u64>,
        now: u64,
    },
    Held {
        remaining: Remaining,
        now: u64,
    },
    TooLate {
        now: u64,
    },
}

/// The reply to release and force_release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Yes { listeners: Option<u32>, now: u64 },
    No { now: u64 },
}

/// The reply to downgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Downgraded {
    Answered(Freed),
    TooLate { now: u64 },
}

/// The reply to renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Each { found: Vec<Found>, now: u64 },
    TooLate { now: u64 },
}

/// The result of renew for one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Left(Duration),
    /// The lock had no expiry, and has one now.
    NoExpiry,
    NotYours,
    Refused(String),
}

/// The reply to an operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Done { result: i64, left: i64, now: u64 },
    TooLate { now: u64 },
}

/// The reply to inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) holds: Vec<Hold>,
    pub(crate) remaining: Remaining,
    /// The owners that wait for a fair lock.
    pub(crate) line: Vec<String>,
    pub(crate) permits: Option<PermitCount>,
    pub(crate) now: u64,
}

impl Acquired {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 1 => Some(Self::Granted { counter: None, now: micros(now)? }),
            refused => Self::read_refused(refused),
        }
    }

    pub(crate) fn read_fenced(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, token, now] if number(code)? == 1 => {
                let token = u64::try_from(number(token)?).ok().filter(|token| *token > 0)?;
                Some(Self::Granted { counter: Some(token), now: micros(now)? })
            }
            refused => Self::read_refused(refused),
        }
    }

    /// As [`read`](Self::read). Without any permit that is held, nobody knows when there will be enough.
    pub(crate) fn read_permits(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, left, now] if number(code)? == 0 && number(left)? == GONE => {
                Some(Self::Held { remaining: Remaining::NotKnown, now: micros(now)? })
            }
            _ => Self::read(frame),
        }
    }

    fn read_refused(parts: &[Frame]) -> Option<Self> {
        match parts {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, left, now] if number(code)? == 0 => {
                Some(Self::Held { remaining: remaining(number(left)?)?, now: micros(now)? })
            }
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Granted { now, .. } | Self::Held { now, .. } | Self::TooLate { now } => now,
        }
    }
}

impl Freed {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 0 => Some(Self::No { now: micros(now)? }),
            [code, listeners, now] if number(code)? == 1 => {
                Some(Self::Yes { listeners: count(number(listeners)?)?, now: micros(now)? })
            }
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Yes { now, .. } | Self::No { now } => now,
        }
    }
}

impl Downgraded {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            _ => Freed::read(frame).map(Self::Answered),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Answered(freed) => freed.now(),
            Self::TooLate { now } => now,
        }
    }
}

impl Renewed {
    /// Parses the reply to a batch of `members`.
    pub(crate) fn read(frame: &Frame, members: usize) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, now, found] if number(code)? == 1 => {
                Some(Self::Each { found: unpack(bytes(found)?, members, Found::read)?, now: micros(now)? })
            }
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Each { now, .. } | Self::TooLate { now } => now,
        }
    }
}

impl Counted {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        match array(frame)? {
            [code, now] if number(code)? == 2 => Some(Self::TooLate { now: micros(now)? }),
            [code, result, left, now] if number(code)? == 1 => {
                Some(Self::Done { result: number(result)?, left: number(left)?, now: micros(now)? })
            }
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        match *self {
            Self::Done { now, .. } | Self::TooLate { now } => now,
        }
    }
}

impl Found {
    fn read(item: Item<'_>) -> Option<Self> {
        match item {
            Item::Text(text) => Some(Self::Refused(text.to_owned())),
            Item::Number(-2) => Some(Self::NotYours),
            Item::Number(-1) => Some(Self::NoExpiry),
            Item::Number(left) => Some(Self::Left(Duration::from_millis(u64::try_from(left).ok()?))),
        }
    }
}

impl Seen {
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        let [now, left, fields] = array(frame)? else { return None };
        let pairs = array(fields)?.chunks(2);
        // A free lock has no holds, and its `remaining` has no meaning.
        let remaining = if number(left)? == GONE { Remaining::NotKnown } else { remaining(number(left)?)? };
        let holds = pairs.map(|pair| Some(hold(pair)?.with_remaining(remaining))).collect::<Option<_>>()?;
        Some(Self { holds, remaining, line: Vec::new(), permits: None, now: micros(now)? })
    }
}

impl Seen {
    /// Parses the reply about a fair lock.
    pub(crate) fn read_fair(frame: &Frame) -> Option<Self> {
        let [now, left, fields, line] = array(frame)? else { return None };
        let remaining = if number(left)? == GONE { Remaining::NotKnown } else { remaining(number(left)?)? };
        let of = |pair: &[Frame]| Some(hold(pair)?.with_mode(LockMode::Fair).with_remaining(remaining));
        let holds = array(fields)?.chunks(2).map(of).collect::<Option<_>>()?;
        let owner = |frame: &Frame| Some(String::from_utf8_lossy(bytes(frame)?).into_owned());
        let line = array(line)?.iter().map(owner).collect::<Option<_>>()?;
        Some(Self { holds, remaining, line, permits: None, now: micros(now)? })
    }
}

impl Seen {
    /// Parses the reply about permits that expire.
    pub(crate) fn read_permits(frame: &Frame) -> Option<Self> {
        let [now, left, fields, available, held] = array(frame)? else { return None };
        let remaining = if number(left)? == GONE { Remaining::NotKnown } else { remaining(number(left)?)? };
        let holds = array(fields)?.chunks(3).map(permit).collect::<Option<_>>()?;
        let permits = PermitCount::new(number(available)?, u64::try_from(number(held)?).ok()?);
        Some(Self { holds, remaining, line: Vec::new(), permits: Some(permits), now: micros(now)? })
    }
}

impl Seen {
    /// Parses the reply about a read/write lock. Read holds that have expired are left out: their fields may stay as long
    /// as others hold the lock.
    pub(crate) fn read_write(frame: &Frame) -> Option<Self> {
        let [now, left, mode, fields] = array(frame)? else { return None };
        let is_read_write = number(mode)? != 0;
        let mut holds = Vec::new();
        for field in array(fields)?.chunks(3) {
            let [owner, count, lasts] = field else { return None };
            if !(is_read_write && number(lasts)? == GONE) {
                holds.push(read_write_hold(owner, count, number(lasts)?, is_read_write)?);
            }
        }
        let remaining = if number(left)? == GONE { Remaining::NotKnown } else { remaining(number(left)?)? };
        Some(Self { holds, remaining, line: Vec::new(), permits: None, now: micros(now)? })
    }
}

/// Parses the reply to `TIME`, in µs.
pub(crate) fn server_micros(frame: &Frame) -> Option<u64> {
    let [seconds, micros] = array(frame)? else { return None };
    let seconds: u64 = text(seconds)?.parse().ok()?;
    sane(seconds.checked_mul(1_000_000)?.checked_add(text(micros)?.parse().ok()?)?)
}

/// Returns the role in a reply to `ROLE`.
pub(crate) fn role(frame: &Frame) -> Option<&str> {
    text(array(frame)?.first()?)
}

/// Returns the value of `field` in a reply to `INFO`.
pub(crate) fn info_field<'a>(frame: &'a Frame, field: &str) -> Option<&'a str> {
    let mut lines = text(frame)?.lines();
    lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// Returns the payload that a `PING` has brought back. On a subscribed RESP2 connection it is wrapped in an array.
pub(crate) fn pong(frame: &Frame) -> Option<&str> {
    match array(frame) {
        Some([_, payload]) => text(payload),
        Some(_) => None,
        None => text(frame),
    }
}

fn permit(parts: &[Frame]) -> Option<Hold> {
    let [id, count, left] = parts else { return None };
    let hold = hold_named(text(id)?, count);
    Some(hold.with_mode(LockMode::Permits).with_remaining(remaining(number(left)?)?))
}

fn hold(pair: &[Frame]) -> Option<Hold> {
    let [owner, count] = pair else { return None };
    Some(hold_named(&String::from_utf8_lossy(bytes(owner)?), count))
}

/// The hold in a field of a hash. Of a read/write lock, a writer's field ends with [`WRITER`].
fn read_write_hold(field: &Frame, count: &Frame, lasts: i64, is_read_write: bool) -> Option<Hold> {
    let field = String::from_utf8_lossy(bytes(field)?);
    let writer = field.strip_suffix(WRITER);
    let mode = match writer {
        _ if !is_read_write => LockMode::Exclusive,
        Some(_) => LockMode::Write,
        None => LockMode::Read,
    };
    let hold = hold_named(writer.unwrap_or(&field), count).with_mode(mode);
    Some(hold.with_remaining(remaining(lasts).unwrap_or(Remaining::NotKnown)))
}

fn hold_named(owner: &str, count: &Frame) -> Hold {
    // Fields of other clients may have any value (Redisson's read/write lock has `mode`), so their count is not
    // validated.
    let count = text(count).and_then(|count| count.parse().ok()).unwrap_or(0);
    Hold::new(owner, count)
}

pub(super) fn remaining(left: i64) -> Option<Remaining> {
    match left {
        -1 => Some(Remaining::NoExpiry),
        left => Some(Remaining::For(Duration::from_millis(u64::try_from(left).ok()?))),
    }
}

pub(crate) fn count(listeners: i64) -> Option<Option<u32>> {
    match listeners {
        -1 => Some(None),
        listeners => Some(Some(u32::try_from(listeners).ok()?)),
    }
}

pub(crate) fn array(frame: &Frame) -> Option<&[Frame]> {
    if let Frame::Array { data, .. } = frame { Some(data) } else { None }
}

pub(crate) fn number(frame: &Frame) -> Option<i64> {
    if let Frame::Number { data, .. } = frame { Some(*data) } else { None }
}

pub(super) fn micros(frame: &Frame) -> Option<u64> {
    sane(u64::try_from(number(frame)?).ok()?)
}

/// Checks a server time in µs. Scripts compute with doubles, which are exact up to this value, in the year 2255.
fn sane(micros: u64) -> Option<u64> {
    (micros <= 1 << 53).then_some(micros)
}

pub(super) fn bytes(frame: &Frame) -> Option<&[u8]> {
    match frame {
        Frame::BlobString { data, .. } | Frame::SimpleString { data, .. } => Some(data),
        _ => None,
    }
}

pub(crate) fn text(frame: &Frame) -> Option<&str> {
    std::str::from_utf8(bytes(frame)?).ok()
}

/// What the field of a write hold ends with, behind the owner.
pub(crate) const WRITER: &str = ":write";
/// The remaining time of what is not there.
const GONE: i64 = -2;

#[cfg(test)]
mod tests {
    use super::*;

    fn n(data: i64) -> Frame {
        Frame::Number { data, attributes: None }
    }

    fn s(data: &'static str) -> Frame {
        Frame::BlobString { data: fred::bytes::Bytes::from_static(data.as_bytes()), attributes: None }
    }

    fn a(data: Vec<Frame>) -> Frame {
        Frame::Array { data, attributes: None }
    }

    #[test]
    fn acquire_has_three_shapes_and_no_other() {
        let read = |frame| Acquired::read(&frame);
        assert_eq!(read(a(vec![n(1), n(7)])), Some(Acquired::Granted { counter: None, now: 7 }));
        assert_eq!(read(a(vec![n(2), n(7)])), Some(Acquired::TooLate { now: 7 }));
        let held = |remaining| Some(Acquired::Held { remaining, now: 7 });
        assert_eq!(read(a(vec![n(0), n(1500), n(7)])), held(Remaining::For(Duration::from_millis(1500))));
        assert_eq!(read(a(vec![n(0), n(-1), n(7)])), held(Remaining::NoExpiry));
        for wrong in [
            n(1),
            s("OK"),
            a(vec![]),
            a(vec![n(1)]),
            a(vec![n(0), n(7)]),
            a(vec![n(3), n(7)]),
            a(vec![n(1), n(2), n(7)]),
            a(vec![n(0), n(-2), n(7)]),
            a(vec![n(1), n(-7)]),
            a(vec![s("1"), n(7)]),
            Frame::Null,
        ] {
            assert_eq!(Acquired::read(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_fenced_grant_has_a_token_of_at_least_1() {
        let read = |frame| Acquired::read_fenced(&frame);
        let granted = Some(Acquired::Granted { counter: Some(5), now: 7 });
        assert_eq!(read(a(vec![n(1), n(5), n(7)])), granted);
        assert_eq!(read(a(vec![n(2), n(7)])), Some(Acquired::TooLate { now: 7 }));
        let held = Some(Acquired::Held { remaining: Remaining::NoExpiry, now: 7 });
        assert_eq!(read(a(vec![n(0), n(-1), n(7)])), held);
        for wrong in [a(vec![n(1), n(7)]), a(vec![n(1), n(0), n(7)]), a(vec![n(1), n(-1), n(7)]), n(1)] {
            assert_eq!(Acquired::read_fenced(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn release_tells_listeners_unless_they_cannot_be_known() {
        let read = |frame| Freed::read(&frame);
        assert_eq!(read(a(vec![n(1), n(2), n(7)])), Some(Freed::Yes { listeners: Some(2), now: 7 }));
        assert_eq!(read(a(vec![n(1), n(-1), n(7)])), Some(Freed::Yes { listeners: None, now: 7 }));
        assert_eq!(read(a(vec![n(0), n(7)])), Some(Freed::No { now: 7 }));
        assert_eq!(read(a(vec![n(1), n(7)])), None);
    }

    #[test]
    fn a_renewal_answers_every_member_or_is_not_understood() {
        // 900, -1, -2, "no"
        let packed = &[0x94, 0xcd, 0x03, 0x84, 0xff, 0xfe, 0xa2, b'n', b'o'];
        let packed = Frame::BlobString { data: fred::bytes::Bytes::from_static(packed), attributes: None };
        let reply = a(vec![n(1), n(7), packed]);
        let found = vec![
            Found::Left(Duration::from_millis(900)),
            Found::NoExpiry,
            Found::NotYours,
            Found::Refused("no".into()),
        ];
        assert_eq!(Renewed::read(&reply, 4), Some(Renewed::Each { found, now: 7 }));
        assert_eq!(Renewed::read(&reply, 3), None);
        assert_eq!(Renewed::read(&a(vec![n(1), n(7), n(900)]), 1), None);
        assert_eq!(Renewed::read(&a(vec![n(2), n(7)]), 3), Some(Renewed::TooLate { now: 7 }));
    }

    #[test]
    fn a_time_that_no_server_has_is_not_understood() {
        for absurd in [i64::MAX, (1 << 53) + 1, -1] {
            assert_eq!(Acquired::read(&a(vec![n(1), n(absurd)])), None, "{absurd}");
            assert_eq!(Freed::read(&a(vec![n(0), n(absurd)])), None, "{absurd}");
            assert_eq!(Renewed::read(&a(vec![n(2), n(absurd)]), 1), None, "{absurd}");
        }
        assert_eq!(
            Acquired::read(&a(vec![n(1), n(1 << 53)])),
            Some(Acquired::Granted { counter: None, now: 1 << 53 })
        );
    }

    #[test]
    fn foreign_fields_are_shown_as_they_are() {
        let reply = a(vec![n(7), n(500), a(vec![s("mode"), s("read"), s("u:1"), s("3")])]);
        let seen = Seen::read(&reply).unwrap();
        let lasts = Remaining::For(Duration::from_millis(500));
        assert_eq!(seen.holds[0], Hold::new("mode", 0).with_remaining(lasts));
        assert_eq!(seen.holds[1], Hold::new("u:1", 3).with_remaining(lasts));
        assert_eq!(Seen::read(&a(vec![n(7), n(-2), a(vec![])])).unwrap().holds, []);
    }

    #[test]
    fn a_read_hold_that_has_expired_is_not_shown() {
        let fields = |lasts: i64| vec![s("u:1"), s("1"), n(lasts), s("u:2:write"), s("2"), n(500)];
        let seen = |mode, lasts| Seen::read_write(&a(vec![n(7), n(500), n(mode), a(fields(lasts))])).unwrap();
        let lasts = |millis| Remaining::For(Duration::from_millis(millis));
        let first = |mode, left| Hold::new("u:1", 1).with_mode(mode).with_remaining(left);
        let second = |mode| Hold::new("u:2", 2).with_mode(mode).with_remaining(lasts(500));
        let (read, write, plain) = (LockMode::Read, LockMode::Write, LockMode::Exclusive);
        assert_eq!(seen(1, -2).holds, [second(write)]);
        for (left, remaining) in [(400, lasts(400)), (-1, Remaining::NoExpiry), (-3, Remaining::NotKnown)] {
            assert_eq!(seen(1, left).holds, [first(read, remaining), second(write)], "{left}");
        }
        assert_eq!(seen(0, -2).holds, [first(plain, Remaining::NotKnown), second(plain)]);
        let free = Seen::read_write(&a(vec![n(7), n(-2), n(0), a(vec![])])).unwrap();
        assert_eq!((free.holds, free.remaining), (vec![], Remaining::NotKnown));
        assert_eq!(Seen::read_write(&a(vec![n(7), n(500), a(vec![])])), None);
        assert_eq!(Seen::read_write(&a(vec![n(7), n(500), n(1), a(vec![s("u:1"), s("1")])])), None);
    }

    #[test]
    fn a_downgrade_may_be_too_late() {
        let read = |frame| Downgraded::read(&frame);
        assert_eq!(read(a(vec![n(2), n(7)])), Some(Downgraded::TooLate { now: 7 }));
        assert_eq!(read(a(vec![n(0), n(7)])), Some(Downgraded::Answered(Freed::No { now: 7 })));
        let told = Freed::Yes { listeners: None, now: 7 };
        assert_eq!(read(a(vec![n(1), n(-1), n(7)])), Some(Downgraded::Answered(told)));
        assert_eq!(read(a(vec![n(1), n(7)])), None);
    }

    #[test]
    fn what_a_check_reads() {
        assert_eq!(server_micros(&a(vec![s("1795250671"), s("168783")])), Some(1_795_250_671_168_783));
        for (seconds, micros) in [("9007199255", "0"), ("18446744073709", "551615"), ("1", "x")] {
            assert_eq!(server_micros(&a(vec![s(seconds), s(micros)])), None, "{seconds} {micros}");
        }
        assert_eq!(role(&a(vec![s("master"), n(0), a(vec![])])), Some("master"));
        let info = s("# Server\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n");
        assert_eq!(info_field(&info, "run_id"), Some("abc"));
        assert_eq!(info_field(&info, "uptime_in_seconds"), Some("12"));
        assert_eq!(info_field(&info, "role"), None);
        assert_eq!(pong(&a(vec![s("pong"), s("5")])), Some("5"));
        assert_eq!(pong(&s("5")), Some("5"));
    }
}
