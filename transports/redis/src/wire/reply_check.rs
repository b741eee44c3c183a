//! Checks the replies of a server before they are decoded, on every connection. Pure.
//!
//! A server may be hostile, or another program behind a wrong port. Its replies are limited in bytes, in parts and in
//! nesting. Each part takes more memory once it is decoded than it has bytes. The decoder of `redis-protocol` (fred's
//! too) makes one recursive call per level, without a limit, and a stack overflow ends the process. A length or a count above
//! its limit is refused where it is announced, before what it announces is read.
//!
//! Only RESP2 is used, so every other type is refused. The check must read replies exactly as the decoder does: a line ends
//! at `\r\n` and nowhere else, and a number that can be read in two ways is refused.

use std::fmt;

/// What one reply may have at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    bytes: u64,
    /// The elements of all its arrays together.
    parts: u64,
}

impl Limits {
    /// For connections that take requests alone. `CLIENT LIST` has some hundred bytes for each client, and `CLUSTER SLOTS`
    /// about 20 parts for each range of slots and its servers.
    pub(crate) const COMMANDS: Self = Self { bytes: 64 * MIB, parts: 512 * KIB };
    /// For connections that take subscriptions. A notice has less than 17 KiB and three parts. The handshake asks for `ROLE`,
    /// which has four parts for each replica.
    pub(crate) const NOTICES: Self = Self { bytes: 64 * KIB, parts: 4 * KIB };
}

/// Follows a stream of replies, however it is split into pieces.
#[derive(Debug)]
pub(crate) struct ReplyCheck {
    limits: Limits,
    /// How many bytes and parts the present reply has so far. Parts count once their array has announced them.
    bytes: u64,
    parts: u64,
    /// The number of missing elements of each open array.
    open: Vec<u64>,
    position: Position,
    /// How many replies have ended in the present piece.
    whole: usize,
}

/// Why a stream cannot be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The nesting is deeper than [`LEVELS_MAX`].
    TooDeep,
    /// The reply is longer than this number of bytes.
    TooLong(u64),
    /// The reply has more parts than this.
    TooManyParts(u64),
    /// The stream is not RESP2.
    Strange,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "a reply is nested deeper than {LEVELS_MAX} levels")?,
            Self::TooLong(bytes) if *bytes >= MIB => write!(f, "a reply is longer than {} MiB", bytes / MIB)?,
            Self::TooLong(bytes) => write!(f, "a reply is longer than {} KiB", bytes / KIB)?,
            Self::TooManyParts(parts) => write!(f, "a reply has more than {parts} parts")?,
            Self::Strange => {
                return f
                    .write_str("a reply is no RESP2, which Redis and Valkey speak; is it the right port?");
            }
        }
        f.write_str("; the connection was closed")
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Position {
    /// Before the first byte of an element.
    #[default]
    Start,
    /// Inside a line. `is_ending`: its last byte so far was `\r`.
    Line { is_ending: bool },
    /// Inside the number after `$` or `*`.
    Number(Number),
    /// Inside a text, with the number of missing bytes, including its line end.
    Text(u64),
}

#[derive(Clone, Copy, Debug)]
struct Number {
    of: Counted,
    digits: Option<u64>,
    is_negative: bool,
    is_ending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Bytes,
    Elements,
}

impl ReplyCheck {
    pub(crate) fn new(limits: Limits) -> Self {
        let position = Position::Start;
        Self { limits, bytes: 0, parts: 0, open: Vec::new(), position, whole: 0 }
    }

    /// Takes the next piece. Returns how many replies have ended in it.
    ///
    /// # Errors
    /// The stream exceeds a limit, or is not RESP2.
    pub(crate) fn take(&mut self, mut piece: &[u8]) -> Result<usize, Unreadable> {
        while let Some(&byte) = piece.first() {
            let passed = match self.position {
                Position::Text(left) => self.pass_text(left, piece.len()),
                Position::Line { is_ending } => self.pass_line(piece, is_ending),
                Position::Start => self.begin(byte)?,
                Position::Number(number) => self.pass_number(byte, number)?,
            };
            piece = &piece[passed..];
            self.count_bytes(passed)?;
        }
        Ok(std::mem::take(&mut self.whole))
    }

