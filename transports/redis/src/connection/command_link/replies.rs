//! The replies of one connection: the bytes that were read and not decoded yet.

use std::io;

use fred::{bytes::BytesMut, types::Resp3Frame as Frame};
use redis_protocol::resp2::decode::decode_bytes_mut;

use crate::wire::depth::Depth;

/// The replies that are not whole yet.
#[derive(Default)]
pub(super) struct Replies {
    bytes: BytesMut,
    depth: Depth,
}

impl Replies {
    /// Where the next bytes are read to.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_BYTES);
        &mut self.bytes
    }

    /// Takes in the last `count` bytes. Returns the replies that are whole now, and what is wrong with the bytes behind them.
    pub(super) fn take(&mut self, count: usize) -> (Vec<Frame>, Option<io::Error>) {
        let whole = match self.count_whole(count) {
            Ok(whole) => whole,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut replies = Vec::with_capacity(whole);
        for _ in 0..whole {
            match self.next() {
                Ok(reply) => replies.push(reply),
                Err(error) => return (replies, Some(error)),
            }
        }
        (replies, None)
    }

    /// Looks at the last `count` bytes, and returns how many more replies are whole. So a reply in many pieces is decoded
    /// once. The decoder calls itself once per level of nesting, without a limit: a deeper reply is refused here.
    fn count_whole(&mut self, count: usize) -> io::Result<usize> {
        let before = self.bytes.len().saturating_sub(count);
        let piece = self.bytes.get(before..).unwrap_or_default();
        let whole = self.depth.take(piece).map_err(|why| invalid(why.text()))?;
        if whole == 0 && self.bytes.len() > REPLY_BYTES_MAX {
            return Err(invalid("a reply is longer than 64 MiB; the connection was closed"));
        }
        Ok(whole)
    }

    /// The next reply, which is whole.
    fn next(&mut self) -> io::Result<Frame> {
        let decoded = decode_bytes_mut(&mut self.bytes).map_err(|error| invalid(error.details()))?;
        let (frame, ..) = decoded.ok_or_else(|| invalid("a reply ends elsewhere than it says"))?;
        Ok(frame.into_resp3())
    }
}

pub(super) fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

const READ_BYTES: usize = 16 * 1024;
/// Much more than any reply that a command of this crate gets.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
