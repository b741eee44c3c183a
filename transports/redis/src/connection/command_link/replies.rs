//! The replies of one connection: the bytes that were read and not decoded yet.

use std::io;

use fred::{bytes::BytesMut, types::Resp3Frame as Frame};
use redis_protocol::resp2::decode::decode_bytes_mut;

use crate::wire::reply_check::{Limits, ReplyCheck};

/// The replies that are not whole yet.
pub(super) struct Replies {
    bytes: BytesMut,
    check: ReplyCheck,
    /// The bytes are no replies. Another task may read on until the connection has ended.
    is_broken: bool,
}

impl Default for Replies {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), check: ReplyCheck::new(Limits::COMMANDS), is_broken: false }
    }
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

    /// Checks the last `count` bytes, and returns how many more replies are whole. So a reply in many pieces is decoded once.
    fn count_whole(&mut self, count: usize) -> io::Result<usize> {
        let before = self.bytes.len().saturating_sub(count);
        let piece = self.bytes.get(before..).unwrap_or_default();
        self.check.take(piece).map_err(invalid)
    }

    /// The next reply, which is whole.
    fn next(&mut self) -> io::Result<Frame> {
        let decoded = decode_bytes_mut(&mut self.bytes).map_err(|error| invalid(error.details()))?;
        let (frame, ..) = decoded.ok_or_else(|| invalid("a reply ends elsewhere than it says"))?;
        Ok(frame.into_resp3())
    }
}

/// The error that ends a connection because of what its server says.
pub(in crate::connection) fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

const READ_BYTES: usize = 16 * 1024;