    // Behind the last byte of a reply the next one begins.
    fn count_bytes(&mut self, passed: usize) -> Result<(), Unreadable> {
        self.bytes += passed as u64;
        match self.position {
            _ if self.bytes > self.limits.bytes => return Err(Unreadable::TooLong(self.limits.bytes)),
            Position::Start if self.open.is_empty() => (self.bytes, self.parts) = (0, 0),
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, byte: u8) -> Result<usize, Unreadable> {
        let number = |of| Position::Number(Number { of, digits: None, is_negative: false, is_ending: false });
        self.position = match byte {
            b'+' | b'-' | b':' => Position::Line { is_ending: false },
            b'$' => number(Counted::Bytes),
            b'*' => number(Counted::Elements),
            _ => return Err(Unreadable::Strange),
        };
        Ok(1)
    }

    fn pass_text(&mut self, left: u64, available: usize) -> usize {
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(available);
        match left - passed as u64 {
            0 => self.end_element(),
            left => self.position = Position::Text(left),
        }
        passed
    }

    fn pass_line(&mut self, piece: &[u8], is_ending: bool) -> usize {
        if is_ending && piece[0] == b'\n' {
            self.end_element();
            return 1;
        }
        match piece.iter().position(|byte| *byte == b'\r') {
            Some(end) => {
                self.position = Position::Line { is_ending: true };
                end + 1
            }
            None => {
                self.position = Position::Line { is_ending: false };
                piece.len()
            }
        }
    }

    fn pass_number(&mut self, byte: u8, number: Number) -> Result<usize, Unreadable> {
        match byte {
            b'\n' if number.is_ending => self.end_number(number)?,
            _ if number.is_ending => return Err(Unreadable::Strange),
            _ => self.position = Position::Number(number.with(byte)?),
        }
        Ok(1)
    }

    fn end_number(&mut self, Number { of, digits, is_negative, .. }: Number) -> Result<(), Unreadable> {
        let count = digits.ok_or(Unreadable::Strange)?;
        match of {
            // The only negative number is -1, which means null.
            _ if is_negative && count != 1 => return Err(Unreadable::Strange),
            _ if is_negative => self.end_element(),
            Counted::Bytes if count > self.limits.bytes - self.bytes.min(self.limits.bytes) => {
                return Err(Unreadable::TooLong(self.limits.bytes));
            }
            Counted::Bytes => self.position = Position::Text(count + LINE_END),
            Counted::Elements if count > self.limits.parts - self.parts => {
                return Err(Unreadable::TooManyParts(self.limits.parts));
            }
            Counted::Elements if self.open.len() == LEVELS_MAX => return Err(Unreadable::TooDeep),
            Counted::Elements if count == 0 => self.end_element(),
            Counted::Elements => {
                self.parts += count;
                self.open.push(count);
                self.position = Position::Start;
            }
        }
        Ok(())
    }

    fn end_element(&mut self) {
        self.position = Position::Start;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        self.whole += 1;
    }
}

impl Number {
    /// Takes one more byte.
    fn with(self, byte: u8) -> Result<Self, Unreadable> {
        match byte {
            b'0'..=b'9' => {
                let grown = self.digits.unwrap_or(0).saturating_mul(10).saturating_add((byte - b'0').into());
                Ok(Self { digits: Some(grown), ..self })
            }
            b'-' if self.digits.is_none() && !self.is_negative => Ok(Self { is_negative: true, ..self }),
            b'\r' => Ok(Self { is_ending: true, ..self }),
            _ => Err(Unreadable::Strange),
        }
    }
}

/// Twice the depth of any reply that is expected.
pub(crate) const LEVELS_MAX: usize = 8;
const LINE_END: u64 = 2;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &str = "+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n$5\r\na\r\n*1\r\n*2\r\n*2\r\n:1\r\n$2\r\nab\r\n*1\r\n*0\r\n";

    const FEW: Limits = Limits { bytes: 100, parts: 10 };

    fn check() -> ReplyCheck {
        ReplyCheck::new(Limits::COMMANDS)
    }

    /// What is wrong with these bytes, whatever pieces they come in.
    fn refused(text: &[u8]) -> Option<Unreadable> {
        let met = |size| {
            let mut check = ReplyCheck::new(FEW);
            text.chunks(size).find_map(|piece| check.take(piece).err())
        };
        let first = met(1);
        (2..=text.len()).for_each(|size| assert_eq!(met(size), first, "{text:?} in pieces of {size}"));
        first
    }

    fn arrays(levels: usize) -> String {
        "*1\r\n".repeat(levels) + ":1\r\n"
    }

    #[test]
    fn good_replies_pass_however_they_are_cut() {
        for size in 1..REPLIES.len() {
            let (mut check, mut whole) = (check(), 0);
            for piece in REPLIES.repeat(3).as_bytes().chunks(size) {
                whole += check.take(piece).unwrap_or_else(|why| panic!("{why:?} in pieces of {size}"));
            }
            assert_eq!(whole, 3 * 9, "in pieces of {size}");
            assert!(check.open.is_empty() && matches!(check.position, Position::Start), "{check:?}");
            assert_eq!((check.bytes, check.parts), (0, 0));
        }
    }

    #[test]
    fn eight_levels_pass_and_nine_do_not() {
        let text = arrays(LEVELS_MAX).repeat(3);
        assert_eq!(check().take(text.as_bytes()), Ok(3));
        let text = arrays(2) + &arrays(LEVELS_MAX + 1);
        for size in 1..text.len() {
            let mut check = check();
            let met = text.as_bytes().chunks(size).map(|piece| check.take(piece)).find(Result::is_err);
            assert_eq!(met, Some(Err(Unreadable::TooDeep)), "in pieces of {size}");
        }
    }

