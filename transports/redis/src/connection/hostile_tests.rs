//! Servers that say too much, on each kind of connection, plain and over TLS.

use std::time::Duration;

use fred::bytes_utils::Str;
use leasehold::clock::Clock;
use redis_protocol::resp2::{
    decode::decode,
    types::{OwnedFrame, Resp2Frame},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};

use super::{
    command_link::CommandLink,
    connect::{Login, Target},
    link::{Failure, Link},
    notice_link::NoticeLink,
};
use crate::config::RedisConfig;

const LONG: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;
/// What the buffers of the sockets hold, generously: 32 MiB is a usual limit of Linux for what was received and not read.
const BUFFERS_MIB: usize = 64;
/// How much a server says at most.
const MOST_MIB: usize = 256;

/// How a reply begins, what it goes on with, and what the error says.
type Attack = (&'static str, &'static str, &'static str);

/// Refused before what they announce is read.
const ANNOUNCED: &[Attack] = &[
    ("*1000000000\r\n", ":1\r\n", " parts;"),
    ("*99999999999999999999999999\r\n", ":1\r\n", " parts;"),
    ("*300000\r\n*300000\r\n", "*0\r\n", " parts;"),
    ("$536870912\r\n", "x", "longer than "),
    ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$536870912\r\n", "x", "longer than "),
    ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "*1\r\n", "deeper than 8 levels"),
    ("*-2\r\n", ":1\r\n", "no RESP2"),
    ("$-7\r\n", "x", "no RESP2"),
    ("%1000000000\r\n", ":1\r\n", "no RESP2"),
    ("~1000000000\r\n", ":1\r\n", "no RESP2"),
    (">1000000000\r\n", ":1\r\n", "no RESP2"),
    ("|1000000000\r\n", ":1\r\n", "no RESP2"),
    ("(1", "1", "no RESP2"),
    ("=536870912\r\n", "x", "no RESP2"),
    ("$?\r\n", ";4\r\nabcd\r\n", "no RESP2"),
    ("*?\r\n", ":1\r\n", "no RESP2"),
    ("x", "x", "no RESP2"),
];

/// Refused once so much of them was read.
const WITHOUT_END: &[Attack] = &[
    ("+", "x", "longer than "),
    ("-", "\r", "longer than "),
    (":", "1", "longer than "),
    ("$", "0", "longer than "),
    ("*", "0", "longer than "),
    ("*4096\r\n", "$30000\r\n", "longer than "),
];

/// Answers the commands of a connection until one is `FLOOD`, then says what the attack is, until the connection ends.
/// Returns how many MiB the socket took.
async fn serve(mut socket: impl AsyncRead + AsyncWrite + Unpin, (first, piece, _): Attack) -> usize {
    let mut bytes = Vec::new();
    loop {
        while let Ok(Some((OwnedFrame::Array(words), read))) = decode(&bytes) {
            bytes.drain(..read);
            if words[0].as_str() == Some("FLOOD") {
                return flood(socket, first, piece).await;
            }
            socket.write_all(answer(&words)).await.expect("open");
        }
        assert!(socket.read_buf(&mut bytes).await.expect("open") > 0, "closed");
    }
}

fn answer(words: &[OwnedFrame]) -> &'static [u8] {
    match words[0].as_str() {
        Some("INFO") => b"$21\r\nredis_version:7.2.0\r\n\r\n",
        Some("CLIENT") => b":1\r\n",
        _ => b"+OK\r\n",
    }
}

async fn flood(mut socket: impl AsyncWrite + Unpin, first: &str, piece: &str) -> usize {
    // A bulk text needs all its bytes.
    let piece = match piece {
        "$30000\r\n" => format!("{piece}{}\r\n", "x".repeat(30_000)),
        piece => piece.to_owned(),
    };
    let pieces = piece.repeat(MIB / piece.len());
    let mut said = 0;
    let begun = async {
        socket.write_all(first.as_bytes()).await?;
        while said < MOST_MIB {
            socket.write_all(pieces.as_bytes()).await?;
            socket.flush().await?;
            said += 1;
        }
        std::io::Result::Ok(())
    };
    let _ = begun.await; // it ends when the link closes the connection
    said
}

