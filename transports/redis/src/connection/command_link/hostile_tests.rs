//! The link over TCP, beside servers that say too much, read too late or go away, and beside runtimes that end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use leasehold::clock::Clock;
use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

const LONG: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

async fn linked() -> (Arc<CommandLink>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let socket = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
    let (server, _) = listener.accept().await.expect("a connection");
    (Arc::new(CommandLink::over(socket, Clock::Boot)), server)
}

/// Says this text, and returns the reply that the link has read from it.
async fn answered(text: &str) -> Result<Frame, Failure> {
    let (link, mut server) = linked().await;
    let said = async {
        server.read_exact(&mut [0; 11]).await.expect("asked");
        server.write_all(text.as_bytes()).await.expect("read to its end");
        server
    };
    tokio::join!(link.ask("A", &[], LONG), said).0
}

/// It would also take hours if a reply were decoded from its beginning with each of its pieces.
#[tokio::test]
async fn the_longest_replies_that_a_command_may_have_are_read() {
    let parts = 512 * 1024;
    let Ok(Frame::Array { data, .. }) = answered(&format!("*{parts}\r\n{}", ":1\r\n".repeat(parts))).await
    else {
        panic!("no array");
    };
    assert_eq!(data.len(), parts);
    let bytes = 63 * MIB;
    let Ok(Frame::BlobString { data, .. }) =
        answered(&format!("${bytes}\r\n{}\r\n", "x".repeat(bytes))).await
    else {
        panic!("no text");
    };
    assert_eq!(data.len(), bytes);
}

/// Reads requests until none is left open, and answers each with the length of its last argument.
async fn answer_lengths(server: &mut TcpStream, requests: usize) -> Vec<usize> {
    let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
    while lengths.len() < requests {
        assert!(server.read_buf(&mut bytes).await.expect("open") > 0, "closed after {lengths:?}");
        while let Some((OwnedFrame::Array(parts), read)) =
            decode(&bytes).expect("whole requests, in their order")
        {
            bytes.drain(..read);
            let Some(OwnedFrame::BulkString(last)) = parts.last() else { panic!("{parts:?}") };
            lengths.push(last.len());
            server.write_all(format!(":{}\r\n", last.len()).as_bytes()).await.expect("open");
        }
    }
    assert!(bytes.is_empty(), "nothing is written twice");
    lengths
}

fn number(reply: Result<Frame, Failure>) -> i64 {
    match reply {
        Ok(Frame::Number { data, .. }) => data,
        other => panic!("{other:?}"),
    }
}

/// The first write of each is cut: no buffer of the kernel has room for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_the_socket_takes_in_parts_stay_whole_and_in_order() {
    for round in 0..20 {
        let (link, mut server) = linked().await;
        let first = link.ask("A", &[], LONG);
        let (warm, _) = tokio::join!(first, answer_lengths(&mut server, 1));
        number(warm);
        let lengths = [12 * MIB + round, 3 * MIB, 17, 9 * MIB, 5];
        let args = lengths.map(|length| [Arg::Text("x".repeat(length).into())]);
        let direct = link.ask("B", &args[0], LONG);
        let [b, c, d] = [1, 2, 4].map(|n| link.ask("C", &args[n], LONG));
        let asking = link.ask_behind_asking("D", &args[3], LONG);
        tokio::time::sleep(Duration::from_millis(round as u64)).await;
        let (a, b, c, d, e, seen) =
            tokio::join!(direct, b, c, d, asking, answer_lengths(&mut server, lengths.len() + 1));
        let replies = [a, b, c, e, d].map(|reply| number(reply) as usize);
        assert_eq!(replies, lengths, "{seen:?}");
        let asking = seen.iter().position(|length| *length == "ASKING".len()).expect("sent");
        assert_eq!(seen[asking + 1], lengths[3], "{seen:?}");
    }
}

/// Answers everything until the connection ends.
async fn echo(mut server: TcpStream, requests: usize) {
    let (mut bytes, mut answered) = (Vec::new(), 0);
    while answered < requests && server.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        while let Ok(Some((_, read))) = decode(&bytes) {
            bytes.drain(..read);
            if answered == requests {
                return;
            }
            answered += 1;
            if server.write_all(b":1\r\n").await.is_err() {
                return;
            }
        }
    }
}

/// Threads without a runtime of the link's ask while it ends.
fn asked_by_threads(end: impl FnOnce(&Arc<CommandLink>, tokio::runtime::Runtime) + Send) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (link, server) = runtime.block_on(linked());
    runtime.spawn(echo(server, usize::MAX));
    let ending = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    let mut asked = 0;
                    while own.block_on(link.ask("A", &[], LONG)).is_ok() {
                        asked += 1;
                    }
                    assert!(ending.load(SeqCst), "it ended after {asked} replies");
                    let late = own.block_on(link.ask("A", &[], LONG));
                    assert!(
                        matches!(&late, Err(Failure::Lost(lost)) if lost.is_before_request()),
                        "{late:?}"
                    );
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(10));
        ending.store(true, SeqCst);
        end(&link, runtime);
        threads.into_iter().for_each(|thread| thread.join().expect("each was answered"));
    });
    assert_eq!(Arc::strong_count(&link), 1);
}

#[test]
fn every_request_of_other_threads_is_answered_as_the_link_is_killed() {
    for _ in 0..30 {
        asked_by_threads(|link, runtime| {
            link.kill();
            runtime.shutdown_background();
        });
    }
}

#[test]
fn every_request_of_other_threads_is_answered_as_the_links_runtime_ends() {
    for _ in 0..30 {
        asked_by_threads(|_, runtime| drop(runtime));
    }
}

/// What was not sent, or was cut, belongs to no later connection and leaves no request waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_whenever_the_server_goes_away() {
    for requests in 1..40 {
        let (link, server) = linked().await;
        let server = tokio::spawn(echo(server, requests));
        let asked: Vec<_> = (0..4)
            .map(|_| {
                let link = link.clone();
                tokio::spawn(async move {
                    let mut replies = 0;
                    while link.ask("A", &[], LONG).await.is_ok() {
                        replies += 1;
                    }
                    replies
                })
            })
            .collect();
        let mut replies = 0;
        for asked in asked {
            replies += asked.await.expect("no panic");
        }
        server.await.expect("no panic");
        assert!(replies <= requests, "{replies} replies, {requests} said");
        link.ended().await;
    }
}
