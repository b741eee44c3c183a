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
    /// The bytes are no replies. Another task may read on until the connection has ended.
    is_broken: bool,
}

impl Replies {
    /// Where the next bytes are read to.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_BYTES);
        &mut self.bytes
    }

    /// Takes in the last `count` bytes. Returns the replies that are whole now, and what is wrong with the bytes behind them.
    pub(super) fn take(&mut self, count: usize) -> (Vec<Frame>, Option<io::Error>) {
        let mut replies = Vec::new();
        let error = match self.is_broken {
            true => Some(invalid("what comes behind a wrong reply")),
            false => self.decode(count, &mut replies).err(),
        };
        self.is_broken |= error.is_some();
        (replies, error)
    }

    fn decode(&mut self, count: usize, replies: &mut Vec<Frame>) -> io::Result<()> {
        let whole = self.count_whole(count)?;
        replies.reserve(whole);
        for _ in 0..whole {
            replies.push(self.next()?);
        }
        Ok(())
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
