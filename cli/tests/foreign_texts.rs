//! What other clients and servers have written cannot act on a terminal.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use leasehold_tests::harness::redis_server::RedisServer;
use rustix::process::Signal;

use crate::program::{Program, client, leasehold, server};

/// Owners that clear the screen, turn the line around, add a line, and fill the terminal.
pub(crate) fn hostile_owners() -> [String; 5] {
    let endless = "x\u{1b}".repeat(500_000) + ":1";
    let line = "x\n  held by 00000000-0000-4000-8000-000000000000:1, exclusive, 1s left\n:1";
    ["\u{1b}]0;owned\u{7}\u{1b}[2Jx:1", "\u{202e}x\u{200b}:1", line, "\u{9b}2Jx\u{2028}:1", &*endless]
        .map(str::to_owned)
}

/// A lock that this owner holds, and a fair lock with it in line.
pub(crate) fn put(name: &str, owner: &str) {
    let mut client = client();
    let (queue, timeouts) =
        (format!("redisson_lock_queue:{{{name}:line}}"), format!("redisson_lock_timeout:{{{name}:line}}"));
    for command in [
        &["HSET", name, owner, "1"][..],
        &["HSET", &format!("{name}:line"), "30c9b6e8-0000-4000-8000-000000000001:63", "1"],
        &["RPUSH", &queue, owner],
        &["ZADD", &timeouts, "99999999999999", owner],
    ] {
        client.command(command).expect("a reply");
    }
}

/// Fails if a text could act on a terminal, or has a line of another origin.
pub(crate) fn must_be_safe(shown: &str) {
    let is_safe =
        |letter: char| letter == '\n' || letter == '\r' || letter.is_ascii_graphic() || letter == ' ';
    assert!(!shown.is_empty() && shown.chars().all(is_safe) && shown.len() < 4_000, "{shown:.4000?}");
    assert!(!shown.lines().any(|line| line.starts_with("  held by 00000000")), "{shown}");
}

#[test]
fn owners_and_places_are_shown_without_invisible_characters() {
    for (number, owner) in hostile_owners().iter().enumerate() {
        let name = format!("foreign:{number}");
        let line = format!("{name}:line");
        put(&name, owner);
        for (name, command) in [(&name, "inspect"), (&line, "inspect"), (&name, "who"), (&line, "who")] {
            let shown = leasehold(server(), &[command, name]).expect_code(0).stdout;
            assert!(shown.contains("\\u{") || shown.contains("\\n"), "{shown:.4000}");
            must_be_safe(&shown);
        }
        let conflict = leasehold(server(), &["run", &name, "--wait", "0", "--", "true"]);
        assert!(conflict.stderr.contains("held by"), "{:.4000}", conflict.stderr);
        must_be_safe(&conflict.stderr);
        let watch = Program::start(server(), &["watch", &name]);
        watch.until_text("held by");
        watch.signal(Signal::INT);
        must_be_safe(&watch.end().stdout);
    }
}

#[test]
fn a_field_that_names_no_owner_is_shown_without_invisible_characters() {
    for (number, owner) in hostile_owners().iter().enumerate() {
        let (name, field) = (format!("foreign:no:{number}"), format!("{owner}x"));
        client().command(&["HSET", &name, &field, "1"]).expect("a reply");
        for command in [&["inspect", &*name][..], &["watch", &name], &["release", &name, "--force", "--yes"]]
        {
            must_be_safe(&leasehold(server(), command).expect_code(65).stderr);
        }
    }
}

#[test]
fn json_has_the_owner_itself_in_visible_characters() {
    for (number, owner) in hostile_owners().iter().enumerate() {
        let name = format!("foreign:json:{number}");
        put(&name, owner);
        for (command, list) in [("inspect", "holders"), ("who", "owners")] {
            let ended = leasehold(server(), &["--json", command, &name]).expect_code(0);
            assert!(ended.stdout.trim_end().chars().all(|letter| letter.is_ascii_graphic() || letter == ' '));
            assert_eq!(ended.document()[list][0]["owner"], **owner);
        }
        let line =
            leasehold(server(), &["--json", "inspect", &format!("{name}:line")]).expect_code(0).document();
        assert_eq!(line["line"][0], **owner);
    }
}

#[test]
fn facts_of_a_server_are_shown_without_invisible_characters() {
    let real = RedisServer::start().expect("a server");
    let port = before(real.port());
    let shown = leasehold(&format!("redis://127.0.0.1:{port}"), &["doctor"]).stdout;
    assert!(shown.contains("Redis \\u{1b}") && shown.contains("\\u{1b}]0;xx\\u{7}aaa"), "{shown}");
    assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
}

/// The port of a proxy before a server, in whose facts are control characters. Its threads end with the connections.
fn before(server: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
            let clone = |socket: &TcpStream| socket.try_clone().expect("a descriptor");
            let (to_server, to_client) = ((clone(&client), clone(&server)), (server, client));
            thread::spawn(move || pump(to_server, |bytes| bytes));
            thread::spawn(move || pump(to_client, with_control_characters));
        }
    });
    port
}

fn pump((mut from, mut to): (TcpStream, TcpStream), change: fn(Vec<u8>) -> Vec<u8>) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&change(buffer[..count].to_vec())).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

// The replacements are as long as what they replace.
fn with_control_characters(mut bytes: Vec<u8>) -> Vec<u8> {
    for (fact, other) in
        [(&b"redis_version:"[..], &b"redis_version:\x1b"[..]), (b"noeviction", b"\x1b]0;xx\x07aaa")]
    {
        for at in 0..bytes.len().saturating_sub(other.len()) {
            if bytes[at..].starts_with(fact) {
                bytes[at..at + other.len()].copy_from_slice(other);
            }
        }
    }
    bytes
}