    /// The decoder ends a line only at `\r\n`. A text that it reads as one must not be read as two here, because the
    /// second one could hide the bytes after it.
    #[test]
    fn a_line_ends_where_the_decoder_ends_it() {
        for hidden in ["+a\n$99999\n\r\n", "-a\n$99999\n\r\n", "+a\r\r\n", "+\n\r\n"] {
            let text = hidden.to_owned() + &arrays(LEVELS_MAX + 1);
            for size in 1..text.len() {
                let mut check = check();
                let met = text.as_bytes().chunks(size).map(|piece| check.take(piece)).find(Result::is_err);
                assert_eq!(met, Some(Err(Unreadable::TooDeep)), "{hidden:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_reply_of_100_bytes_and_10_parts_passes_and_no_longer_one() {
        let text = |bytes: usize| format!("${bytes}\r\n{}\r\n", "x".repeat(bytes));
        let long = |bytes: usize| format!("+{}\r\n", "x".repeat(bytes - 3));
        let parts = |parts: usize| format!("*{parts}\r\n{}", ":1\r\n".repeat(parts));
        let nested = |parts: usize| format!("*2\r\n:1\r\n*{}\r\n{}", parts - 2, "$-1\r\n".repeat(parts - 2));
        for fits in [text(93), long(100), parts(10), nested(10)] {
            assert_eq!(refused(fits.repeat(3).as_bytes()), None, "{fits}");
        }
        for over in [text(94), long(101), format!("*2\r\n{}{}", text(40), text(50))] {
            assert_eq!(refused(over.as_bytes()), Some(Unreadable::TooLong(100)), "{over}");
        }
        for over in [parts(11), nested(11)] {
            assert_eq!(refused(over.as_bytes()), Some(Unreadable::TooManyParts(10)), "{over}");
        }
    }

    #[test]
    fn what_is_announced_above_a_limit_is_refused_before_it_comes() {
        for (announced, why) in [
            ("$101\r\n", Unreadable::TooLong(100)),
            ("$536870912\r\n", Unreadable::TooLong(100)),
            ("$99999999999999999999999999\r\n", Unreadable::TooLong(100)),
            ("*1\r\n$18446744073709551615\r\n", Unreadable::TooLong(100)),
            ("*11\r\n", Unreadable::TooManyParts(10)),
            ("*1000000000\r\n", Unreadable::TooManyParts(10)),
            ("*99999999999999999999999999\r\n", Unreadable::TooManyParts(10)),
            ("*5\r\n*6\r\n", Unreadable::TooManyParts(10)),
        ] {
            assert_eq!(refused(announced.as_bytes()), Some(why), "{announced:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused_after_100_bytes() {
        for (begin, piece) in
            [("$", "0"), ("*", "0"), ("$-", "0"), ("+", "x"), ("-", "\r"), (":", "1"), ("*10\r\n+", "x")]
        {
            let text = begin.to_owned() + &piece.repeat(200);
            assert_eq!(refused(text.as_bytes()), Some(Unreadable::TooLong(100)), "{begin:?}");
        }
    }

    #[test]
    fn an_error_names_its_limit() {
        let commands = ReplyCheck::new(Limits::COMMANDS).take(b"$536870912\r\n").unwrap_err().to_string();
        assert_eq!(commands, "a reply is longer than 64 MiB; the connection was closed");
        let notices = ReplyCheck::new(Limits::NOTICES).take(b"$536870912\r\n").unwrap_err().to_string();
        assert_eq!(notices, "a reply is longer than 64 KiB; the connection was closed");
        let parts = ReplyCheck::new(Limits::NOTICES).take(b"*1000000\r\n").unwrap_err().to_string();
        assert_eq!(parts, "a reply has more than 4096 parts; the connection was closed");
        let levels = ReplyCheck::new(Limits::NOTICES).take(arrays(9).as_bytes()).unwrap_err().to_string();
        assert_eq!(levels, "a reply is nested deeper than 8 levels; the connection was closed");
    }

    #[test]
    fn what_is_no_resp2_is_refused() {
        for text in [
            "%1\r\n:1\r\n:2\r\n",
            "~1\r\n:1\r\n",
            ">3\r\n",
            "|1\r\n",
            "(3492890328409238509324850943850943825024385\r\n",
            "=15\r\ntxt:Some string\r\n",
            "!21\r\n",
            "#t\r\n",
            ",1.5\r\n",
            "_\r\n",
            "$?\r\n;4\r\n",
            "*?\r\n:1\r\n",
            "%?\r\n",
            "HTTP/1.1 400\r\n",
            "*x\r\n",
            "$\r\n",
            "*--1\r\n",
            "*1\r\n>1\r\n",
            "$1\n",
            "$1\r1\n",
            "$\r1\n",
            "$-0\r\n",
            "$-7\r\n",
            "$-12\r\n",
        ] {
            assert_eq!(check().take(text.as_bytes()), Err(Unreadable::Strange), "{text:?}");
        }
    }
}
