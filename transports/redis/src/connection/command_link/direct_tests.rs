//! Callers that write their requests by themselves, over a real socket.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream as StdStream},
    sync::mpsc,
    time::Duration,
};

use fred::types::Resp3Frame as Frame;
use leasehold::clock::Clock;
use tokio::{net::TcpStream, runtime::Runtime};

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A link whose task runs only while the runtime is in `block_on`, and the server's end. The first request was answered.
fn linked() -> (Runtime, CommandLink, StdStream) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (link, server) = runtime.block_on(async {
        let socket = TcpStream::connect(address).await.expect("it listens");
        let (server, _) = listener.accept().expect("connected");
        (CommandLink::over_tcp(socket, Clock::Boot).expect("a socket"), server)
    });
    server.set_read_timeout(Some(LONG)).expect("a socket");
    let (link, server) = answered_once(&runtime, link, server);
    (runtime, link, server)
}

// The first write is the task's.
fn answered_once(runtime: &Runtime, link: CommandLink, mut server: StdStream) -> (CommandLink, StdStream) {
    let answer = std::thread::spawn(move || {
        assert_eq!(read(&mut server, FIRST.len()), FIRST.as_bytes());
        server.write_all(b":0\r\n").expect("open");
        server
    });
    assert_eq!(number(runtime.block_on(link.ask("A", &[], LONG))), 0);
    (link, answer.join().expect("no panic"))
}

fn read(server: &mut StdStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    server.read_exact(&mut bytes).expect("in time");
    bytes
}

fn number(reply: Result<Frame, Failure>) -> i64 {
    match reply.expect("a reply") {
        Frame::Number { data, .. } => data,
        other => panic!("{other:?}"),
    }
}

/// Begins a request with this text, whose reply is sent to the channel.
fn begin(link: &CommandLink, text: &str, replies: &mpsc::Sender<i64>) {
    let (args, replies) = ([Arg::Text(text.into())], replies.clone());
    link.begin("A", &args, Clock::Boot.now() + LONG, move |reply| {
        let _ = replies.send(number(reply));
    });
}

const FIRST: &str = "*1\r\n$1\r\nA\r\n";

#[test]
fn a_caller_needs_no_task_to_write_and_the_task_reads_the_reply() {
    let (runtime, link, mut server) = linked();
    let (replies, answered) = mpsc::channel();
    begin(&link, "x", &replies);
    let expected = "*2\r\n$1\r\nA\r\n$1\r\nx\r\n";
    assert_eq!(read(&mut server, expected.len()), expected.as_bytes(), "the runtime stands still");
    server.write_all(b":7\r\n").expect("open");
    runtime.block_on(link.answered(LONG));
    assert_eq!(answered.try_recv(), Ok(7));
}

#[test]
fn a_request_that_does_not_fit_into_the_socket_is_written_to_its_end_in_order() {
    let (runtime, link, mut server) = linked();
    let (replies, answered) = mpsc::channel();
    let long = "y".repeat(32 * 1024 * 1024); // more than two sockets hold
    begin(&link, &long, &replies);
    begin(&link, "z", &replies);
    let expected = format!("*2\r\n$1\r\nA\r\n${}\r\n{long}\r\n*2\r\n$1\r\nA\r\n$1\r\nz\r\n", long.len());
    let reader = std::thread::spawn(move || {
        assert!(read(&mut server, expected.len()) == expected.as_bytes(), "other bytes, or another order");
        server.write_all(b":1\r\n:2\r\n").expect("open");
        server
    });
    runtime.block_on(link.answered(LONG));
    let _server = reader.join().expect("no panic");
    assert_eq!(answered.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_process_that_did_not_open_the_connection_writes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let socket = Arc::new(StdStream::connect(listener.local_addr().expect("bound")).expect("it listens"));
    assert_eq!(Direct::of(&socket).write(b"ours").ok(), Some(4));
    let child = Direct::of(&socket).in_child();
    assert_eq!(child.write(b"of a child").ok(), Some(0));
    assert!(child.second().is_none(), "nor does it read");
    child.shut_down();
    assert_eq!(Direct::of(&socket).write(b"still open").ok(), Some(10));
    let direct = Direct::of(&socket);
    drop(socket);
    assert_eq!(direct.write(b"after the end of the task").ok(), Some(0));
    assert!(direct.second().is_none());
}

#[test]
fn the_end_of_the_task_in_a_child_closes_no_connection_of_the_parent() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let parents = StdStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (mut server, _) = listener.accept().expect("connected");
    let childs = parents.try_clone().expect("a second descriptor of the same socket, as a child has it");
    childs.set_nonblocking(true).expect("a socket");
    runtime.block_on(async {
        let link = CommandLink::over_tcp(TcpStream::from_std(childs).expect("a socket"), Clock::Boot);
        link.expect("a socket").kill();
        tokio::task::yield_now().await; // the task is dropped
    });
    drop(runtime);
    parents.set_nonblocking(false).expect("a socket");
    (&parents).write_all(b"of the parent").expect("open");
    assert_eq!(read(&mut server, 13), b"of the parent");
}

#[test]
fn a_broken_connection_ends_with_its_own_error_whoever_meets_it() {
    let (runtime, link, server) = linked();
    socket2::SockRef::from(&server).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(server); // a reset
    let (done, answered) = mpsc::channel();
    link.begin("A", &NO_ARGS, Clock::Boot.now() + LONG, move |reply| drop(done.send(reply)));
    runtime.block_on(link.ended());
    let reply = answered.recv_timeout(LONG).expect("an answer");
    assert!(matches!(&reply, Err(Failure::Lost(lost)) if lost.to_string().contains("reset")), "{reply:?}");
}

/// Answers each request with the number that it has for an argument, until the connection ends.
fn echo(mut server: StdStream) {
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        read.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8(read.clone()).expect("ASCII");
        let end = text.rfind("\r\n*").map_or(text.len(), |end| end + 2);
        let whole =
            if text.ends_with("\r\n") && text.split("\r\n").count() % 5 == 1 { text.len() } else { end };
        let (whole, rest) = text.split_at(whole);
        let numbers = whole.split("\r\n").skip(4).step_by(5);
        let replies: String = numbers.map(|number| format!(":{number}\r\n")).collect();
        read = rest.as_bytes().to_vec();
        if server.write_all(replies.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn threads_that_write_beside_the_task_each_get_their_own_reply() {
    let (runtime, link, server) = linked();
    std::thread::scope(|scope| {
        scope.spawn(|| echo(server));
        let link = &link;
        let callers: Vec<_> = (0..3)
            .map(|caller| {
                scope.spawn(move || {
                    let (replies, answered) = mpsc::channel();
                    for turn in 0..3_000 {
                        let number = 100_000 + caller * 10_000 + turn;
                        begin(link, &number.to_string(), &replies);
                        assert_eq!(answered.recv_timeout(LONG), Ok(number));
                    }
                })
            })
            .collect();
        runtime.block_on(async {
            while !callers.iter().all(|caller| caller.is_finished()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        link.kill();
        runtime.block_on(link.ended());
        runtime.block_on(tokio::task::yield_now()); // the task ends, and with it the socket
    });
}
