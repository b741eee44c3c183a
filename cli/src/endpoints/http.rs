//! One GET of HTTP/1.1, without TLS.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::Address;
use crate::system_error::words;

/// The body of the answer.
///
/// # Errors
/// What went wrong and what to do, without the address.
pub(super) async fn get(address: &Address) -> Result<String, String> {
    let answer = tokio::time::timeout(PATIENCE, exchange(address)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s; {CHECK}", PATIENCE.as_secs())))
}

async fn exchange(address: &Address) -> Result<String, String> {
    let broken = |error: std::io::Error| format!("{}; {CHECK}", words(&error));
    let mut stream = TcpStream::connect(address.socket()).await.map_err(broken)?;
    stream.write_all(request(address).as_bytes()).await.map_err(broken)?;
    let mut read = Vec::new();
    loop {
        let is_over = stream.read_buf(&mut read).await.map_err(broken)? == 0;
        if let Some(answer) = body(&read, is_over) {
            return answer;
        }
        if read.len() > BYTES_MAX {
            return Err(format!("the answer is longer than {BYTES_MAX} bytes; {CHECK}"));
        }
    }
}

fn request(address: &Address) -> String {
    let (path, host) = (address.path(), address.authority());
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n"
    )
}

/// The body of an answer that was read so far. `None`: there is more to come.
fn body(read: &[u8], is_over: bool) -> Option<Result<String, String>> {
    let Some(end) = read.windows(END.len()).position(|bytes| bytes == END) else {
        return is_over.then(|| Err(format!("the answer is no HTTP; {CHECK}")));
    };
    let (head, rest) = (String::from_utf8_lossy(&read[..end]), &read[end + END.len()..]);
    if let Some(fault) = fault(&head) {
        return Some(Err(fault));
    }
    let whole = match (field(&head, "transfer-encoding"), field(&head, "content-length")) {
        (Some("chunked"), _) => chunks(rest),
        (_, Some(length)) => length.parse().ok().and_then(|length| rest.get(..length)).map(<[u8]>::to_vec),
        (_, None) => is_over.then(|| rest.to_vec()),
    };
    match whole {
        Some(whole) => Some(Ok(String::from_utf8_lossy(&whole).into_owned())),
        None => {
            is_over.then(|| Err("the connection ended in the middle of the answer; try again".to_owned()))
        }
    }
}

/// What is wrong with the status of an answer.
fn fault(head: &str) -> Option<String> {
    let status = head.lines().next().unwrap_or_default();
    let code =
        status.split_once(' ').filter(|(version, _)| version.starts_with("HTTP/1.")).map(|(_, code)| code);
    match code {
        Some(code) if code.starts_with("200") => None,
        Some(code) => Some(format!("the answer is {code:?}; {CHECK}")),
        None => Some(format!("the answer is no HTTP; {CHECK}")),
    }
}

/// The value of a header.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The bytes of a body in chunks, once the last one is there.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let begin = line + 2;
        whole.extend_from_slice(rest.get(begin..begin.checked_add(size)?)?);
        rest = rest.get(begin + size + 2..)?;
    }
}

const END: &[u8] = b"\r\n\r\n";
const CHECK: &str = "check that a process exports its metrics at this address";
const PATIENCE: Duration = Duration::from_secs(5);
/// Many times the metrics of an engine with 64 classes.
const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_over: bool) -> Option<Result<String, String>> {
        body(text.as_bytes(), is_over)
    }

    #[test]
    fn a_body_ends_with_its_length_its_last_chunk_or_the_connection() {
        let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(read(&format!("{with_length}ab"), false), None);
        assert_eq!(read(&format!("{with_length}abc"), false), Some(Ok("abc".into())));
        let in_chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(read(&format!("{in_chunks}3\r\nabc\r\n2;x\r\nde"), false), None);
        assert_eq!(
            read(&format!("{in_chunks}3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), false).unwrap().unwrap(),
            "abc0123456789"
        );
        let bare = "HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!((read(bare, false), read(bare, true)), (None, Some(Ok("abc".into()))));
    }

    #[test]
    fn an_answer_that_is_no_success_is_an_error() {
        let error = |text| read(text, true).unwrap().unwrap_err();
        assert!(
            error("HTTP/1.1 404 Not Found\r\n\r\n").starts_with("the answer is \"404 Not Found\"; check")
        );
        assert!(error("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").contains("in the middle"));
        assert!(error("-ERR unknown command\r\n\r\n").starts_with("the answer is no HTTP"));
        assert!(error("").starts_with("the answer is no HTTP"));
        let huge = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n", usize::MAX);
        assert!(error(&huge).contains("in the middle"));
    }
}