/// A link to a server of this port, the words of its end, and how much the server has said.
async fn attacked<L: Link>(config: &RedisConfig, said: oneshot::Receiver<usize>) -> (String, usize) {
    let target = Target { config, address: &config.addresses[0], login: Login::Server };
    let link = L::open(target, Clock::Boot, LONG).await.expect("it answers");
    let reply = link.request("FLOOD", Vec::new(), LONG).await;
    assert!(matches!(reply, Err(Failure::Lost(_))), "{reply:?}");
    link.ended().await;
    let why = link.ended_by().to_string();
    drop(link);
    (why, said.await.expect("served"))
}

async fn plain<L: Link>(attack: Attack) -> (String, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let config = RedisConfig::single("127.0.0.1", listener.local_addr().expect("bound").port());
    let (told, said) = oneshot::channel();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        told.send(serve(socket, attack).await)
    });
    attacked::<L>(&config, said).await
}

#[cfg(feature = "tls")]
async fn encrypted<L: Link>(attack: Attack) -> (String, usize) {
    use std::sync::Arc;

    use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
    use tokio_rustls::TlsAcceptor;

    use crate::config::TlsConfig;

    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let ca = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(ca.path(), signed.cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).expect("a key");
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_no_client_auth().with_single_cert(vec![signed.cert.der().clone()], key)
        })
        .expect("a certificate and its key");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut config = RedisConfig::single("127.0.0.1", listener.local_addr().expect("bound").port());
    let tls = TlsConfig {
        ca: Some(ca.path().to_owned()),
        server_name: Some("localhost".into()),
        ..Default::default()
    };
    config.tls = Some(tls);
    let (told, said) = oneshot::channel();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        let socket = TlsAcceptor::from(Arc::new(server)).accept(socket).await.expect("a handshake");
        told.send(serve(socket, attack).await)
    });
    attacked::<L>(&config, said).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_announced_above_a_limit_ends_each_kind_of_connection() {
    for attack in ANNOUNCED {
        for (why, said) in [plain::<CommandLink>(*attack).await, plain::<NoticeLink>(*attack).await] {
            assert!(why.contains(attack.2), "{attack:?}: {why}");
            assert!(said <= BUFFERS_MIB, "{attack:?}: {said} MiB");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_without_an_end_ends_each_kind_of_connection() {
    for attack in WITHOUT_END {
        let (why, said) = plain::<NoticeLink>(*attack).await;
        assert!(why.contains("longer than 64 KiB"), "{attack:?}: {why}");
        assert!(said <= BUFFERS_MIB, "{attack:?}: {said} MiB");
        let (why, said) = plain::<CommandLink>(*attack).await;
        assert!(why.contains("longer than 64 MiB"), "{attack:?}: {why}");
        assert!((60..64 + BUFFERS_MIB).contains(&said), "{attack:?}: {said} MiB");
    }
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_over_tls_have_the_same_limits() {
    for attack in [ANNOUNCED[0], ANNOUNCED[4], WITHOUT_END[0]] {
        for (why, said) in [encrypted::<NoticeLink>(attack).await, encrypted::<CommandLink>(attack).await] {
            assert!(why.contains(attack.2), "{attack:?}: {why}");
            assert!(said < MOST_MIB, "{attack:?}: {said} MiB");
        }
    }
}

/// Notices are no replies to a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_of_usual_length_come_through_in_any_number() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let config = RedisConfig::single("127.0.0.1", listener.local_addr().expect("bound").port());
    let notice = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$17408\r\n{}\r\n", "x".repeat(17 * 1024));
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"SUBSCRIBE\r\n$1\r\nc\r\n") {
            assert!(socket.read_buf(&mut bytes).await.expect("open") > 0, "closed");
            while let Ok(Some((OwnedFrame::Array(words), read))) = decode(&bytes) {
                if words[0].as_str() == Some("SUBSCRIBE") {
                    break;
                }
                bytes.drain(..read);
                socket.write_all(answer(&words)).await.expect("open");
            }
        }
        socket.write_all(notice.repeat(1_000).as_bytes()).await.expect("open");
        socket
    });
    let target = Target { config: &config, address: &config.addresses[0], login: Login::Server };
    let link = NoticeLink::open(target, Clock::Boot, LONG).await.expect("it answers");
    let mut messages = link.messages();
    link.subscribe(vec![Str::from_static("c")], LONG).await.expect("written");
    for number in 0..1_000 {
        let message = messages.recv().await.unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(message.value.as_bytes().map(<[u8]>::len), Some(17 * 1024));
    }
    drop(server.await);
}
