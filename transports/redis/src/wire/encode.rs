//! Commands as bytes: an array of bulk strings, as the [specification of RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/)
//! says for requests. Pure.

use super::arg::Arg;

/// One argument, as it is written.
pub(crate) trait Bulk {
    fn push(&self, bytes: &mut Vec<u8>);
}

impl Bulk for Arg {
    fn push(&self, bytes: &mut Vec<u8>) {
        match self {
            Arg::Text(text) => push_bulk(bytes, text.as_bytes()),
            Arg::Bytes(value) => push_bulk(bytes, value),
            Arg::Number(number) => Part::Number(*number).push(bytes),
        }
    }
}

/// A borrowed argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Number(i64),
}

impl Bulk for Part<'_> {
    fn push(&self, bytes: &mut Vec<u8>) {
        match *self {
            Part::Text(text) => push_bulk(bytes, text.as_bytes()),
            Part::Number(number) => push_bulk(bytes, itoa::Buffer::new().format(number).as_bytes()),
        }
    }
}

/// Appends one command to `bytes`.
pub(crate) fn push_command(bytes: &mut Vec<u8>, command: &str, args: &[impl Bulk]) {
    push_number(bytes, b'*', 1 + args.len());
    push_bulk(bytes, command.as_bytes());
    args.iter().for_each(|arg| arg.push(bytes));
}

fn push_bulk(bytes: &mut Vec<u8>, value: &[u8]) {
    push_number(bytes, b'$', value.len());
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(LINE_END);
}

fn push_number(bytes: &mut Vec<u8>, mark: u8, number: usize) {
    bytes.push(mark);
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    bytes.extend_from_slice(LINE_END);
}

const LINE_END: &[u8] = b"\r\n";

#[cfg(test)]
mod tests {
    use redis_protocol::resp2::{decode::decode, types::OwnedFrame};

    use super::*;

    fn encoded(command: &str, args: &[Arg]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_command(&mut bytes, command, args);
        bytes
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        assert_eq!(encoded("PING", &[]), b"*1\r\n$4\r\nPING\r\n");
        let mut bytes = Vec::new();
        push_command(&mut bytes, "GET", &[Part::Text("ö"), Part::Number(-7)]);
        assert_eq!(bytes, "*3\r\n$3\r\nGET\r\n$2\r\nö\r\n$2\r\n-7\r\n".as_bytes());
        let args = [Arg::word("a b"), Arg::Number(-12), Arg::Bytes(vec![0, b'\r', b'\n'].into())];
        assert_eq!(
            encoded("EVALSHA", &args),
            b"*4\r\n$7\r\nEVALSHA\r\n$3\r\na b\r\n$3\r\n-12\r\n$3\r\n\0\r\n\r\n"
        );
    }

    #[test]
    fn a_decoder_reads_what_was_encoded() {
        for length in [0, 1, 9, 10, 99, 100, 65_536] {
            let text = "ö".repeat(length);
            let bytes = encoded("SET", &[Arg::Text(text.clone().into()), Arg::Number(i64::MIN)]);
            let (frame, read) = decode(&bytes).expect("RESP").expect("whole");
            let parts = ["SET", &text, "-9223372036854775808"];
            let parts = parts.map(|part| OwnedFrame::BulkString(part.as_bytes().to_vec()));
            assert_eq!((frame, read), (OwnedFrame::Array(parts.to_vec()), bytes.len()));
        }
    }
}
