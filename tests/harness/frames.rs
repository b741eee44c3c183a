//! Cuts a byte stream into RESP frames, RESP2 and RESP3, however the bytes arrive.
//!
//! It knows where a frame ends and what kind it is, not what it means. The bytes of a frame are passed on exactly as
//! they came. Streamed RESP3 aggregates (`$?`, `*?`) are refused: no server sends them.

use std::fmt;
use std::ops::Range;

use crate::harness::resp;

/// One complete frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The type byte: `+ - : $ * % ~ > _ # , ( = !`; of a frame with attributes, that of the value behind them.
    /// An inline request has its first letter here.
    pub kind: u8,
    /// Where the frame lies in the stream, counted from the first byte fed.
    pub range: Range<u64>,
    /// The bytes, line ends included.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Whether it is a RESP3 push, which answers no request.
    pub fn is_push(&self) -> bool {
        self.kind == b'>'
    }

    /// The arguments, if the frame is a request.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        resp::arguments(&self.bytes)
    }
}

/// The stream is no RESP; nothing more can be read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotResp(String);

impl fmt::Display for NotResp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not RESP: {}", self.0)
    }
}

impl std::error::Error for NotResp {}

/// Collects bytes and gives out the frames that are complete.
#[derive(Debug)]
pub struct FrameReader {
    side: Side,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already given out.
    given: usize,
    /// Bytes of the stream that have left `buffer`.
    passed: u64,
    scan: Scan,
}

impl FrameReader {
    /// For what a client sends: a line that is no array is an inline request.
    pub fn of_requests() -> Self {
        Self::new(Side::Requests)
    }

    /// For what a server sends.
    pub fn of_replies() -> Self {
        Self::new(Side::Replies)
    }

    /// Adds bytes as they came from the socket.
    pub fn feed(&mut self, bytes: &[u8]) {
        // Moving the rest to the front once per feed, not once per frame, keeps long pipelines linear.
        self.buffer.drain(..self.given);
        self.passed += self.given as u64;
        self.given = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame, or `None` until more bytes are fed.
    ///
    /// # Errors
    /// When the bytes are no RESP.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, NotResp> {
        while self.scan.open > 0 {
            if !self.scan_element()? {
                return Ok(None);
            }
        }
        Ok(Some(self.take_frame()))
    }

    fn new(side: Side) -> Self {
        Self { side, buffer: Vec::new(), given: 0, passed: 0, scan: Scan::start() }
    }

    /// Goes past one element, if it is all there. A frame costs one pass, whatever the pieces it came in.
    fn scan_element(&mut self) -> Result<bool, NotResp> {
        let rest = &self.buffer[self.given + self.scan.length..];
        let Some(line_length) = rest[self.scan.searched..].windows(2).position(|pair| pair == b"\r\n") else {
            self.scan.searched = rest.len().saturating_sub(1);
            return Ok(false);
        };
        let line = &rest[..self.scan.searched + line_length];
        let head = line.first().copied().unwrap_or_default();
        let element = match self.side {
            Side::Requests if self.scan.kind.is_none() && head != b'*' => Element::line(line),
            Side::Requests | Side::Replies => Element::read(line)?,
        };
        if rest.len() < element.length {
            return Ok(false);
        }
        self.scan.pass(head, element);
        Ok(true)
    }

    fn take_frame(&mut self) -> Frame {
        let scan = std::mem::replace(&mut self.scan, Scan::start());
        let at = self.passed + self.given as u64;
        let bytes = self.buffer[self.given..self.given + scan.length].to_vec();
        self.given += scan.length;
        Frame { kind: scan.kind.unwrap_or_default(), range: at..at + scan.length as u64, bytes }
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Requests,
    Replies,
}

/// How far the frame at the front of the buffer has been understood.
#[derive(Debug)]
struct Scan {
    length: usize,
    /// Elements still to come until the frame is complete.
    open: u64,
    /// Bytes of the next line already known to hold no line end.
    searched: usize,
    kind: Option<u8>,
}

impl Scan {
    fn start() -> Self {
        Self { length: 0, open: 1, searched: 0, kind: None }
    }

    fn pass(&mut self, head: u8, element: Element) {
        self.length += element.length;
        self.searched = 0;
        // An attribute stands ahead of its value and is none itself, so the place it stands on stays open.
        if head != b'|' {
            if self.open == 1 {
                self.kind.get_or_insert(head);
            }
            self.open -= 1;
        }
        self.open = self.open.saturating_add(element.members);
    }
}

/// One line and what belongs to it.
struct Element {
    /// With its line end, and for a string with its bytes.
    length: usize,
    /// Elements inside an aggregate.
    members: u64,
}

impl Element {
    fn read(line: &[u8]) -> Result<Self, NotResp> {
        let (&head, rest) = line.split_first().ok_or_else(|| NotResp("an empty line".into()))?;
        match head {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(Self::line(line)),
            b'$' | b'=' | b'!' => Self::string(line, count(rest)?),
            b'*' | b'~' | b'>' => Ok(Self { members: count(rest)?.unwrap_or(0), ..Self::line(line) }),
            b'%' | b'|' => {
                Ok(Self { members: count(rest)?.unwrap_or(0).saturating_mul(2), ..Self::line(line) })
            }
            _ => Err(NotResp(format!(
                "a line that begins {:?}",
                String::from_utf8_lossy(&line[..line.len().min(40)])
            ))),
        }
    }

