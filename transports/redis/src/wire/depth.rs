//! Limits the nesting depth of replies. Pure.
//!
//! The decoder of `redis-protocol` (fred's too) makes one recursive call per level, without a limit, and a stack overflow
//! ends the process. So replies are checked before it sees them. No reply to this transport's requests has more than four levels.
//! Only RESP2 is checked, because only RESP2 is used. The check must read replies exactly as the decoder does: a line ends
//! at `\r\n` and nowhere else, and a number that can be read in two ways is refused.

/// Follows a stream of replies, however it is split into pieces.
#[derive(Debug, Default)]
pub(crate) struct Depth {
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
    /// The stream is not RESP2.
    Strange,
}

impl Unreadable {
    /// Returns the words for an operator.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::TooDeep => "a reply is nested deeper than any of Redis's; the connection was closed",
            Self::Strange => "a reply is no RESP2, which Redis and Valkey speak; is it the right port?",
        }
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

impl Depth {
    /// Takes the next piece. Returns how many replies have ended in it.
    ///
    /// # Errors
    /// The stream is nested too deep, or is not RESP2.
    pub(crate) fn take(&mut self, mut piece: &[u8]) -> Result<usize, Unreadable> {
        while let Some(&byte) = piece.first() {
            let passed = match self.position {
                Position::Text(left) => self.pass_text(left, piece.len()),
                Position::Line { is_ending } => self.pass_line(piece, is_ending),
                Position::Start => self.begin(byte)?,
                Position::Number(number) => self.pass_number(byte, number)?,
            };
            piece = &piece[passed..];
        }
        Ok(std::mem::take(&mut self.whole))
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
            Counted::Bytes => self.position = Position::Text(count + LINE_END),
            Counted::Elements if self.open.len() == LEVELS_MAX => return Err(Unreadable::TooDeep),
            Counted::Elements if count == 0 => self.end_element(),
            Counted::Elements => {
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
            b'0'..=b'9' => self.with_digit(byte - b'0'),
            b'-' if self.digits.is_none() && !self.is_negative => Ok(Self { is_negative: true, ..self }),
            b'\r' => Ok(Self { is_ending: true, ..self }),
            _ => Err(Unreadable::Strange),
        }
    }

    fn with_digit(self, digit: u8) -> Result<Self, Unreadable> {
        let grown = self.digits.unwrap_or(0) * 10 + u64::from(digit);
        if grown > COUNT_MAX { Err(Unreadable::Strange) } else { Ok(Self { digits: Some(grown), ..self }) }
    }
}

/// Twice the depth of any reply that is expected.
pub(crate) const LEVELS_MAX: usize = 8;
const LINE_END: u64 = 2;
/// The largest text that a server sends.
const COUNT_MAX: u64 = 512 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &str = "+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n$5\r\na\r\n*1\r\n*2\r\n*2\r\n:1\r\n$2\r\nab\r\n*1\r\n*0\r\n";

    fn arrays(levels: usize) -> String {
        "*1\r\n".repeat(levels) + ":1\r\n"
    }

    #[test]
    fn good_replies_pass_however_they_are_cut() {
        for size in 1..REPLIES.len() {
            let (mut depth, mut whole) = (Depth::default(), 0);
            for piece in REPLIES.repeat(3).as_bytes().chunks(size) {
                whole += depth.take(piece).unwrap_or_else(|why| panic!("{why:?} in pieces of {size}"));
            }
            assert_eq!(whole, 3 * 9, "in pieces of {size}");
            assert!(depth.open.is_empty() && matches!(depth.position, Position::Start), "{depth:?}");
        }
    }

    #[test]
    fn eight_levels_pass_and_nine_do_not() {
        let text = arrays(LEVELS_MAX).repeat(3);
        assert_eq!(Depth::default().take(text.as_bytes()), Ok(3));
        let text = arrays(2) + &arrays(LEVELS_MAX + 1);
        for size in 1..text.len() {
            let mut depth = Depth::default();
            let met = text.as_bytes().chunks(size).map(|piece| depth.take(piece)).find(Result::is_err);
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
                let mut depth = Depth::default();
                let met = text.as_bytes().chunks(size).map(|piece| depth.take(piece)).find(Result::is_err);
                assert_eq!(met, Some(Err(Unreadable::TooDeep)), "{hidden:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_no_resp2_is_refused() {
        for text in [
            "%1\r\n:1\r\n:2\r\n",
            "HTTP/1.1 400\r\n",
            "*x\r\n",
            "$\r\n",
            "*--1\r\n",
            "*9223372036854775807\r\n",
            "*1\r\n>1\r\n",
            "$1\n",
            "$1\r1\n",
            "$\r1\n",
            "$-0\r\n",
            "$-7\r\n",
            "$-12\r\n",
        ] {
            assert_eq!(Depth::default().take(text.as_bytes()), Err(Unreadable::Strange), "{text:?}");
        }
    }
}
