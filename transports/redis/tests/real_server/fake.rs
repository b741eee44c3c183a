//! A server that speaks the protocol and says what the test wants.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
};

/// Answers each command (its words, the first in capitals) with what `answer` returns; runs until the test ends.
pub(crate) fn serve(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || talk(&socket, &*answer));
        }
    });
    port
}

/// What a healthy server says to the commands of the check.
pub(crate) fn healthy(words: &[String]) -> Option<String> {
    let info = "run_id:abc\r\nuptime_in_seconds:100\r\n";
    match words[0].as_str() {
        "PING" => Some("+PONG\r\n".into()),
        "CLIENT" => Some("+OK\r\n".into()),
        "ROLE" => Some("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".into()),
        "INFO" => Some(format!("${}\r\n{info}\r\n", info.len())),
        "TIME" => Some("*2\r\n$10\r\n1795250671\r\n$6\r\n168783\r\n".into()),
        _ => None,
    }
}

fn talk(socket: &TcpStream, answer: &dyn Fn(&[String]) -> String) {
    let mut reader = BufReader::new(socket);
    while let Some(words) = command(&mut reader) {
        if (&mut &*socket).write_all(answer(&words).as_bytes()).is_err() {
            return;
        }
    }
}

fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(reader)?;
    let mut words: Vec<String> = (0..count).map(|_| word(reader)).collect::<Option<_>>()?;
    words[0].make_ascii_uppercase();
    Some(words)
}

fn word(reader: &mut impl BufRead) -> Option<String> {
    let length = number(reader)?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}