    fn line(line: &[u8]) -> Self {
        Self { length: line.len() + 2, members: 0 }
    }

    fn string(line: &[u8], length: Option<u64>) -> Result<Self, NotResp> {
        let Some(length) = length else { return Ok(Self::line(line)) };
        let length = usize::try_from(length).ok().filter(|length| *length <= STRING_MAX);
        let length = length.ok_or_else(|| NotResp("a string longer than any server sends".into()))?;
        Ok(Self { length: line.len() + 2 + length + 2, members: 0 })
    }
}

/// A length; `None` for -1, the nil of RESP2.
fn count(digits: &[u8]) -> Result<Option<u64>, NotResp> {
    match resp::number(digits) {
        Some(-1) => Ok(None),
        Some(length) if length >= 0 => Ok(Some(length.unsigned_abs())),
        _ => Err(NotResp(format!("a length of {:?}", String::from_utf8_lossy(digits)))),
    }
}

/// `proto-max-bulk-len` of Redis.
const STRING_MAX: usize = 512 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &[(&[u8], u8)] = &[
        (b"+OK\r\n", b'+'),
        (b"-ERR no\r\n", b'-'),
        (b":42\r\n", b':'),
        (b"$5\r\na\r\nbc\r\n", b'$'),
        (b"$0\r\n\r\n", b'$'),
        (b"$-1\r\n", b'$'),
        (b"*-1\r\n", b'*'),
        (b"*0\r\n", b'*'),
        (b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n*0\r\n+y\r\n", b'*'),
        (b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", b'%'),
        (b"~2\r\n:1\r\n:2\r\n", b'~'),
        (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", b'>'),
        (b"_\r\n", b'_'),
        (b"#t\r\n", b'#'),
        (b",3.14\r\n", b','),
        (b"(3492890328409238509324850943850943825024385\r\n", b'('),
        (b"=7\r\ntxt:abc\r\n", b'='),
        (b"!9\r\nERR wrong\r\n", b'!'),
        (b"|1\r\n+ttl\r\n:3600\r\n*2\r\n:1\r\n:2\r\n", b'*'),
        (b"*2\r\n:1\r\n|1\r\n+note\r\n+x\r\n:2\r\n", b'*'),
        (b"|0\r\n>1\r\n+x\r\n", b'>'),
    ];

    fn stream() -> Vec<u8> {
        REPLIES.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect()
    }

    fn frames_in_pieces_of(length: usize) -> Vec<Frame> {
        let mut reader = FrameReader::of_replies();
        let mut frames = Vec::new();
        for piece in stream().chunks(length) {
            reader.feed(piece);
            frames.extend(std::iter::from_fn(|| reader.next_frame().expect("RESP")));
        }
        frames
    }

    #[test]
    fn every_kind_is_cut_where_it_ends_in_pieces_of_any_length() {
        for length in 1..=stream().len() {
            let frames = frames_in_pieces_of(length);
            let cut: Vec<_> = frames.iter().map(|frame| (frame.bytes.as_slice(), frame.kind)).collect();
            assert_eq!(cut, REPLIES, "pieces of {length}");
        }
    }

    #[test]
    fn ranges_count_from_the_first_byte_of_the_stream() {
        let whole = stream();
        for frame in frames_in_pieces_of(3) {
            let at = usize::try_from(frame.range.start).expect("small");
            assert_eq!(whole[at..at + frame.bytes.len()], frame.bytes);
        }
    }

    #[test]
    fn only_a_push_is_a_push() {
        let pushes = frames_in_pieces_of(7).iter().filter(|frame| frame.is_push()).count();
        assert_eq!(pushes, 2);
    }

    #[test]
    fn requests_give_their_arguments_inline_ones_too() {
        let mut reader = FrameReader::of_requests();
        reader.feed(b"PING hello\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4");
        let first = reader.next_frame().expect("RESP").expect("complete");
        let second = reader.next_frame().expect("RESP").expect("complete");
        assert_eq!(first.arguments(), [b"PING".to_vec(), b"hello".to_vec()]);
        assert_eq!(second.arguments(), [b"GET".to_vec(), b"k".to_vec()]);
        assert_eq!(reader.next_frame(), Ok(None));
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for bytes in
            [b"HTTP/1.1 200 OK\r\n".as_slice(), b"$x\r\n", b"*-2\r\n", b"$99999999999999\r\n", b"\r\n"]
        {
            let mut reader = FrameReader::of_replies();
            reader.feed(bytes);
            assert!(reader.next_frame().is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_long_pipeline_and_a_long_string_stay_linear() {
        let mut reader = FrameReader::of_replies();
        let pipeline: Vec<u8> = b":1\r\n".repeat(200_000);
        let string = [b"$4000000\r\n".as_slice(), &vec![b'x'; 4_000_000], b"\r\n"].concat();
        let mut frames = 0;
        for piece in pipeline.chunks(4096).chain(string.chunks(4096)) {
            reader.feed(piece);
            frames += std::iter::from_fn(|| reader.next_frame().expect("RESP")).count();
        }
        assert_eq!(frames, 200_001);
    }
}
